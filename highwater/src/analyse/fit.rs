//! Every candidate shape against every hypothesis on the noise, by exact least squares on whitened
//! columns, weighed by marginal likelihood (coefficients have a normal prior as wide as the
//! range of the data, the variance is integrated out). One pass costs about a millisecond.
//!
//! The nuisance columns (the intercept, harmonics of a load cycle) are projected out first, so that a
//! shape of two columns is a two-by-two system (Frisch and Waugh).

use statrs::function::gamma::ln_gamma;

use super::finer::finer;
use super::ladder::ladders;
use super::noise::{Noise, hypotheses};
use super::shapes::{Basis, Bounded, COLUMNS_MAX, Contrasts, FAMILIES, Family, Shape, Shapes};
use super::solve::{Matrix, Prepared, Solved};
use super::staircase::staircases;

/// What is fitted: bins on a clock from 0 to 1, values shifted and scaled to a range of about 1.
#[derive(Debug, Clone, Default)]
pub struct Window {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Time since the bin before, in bin widths; infinite where an incarnation begins.
    pub gap: Vec<f64>,
    /// Usual count of samples over the count of this bin.
    pub thin: Vec<f64>,
    /// Columns present in every candidate besides the intercept.
    pub nuisance: Vec<Vec<f64>>,
    /// Uptime now, on the same clock.
    pub now: f64,
    /// Standard deviation that no residual can be below (quantisation, and no real curve is exact).
    pub floor: f64,
    /// Deviation of the normal prior of a coefficient; 1 is the range of the data.
    pub reach: f64,
}

/// A number and its standard error, in scaled units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Guess {
    pub mean: f64,
    pub se: f64,
}

/// One shape under one hypothesis on the noise.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub family: Family,
    pub bounded: Bounded,
    /// Its columns.
    pub parts: [Option<Basis>; COLUMNS_MAX],
    pub prior_ln: f64,
    pub noise: usize,
    /// Log of prior times marginal likelihood.
    pub ln_weight: f64,
    pub df: f64,
    pub growth: Guess,
    pub rise: Guess,
    pub slope: Guess,
    pub slope_fifth: Guess,
    pub end: Guess,
    pub limit: Option<Guess>,
    pub steps: Vec<(f64, f64)>,
}

impl Candidate {
    /// How many rungs of a ladder are in the window; `None` of other shapes.
    pub fn rungs(&self) -> Option<usize> {
        match self.parts[0] {
            Some(Basis::Ladder { from, gap }) => Some(((1.0 - from) / gap + 1.0) as usize),
            _ => None,
        }
    }
}

/// A staircase goes on when the next step is late by no more than this share of the usual distance.
const NOT_LATE: f64 = 1.3;
/// Steps are alike when none is smaller than this share of the highest.
const ALIKE: f64 = 0.2;
/// A step in this last share of the window may be an accident of the last readings.
const JUST: f64 = 0.03;

impl Candidate {
    /// Three steps or more of like heights, all upwards, the next one not overdue: whether it climbs on
    /// cannot be seen.
    pub fn may_climb_on(&self) -> bool {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return false;
        };
        let highest = self.steps.iter().map(|s| s.1).fold(0.0, f64::max);
        let up = self.steps.iter().all(|s| s.1 > ALIKE * highest);
        let gap = (last.0 - first.0) / (self.steps.len() as f64 - 1.0).max(1.0);
        self.family == Family::Steps && self.steps.len() > 2 && up && 1.0 - last.0 < NOT_LATE * gap
    }

    /// Share of the window since what rises without bound began to.
    pub fn watched(&self) -> f64 {
        let began = |part: &Basis| match part {
            Basis::Hinge(from) => *from,
            _ => 0.0,
        };
        1.0 - self.parts.iter().flatten().map(began).fold(0.0, f64::max)
    }

    /// One step, at the very end.
    pub fn only_just(&self) -> bool {
        self.family == Family::Step && self.steps.iter().all(|s| s.0 > 1.0 - JUST)
    }
}

/// All candidates that carry weight.
#[derive(Debug, Clone, Default)]
pub struct Fit {
    pub candidates: Vec<Candidate>,
    /// Log of the summed weights: compares ways to look at the same bins.
    pub ln_evidence: f64,
}

/// Candidates this far (in log weight) below the best are forgotten.
pub(super) const FORGET_LN: f64 = 26.0;
/// Below this only the best of a family is kept: its neighbours may do better.
const MATTERS_LN: f64 = 11.0;

/// Fits all `shapes`. Empty when there are fewer bins than the largest candidate needs.
///
/// Hypotheses on the noise that a sparse choice of shapes already refutes are not carried on, and the
/// best of each family gets neighbours.
pub fn fit(window: &Window, shapes: &Shapes) -> Fit {
    let all = hypotheses();
    let sketch = fit_under(window, &shapes.sparse(), &all);
    let near: Vec<Noise> = all
        .iter()
        .enumerate()
        .filter(|(i, noise)| {
            let plain = noise.phi < PLAIN_PHI && noise.white != 0.5;
            plain || sketch.best_of_noise(*i) > sketch.ln_evidence - REFUTED_LN
        })
        .map(|(_, noise)| *noise)
        .collect();
    let mut whole = fit_under(window, shapes, &near);
    let rungs = ladders(&whole, window);
    if !rungs.shapes.is_empty() {
        whole.join(fit_under(window, &rungs, &near));
    }
    for _ in 0..FINER_ROUNDS {
        let close = |i: &usize| whole.best_of_noise(*i) > whole.ln_evidence - DECIDED_LN;
        let closest: Vec<usize> = (0..near.len()).filter(close).collect();
        let noises: Vec<Noise> = closest.iter().map(|i| near[*i]).collect();
        let mut second = fit_under(window, &finer(&whole), &noises);
        for c in &mut second.candidates {
            c.noise = closest[c.noise];
        }
        let before = whole.ln_evidence;
        whole.join(second);
        if whole.ln_evidence - before < FINER_GAIN_LN {
            break;
        }
    }
    whole
}

/// All `shapes` under the simplest hypotheses on the noise, for a handful of points.
pub fn fit_few(window: &Window, shapes: &Shapes) -> Fit {
    let simple: Vec<Noise> = hypotheses()
        .into_iter()
        .filter(|n| n.phi < 0.7 && n.white != 0.5)
        .collect();
    fit_under(window, shapes, &simple)
}

/// A round of neighbours that brings less than this is the last: the noise hides the grid.
const FINER_GAIN_LN: f64 = 1.0;
/// How often the best of each family gets neighbours.
const FINER_ROUNDS: usize = 2;

/// A look at a sparse choice of shapes only: enough to choose between ways to cut the same bins.
pub fn sketch(window: &Window, shapes: &Shapes) -> Fit {
    fit_under(window, &shapes.sparse(), &hypotheses())
}

/// A noise this far (in log weight) below the best after the sparse look is refuted; the sparse shapes
/// may miss the right one by a few units.
const REFUTED_LN: f64 = 8.0;
/// Noise with less memory than this is never refuted by the sparse look: a misfit of the sparse shapes
/// looks like memory.
const PLAIN_PHI: f64 = 0.7;
/// The same after the full look.
const DECIDED_LN: f64 = 5.0;

/// All `shapes` under the given hypotheses on the noise.
pub fn fit_under(window: &Window, shapes: &Shapes, noises: &[Noise]) -> Fit {
    let n = window.y.len();
    let mut fit = Fit {
        candidates: Vec::new(),
        ln_evidence: f64::NEG_INFINITY,
    };
    if n < 4 + window.nuisance.len() || shapes.shapes.is_empty() {
        return fit;
    }
    let raw = Matrix::of(window, shapes);
    // Most shapes carry no weight under any noise: what they mean is worked out only when needed.
    let mut contrasts: Vec<Option<Contrasts>> = vec![None; shapes.shapes.len()];
    let mut best = [f64::NEG_INFINITY; FAMILIES];
    let norms = Norms::new(n, window);
    let mut ready = Prepared::default();
    for (index, noise) in noises.iter().enumerate() {
        if !ready.prepare(window, &raw, noise) {
            continue;
        }
        let base = noise.prior_ln - 0.5 * ready.logdet;
        for (i, shape) in shapes.shapes.iter().enumerate() {
            let columns = &shape.columns[..shape.width];
            let Some(solved) = ready.solve(columns) else {
                continue;
            };
            let Some((ln_ml, sigma2, df)) = norms.marginal(&ready, &solved) else {
                continue;
            };
            let ln_weight = base + shape.prior_ln + ln_ml;
            let behind = fit.ln_evidence - ln_weight;
            let leads = ln_weight > best[shape.family as usize];
            if behind > FORGET_LN || (behind > MATTERS_LN && !leads) {
                continue;
            }
            fit.ln_evidence = fit.ln_evidence.max(ln_weight);
            best[shape.family as usize] = best[shape.family as usize].max(ln_weight);
            let c = contrasts[i].get_or_insert_with(|| shapes.contrasts(shape, window.now));
            fit.candidates.push(Candidate {
                family: shape.family,
                bounded: shape.bounded,
                parts: shapes.parts(shape),
                prior_ln: shape.prior_ln,
                noise: index,
                ln_weight,
                df,
                growth: solved.guess(&c.growth, sigma2),
                rise: solved.guess(&c.rise, sigma2),
                slope: solved.guess(&c.slope, sigma2),
                slope_fifth: solved.guess(&c.slope_fifth, sigma2),
                end: solved.level(&ready, columns, &c.end, sigma2),
                limit: c.limit.map(|l| solved.level(&ready, columns, &l, sigma2)),
                steps: steps_of(shapes, shape, &solved.beta),
            });
        }
        staircases(&mut fit, &ready, &norms, shapes, (index, base));
    }
    fit.settle();
    fit
}

impl Fit {
    /// Drops what does not matter and sums the evidence.
    fn settle(&mut self) {
        let best = self
            .candidates
            .iter()
            .map(|c| c.ln_weight)
            .fold(f64::NEG_INFINITY, f64::max);
        self.candidates.retain(|c| c.ln_weight >= best - FORGET_LN);
        let sum: f64 = self
            .candidates
            .iter()
            .map(|c| (c.ln_weight - best).exp())
            .sum();
        self.ln_evidence = if sum > 0.0 {
            best + sum.ln()
        } else {
            f64::NEG_INFINITY
        };
    }

    /// Adds the candidates of another fit of the same bins.
    pub fn join(&mut self, other: Fit) {
        self.candidates.extend(other.candidates);
        self.settle();
    }

    fn best_of_noise(&self, noise: usize) -> f64 {
        let of = self.candidates.iter().filter(|c| c.noise == noise);
        of.map(|c| c.ln_weight).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Weight of each candidate, adding up to one.
    pub fn weights(&self) -> Vec<f64> {
        self.candidates
            .iter()
            .map(|c| (c.ln_weight - self.ln_evidence).exp())
            .collect()
    }
}

fn steps_of(shapes: &Shapes, shape: &Shape, beta: &[f64; COLUMNS_MAX]) -> Vec<(f64, f64)> {
    match shapes.columns.get(shape.columns[0]) {
        Some(Basis::Step(at)) if shape.bounded == Bounded::Step => vec![(*at, beta[0])],
        _ => Vec::new(),
    }
}

/// Constants of the marginal likelihood.
pub(super) struct Norms {
    n: usize,
    floor2: f64,
    width_ln: f64,
    ln_gamma: Vec<f64>,
}

impl Norms {
    pub(super) fn new(n: usize, window: &Window) -> Norms {
        Norms {
            n,
            floor2: n as f64 * window.floor * window.floor,
            width_ln: window.reach.ln() + 0.5 * std::f64::consts::TAU.ln(),
            ln_gamma: (0..=n + 1)
                .map(|k| ln_gamma((k as f64 / 2.0).max(0.5)))
                .collect(),
        }
    }

    /// Log marginal likelihood, residual variance and degrees of freedom.
    pub(super) fn marginal(&self, ready: &Prepared, solved: &Solved) -> Option<(f64, f64, f64)> {
        let free = self
            .n
            .checked_sub(1 + ready.nuisances + solved.width)
            .filter(|f| *f > 0)?;
        let rss = solved.rss.max(0.0) + self.floor2;
        let df = free as f64;
        let width = (solved.width + ready.nuisances) as f64;
        let ln_ml = self.ln_gamma[free] - 0.5 * df * (rss / 2.0).ln() - 0.5 * solved.logdet
            + width * (0.5 * std::f64::consts::TAU.ln() - self.width_ln);
        Some((ln_ml, rss / df, df))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::shapes::shapes;

    fn window(y: Vec<f64>) -> Window {
        let n = y.len();
        Window {
            x: (0..n).map(|i| i as f64 / (n - 1) as f64).collect(),
            gap: vec![1.0; n],
            thin: vec![1.0; n],
            nuisance: Vec::new(),
            now: 1.0,
            floor: 1e-3,
            reach: 1.0,
            y,
        }
    }

    fn wobble(i: usize) -> f64 {
        ((i * 7919) % 17) as f64 / 17.0 - 0.5
    }

    #[test]
    fn a_line_is_found_with_its_slope_and_level() {
        let f = fit(
            &window(
                (0..40)
                    .map(|i| 0.3 + i as f64 / 39.0 + 0.02 * wobble(i))
                    .collect(),
            ),
            &shapes(&[], None),
        );
        let best = f
            .candidates
            .iter()
            .max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight))
            .unwrap();
        assert_eq!(best.family, Family::Line);
        assert!(
            (best.slope.mean - 1.0).abs() < 0.02 && best.slope.se < 0.02,
            "{:?}",
            best.slope
        );
        assert!((best.end.mean - 1.3).abs() < 0.02, "{:?}", best.end);
        assert!((f.weights().iter().sum::<f64>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_fill_is_not_a_line_and_its_limit_is_found() {
        let y = (0..60)
            .map(|i| 1.0 - (-(i as f64) / 10.0).exp() + 0.02 * wobble(i))
            .collect();
        let f = fit(&window(y), &shapes(&[], None));
        let best = f
            .candidates
            .iter()
            .max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight))
            .unwrap();
        assert_eq!((best.family, best.bounded), (Family::Fill, Bounded::Fill));
        let limit = best.limit.unwrap();
        assert!((limit.mean - 1.0).abs() < 0.02, "{limit:?}");
    }

    #[test]
    fn a_nuisance_column_takes_its_part() {
        let wave: Vec<f64> = (0..60).map(|i| (i as f64 * 0.7).sin()).collect();
        let mut w = window(
            (0..60)
                .map(|i| 0.5 * wave[i] + 0.2 * i as f64 / 59.0)
                .collect(),
        );
        w.nuisance.push(wave);
        let f = fit(&w, &shapes(&[], None));
        let best = f
            .candidates
            .iter()
            .max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight))
            .unwrap();
        assert_eq!(best.family, Family::Line);
        assert!((best.growth.mean - 0.2).abs() < 1e-3);
        assert!((best.end.mean - 0.2).abs() < 1e-3, "{:?}", best.end);
    }
}

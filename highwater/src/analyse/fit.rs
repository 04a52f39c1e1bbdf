//! Every candidate shape against every hypothesis on the noise, by exact least squares on whitened
//! columns, weighed by marginal likelihood (coefficients uniform within the range of the data, the
//! variance integrated out). One pass costs about a millisecond.
//!
//! The nuisance columns (the intercept, harmonics of a load cycle) are projected out first, so that a
//! shape of two columns is a two-by-two system (Frisch and Waugh).

use statrs::function::gamma::ln_gamma;

use super::finer::finer;
use super::noise::{Noise, Whitener, hypotheses};
use super::shapes::{Basis, Bounded, COLUMNS_MAX, Contrasts, Family, Shape, Shapes};

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
    /// Half width of the uniform prior of a coefficient; the range of the data when that is trusted.
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
    pub shape: usize,
    pub noise: usize,
    /// Log of prior times marginal likelihood.
    pub ln_weight: f64,
    pub df: f64,
    pub growth: Guess,
    pub rise: Guess,
    pub slope: Guess,
    pub end: Guess,
    pub limit: Option<Guess>,
    pub steps: Vec<(f64, f64)>,
}

/// All candidates that carry weight.
#[derive(Debug, Clone, Default)]
pub struct Fit {
    pub candidates: Vec<Candidate>,
    /// Log of the summed weights: compares ways to look at the same bins.
    pub ln_evidence: f64,
}

/// Candidates this far (in log weight) below the best are forgotten.
const FORGET_LN: f64 = 14.0;

/// Columns whitened and freed of the nuisance under one hypothesis.
struct Prepared {
    y: Vec<f64>,
    yy: f64,
    y0: f64,
    columns: Vec<Vec<f64>>,
    cc: Vec<f64>,
    cy: Vec<f64>,
    /// What each column takes from the intercept.
    c0: Vec<f64>,
    var0: f64,
    logdet: f64,
    nuisances: usize,
}

/// Fits all `shapes`. Empty when there are fewer bins than the largest candidate needs.
pub fn fit(window: &Window, shapes: &Shapes) -> Fit {
    let all = hypotheses();
    let mut first = fit_under(window, shapes, &all);
    let near: Vec<Noise> = all
        .iter()
        .enumerate()
        .filter(|(i, _)| {
            first
                .candidates
                .iter()
                .any(|c| c.noise == *i && first.matters(c))
        })
        .map(|(_, noise)| *noise)
        .collect();
    let second = fit_under(window, &finer(&first, shapes), &near);
    first.join(second);
    first
}

/// The same under the given hypotheses on the noise only.
pub fn fit_under(window: &Window, shapes: &Shapes, noises: &[Noise]) -> Fit {
    let n = window.y.len();
    if n < 4 + window.nuisance.len() {
        return Fit {
            candidates: Vec::new(),
            ln_evidence: f64::NEG_INFINITY,
        };
    }
    let raw: Vec<Vec<f64>> = shapes
        .columns
        .iter()
        .map(|basis| window.x.iter().map(|&x| basis.at(x)).collect())
        .collect();
    let contrasts: Vec<Contrasts> = shapes
        .shapes
        .iter()
        .map(|s| shapes.contrasts(s, window.now))
        .collect();
    let norms = Norms::new(n, window);
    let mut fit = Fit {
        candidates: Vec::new(),
        ln_evidence: f64::NEG_INFINITY,
    };
    for (index, noise) in noises.iter().enumerate() {
        let Some(ready) = prepare(window, &raw, noise) else {
            continue;
        };
        let base = noise.prior_ln - 0.5 * ready.logdet;
        for (i, shape) in shapes.shapes.iter().enumerate() {
            let Some(solved) = solve(&ready, &shape.columns[..shape.width]) else {
                continue;
            };
            let Some((ln_ml, sigma2, df)) = norms.marginal(&ready, &solved) else {
                continue;
            };
            let ln_weight = base + shape.prior_ln + ln_ml;
            if ln_weight < fit.ln_evidence - FORGET_LN {
                continue;
            }
            fit.ln_evidence = fit.ln_evidence.max(ln_weight);
            let c = &contrasts[i];
            fit.candidates.push(Candidate {
                family: shape.family,
                bounded: shape.bounded,
                shape: i,
                noise: index,
                ln_weight,
                df,
                growth: solved.guess(&c.growth, sigma2),
                rise: solved.guess(&c.rise, sigma2),
                slope: solved.guess(&c.slope, sigma2),
                end: solved.level(&ready, &shape.columns, &c.end, sigma2),
                limit: c
                    .limit
                    .map(|l| solved.level(&ready, &shape.columns, &l, sigma2)),
                steps: steps_of(shapes, shape, &solved.beta),
            });
        }
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

    fn matters(&self, c: &Candidate) -> bool {
        c.ln_weight > self.ln_evidence - 6.0
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
struct Norms {
    n: usize,
    floor2: f64,
    width_ln: f64,
    ln_gamma: Vec<f64>,
}

impl Norms {
    fn new(n: usize, window: &Window) -> Norms {
        Norms {
            n,
            floor2: n as f64 * window.floor * window.floor,
            width_ln: (2.0 * window.reach).ln(),
            ln_gamma: (0..=n + 1)
                .map(|k| ln_gamma((k as f64 / 2.0).max(0.5)))
                .collect(),
        }
    }

    /// Log marginal likelihood, residual variance and degrees of freedom.
    fn marginal(&self, ready: &Prepared, solved: &Solved) -> Option<(f64, f64, f64)> {
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

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn take(from: &mut [f64], q: &[f64], times: f64) {
    for (v, q) in from.iter_mut().zip(q) {
        *v -= times * q;
    }
}

fn prepare(window: &Window, raw: &[Vec<f64>], noise: &Noise) -> Option<Prepared> {
    let whitener = Whitener::new(noise, &window.gap, &window.thin);
    let mut logdet = whitener.logdet;
    let n = window.y.len();
    let mut q: Vec<Vec<f64>> = Vec::new();
    // How the intercept is read off the projections: first row of the inverse of R.
    let mut read: Vec<f64> = Vec::new();
    let mut buffer = Vec::with_capacity(n);
    // The intercept goes last, so that its coefficient is one projection over one length.
    let ones = vec![1.0; n];
    for column in window.nuisance.iter().chain([&ones]) {
        whitener.apply(column, &mut buffer);
        let full = dot(&buffer, &buffer);
        for done in &q {
            let times = dot(&buffer, done);
            take(&mut buffer, done, times);
        }
        let length2 = dot(&buffer, &buffer);
        if length2 <= 1e-10 * full {
            return None;
        }
        logdet += length2.ln();
        let length = length2.sqrt();
        read.push(1.0 / length);
        q.push(buffer.iter().map(|v| v / length).collect());
    }
    let (q0, read0) = (q.last()?, *read.last()?);
    let free = |column: &[f64]| {
        let mut out = Vec::with_capacity(n);
        whitener.apply(column, &mut out);
        let zero = dot(&out, q0) * read0;
        for q in &q {
            let times = dot(&out, q);
            take(&mut out, q, times);
        }
        (out, zero)
    };
    let (y, y0) = free(&window.y);
    let mut ready = Prepared {
        yy: dot(&y, &y),
        y,
        y0,
        columns: Vec::with_capacity(raw.len()),
        cc: Vec::new(),
        cy: Vec::new(),
        c0: Vec::new(),
        var0: read0 * read0,
        logdet,
        nuisances: window.nuisance.len(),
    };
    for column in raw {
        let (column, zero) = free(column);
        ready.cc.push(dot(&column, &column));
        ready.cy.push(dot(&column, &ready.y));
        ready.c0.push(zero);
        ready.columns.push(column);
    }
    Some(ready)
}

/// Coefficients of one shape with the inverse of its Gram matrix.
struct Solved {
    width: usize,
    beta: [f64; COLUMNS_MAX],
    inverse: [[f64; COLUMNS_MAX]; COLUMNS_MAX],
    logdet: f64,
    rss: f64,
}

/// `None` when the columns say the same (or nothing) under this noise.
fn solve(ready: &Prepared, columns: &[usize]) -> Option<Solved> {
    let mut s = Solved {
        width: columns.len(),
        beta: [0.0; COLUMNS_MAX],
        inverse: [[0.0; COLUMNS_MAX]; COLUMNS_MAX],
        logdet: 0.0,
        rss: ready.yy,
    };
    match *columns {
        [] => {}
        [a] => {
            let g = ready.cc[a];
            if g < 1e-9 {
                return None;
            }
            s.inverse[0][0] = 1.0 / g;
            s.beta[0] = ready.cy[a] / g;
            s.logdet = g.ln();
            s.rss -= s.beta[0] * ready.cy[a];
        }
        [a, b, ..] => {
            let (g, h) = (ready.cc[a], ready.cc[b]);
            let cross = dot(&ready.columns[a], &ready.columns[b]);
            let det = g * h - cross * cross;
            if g < 1e-9 || h < 1e-9 || det < 1e-7 * g * h {
                return None;
            }
            s.inverse = [[h / det, -cross / det], [-cross / det, g / det]];
            let (y, z) = (ready.cy[a], ready.cy[b]);
            s.beta = [(h * y - cross * z) / det, (g * z - cross * y) / det];
            s.logdet = det.ln();
            s.rss -= s.beta[0] * y + s.beta[1] * z;
        }
    }
    Some(s)
}

impl Solved {
    fn guess(&self, c: &[f64; COLUMNS_MAX], sigma2: f64) -> Guess {
        let mean = (0..self.width).map(|i| c[i] * self.beta[i]).sum();
        Guess {
            mean,
            se: (sigma2 * self.quadratic(c)).sqrt(),
        }
    }

    fn quadratic(&self, c: &[f64; COLUMNS_MAX]) -> f64 {
        let mut sum = 0.0;
        for i in 0..self.width {
            for j in 0..self.width {
                sum += c[i] * self.inverse[i][j] * c[j];
            }
        }
        sum.max(0.0)
    }

    /// The intercept plus a contrast.
    fn level(&self, ready: &Prepared, columns: &[usize], c: &[f64; COLUMNS_MAX], s2: f64) -> Guess {
        let mut away = [0.0; COLUMNS_MAX];
        let mut mean = ready.y0;
        for j in 0..self.width {
            away[j] = c[j] - ready.c0[columns[j]];
            mean += away[j] * self.beta[j];
        }
        Guess {
            mean,
            se: (s2 * (ready.var0 + self.quadratic(&away))).sqrt(),
        }
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

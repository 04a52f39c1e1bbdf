//! Every candidate shape against every hypothesis on the noise, by exact least squares on whitened
//! columns, weighed by marginal likelihood (coefficients have a normal prior as wide as the
//! range of the data, the variance is integrated out). One series costs about two milliseconds.
//!
//! The nuisance columns (the intercept, harmonics of a load cycle) are projected out first, so that a
//! shape of two columns is a two-by-two system (Frisch and Waugh). A column is worked out once a window,
//! and whitened once a window and noise, however often it is asked for.

use super::columns::Columns;
use super::design::{self, Design};
use super::fit::{Candidate, FORGET_LN, Fit, Norms, ln_sum};
use super::ladder::ladders;
use super::linear::Window;
use super::noise::{Noise, hypotheses};
use super::refine::{refine, steps_with_fills};
use super::shapes::{Basis, Bounded, COLUMNS_MAX, Contrasts, FAMILIES, Family, Shape, Shapes};
use super::sloped::{LINE, Slope};
use super::solve::{Prepared, Solved};
use super::staircase::staircases;
use super::whitened::Whitened;

/// Below this only the best of a family is kept: its neighbours may do better.
const MATTERS_LN: f64 = 11.0;
/// A noise this far (in log weight) below the best after the sparse look is refuted; the sparse shapes
/// may miss the right one by a few units.
const REFUTED_LN: f64 = 8.0;
/// Noise with less memory than this is never refuted by the sparse look: a misfit of the sparse shapes
/// looks like memory.
const PLAIN_PHI: f64 = 0.7;
/// How far a noise may be behind after the full look.
const DECIDED_LN: f64 = 5.0;
/// A round of neighbours that brings less than this is the last: the noise hides the grid.
const FINER_GAIN_LN: f64 = 1.0;
/// How near the neighbours are that the best of each family gets, round by round.
const FINER_ROUNDS: [f64; 4] = [1.0, 1.0, 0.5, 0.25];

/// One window, and all that was worked out for it.
pub struct ModelSearch {
    pub window: Window,
    columns: Columns,
    norms: Norms,
    noises: Vec<Noise>,
    /// Of each noise; `None` where the nuisance columns say the same under it.
    grounds: Vec<Option<Prepared>>,
}

impl ModelSearch {
    pub fn new(window: Window) -> ModelSearch {
        let design = Design::of(&window);
        ModelSearch::with(window, design.columns, design.grounds)
    }

    /// Of the same bins with other nuisance columns: what was worked out without them is kept.
    pub fn like(&self, window: Window) -> ModelSearch {
        let whitened = |noise| Whitened::new(&window, noise);
        let grounds = self.noises.iter().map(whitened).collect();
        ModelSearch::with(window, self.columns.clone(), grounds)
    }

    fn with(window: Window, columns: Columns, grounds: Vec<Option<Whitened>>) -> ModelSearch {
        let readings = |whitened: Option<Whitened>| Some(Prepared::new(&window, whitened?));
        ModelSearch {
            grounds: grounds.into_iter().map(readings).collect(),
            norms: Norms::new(window.y.len(), &window),
            columns,
            noises: hypotheses(),
            window,
        }
    }

    /// Keeps what the next windows may have in common with this one: to be called before columns are tried that its
    /// readings ask for.
    fn keep(&self) {
        let whitened = |ready: &Option<Prepared>| Some(ready.as_ref()?.whitened.clone());
        design::keep(&self.window, || Design {
            columns: self.columns.clone(),
            grounds: self.grounds.iter().map(whitened).collect(),
        });
    }

    /// A fit of a sparse choice of shapes only: enough to choose between ways to cut the same bins.
    pub fn sketch(&mut self, shapes: &Shapes) -> Fit {
        let all: Vec<usize> = (0..self.noises.len()).collect();
        self.tried(&shapes.sparse(), &all, false).fit
    }

    /// All `shapes` under the simplest hypotheses on the noise, for a handful of points.
    pub fn fit_few(&mut self, shapes: &Shapes) -> Fit {
        let simple = |i: &usize| self.noises[*i].phi < PLAIN_PHI && self.noises[*i].white != 0.5;
        let simple: Vec<usize> = (0..self.noises.len()).filter(simple).collect();
        self.under(shapes, &simple)
    }

    /// Fits all `shapes`. Empty when there are fewer bins than the largest candidate needs.
    ///
    /// Hypotheses on the noise that the sparse look already refutes are not carried on, and the
    /// best of each family gets neighbours.
    pub fn fit(&mut self, shapes: &Shapes, sketch: &Fit) -> Fit {
        let carried = |i: &usize| {
            let noise = self.noises[*i];
            let plain = noise.phi < PLAIN_PHI && noise.white != 0.5;
            plain || sketch.best_of_noise[*i] > sketch.ln_evidence - REFUTED_LN
        };
        let near: Vec<usize> = (0..self.noises.len()).filter(carried).collect();
        let mut whole = self.under(shapes, &near);
        self.keep();
        let rungs = ladders(&whole, &self.window);
        if !rungs.shapes.is_empty() {
            whole.join(self.under(&rungs, &near));
        }
        let seeded = steps_with_fills(&whole);
        whole.join(self.under(&seeded, &near));
        for near_by in FINER_ROUNDS {
            let close = |i: &usize| whole.best_of_noise[*i] > whole.ln_evidence - DECIDED_LN;
            let closest: Vec<usize> = near.iter().copied().filter(close).collect();
            let second = self.under(&refine(&whole, near_by), &closest);
            let before = whole.ln_evidence;
            whole.join(second);
            if whole.ln_evidence - before < FINER_GAIN_LN {
                break;
            }
        }
        if whole.led_by(Family::Steps) {
            self.steps_on_line(shapes, &near, &mut whole);
        }
        whole
    }

    /// Adds staircases on a line.
    fn steps_on_line(&mut self, shapes: &Shapes, noises: &[usize], whole: &mut Fit) {
        let places = self.columns.places(&shapes.columns);
        let line = self.columns.places(&[LINE])[0];
        let slope = Slope {
            shapes,
            places: &places,
            line,
        };
        for &noise in noises {
            let Some(ready) = self.grounds[noise].as_mut() else {
                continue;
            };
            ready.prepare(&self.columns);
            let base = self.noises[noise].prior_ln - 0.5 * ready.whitened.logdet;
            whole.join(slope.all(ready, &self.norms, (noise, base)));
        }
    }

    /// All `shapes` under these of the hypotheses on the noise.
    fn under(&mut self, shapes: &Shapes, noises: &[usize]) -> Fit {
        self.tried(shapes, noises, true).fit
    }

    /// The same; what the candidates say is only worked out if they are to be kept.
    fn tried(&mut self, shapes: &Shapes, noises: &[usize], kept: bool) -> Tried {
        let mut tried = Tried::default();
        let n = self.window.y.len();
        if n < 4 + self.window.nuisance.len() || shapes.shapes.is_empty() {
            return tried;
        }
        let places = self.columns.places(&shapes.columns);
        if kept {
            tried.meanings = vec![None; shapes.shapes.len()];
            tried.fit.candidates.reserve(shapes.shapes.len());
        }
        for &noise in noises {
            let Some(ready) = self.grounds[noise].as_mut() else {
                continue;
            };
            ready.prepare(&self.columns);
            let base = self.noises[noise].prior_ln - 0.5 * ready.whitened.logdet;
            let try_out = TryOut {
                shapes,
                places: &places,
                ready,
                norms: &self.norms,
                now: self.window.now,
                noise,
                base,
            };
            try_out.all(&mut tried);
        }
        tried.settle();
        tried
    }
}

/// What was tried so far.
struct Tried {
    fit: Fit,
    /// Most shapes carry no weight under any noise: what they mean is worked out only when needed. Empty where
    /// candidates are only weighed ...
    meanings: Vec<Option<Contrasts>>,
    /// ... by these.
    ln_weights: Vec<f64>,
    best: [f64; FAMILIES],
}

impl Tried {
    fn settle(&mut self) {
        if self.meanings.is_empty() {
            self.fit.ln_evidence = ln_sum(self.ln_weights.iter().copied());
        } else {
            self.fit.settle();
        }
    }
}

impl Default for Tried {
    fn default() -> Tried {
        Tried {
            fit: Fit::nothing(),
            meanings: Vec::new(),
            ln_weights: Vec::new(),
            best: [f64::NEG_INFINITY; FAMILIES],
        }
    }
}

/// Everything that shapes under one noise have in common.
struct TryOut<'a> {
    shapes: &'a Shapes,
    places: &'a [usize],
    ready: &'a Prepared,
    norms: &'a Norms,
    now: f64,
    noise: usize,
    base: f64,
}

impl TryOut<'_> {
    /// Every shape, and the staircases.
    fn all(&self, tried: &mut Tried) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.all_wide(tried) };
        }
        self.all_here(tried);
    }

    /// The same numbers to the last bit, four at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn all_wide(&self, tried: &mut Tried) {
        self.all_here(tried);
    }

    #[inline(always)]
    fn all_here(&self, tried: &mut Tried) {
        for (i, shape) in self.shapes.shapes.iter().enumerate() {
            self.shape(i, shape, tried);
        }
        let (shapes, noise) = ((self.shapes, self.places), (self.noise, self.base));
        staircases(&mut tried.fit, self.ready, self.norms, shapes, noise);
    }

    #[inline(always)]
    fn shape(&self, index: usize, shape: &Shape, tried: &mut Tried) -> Option<()> {
        let mut columns = [0; COLUMNS_MAX];
        for (slot, column) in columns.iter_mut().zip(&shape.columns[..shape.width]) {
            *slot = self.places[*column];
        }
        let columns = &columns[..shape.width];
        let before = self.base + shape.prior_ln;
        let best = &mut tried.best[shape.family as usize];
        // What is behind the best of all by so much must be the best of its family to matter.
        let top = tried.fit.ln_evidence;
        let bar = (top - FORGET_LN).max(best.min(top - MATTERS_LN));
        let solved = self.ready.solve(columns, |width, rss, det| {
            before + self.norms.at_most(self.ready, width, rss, det) >= bar
        })?;
        let (ln_ml, sigma2, df) = self.norms.marginal(self.ready, &solved)?;
        let ln_weight = before + ln_ml;
        let behind = top - ln_weight;
        if behind > FORGET_LN || (behind > MATTERS_LN && ln_weight <= *best) {
            return None;
        }
        *best = best.max(ln_weight);
        tried.fit.saw(self.noise, ln_weight);
        if tried.meanings.is_empty() {
            tried.ln_weights.push(ln_weight);
            return None;
        }
        self.keep(
            (index, shape),
            (columns, &solved),
            (ln_weight, sigma2, df),
            tried,
        );
        Some(())
    }

    /// One that carries weight.
    #[inline(never)]
    fn keep(
        &self,
        (index, shape): (usize, &Shape),
        (columns, solved): (&[usize], &Solved),
        (ln_weight, sigma2, df): (f64, f64, f64),
        tried: &mut Tried,
    ) {
        let c = tried.meanings[index].get_or_insert_with(|| self.shapes.contrasts(shape, self.now));
        tried.fit.make_room();
        let level = |of: &[f64; COLUMNS_MAX]| solved.level(self.ready, columns, of, sigma2);
        tried.fit.candidates.push(Candidate {
            family: shape.family,
            bounded: shape.bounded,
            parts: self.shapes.parts(shape),
            prior_ln: shape.prior_ln,
            noise: self.noise,
            ln_weight,
            df,
            growth: solved.guess(&c.growth, sigma2),
            rise: solved.guess(&c.rise, sigma2),
            bend: (shape.family == Family::StepFill)
                .then(|| solved.guess(&[0.0, 1.0, 0.0], sigma2)),
            slope: solved.guess(&c.slope, sigma2),
            slope_fifth: solved.guess(&c.slope_fifth, sigma2),
            end: level(&c.end),
            limit: c.limit.as_ref().map(level),
            steps: steps_of(self.shapes, shape, solved),
            excursions: Vec::new(),
            portions: false,
            sawtooth: None,
        });
    }
}

fn steps_of(shapes: &Shapes, shape: &Shape, solved: &Solved) -> Vec<(f64, f64)> {
    match shapes.columns.get(shape.columns[0]) {
        Some(Basis::Step(at)) if shape.bounded == Bounded::Step => vec![(*at, solved.beta[0])],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::shapes;

    fn fit(window: Window) -> Fit {
        let mut search = ModelSearch::new(window);
        let all = shapes(&[], None);
        let sketch = search.sketch(&all);
        search.fit(&all, &sketch)
    }

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

    fn best(fit: &Fit) -> &Candidate {
        let by_weight = |a: &&Candidate, b: &&Candidate| a.ln_weight.total_cmp(&b.ln_weight);
        fit.candidates.iter().max_by(by_weight).unwrap()
    }

    fn wobble(i: usize) -> f64 {
        ((i * 7919) % 17) as f64 / 17.0 - 0.5
    }

    #[test]
    fn a_line_is_found_with_its_slope_and_level() {
        let line = |i: usize| 0.3 + i as f64 / 39.0 + 0.02 * wobble(i);
        let f = fit(window((0..40).map(line).collect()));
        let best = best(&f);
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
    fn what_is_kept_for_the_next_window_changes_no_bit_of_it() {
        let line = || {
            window(
                (0..40)
                    .map(|i| 0.3 + i as f64 / 39.0 + 0.02 * wobble(i))
                    .collect(),
            )
        };
        let fill = || {
            let rise = |i: usize| 1.0 - (-(i as f64) / 9.0).exp() + 0.03 * wobble(i);
            window((0..40).map(rise).collect())
        };
        let told = |f: Fit| -> Vec<(u64, u64)> {
            let bits = |c: &Candidate| (c.ln_weight.to_bits(), c.end.mean.to_bits());
            f.candidates.iter().map(bits).collect()
        };
        // What is kept is kept by each thread.
        let alone = std::thread::spawn(move || told(fit(fill()))).join();
        let after = std::thread::spawn(move || {
            let other = told(fit(line()));
            (0..2).for_each(|_| drop(fit(line())));
            (other, told(fit(fill())))
        });
        let (other, after) = after.join().unwrap();
        assert_ne!(other, after);
        assert_eq!(alone.unwrap(), after);
    }

    #[test]
    fn a_fill_is_not_a_line_and_its_limit_is_found() {
        let y = (0..60)
            .map(|i| 1.0 - (-(i as f64) / 10.0).exp() + 0.02 * wobble(i))
            .collect();
        let f = fit(window(y));
        let best = best(&f);
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
        let f = fit(w);
        let best = best(&f);
        assert_eq!(best.family, Family::Line);
        assert!((best.growth.mean - 0.2).abs() < 1e-3);
        assert!((best.end.mean - 0.2).abs() < 1e-3, "{:?}", best.end);
    }
}

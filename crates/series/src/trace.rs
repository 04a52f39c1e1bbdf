//! The curve that a verdict saw: where each candidate that carries weight puts the level at any instant, with
//! its doubt. For pictures; a verdict itself needs only the end.

use super::columns::Columns;
use super::fit::{Candidate, Fit, Norms};
use super::linear::{Guess, Window};
use super::mixture::{Mixture, Part};
use super::noise::hypotheses;
use super::shapes::{Basis, COLUMNS_MAX};
use super::solve::Prepared;
use super::whitened::Whitened;

/// Shapes that carry less than this share are not drawn.
const SHARE_MIN: f64 = 0.01;
/// Shapes drawn at most; each is fitted again under every hypothesis on the noise.
const SHAPES_MAX: usize = 16;

/// What is needed to draw: the window and the candidates that carry weight.
#[derive(Debug, Clone, Default)]
pub struct Sketch {
    window: Window,
    candidates: Vec<(Candidate, f64)>,
}

impl Sketch {
    /// Keeps what carries weight.
    pub fn of(window: Window, fit: Fit) -> Sketch {
        let weights = fit.weights();
        let mut candidates: Vec<(Candidate, f64)> =
            fit.candidates.into_iter().zip(weights).collect();
        candidates.retain(|(_, weight)| *weight > 1e-4);
        Sketch { window, candidates }
    }

    /// The level at each `x` of the clock of the window (1 is its end, beyond is the future), as a mixture
    /// over shapes and hypotheses on the noise.
    pub fn at(&self, x: &[f64]) -> Vec<Mixture> {
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); x.len()];
        for (columns, weight) in self.shapes() {
            self.draw(&columns, weight, x, &mut parts);
        }
        for (c, weight) in self.candidates.iter().filter(|(c, _)| c.is_stair()) {
            for (x, parts) in x.iter().zip(&mut parts) {
                parts.push(stair(c, *weight, *x));
            }
        }
        parts.into_iter().map(Mixture::new).collect()
    }

    /// The shapes that carry weight, whatever the noise, the heaviest first.
    fn shapes(&self) -> Vec<(Vec<Basis>, f64)> {
        let mut shapes: Vec<(Vec<Basis>, f64)> = Vec::new();
        for (c, weight) in self.candidates.iter().filter(|(c, _)| !c.is_stair()) {
            let columns: Vec<Basis> = c.parts.iter().flatten().copied().collect();
            match shapes.iter_mut().find(|(known, _)| *known == columns) {
                Some((_, sum)) => *sum += weight,
                None => shapes.push((columns, *weight)),
            }
        }
        shapes.sort_by(|a, b| b.1.total_cmp(&a.1));
        shapes.retain(|(_, weight)| *weight >= SHARE_MIN);
        shapes.truncate(SHAPES_MAX);
        shapes
    }

    /// Fits one shape again under every hypothesis on the noise, and adds what it says at each `x`.
    fn draw(&self, columns: &[Basis], weight: f64, x: &[f64], parts: &mut [Vec<Part>]) {
        let mut raw = Columns::over(&self.window.x);
        let places = raw.places(columns);
        let norms = Norms::new(self.window.y.len(), &self.window);
        let mut said: Vec<(f64, f64, Vec<Guess>)> = Vec::new();
        for noise in hypotheses() {
            let Some(whitened) = Whitened::new(&self.window, &noise) else {
                continue;
            };
            let mut ready = Prepared::new(&self.window, whitened);
            ready.prepare(&raw);
            let Some(solved) = ready.solve(&places, |_, _, _| true) else {
                continue;
            };
            let Some((ln_ml, sigma2, df)) = norms.marginal(&ready, &solved) else {
                continue;
            };
            let level = |x: &f64| {
                let mut at = [0.0; COLUMNS_MAX];
                at.iter_mut()
                    .zip(columns)
                    .for_each(|(at, basis)| *at = basis.at(*x));
                solved.level(&ready, &places, &at, sigma2)
            };
            let ln_weight = noise.prior_ln - 0.5 * ready.whitened.logdet + ln_ml;
            said.push((ln_weight, df, x.iter().map(level).collect()));
        }
        let best = said.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = said.iter().map(|s| (s.0 - best).exp()).sum();
        for (ln_weight, df, guesses) in said {
            let share = weight * (ln_weight - best).exp() / sum;
            for (guess, parts) in guesses.iter().zip(parts.iter_mut()) {
                parts.push(part(*guess, share, df));
            }
        }
    }
}

fn part(guess: Guess, weight: f64, df: f64) -> Part {
    Part {
        weight,
        mean: guess.mean,
        se: guess.se,
        df,
    }
}

/// A staircase: the end, less the steps and the rise that are still to come.
fn stair(c: &Candidate, weight: f64, x: f64) -> Part {
    let ahead: f64 = c
        .steps
        .iter()
        .filter(|(at, _)| *at > x)
        .map(|(_, by)| by)
        .sum();
    let guess = Guess {
        mean: c.end.mean - ahead - c.slope.mean * (1.0 - x),
        se: c.end.se,
    };
    part(guess, weight, c.df)
}

#[cfg(test)]
mod tests {
    use super::super::model_search::ModelSearch;
    use super::super::shapes::shapes;
    use super::*;

    fn sketch(y: impl Fn(f64) -> f64) -> Sketch {
        let n = 60;
        let wobble = |i: usize| 0.02 * (((i * 7919) % 17) as f64 / 17.0 - 0.5);
        let x: Vec<f64> = (0..n).map(|i| i as f64 / (n - 1) as f64).collect();
        let window = Window {
            y: x.iter()
                .enumerate()
                .map(|(i, x)| y(*x) + wobble(i))
                .collect(),
            gap: vec![1.0; n],
            thin: vec![1.0; n],
            nuisance: Vec::new(),
            now: 1.0,
            floor: 1e-3,
            reach: 1.0,
            x,
        };
        let steps: Vec<f64> = window
            .x
            .windows(2)
            .skip(1)
            .map(|w| 0.5 * (w[0] + w[1]))
            .collect();
        let all = shapes(&steps, None);
        let mut search = ModelSearch::new(window.clone());
        let sketch = search.sketch(&all);
        let fitted = search.fit(&all, &sketch);
        Sketch::of(window, fitted)
    }

    #[test]
    fn the_curve_follows_what_was_seen_and_doubts_the_future_more() {
        for y in [
            |x: f64| 0.2 + 0.8 * x,
            |x: f64| 1.0 - (-6.0 * x).exp(),
            |x: f64| f64::from(u8::from(x > 0.4)),
            |x: f64| 0.3 * f64::from(u8::from(x > 0.3)) + 0.7 * f64::from(u8::from(x > 0.72)),
        ] {
            let sketch = sketch(y);
            let said = sketch.at(&[0.1, 0.5, 0.9, 1.0, 1.5]);
            for (x, m) in [0.1, 0.5, 0.9].iter().zip(&said) {
                assert!(
                    (m.mean() - y(*x)).abs() < 0.03,
                    "{} where {} is, at {x}",
                    m.mean(),
                    y(*x)
                );
                assert!(m.quantile(0.025) < y(*x) + 0.01 && y(*x) - 0.01 < m.quantile(0.975));
            }
            assert!(said[4].sd() >= said[3].sd());
        }
    }
}

//! Staircases on a line: a leak under jobs and deployments. Tried only where a staircase without a line leads, for it
//! costs as much again.

use statrs::function::gamma::ln_gamma;

use super::fit::{Candidate, Fit, Norms, Sawtooth};
use super::linear::{Guess, dot};
use super::order::mean_sd;
use super::sawtooth::heights_by_threshold;
use super::shapes::{Basis, Family, Shapes};
use super::solve::{Prepared, Solved};
use super::staircase::{Fitted, stair_candidate};
use super::stairs::{Products, STEPS_MAX, Stair, stairs};

/// Places among the shapes' columns: the line, and where each column stands.
pub(super) struct Slope<'a> {
    pub shapes: &'a Shapes,
    pub places: &'a [usize],
    pub line: usize,
}

impl Slope<'_> {
    /// Two to [`STEPS_MAX`] steps and a line, under one noise (which, and the log of its weight). All products are
    /// freed of the line: what both sides have of it is subtracted.
    pub(super) fn all(&self, ready: &Prepared, norms: &Norms, noise: (usize, f64)) -> Fit {
        let mut fit = Fit::nothing();
        let Some(steps) = self.shapes.stairs.clone() else {
            return fit;
        };
        let (own, with_y) = ready.products(self.line);
        if own <= 0.0 {
            return fit;
        }
        let steps = &self.places[steps];
        let with_line = ready.whitened.products(self.line, steps);
        let on_line: Vec<f64> = with_line.iter().map(|product| product / own).collect();
        let with_all = |step: usize| {
            let both = on_line.iter().map(|share| on_line[step] * share * own);
            let products = ready.whitened.products(steps[step], steps);
            products
                .iter()
                .zip(both)
                .map(|(all, both)| all - both)
                .collect()
        };
        let alone = |(at, share): (&usize, &f64)| {
            let (square, product) = ready.products(*at);
            (square - share * share * own, product - share * with_y)
        };
        let (squares, with_readings) = steps.iter().zip(&on_line).map(alone).unzip();
        let yy = dot(&ready.y, &ready.y) - with_y * with_y / own;
        let products = Products::of(&with_all, squares, with_readings, yy);
        for stair in stairs(products, ready.y.len(), STEPS_MAX) {
            let found = self.candidate(ready, norms, &stair, (own, with_y / own, &on_line), noise);
            if let Some(found) = found {
                fit.saw(noise.0, found.ln_weight);
                fit.candidates.push(found);
            }
        }
        fit
    }

    /// One staircase, with what the line beneath it rises by; `own` is the product of the line with itself, `alone`
    /// its rise without steps, `on_line` the share of it in each step.
    fn candidate(
        &self,
        ready: &Prepared,
        norms: &Norms,
        stair: &Stair,
        (own, alone, on_line): (f64, f64, &[f64]),
        (noise, base): (usize, f64),
    ) -> Option<Candidate> {
        let steps = self.shapes.stairs.clone()?;
        let solved = Solved {
            width: stair.at.len() + 1,
            rss: stair.rss,
            logdet: stair.logdet + own.ln(),
            ..Solved::default()
        };
        let (ln_ml, sigma2, df) = norms.marginal(ready, &solved)?;
        let prior = Family::StepsLine.prior_ln() + ways_ln(steps.len(), stair.at.len());
        let fitted = Fitted {
            noise,
            ln_weight: base + prior + ln_ml,
            sigma2,
            df,
        };
        let columns = (self.shapes, self.places);
        let mut c = stair_candidate(ready, columns, stair, steps.start, fitted);
        let shares = || stair.at.iter().map(|k| on_line[*k]);
        let taken: f64 = shares().zip(&stair.beta).map(|(s, b)| s * b).sum();
        // Not below the true variance of a line beside so many steps: the largest of theirs stands for each.
        let doubt = shares().map(|s| s * s).sum::<f64>() * stair.variance * stair.at.len() as f64;
        let rise = Guess {
            mean: alone - taken,
            se: (sigma2 * (1.0 / own + doubt)).sqrt(),
        };
        if c.bend.is_some() {
            // Steps that follow a curve follow any.
            return None;
        }
        c.growth = Guess {
            mean: rise.mean - undone(&c.steps, rise.mean),
            ..rise
        };
        c.sawtooth = sawtooth(&c.steps, rise);
        (c.slope, c.slope_fifth) = (rise, rise);
        c.end.mean += rise.mean * (1.0 - ready.whitened.c0(self.line));
        (c.family, c.limit, c.portions) = (Family::StepsLine, None, false);
        Some(c)
    }
}

/// What falls back takes from what rises: teeth are a line with steps down. No more than was seen to climb: a fall to
/// a new level undoes what was there before the window. What climbed before the first one was not seen, and may have
/// been as much as another falls.
fn undone(steps: &[(f64, f64)], rise: f64) -> f64 {
    let falls = || steps.iter().filter(|step| step.1 < 0.0);
    let Some((&(first, by), &(last, _))) = falls().next().zip(falls().next_back()) else {
        return 0.0;
    };
    let jumps = |from: f64, to: f64| {
        let inside = steps
            .iter()
            .filter(|step| step.1 > 0.0 && (from..to).contains(&step.0));
        inside.map(|step| step.1).sum::<f64>()
    };
    let climbed = |from: f64, to: f64| (to - from) * rise.max(0.0) + jumps(from, to);
    let others = || falls().skip(1).map(|step| -step.1);
    let of_others = others().sum::<f64>().min(climbed(first, last));
    let largest = others().fold(0.0, f64::max).min(of_others);
    let fell = of_others + (-by).min(climbed(0.0, first).max(largest));
    (fell - jumps(0.0, 1.0)).max(0.0)
}

/// Floors that are nearer to each other, in windows, say nothing of the window.
const FALLS_APART: f64 = 1.0 / 3.0;

/// Of steps (where in the window, and by how much) on a line that rises by `rise` over it; `None`: there are less than
/// two falls, between which floors could be compared.
fn sawtooth(steps: &[(f64, f64)], rise: Guess) -> Option<Sawtooth> {
    let falls = || steps.iter().filter(|step| step.1 < 0.0);
    let (first, last) = (falls().next()?.0, falls().next_back()?.0);
    if last - first < FALLS_APART || rise.mean <= 0.0 {
        return None;
    }
    let moved = steps.iter().filter(|(at, _)| (first..=last).contains(at));
    let moved: f64 = moved.skip(1).map(|step| step.1).sum();
    let heights: Vec<f64> = falls().map(|step| -step.1).collect();
    let highest = heights.iter().copied().fold(0.0, f64::max);
    let net = rise.mean + steps.iter().map(|step| step.1).sum::<f64>();
    // It ends within a climb like the others, or it grows.
    if net > highest {
        return None;
    }
    let (_, uneven) = mean_sd(&heights);
    Some(Sawtooth {
        growth: Guess {
            mean: rise.mean + moved / (last - first),
            se: rise.se.hypot(uneven / (last - first)),
        },
        by_threshold: heights_by_threshold(&heights, rise.mean * (1.0 - last)),
    })
}

/// Log of one over the ways to place so many steps; about two places each are summed by the best.
fn ways_ln(places: usize, steps: usize) -> f64 {
    let (n, k) = (places as f64, steps as f64);
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    k * std::f64::consts::LN_2 - ways - ((STEPS_MAX - 1) as f64).ln()
}

/// The line that the steps stand on.
pub(super) const LINE: Basis = Basis::Power(1.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_undoes_no_more_than_was_seen_to_climb() {
        let near = |steps: &[(f64, f64)], rise, expected: f64| {
            let undone = undone(steps, rise);
            assert!((undone - expected).abs() < 1e-9, "{steps:?}: {undone}");
        };
        near(&[0.1, 0.35, 0.6, 0.85].map(|at| (at, -1.0)), 4.0, 4.0);
        near(&[(0.2, -30.0)], 2.0, 0.4);
        near(&[(0.1, -30.0), (0.5, -0.3), (0.9, -0.2)], 2.0, 0.3 + 0.5);
        near(&[(0.1, -30.0), (0.5, -20.0)], 2.0, 0.8 + 0.8);
        // A job that comes and goes.
        near(&[(0.3, 5.0), (0.5, -5.2)], 1.0, 0.2);
        near(&[(0.3, 5.0)], 1.0, 0.0);
        near(&[(0.3, -5.0), (0.6, -1.0)], -1.0, 0.0);
    }

    #[test]
    fn a_sawtooth_grows_from_floor_to_floor() {
        let rise = Guess {
            mean: 4.0,
            se: 0.01,
        };
        // It ends during the fifth.
        let even = [0.22, 0.44, 0.66, 0.88].map(|at| (at, -0.88));
        let even = sawtooth(&even, rise).unwrap();
        assert!(
            even.growth.mean.abs() < 1e-9 && even.by_threshold > 0.8,
            "{even:?}"
        );
        let rising = sawtooth(&[(0.3, -1.2), (0.6, -1.2), (0.9, -1.1)], rise).unwrap();
        assert!((rising.growth.mean - (4.0 - 2.3 / 0.6)).abs() < 1e-9);
        assert_eq!(sawtooth(&[(0.3, -0.8)], rise), None);
        // Two workers of a leak that are restarted one after the other; and one that is far above where it started.
        assert_eq!(sawtooth(&[(0.80, -0.8), (0.84, -0.8)], rise), None);
        assert_eq!(sawtooth(&[(0.2, -0.8), (0.6, -0.8)], rise), None);
        assert_eq!(sawtooth(&[(0.3, 0.8), (0.6, 0.9)], rise), None);
    }
}

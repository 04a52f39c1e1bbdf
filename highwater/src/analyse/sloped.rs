//! Staircases on a line: a leak under jobs and deployments. Tried only where a staircase without a line leads,
//! for it costs as much again.

use statrs::function::gamma::ln_gamma;

use super::fit::{Candidate, Fit, Guess, Norms};
use super::shapes::{Basis, Family, Shapes};
use super::solve::{Prepared, Solved, dot};
use super::staircase::{Fitted, stair_candidate};
use super::stairs::{Products, STEPS_MAX, Stair, stairs};

/// Places among the shapes' columns: the line, and where each column stands.
pub(super) struct Slope<'a> {
    pub shapes: &'a Shapes,
    pub places: &'a [usize],
    pub line: usize,
}

impl Slope<'_> {
    /// Two to [`STEPS_MAX`] steps and a line, under one noise (which, and the log of its weight).
    pub(super) fn all(&self, ready: &Prepared, norms: &Norms, noise: (usize, f64)) -> Fit {
        let mut fit = Fit {
            ln_evidence: f64::NEG_INFINITY,
            ..Fit::default()
        };
        let Some(steps) = self.shapes.stairs.clone() else {
            return fit;
        };
        let line = ready.column(self.line);
        let (own, with_y) = ready.products(self.line);
        if own <= 0.0 {
            return fit;
        }
        let on_line: Vec<f64> = steps
            .clone()
            .map(|k| dot(ready.column(self.places[k]), line) / own)
            .collect();
        let freed: Vec<Vec<f64>> = steps
            .clone()
            .zip(&on_line)
            .map(|(k, share)| without(ready.column(self.places[k]), line, *share))
            .collect();
        let y = without(&ready.y, line, with_y / own);
        let columns: Vec<&[f64]> = freed.iter().map(Vec::as_slice).collect();
        let cc = columns.iter().map(|c| dot(c, c)).collect();
        let cy = columns.iter().map(|c| dot(c, &y)).collect();
        let products = Products::of(&columns, cc, cy, dot(&y, &y));
        for stair in stairs(products, y.len(), STEPS_MAX) {
            let found = self.candidate(ready, norms, &stair, (own, with_y / own, &on_line), noise);
            fit.candidates.extend(found);
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
        // What falls back takes from what rises: teeth are a line with steps down.
        let moved: f64 = c.steps.iter().map(|step| step.1).sum();
        c.growth = Guess {
            mean: rise.mean + moved.min(0.0),
            ..rise
        };
        (c.slope, c.slope_fifth) = (rise, rise);
        c.end.mean += rise.mean * (1.0 - ready.c0[self.line]);
        (c.family, c.limit, c.portions) = (Family::StepsLine, None, false);
        Some(c)
    }
}

fn without(column: &[f64], line: &[f64], share: f64) -> Vec<f64> {
    let pairs = column.iter().zip(line);
    pairs.map(|(v, l)| v - share * l).collect()
}

/// Log of one over the ways to place so many steps; about two places each are summed by the best.
fn ways_ln(places: usize, steps: usize) -> f64 {
    let (n, k) = (places as f64, steps as f64);
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    k * std::f64::consts::LN_2 - ways - ((STEPS_MAX - 1) as f64).ln()
}

/// The line that the steps stand on.
pub(super) const LINE: Basis = Basis::Power(1.0);

//! What came of a fit: the candidates that carry weight, and their evidence.

use statrs::function::gamma::ln_gamma;

use super::linear::{Guess, Window};
use super::noise::HYPOTHESES;
use super::shapes::{Basis, Bounded, COLUMNS_MAX, Family};
use super::solve::{Prepared, Solved};

/// One shape under one hypothesis on the noise.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub family: Family,
    pub bounded: Bounded,
    /// Its columns.
    pub parts: [Option<Basis>; COLUMNS_MAX],
    pub prior_ln: f64,
    /// Which of [`hypotheses`](super::noise::hypotheses).
    pub noise: usize,
    /// Log of prior times marginal likelihood.
    pub ln_weight: f64,
    pub df: f64,
    pub growth: Guess,
    pub rise: Guess,
    /// Of a step and a fill, the rise of the fill; of steps, that of a rise in so many that it bends.
    pub bend: Option<Guess>,
    pub slope: Guess,
    pub slope_fifth: Guess,
    pub end: Guess,
    pub limit: Option<Guess>,
    pub steps: Vec<(f64, f64)>,
    /// When the level went away and came back soon, of steps.
    pub excursions: Vec<(f64, f64)>,
    /// As many steps as are tried, all upwards, and no longer rest at the end than between them: a leak in portions.
    pub portions: bool,
    /// Of a line with falls.
    pub sawtooth: Option<Sawtooth>,
}

/// What rises evenly and falls suddenly: a leak that is restarted, or the teeth of a collector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sawtooth {
    /// Rise over the window, from floor to floor: where in a tooth the window ends is chance.
    pub growth: Guess,
    /// Probability that a threshold ended the climbs ([`heights_by_threshold`](super::sawtooth::heights_by_threshold)).
    pub by_threshold: f64,
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
/// Steps are alike when none is smaller than this share of the highest ...
const ALIKE: f64 = 0.2;
/// ... and three of them, which have but one distance to compare with another, when none is smaller than this, nor
/// one distance than this share of the other.
const THREE_ALIKE: f64 = 0.5;
/// A step in this last share of the window may be an accident of the last readings.
const JUST: f64 = 0.03;

impl Candidate {
    /// Several steps, which have no columns of their own; on a line or not.
    pub fn is_stair(&self) -> bool {
        matches!(self.family, Family::Steps | Family::StepsLine)
    }

    /// Three steps or more of like heights, all upwards, the next one not overdue: whether it climbs on
    /// cannot be seen. Two have a distance and no rhythm.
    pub fn may_climb_on(&self) -> bool {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return false;
        };
        let highest = self.steps.iter().map(|s| s.1).fold(0.0, f64::max);
        let three = self.steps.len() == 3;
        let alike = if three { THREE_ALIKE } else { ALIKE };
        let up = self.steps.iter().all(|s| s.1 > alike * highest);
        let gap = (last.0 - first.0) / (self.steps.len() as f64 - 1.0).max(1.0);
        let even = || {
            self.steps
                .windows(2)
                .all(|s| s[1].0 - s[0].0 > THREE_ALIKE * gap)
        };
        self.family == Family::Steps
            && self.steps.len() > 2
            && up
            && (!three || even())
            && 1.0 - last.0 < NOT_LATE * gap
    }

    /// One step, at the very end.
    pub fn only_just(&self) -> bool {
        self.family == Family::Step && self.steps.iter().all(|s| s.0 > 1.0 - JUST)
    }
}

/// All candidates that carry weight.
#[derive(Debug, Clone)]
pub struct Fit {
    pub candidates: Vec<Candidate>,
    /// Log of the summed weights: compares ways to look at the same bins.
    pub ln_evidence: f64,
    /// Log of the largest weight under each of [`hypotheses`](super::noise::hypotheses).
    pub best_of_noise: [f64; HYPOTHESES],
}

/// Candidates this far (in log weight) below the best are forgotten.
pub(super) const FORGET_LN: f64 = 26.0;

/// Log of the sum of these, which are logs.
pub(super) fn ln_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let best = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if best == f64::NEG_INFINITY {
        return best;
    }
    best + logs.map(|ln| (ln - best).exp()).sum::<f64>().ln()
}

impl Fit {
    /// Before anything was tried.
    pub(super) fn nothing() -> Fit {
        Fit {
            candidates: Vec::new(),
            ln_evidence: f64::NEG_INFINITY,
            best_of_noise: [f64::NEG_INFINITY; HYPOTHESES],
        }
    }

    /// Notes a weight under a noise.
    #[inline(always)]
    pub(super) fn saw(&mut self, noise: usize, ln_weight: f64) {
        self.ln_evidence = self.ln_evidence.max(ln_weight);
        self.best_of_noise[noise] = self.best_of_noise[noise].max(ln_weight);
    }

    /// Drops what does not matter and sums the evidence.
    pub(super) fn settle(&mut self) {
        let best = self
            .candidates
            .iter()
            .map(|c| c.ln_weight)
            .fold(f64::NEG_INFINITY, f64::max);
        self.candidates.retain(|c| c.ln_weight >= best - FORGET_LN);
        self.ln_evidence = ln_sum(self.candidates.iter().map(|c| c.ln_weight));
    }

    /// Forgets what has fallen behind before the list would grow: it is moved as a whole when it does.
    pub(super) fn make_room(&mut self) {
        if self.candidates.len() == self.candidates.capacity() {
            let bar = self.ln_evidence - FORGET_LN;
            self.candidates.retain(|c| c.ln_weight >= bar);
            self.candidates.reserve(self.candidates.len().max(64));
        }
    }

    /// Adds the candidates of another fit of the same bins.
    pub fn join(&mut self, other: Fit) {
        self.candidates.extend(other.candidates);
        for (best, of) in self.best_of_noise.iter_mut().zip(other.best_of_noise) {
            *best = best.max(of);
        }
        self.settle();
    }

    /// Whether the best candidate is of this family.
    pub(super) fn led_by(&self, family: Family) -> bool {
        let by_weight = |a: &&Candidate, b: &&Candidate| a.ln_weight.total_cmp(&b.ln_weight);
        let best = self.candidates.iter().max_by(by_weight);
        best.is_some_and(|c| c.family == family)
    }

    /// Weight of each candidate, adding up to one.
    pub fn weights(&self) -> Vec<f64> {
        self.candidates
            .iter()
            .map(|c| (c.ln_weight - self.ln_evidence).exp())
            .collect()
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
    #[inline(always)]
    pub(super) fn marginal(&self, ready: &Prepared, solved: &Solved) -> Option<(f64, f64, f64)> {
        let free = self
            .n
            .checked_sub(1 + ready.whitened.nuisances() + solved.width)
            .filter(|f| *f > 0)?;
        let rss = solved.rss.max(0.0) + self.floor2;
        let df = free as f64;
        let width = (solved.width + ready.whitened.nuisances()) as f64;
        let ln_ml = self.ln_gamma[free] - 0.5 * df * (rss / 2.0).ln() - 0.5 * solved.logdet
            + width * (0.5 * std::f64::consts::TAU.ln() - self.width_ln);
        Some((ln_ml, rss / df, df))
    }

    /// No marginal likelihood is higher than this (in logs) that leaves so much or more, of a Gram matrix with this
    /// determinant or a larger one; for the price of two shifts.
    #[inline(always)]
    pub(super) fn at_most(&self, ready: &Prepared, width: usize, rss: f64, det: f64) -> f64 {
        let Some(free) = self.n.checked_sub(1 + ready.whitened.nuisances() + width) else {
            return f64::NEG_INFINITY;
        };
        let (rss, det) = (ln_at_least((rss + self.floor2) / 2.0), ln_at_least(det));
        let width = (width + ready.whitened.nuisances()) as f64;
        self.ln_gamma[free] - 0.5 * free as f64 * rss - 0.5 * det
            + width * (0.5 * std::f64::consts::TAU.ln() - self.width_ln)
    }
}

/// The log of a positive number, less at most a factor of two.
#[inline(always)]
fn ln_at_least(x: f64) -> f64 {
    let exponent = (x.to_bits() >> 52) as i64 - 1023;
    exponent as f64 * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_log_is_never_too_high_and_at_most_a_factor_of_two_too_low() {
        for x in [1e-300_f64, 1e-9, 0.3, 0.999, 1.0, 1.5, 2.0, 64.0, 1e12] {
            let off = x.ln() - ln_at_least(x);
            assert!((-1e-9..0.7).contains(&off), "{x}: {off}");
        }
    }
}

//! What the level will be: a state-space model of medians, averaged over what its variances may be.
//!
//! A median is a level, plus what passes (an autoregression), plus noise. The level wanders; it may have a slope, which
//! may change, and may die away (the damped trend of Gardner and McKenzie 1985). Each of these is a variance in units
//! of the noise's; a Kalman filter gives the likelihood under every combination of a small grid (Durbin and Koopman
//! 2012, chapters 2 to 4), and the forecast is the mixture by these weights. Beside it the level may shift, at the rate
//! at which windows without a shift leave it (Jeffreys' prior on a rate), by as much as the medians differ.

use super::bins::BINS_MAX;
use super::line::Line;
use super::mixture::{Mixture, Part};
use super::order::median;
use super::series::Point;

#[cfg(test)]
mod tests;

/// Stretches of the window, at least ...
pub const BINS_MIN: usize = 8;
/// ... and how many of them must have readings: fewer tell nothing of how a level wanders.
const READ_MIN: usize = 5;

/// Variance of the level's steps from bin to bin over that of the noise.
const WANDER: [f64; 5] = [0.0, 1e-2, 0.1, 1.0, 10.0];
/// What passes: its memory from bin to bin, and the variance of its steps.
const PASSING: [(f64, f64); 7] = [
    (0.0, 0.0),
    (0.6, 0.3),
    (0.6, 3.0),
    (0.6, 30.0),
    (0.9, 0.1),
    (0.9, 1.0),
    (0.9, 10.0),
];
/// Of the first of these and of each other.
const PASSING_PRIOR: [f64; 2] = [0.5, 0.5 / 6.0];

/// How a slope goes on.
#[derive(Debug, Clone, Copy)]
struct Slope {
    prior: f64,
    /// Share of it that is left a bin later; nothing: there is none.
    kept: Option<f64>,
    /// Variance of its steps from bin to bin over that of the noise.
    steps: f64,
}

const SLOPES: [Slope; 6] = [
    Slope::of(0.5, None, 0.0),
    Slope::of(0.15, Some(1.0), 0.0),
    Slope::of(0.1, Some(1.0), 1e-3),
    Slope::of(0.1, Some(0.9), 0.0),
    Slope::of(0.1, Some(0.7), 0.0),
    Slope::of(0.05, Some(0.5), 0.0),
];

impl Slope {
    const fn of(prior: f64, kept: Option<f64>, steps: f64) -> Slope {
        Slope { prior, kept, steps }
    }
}

/// Shifts in as much time as was watched, when none was: the mean of Jeffreys' prior after it.
const SHIFTS_UNSEEN: f64 = 0.5;
/// Of a shift's height: a few are large.
const SHIFT_DF: f64 = 4.0;
/// Combinations that are parts of the forecast by themselves.
const STATES_APART: usize = 30;
/// Deviation of noise below which none is believed, in the range of the bins: no real curve is a formula.
const NOISE_MIN: f64 = 5e-3;
/// Of the first level nothing is known, in variances of the noise.
const DIFFUSE: f64 = 1e7;

/// What is known of the level at the end of the bins.
#[derive(Debug, Clone)]
pub struct Forecast {
    states: Vec<State>,
    width_s: f64,
    /// Bins of the window.
    watched: f64,
    /// Deviation of bins around their line: what a shift may be.
    shift: f64,
}

/// The last state under one combination; variances in units of `scale2`.
#[derive(Debug, Clone)]
struct State {
    ln_weight: f64,
    model: Model,
    mean: [f64; 3],
    var: [[f64; 3]; 3],
    scale2: f64,
    df: f64,
}

#[derive(Debug, Clone, Copy)]
struct Model {
    wander: f64,
    /// Of what passes: memory and variance of its steps.
    passing: (f64, f64),
    kept: f64,
    slope_steps: f64,
    /// Of the slope at the beginning.
    slope_var: f64,
}

impl Forecast {
    /// Of the level over stretches of about `stretch_s`: their medians are what is modelled, for a median is what is
    /// forecast. `None`: too few readings.
    pub fn of(points: &[Point], stretch_s: f64) -> Option<Forecast> {
        let (first, last) = (points.first()?, points.last()?);
        let span_s = last.t_s - first.t_s;
        let count = (span_s / stretch_s)
            .clamp(BINS_MIN as f64, BINS_MAX as f64)
            .floor();
        let width_s = span_s / count;
        if width_s.is_nan() || width_s <= 0.0 {
            return None;
        }
        let bins = medians(points, width_s, count as usize);
        if bins.len() < READ_MIN {
            return None;
        }
        let y: Vec<f64> = bins.iter().map(|bin| bin.value).collect();
        let unit = range_of(&y)
            .max(1e-4 * median(&y).abs())
            .max(f64::MIN_POSITIVE);
        let scaled: Vec<f64> = y.iter().map(|v| (v - y[0]) / unit).collect();
        let gaps: Vec<f64> = bins
            .windows(2)
            .map(|pair| ((pair[1].t_s - pair[0].t_s) / width_s).round().max(1.0))
            .collect();
        let mut states = states(&scaled, &gaps, count);
        for state in &mut states {
            state.mean = [state.mean[0] * unit + y[0], state.mean[1] * unit, 0.0];
            state.scale2 *= unit * unit;
        }
        Some(Forecast {
            states,
            width_s,
            watched: count,
            shift: Line::of(&bins)?.noise2.sqrt(),
        })
    }

    /// The median level from `from_s` to `to_s` seconds after the last bin.
    pub fn level(&self, from_s: f64, to_s: f64) -> Mixture {
        // From the middle of the last stretch on.
        let ahead = 0.5 + 0.5 * (from_s + to_s) / self.width_s;
        let block = ((to_s - from_s) / self.width_s).max(1.0);
        let shifts = 1.0 - (-SHIFTS_UNSEEN * ahead / self.watched).exp();
        let mut parts = Vec::with_capacity(2 * (STATES_APART + 1));
        for part in self.told_apart(ahead, block) {
            parts.push(Part {
                weight: (1.0 - shifts) * part.weight,
                ..part
            });
            parts.push(Part {
                weight: shifts * part.weight,
                se: (part.se * part.se + self.shift * self.shift).sqrt(),
                df: SHIFT_DF.min(part.df),
                ..part
            });
        }
        Mixture::new(parts)
    }

    /// What each combination says; of those with little weight, which are many, one part with their mean and variance.
    fn told_apart(&self, ahead: f64, block: f64) -> Vec<Part> {
        let weights = self.states.iter().map(|s| s.ln_weight);
        let best = weights.fold(f64::NEG_INFINITY, f64::max);
        let part = |state: &State| {
            let (mean, var) = state.ahead(ahead, block);
            Part {
                weight: (state.ln_weight - best).exp(),
                mean,
                se: var.sqrt(),
                df: state.df,
            }
        };
        let mut parts: Vec<Part> = self.states.iter().map(part).collect();
        parts.sort_unstable_by(|a, b| b.weight.total_cmp(&a.weight));
        let rest = parts.split_off(STATES_APART.min(parts.len()));
        let weight: f64 = rest.iter().map(|p| p.weight).sum();
        if weight > 0.0 {
            let over = |of: &dyn Fn(&Part) -> f64| {
                rest.iter().map(|p| p.weight * of(p)).sum::<f64>() / weight
            };
            let mean = over(&|p| p.mean);
            parts.push(Part {
                weight,
                mean,
                se: over(&|p| p.se * p.se + (p.mean - mean).powi(2)).sqrt(),
                df: rest[0].df,
            });
        }
        parts
    }
}

/// The last state under every combination, with the log of its prior times its likelihood.
fn states(y: &[f64], gaps: &[f64], watched: f64) -> Vec<State> {
    let passing = |at: usize| (PASSING[at], PASSING_PRIOR[at.min(1)]);
    let levels = WANDER.into_iter().flat_map(|wander| {
        let all = (0..PASSING.len()).map(passing);
        all.map(move |(passing, prior)| (wander, passing, prior / WANDER.len() as f64))
    });
    let mut states = Vec::with_capacity(WANDER.len() * PASSING.len() * SLOPES.len());
    for (wander, passing, prior) in levels {
        let still = Model {
            wander,
            passing,
            kept: 1.0,
            slope_steps: 0.0,
            slope_var: 0.0,
        };
        let level = filter(y, gaps, still);
        for slope in SLOPES {
            let sloped = |kept| Model {
                kept,
                slope_steps: slope.steps,
                ..still
            };
            let state = match slope.kept {
                None => level.clone(),
                Some(kept) => with_slope(y, gaps, sloped(kept), watched, level.scale2),
            };
            states.push(State {
                ln_weight: state.ln_weight + (prior * slope.prior).ln(),
                ..state
            });
        }
    }
    states
}

impl State {
    /// Mean and variance of the level so many bins later, of the median of a block of bins.
    fn ahead(&self, bins: f64, block: f64) -> (f64, f64) {
        let model = &self.model;
        let (_, var) = step(&self.mean, &self.var, model, bins);
        let mean = self.mean[0] + self.mean[1] * reach(model.kept, bins);
        let (memory, steps) = model.passing;
        let passing = steps / (1.0 - memory * memory);
        let alike = ((1.0 + memory) / (1.0 - memory)).min(block);
        let level = var[0][0] + (passing * alike + 1.0) / block;
        (mean, level * self.scale2)
    }
}

/// Of the bins but for the outermost of many.
fn range_of(y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 16;
    sorted[sorted.len() - 1 - cut] - sorted[cut]
}

/// Of equal stretches up to the last reading, at their middles; those without a reading are left out.
fn medians(points: &[Point], width_s: f64, count: usize) -> Vec<Point> {
    let end_s = points.last().map_or(0.0, |p| p.t_s);
    let stretch = |p: &Point| (((end_s - p.t_s) / width_s) as usize).min(count - 1);
    points
        .chunk_by(|a, b| stretch(a) == stretch(b))
        .map(|part| Point {
            t_s: end_s - width_s * (stretch(&part[0]) as f64 + 0.5),
            value: median(&part.iter().map(|p| p.value).collect::<Vec<_>>()),
        })
        .collect()
}

/// Over how many of its first bins a slope that dies away has gone after so many.
fn reach(kept: f64, bins: f64) -> f64 {
    match kept < 1.0 {
        true => (1.0 - after(kept, bins)) / (1.0 - kept),
        false => bins,
    }
}

/// What is left after so many bins; nearly all are one apart.
fn after(kept: f64, bins: f64) -> f64 {
    if bins == 1.0 { kept } else { kept.powf(bins) }
}

type Matrix = [[f64; 3]; 3];

/// State (level, slope, what passes) and its variance so many bins later.
fn step(mean: &[f64; 3], var: &Matrix, model: &Model, bins: f64) -> ([f64; 3], Matrix) {
    let far = reach(model.kept, bins);
    let (kept, memory) = (after(model.kept, bins), after(model.passing.0, bins));
    let (phi, steps) = model.passing;
    let moved = [mean[0] + far * mean[1], kept * mean[1], memory * mean[2]];
    let level = var[0][0]
        + far * (2.0 * var[0][1] + far * var[1][1])
        + model.wander * bins
        + model.slope_steps * bins.powi(3) / 3.0;
    let with_slope = kept * (var[0][1] + far * var[1][1]) + model.slope_steps * bins * bins / 2.0;
    let with_passing = memory * (var[0][2] + far * var[1][2]);
    let slope = kept * kept * var[1][1] + model.slope_steps * bins;
    let both = kept * memory * var[1][2];
    let passing = memory * memory * var[2][2] + steps * (1.0 - memory * memory) / (1.0 - phi * phi);
    let next = [
        [level, with_slope, with_passing],
        [with_slope, slope, both],
        [with_passing, both, passing],
    ];
    (moved, next)
}

/// Rounds in which the scale of a fit and that of its slope's prior come to agree.
const ROUNDS: usize = 4;

/// The filter with a slope that, over the window, may raise the level by as much as all bins differ (the unit): in
/// units of the noise's variance, which follows from the fit itself.
fn with_slope(y: &[f64], gaps: &[f64], model: Model, watched: f64, scale2: f64) -> State {
    let fit = |scale2: f64| {
        let slope_var = 1.0 / (reach(model.kept, watched).powi(2) * scale2);
        filter(y, gaps, Model { slope_var, ..model })
    };
    (1..ROUNDS).fold(fit(scale2), |state, _| fit(state.scale2))
}

/// The filter over all readings; the weight is the log likelihood, the noise's variance integrated out.
fn filter(y: &[f64], gaps: &[f64], model: Model) -> State {
    let (phi, steps) = model.passing;
    let mut mean = [y[0], 0.0, 0.0];
    let passing = steps / (1.0 - phi * phi);
    let mut var = [
        [DIFFUSE, 0.0, 0.0],
        [0.0, model.slope_var, 0.0],
        [0.0, 0.0, passing],
    ];
    let (mut ln_det, mut sum2) = (0.0, 0.0);
    for (at, reading) in y.iter().enumerate() {
        if at > 0 {
            (mean, var) = step(&mean, &var, &model, gaps[at - 1]);
        }
        let with = [0, 1, 2].map(|i| var[i][0] + var[i][2]);
        let total = with[0] + with[2] + 1.0;
        let off = reading - mean[0] - mean[2];
        if at > 0 {
            ln_det += total.ln();
            sum2 += off * off / total;
        }
        for i in 0..3 {
            mean[i] += with[i] * off / total;
        }
        let gain = with.map(|w| w / total);
        for i in 0..3 {
            for j in 0..3 {
                var[i][j] -= gain[i] * with[j];
            }
        }
    }
    let df = (y.len() - 1) as f64;
    let scale2 = sum2 / df + NOISE_MIN * NOISE_MIN;
    State {
        ln_weight: -0.5 * ln_det - 0.5 * df * scale2.ln(),
        model,
        mean,
        var,
        scale2,
        df,
    }
}

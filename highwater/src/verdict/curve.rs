//! From bins to an opinion: how much of the weight of all candidate curves lies on each label, and what
//! they say together of slope, level and asymptote.

use std::collections::BTreeMap;

use super::{Estimate, Label, Rules};
use crate::analyse::bins::Bin;
use crate::analyse::fit::{Candidate, Fit, Guess, Window, fit, fit_few, sketch};
use crate::analyse::mixture::{Mixture, Part};
use crate::analyse::order::median;
use crate::analyse::shapes::{Bounded, Family, Shapes, shapes, simple_shapes};
use crate::analyse::student::t_cdf;
use crate::analyse::trace::Sketch;

/// A day, for the cycle that nearly every service has.
const DAY_S: f64 = 86_400.0;

/// Weights of the labels; with `open` they add up to one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weights {
    pub flat: f64,
    pub plateauing: f64,
    pub growing: f64,
    pub stepped: f64,
    /// Rising, but whether it will bend is not in the window.
    pub open: f64,
}

impl Weights {
    /// The leading label with its weight; `Insufficient` when the open mass leads.
    pub fn leader(&self) -> (Label, f64) {
        [
            (Label::Flat, self.flat),
            (Label::Plateauing, self.plateauing),
            (Label::Growing, self.growing),
            (Label::Stepped, self.stepped),
            (Label::Insufficient, self.open),
        ]
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((Label::Insufficient, 0.0))
    }

    /// Weight of all bounded labels together.
    pub fn bounded(&self) -> f64 {
        self.flat + self.plateauing + self.stepped
    }

    /// A rise that began late (the last `watched` share of the window) is said to go on by as many of the
    /// readings as have watched it; the rest is open.
    fn as_watched(self, readings: f64, watched: f64) -> Weights {
        if watched >= 1.0 {
            return self;
        }
        let goes_on = self.growing * (1.0 - WATCHED_HALF / (readings * watched)).max(0.0);
        Weights {
            growing: goes_on,
            open: self.open + (self.growing - goes_on),
            ..self
        }
    }

    fn add(&mut self, other: &Weights, times: f64) {
        self.flat += times * other.flat;
        self.plateauing += times * other.plateauing;
        self.growing += times * other.growing;
        self.stepped += times * other.stepped;
        self.open += times * other.open;
    }
}

/// A rise that began within the window and that so many readings have watched is as likely to end soon as to go
/// on. Half of the early calls of a rise that ends later were of one that had begun late.
const WATCHED_HALF: f64 = 6.0;

/// What all candidates say together, in the unit of the series and seconds.
#[derive(Debug, Clone, Default)]
pub struct Opinion {
    pub weights: Weights,
    /// Weight of every family of shapes.
    pub families: BTreeMap<Family, f64>,
    /// Slope at the end, per second, among the candidates of each side.
    pub slope_growing: Mixture,
    pub slope_all: Mixture,
    pub level: Mixture,
    pub asymptote: Mixture,
    /// Rise over the window of what has no bound, as a share of the level.
    pub growth_share: Mixture,
    /// Log of the summed weights: compares ways to look at the same bins.
    pub ln_evidence: f64,
    pub window_s: f64,
    pub bins: usize,
    /// Where and by how much, of the best stepped candidate.
    pub steps: Vec<(f64, f64)>,
    /// What a picture needs.
    pub drawn: Drawn,
}

/// The candidates as they can be drawn: scaled, on the clock of the window.
#[derive(Debug, Clone, Default)]
pub struct Drawn {
    pub sketch: Sketch,
    /// Seconds of the clock from 0 to 1.
    pub span_s: f64,
    /// Value of a scaled 0, and of one scaled unit.
    pub shift: f64,
    pub scale: f64,
    /// Where the clock is 0 for each incarnation, and its first and last bin, seconds of the series.
    pub lives: Vec<(f64, f64, f64)>,
}

/// How the bins are to be looked at.
#[derive(Debug, Clone, Default)]
pub struct View<'a> {
    pub bins: &'a [Bin],
    /// Judge every incarnation on its own uptime, or all on one clock.
    pub by_uptime: bool,
    /// Periods (seconds) whose first two harmonics are nuisance.
    pub periods_s: &'a [f64],
    /// Length of one bin, seconds.
    pub width_s: f64,
    /// The level that shares are taken of, when it is not that of the bins (the floors of a saw).
    pub level: Option<f64>,
    /// Grain of the readings; 0 when they are not coarse.
    pub grain: f64,
    /// A handful of points: only the simplest shapes.
    pub few: bool,
}

struct Scaled {
    /// A step below this height (in scaled units) may be the grain of the readings.
    grain: f64,
    window: Window,
    /// Unit of x and y: seconds per window, and the unit of values per scaled unit.
    span_s: f64,
    scale: f64,
    shift: f64,
    level: f64,
    start_s: f64,
    /// Readings in all bins.
    readings: f64,
}

/// Forms the opinion; `None` when there are too few bins, or no time passes.
pub fn opinion(view: &View, rules: &Rules) -> Option<Opinion> {
    let (scaled, candidates) = set_up(view)?;
    let fitted = if view.few {
        fit_few(&scaled.window, &candidates)
    } else {
        fit(&scaled.window, &candidates)
    };
    if fitted.candidates.is_empty() {
        return None;
    }
    let mut said = weigh(&fitted, &scaled, rules);
    said.steps = steps_of(&fitted, &scaled);
    said.drawn = Drawn {
        span_s: scaled.span_s,
        shift: scaled.shift,
        scale: scaled.scale,
        lives: lives_of(view),
        sketch: Sketch::of(scaled.window, fitted),
    };
    Some(said)
}

/// Birth, first and last bin of each incarnation; all as one life where they are judged on one clock.
fn lives_of(view: &View) -> Vec<(f64, f64, f64)> {
    let mut lives: Vec<(f64, f64, f64)> = Vec::new();
    let mut known = None;
    for bin in view.bins {
        let incarnation = if view.by_uptime { bin.incarnation } else { 0 };
        match lives.last_mut().filter(|_| known == Some(incarnation)) {
            Some(life) => life.2 = bin.t_s,
            None => {
                let born = if view.by_uptime {
                    bin.t_s - bin.uptime_s
                } else {
                    bin.t_s
                };
                lives.push((born, bin.t_s, bin.t_s));
            }
        }
        known = Some(incarnation);
    }
    lives
}

/// Log evidence of one way to look at the bins, from a sparse choice of shapes: to be compared with that
/// of another way to look at the same bins. Minus infinity when nothing can be fitted.
pub fn evidence(view: &View) -> f64 {
    set_up(view).map_or(f64::NEG_INFINITY, |(scaled, candidates)| {
        sketch(&scaled.window, &candidates).ln_evidence
    })
}

fn set_up(view: &View) -> Option<(Scaled, Shapes)> {
    let scaled = scale(view)?;
    if view.few {
        return Some((scaled, simple_shapes()));
    }
    let single = !view.by_uptime || view.bins.iter().all(|b| b.incarnation == 0);
    let steps_at: Vec<f64> = if single {
        // Two bins on either side: one alone is as well a spike, with which a series of spikes may begin or end.
        let x = &scaled.window.x;
        let inner = x.get(1..x.len().saturating_sub(1)).unwrap_or_default();
        inner.windows(2).map(|w| 0.5 * (w[0] + w[1])).collect()
    } else {
        Vec::new()
    };
    let day = DAY_S / scaled.span_s;
    let half_a_day = (0.4..2.4).contains(&day) && view.periods_s.is_empty();
    let candidates = shapes(&steps_at, half_a_day.then_some(day));
    Some((scaled, candidates))
}

fn scale(view: &View) -> Option<Scaled> {
    let bins = view.bins;
    let (first, last) = (bins.first()?, bins.last()?);
    let clock = |b: &Bin| {
        if view.by_uptime {
            b.uptime_s
        } else {
            b.t_s - first.t_s
        }
    };
    let span_s = bins.iter().map(clock).fold(0.0, f64::max);
    let values: Vec<f64> = bins.iter().map(|b| b.value).collect();
    let tail = values.len() - values.len().div_ceil(5);
    let level = view.level.unwrap_or_else(|| median(&values[tail..]));
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if bins.len() < 5 || span_s <= 0.0 || level <= 0.0 {
        return None;
    }
    // A flat line must not make its own dust the unit: a thousandth of the level is the least range.
    let scale = (high - low).max(1e-3 * level);
    let usual = bins.iter().map(|b| b.count as f64).sum::<f64>() / bins.len() as f64;
    let gap = |i: usize| -> f64 {
        let same = i > 0 && (bins[i].incarnation == bins[i - 1].incarnation || !view.by_uptime);
        if same {
            (bins[i].t_s - bins[i - 1].t_s) / view.width_s
        } else {
            f64::INFINITY
        }
    };
    let window = Window {
        x: bins.iter().map(|b| clock(b) / span_s).collect(),
        y: values.iter().map(|v| (v - low) / scale).collect(),
        gap: (0..bins.len()).map(gap).collect(),
        thin: bins.iter().map(|b| usual / b.count as f64).collect(),
        nuisance: harmonics(view),
        now: (clock(last) / span_s).clamp(0.3, 1.0),
        floor: floor_of(view.grain, scale, level),
        reach: 1.0,
    };
    Some(Scaled {
        grain: GRAINS * view.grain / scale,
        window,
        span_s,
        scale,
        shift: low,
        level,
        start_s: first.t_s,
        // Of floors there is one a tooth: a tooth is more than a reading.
        readings: if view.few {
            f64::INFINITY
        } else {
            usual * bins.len() as f64
        },
    })
}

/// No residual is known better than the grain of the readings, a three-thousandth of the level, or a
/// hundredth of the range: no real curve is exactly a formula.
fn floor_of(grain: f64, scale: f64, level: f64) -> f64 {
    // What is rounded to a grain is off by 0.29 grains (the deviation of an even distribution).
    (0.29 * grain.min(0.2 * scale))
        .max(3e-4 * level)
        .max(5e-3 * scale)
        / scale
}

fn harmonics(view: &View) -> Vec<Vec<f64>> {
    let mut columns = Vec::new();
    for period in view.periods_s {
        for harmonic in [1.0, 2.0] {
            let omega = harmonic * std::f64::consts::TAU / period;
            if period / harmonic < 2.2 * view.width_s {
                continue;
            }
            columns.push(view.bins.iter().map(|b| (omega * b.t_s).sin()).collect());
            columns.push(view.bins.iter().map(|b| (omega * b.t_s).cos()).collect());
        }
    }
    columns
}

/// Share of a Student's t above `bar`.
fn above(guess: Guess, bar: f64, df: f64) -> f64 {
    if guess.se <= 0.0 {
        return f64::from(u8::from(guess.mean > bar));
    }
    1.0 - t_cdf((bar - guess.mean) / guess.se, df)
}

/// A fill that is nearly straight over the window still rises at its end; of curves that look so, this
/// share goes on.
const STRAIGHT: f64 = 0.5;

/// A step of fewer grains than this is what a slow drift looks like in coarse readings.
const GRAINS: f64 = 1.5;

/// Heights in scaled units from which something is said, and whether enough of a day was seen.
struct Bars {
    growth: f64,
    shift: f64,
    grain: f64,
    day_seen: bool,
}

/// Probability that one grain upwards hides growth: between two grains there is room for another.
fn behind_grain(c: &Candidate, bars: &Bars) -> f64 {
    if c.rise.mean <= 0.0 || bars.grain <= 0.0 {
        return 0.0;
    }
    let hidden = Guess {
        mean: c.rise.mean + bars.grain / GRAINS,
        se: c.rise.se,
    };
    above(hidden, bars.growth, c.df)
}

/// How one candidate spreads its weight over the labels.
fn labels_of(c: &Candidate, bars: &Bars) -> Weights {
    let (growth_bar, shift_bar) = (bars.growth, bars.shift);
    let unbounded = c.limit.is_none();
    let growing = if unbounded {
        above(c.growth, growth_bar, c.df)
    } else {
        0.0
    };
    let rest = 1.0 - growing;
    let rose = above(c.rise, shift_bar, c.df);
    let fell = above(
        Guess {
            mean: -c.rise.mean,
            se: c.rise.se,
        },
        shift_bar,
        c.df,
    );
    let mut w = Weights {
        growing,
        ..Weights::default()
    };
    match c.bounded {
        Bounded::None => {}
        Bounded::Fill => w.plateauing = rest * rose,
        Bounded::Open => w.open = rest * rose,
        Bounded::Slow => {
            w.growing = STRAIGHT * above(c.rise, growth_bar, c.df);
            w.open = (rose - w.growing).max(0.0);
        }
        Bounded::Step if c.rise.mean.abs() < bars.grain || c.may_climb_on() => {
            w.open = rest * (rose + fell).min(1.0).max(behind_grain(c, bars));
        }
        Bounded::Step if c.only_just() => {}
        Bounded::Step => w.stepped = rest * (rose + fell).min(1.0),
        Bounded::Day => w.open = if bars.day_seen { 0.0 } else { rest },
    }
    if c.rungs() == Some(2) {
        // Two rungs have a distance and no rhythm yet.
        (w.growing, w.open) = (0.0, w.open + w.growing);
    }
    w.flat = (1.0 - w.growing - w.plateauing - w.stepped - w.open).max(0.0);
    w
}

fn weigh(fitted: &Fit, scaled: &Scaled, rules: &Rules) -> Opinion {
    let bars = Bars {
        growth: rules.growth_share * scaled.level / scaled.scale,
        shift: rules.shift_share * scaled.level / scaled.scale,
        grain: scaled.grain,
        day_seen: scaled.span_s >= 1.5 * DAY_S,
    };
    let mut said = Opinion {
        ln_evidence: fitted.ln_evidence,
        window_s: scaled.span_s,
        bins: scaled.window.y.len(),
        ..Opinion::default()
    };
    let (mut growing, mut all, mut level, mut limit, mut growth) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (c, weight) in fitted.candidates.iter().zip(fitted.weights()) {
        if weight < 1e-6 {
            continue;
        }
        let labels = labels_of(c, &bars).as_watched(scaled.readings, c.watched());
        said.weights.add(&labels, weight);
        *said.families.entry(c.family).or_insert(0.0) += weight;
        let part = |g: Guess, weight: f64, unit: f64, shift: f64| Part {
            weight,
            mean: g.mean * unit + shift,
            se: g.se * unit,
            df: c.df,
        };
        let per_second = scaled.scale / scaled.span_s;
        for slope in [c.slope, c.slope_fifth] {
            growing.push(part(slope, weight * labels.growing, per_second, 0.0));
            all.push(part(slope, weight, per_second, 0.0));
        }
        level.push(part(c.end, weight, scaled.scale, scaled.shift));
        growth.push(part(c.growth, weight, scaled.scale / scaled.level, 0.0));
        if let Some(l) = c.limit {
            limit.push(part(
                l,
                weight * labels.plateauing,
                scaled.scale,
                scaled.shift,
            ));
        }
    }
    said.slope_growing = Mixture::new(growing);
    said.slope_all = Mixture::new(all);
    said.level = Mixture::new(level);
    said.asymptote = Mixture::new(limit);
    said.growth_share = Mixture::new(growth);
    said
}

fn steps_of(fitted: &Fit, scaled: &Scaled) -> Vec<(f64, f64)> {
    let best = fitted
        .candidates
        .iter()
        .filter(|c| c.bounded == Bounded::Step)
        .max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight));
    let real = |(x, by): &(f64, f64)| (scaled.start_s + x * scaled.span_s, by * scaled.scale);
    best.map_or(Vec::new(), |c| c.steps.iter().map(real).collect())
}

/// The interval of a mixture; `None` when nothing is in it.
pub fn estimate(m: &Mixture, level: f64) -> Option<Estimate> {
    if m.is_empty() {
        return None;
    }
    let tail = 0.5 * (1.0 - level);
    let (lo, hi) = (m.quantile(tail), m.quantile(1.0 - tail));
    (lo <= hi).then(|| Estimate {
        value: m.mean().clamp(lo, hi),
        lo,
        hi,
    })
}

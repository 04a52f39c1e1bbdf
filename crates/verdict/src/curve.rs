//! From bins to an opinion: how much of the weight of all candidate curves lies on each label, and what
//! they say together of slope, level and asymptote.

use std::collections::BTreeMap;

use super::coarse::{CoarseFit, DAY_S, GRAINS, Scaled, View};
use super::{Label, Rules};
use series::estimate::Estimate;
use series::fit::{Candidate, Fit};
use series::linear::Guess;
use series::mixture::{Mixture, Part};
use series::shapes::{Bounded, Family};
use series::student::t_cdf;
use series::trace::Sketch;

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
    /// The label with its weight: growing where it has `likely` and more, else the leading bounded one.
    pub fn leader(&self, likely: f64) -> (Label, f64) {
        if self.growing >= likely {
            return (Label::Growing, self.growing.min(1.0));
        }
        [
            (Label::Flat, self.flat),
            (Label::Plateauing, self.plateauing),
            (Label::Stepped, self.stepped),
        ]
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        // A sum of many shares may pass 1 by its rounding.
        .map(|(label, weight)| (label, weight.min(1.0)))
        .unwrap_or((Label::Insufficient, 0.0))
    }

    /// With the forecast as a second opinion on what comes: `rises` is its chance of a rise by the share that makes a
    /// series growing. What the curves leave open is even until it is asked, and the odds of both are multiplied.
    pub fn with_forecast(&self, rises: Option<f64>) -> Weights {
        let rises = rises.unwrap_or(0.5).clamp(SUREST, 1.0 - SUREST);
        let (up, down) = (rises, 1.0 - rises);
        let growing = up * (self.growing + 0.5 * self.open);
        let bounded = down * (self.bounded() + 0.5 * self.open);
        let all = growing + bounded;
        if all <= 0.0 {
            return *self;
        }
        Weights {
            flat: down * self.flat / all,
            // What bends after all levels off.
            plateauing: down * (self.plateauing + 0.5 * self.open) / all,
            stepped: down * self.stepped / all,
            growing: growing / all,
            open: 0.0,
        }
    }

    /// Weight of all bounded labels together.
    pub fn bounded(&self) -> f64 {
        self.flat + self.plateauing + self.stepped
    }

    fn add(&mut self, other: &Weights, times: f64) {
        self.flat += times * other.flat;
        self.plateauing += times * other.plateauing;
        self.growing += times * other.growing;
        self.stepped += times * other.stepped;
        self.open += times * other.open;
    }
}

/// The forecast is never taken for surer than this: how right its far tails are was not measured, and by them alone it
/// would overrule curves that fit a leak exactly.
const SUREST: f64 = 0.01;

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
    /// When the level went away and came back, if that is how the best candidate has it; seconds of the series.
    pub excursions: Vec<(f64, f64)>,
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

/// Forms the opinion; `None` when there are too few bins, or no time passes.
pub fn opinion(view: &View, rules: &Rules) -> Option<Opinion> {
    conclude(CoarseFit::at(view, None)?, view, rules)
}

/// The same, where a coarse fit was made.
pub fn conclude(coarse: CoarseFit, view: &View, rules: &Rules) -> Option<Opinion> {
    let (scaled, window, fitted) = coarse.fit();
    if fitted.candidates.is_empty() {
        return None;
    }
    let mut said = weigh(&fitted, &scaled, rules);
    said.bins = window.y.len();
    said.steps = steps_of(&fitted, &scaled);
    said.excursions = excursions_of(&fitted, &scaled);
    said.drawn = Drawn {
        span_s: scaled.span_s,
        shift: scaled.shift,
        scale: scaled.scale,
        lives: lives_of(view),
        sketch: Sketch::of(window, fitted),
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

/// Share of a Student's t above `bar`.
fn above(guess: Guess, bar: f64, df: f64) -> f64 {
    if guess.se <= 0.0 {
        return f64::from(u8::from(guess.mean > bar));
    }
    1.0 - t_cdf((bar - guess.mean) / guess.se, df)
}

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

/// What shifts of level say, besides what may grow between them; `rose` and `fell` are how likely the largest is one.
fn shifted(w: &mut Weights, c: &Candidate, bars: &Bars, (rose, fell): (f64, f64)) {
    let rest = 1.0 - w.growing;
    let moved = (rose + fell).min(1.0);
    if c.portions || c.may_climb_on() || c.rise.mean.abs() < bars.grain {
        w.open = rest * moved.max(behind_grain(c, bars));
    } else if !c.only_just() {
        // Between shifts of level it is flat: what bends after a step is a rise that bends.
        let bent = c.bend.map_or(0.0, |bend| above(bend, bars.shift, c.df));
        w.plateauing = rest * bent.min(rose);
        w.stepped = (rest - w.plateauing) * moved;
    }
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
    let rose = || above(c.rise, shift_bar, c.df);
    let fell = || {
        let down = Guess {
            mean: -c.rise.mean,
            se: c.rise.se,
        };
        above(down, shift_bar, c.df)
    };
    let mut w = Weights {
        growing,
        ..Weights::default()
    };
    match c.bounded {
        Bounded::None => {}
        Bounded::Fill => w.plateauing = rest * rose(),
        Bounded::Open => w.open = rest * rose(),
        Bounded::Step => shifted(&mut w, c, bars, (rose(), fell())),
        Bounded::Day => w.open = if bars.day_seen { 0.0 } else { rest },
    }
    if c.rungs() == Some(2) {
        // Two rungs have a distance and no rhythm yet.
        (w.growing, w.open) = (0.0, w.open + w.growing);
    }
    if let Some(sawtooth) = c.sawtooth {
        // Only from a floor into a climb that has not ended.
        let of_floors = above(sawtooth.growth, growth_bar, c.df);
        let climbing = (w.growing - of_floors).max(0.0);
        (w.growing, w.open) = (
            w.growing - climbing,
            w.open + climbing * (1.0 - sawtooth.by_threshold),
        );
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
        ..Opinion::default()
    };
    let (mut growing, mut all, mut level, mut limit, mut growth) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (c, weight) in fitted.candidates.iter().zip(fitted.weights()) {
        if weight < 1e-6 {
            continue;
        }
        let labels = labels_of(c, &bars);
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

fn excursions_of(fitted: &Fit, scaled: &Scaled) -> Vec<(f64, f64)> {
    let by_weight = |a: &&Candidate, b: &&Candidate| a.ln_weight.total_cmp(&b.ln_weight);
    let best = fitted.candidates.iter().max_by(by_weight);
    let real = |x: f64| scaled.start_s + x * scaled.span_s;
    best.map_or(Vec::new(), |c| {
        let both = c
            .excursions
            .iter()
            .map(|(from, to)| (real(*from), real(*to)));
        both.collect()
    })
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

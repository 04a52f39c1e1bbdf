//! A labelled series, and the dirt that real series carry.

use series::series::{Point, Series};
use verdict::Label;

use crate::dice::Dice;

pub const DAY_S: f64 = 86_400.0;
pub const MIB: f64 = 1_048_576.0;

/// A part of a window (0 to 1) to a value.
pub type Curve = Box<dyn Fn(f64) -> f64>;

/// What is true of a case. Labels follow docs/explanation/series.md literally.
pub struct Truth {
    pub accept: Vec<Label>,
    pub grows: bool,
    /// Has a load cycle: while it has not grown, it is a sawtooth.
    pub cyclic: bool,
    /// Slope at the end, per hour, when it grows.
    pub slope_per_hour: Option<f64>,
    /// Where it is heading, when it plateaus.
    pub asymptote: Option<f64>,
    /// Largest growth up to a part of the window, as a share of the level then.
    pub growth_so_far: Curve,
}

impl Truth {
    /// Labels that are right of the first `part` of the window.
    pub fn right_at(&self, part: f64, label: Label) -> bool {
        let small = (self.growth_so_far)(part) < 0.03;
        let still = label == Label::Flat || (self.cyclic && label == Label::Sawtooth);
        self.accept.contains(&label) || (small && still)
    }

    /// A call on the wrong side: growing of what is bounded, bounded of what grows.
    pub fn wrong_side(&self, part: f64, label: Label) -> bool {
        match label {
            Label::Insufficient => false,
            _ if self.right_at(part, label) => false,
            Label::Growing => !self.grows,
            _ => self.grows,
        }
    }

    /// Whether the first `part` alone is growing by the word's own meaning: up by 3 % of the level or more, and in both of
    /// its last two fifths at nine tenths of its mean pace or faster.
    pub fn rises_until(&self, part: f64) -> bool {
        let risen = |x: f64| {
            let share = (self.growth_so_far)(x * part);
            share / (1.0 - share).max(0.05)
        };
        let pace = |from: f64, to: f64| (risen(to) - risen(from)) / (to - from);
        let mean = pace(0.0, 1.0);
        let goes_on = [(0.6, 0.8), (0.8, 1.0)].map(|(from, to)| pace(from, to) >= 0.9 * mean);
        (self.growth_so_far)(part) >= 0.03 && mean > 0.0 && goes_on == [true, true]
    }
}

pub struct Case {
    pub family: &'static str,
    pub series: Series,
    pub truth: Truth,
}

/// The frame of a series: how long, how dense, how large.
pub struct Frame {
    pub times: Vec<f64>,
    pub span_s: f64,
    pub level: f64,
}

impl Frame {
    /// Minutes to six weeks, 80 to 1500 samples, 5 MiB to 20 GiB.
    pub fn draw(dice: &mut Dice) -> Frame {
        let span_s = dice.log_between(240.0, 42.0 * DAY_S);
        Frame::of_span(dice, span_s)
    }

    pub fn days(dice: &mut Dice, lo: f64, hi: f64) -> Frame {
        let span_s = dice.log_between(lo, hi) * DAY_S;
        Frame::of_span(dice, span_s)
    }

    fn of_span(dice: &mut Dice, span_s: f64) -> Frame {
        let n = if dice.chance(0.5) {
            300.0
        } else {
            dice.log_between(80.0, 1500.0)
        };
        let step = span_s / n;
        let start = if dice.chance(0.3) {
            1.7e9 + dice.between(0.0, 1e7)
        } else {
            0.0
        };
        let jitter = if dice.chance(0.4) { 0.3 } else { 0.0 };
        let at = |i: usize, dice: &mut Dice| {
            start + (i as f64 + jitter * dice.between(-0.5, 0.5)) * step
        };
        let times = (0..n as usize).map(|i| at(i, dice)).collect();
        Frame {
            times,
            span_s,
            level: dice.log_between(5.0 * MIB, 20_480.0 * MIB),
        }
    }

    pub fn x(&self, t_s: f64) -> f64 {
        ((t_s - self.times[0]) / self.span_s).clamp(0.0, 1.0)
    }

    pub fn hours(&self) -> f64 {
        self.span_s / 3600.0
    }
}

/// Noise of deviation 1, kinds as in real series.
pub struct Noise {
    kind: usize,
    phi: f64,
    state: f64,
}

impl Noise {
    pub fn white(dice: &mut Dice) -> Noise {
        Noise {
            kind: dice.whole(0, 1),
            phi: 0.0,
            state: 0.0,
        }
    }

    pub fn heavy(dice: &mut Dice) -> Noise {
        Noise {
            kind: dice.whole(2, 3),
            phi: 0.0,
            state: 0.0,
        }
    }

    pub fn memory(dice: &mut Dice, lo: f64, hi: f64) -> Noise {
        // Even on the logarithm of what is forgotten.
        let phi = 1.0 - dice.log_between(1.0 - hi, 1.0 - lo);
        let state = dice.normal();
        Noise {
            kind: 0,
            phi,
            state,
        }
    }

    pub fn any(dice: &mut Dice) -> Noise {
        match dice.whole(0, 5) {
            0 | 1 => Noise::white(dice),
            2 => Noise::heavy(dice),
            _ => Noise::memory(dice, 0.2, 0.95),
        }
    }

    pub fn next(&mut self, dice: &mut Dice) -> f64 {
        let fresh = match self.kind {
            0 => dice.normal(),
            1 => 12f64.sqrt() * (dice.unit() - 0.5),
            2 => dice.heavy(),
            _ => dice.exponential() - 1.0,
        };
        self.state = self.phi * self.state + (1.0 - self.phi * self.phi).sqrt() * fresh;
        self.state
    }
}

/// Dirt: gaps, missing and doubled samples, disorder, zeros, lone spikes, quantisation.
pub fn soil(dice: &mut Dice, points: &mut Vec<Point>) {
    let n = points.len();
    if dice.chance(0.15) {
        let from = dice.whole(n / 10, n / 2);
        let to = from + (n as f64 * dice.between(0.05, 0.25)) as usize;
        points.drain(from..to.min(n - 4));
    }
    if dice.chance(0.15) {
        let share = dice.between(0.02, 0.2);
        points.retain(|_| !dice.chance(share));
    }
    if dice.chance(0.12) {
        let times = dice.between(1.3, 3.0);
        for p in points.iter_mut().filter(|_| dice.chance(0.01)) {
            p.value *= times;
        }
    }
    if dice.chance(0.1) {
        for p in points.iter_mut().filter(|_| dice.chance(0.01)) {
            p.value = 0.0;
        }
    }
    if dice.chance(0.1) {
        for _ in 0..3 {
            let copy = points[dice.whole(0, points.len() - 1)];
            points.push(copy);
        }
    }
    if dice.chance(0.2) {
        let grain = dice.pick(&[4096.0, 1024.0 * 64.0, MIB]);
        quantise(points, grain);
    }
}

pub fn quantise(points: &mut [Point], grain: f64) {
    for p in points {
        // Not finer than it can be told: a level of 5 MiB in steps of 1 MiB says nothing.
        if grain < 0.01 * p.value {
            p.value = (p.value / grain).round() * grain;
        }
    }
}

/// Values at every time: `level x (1 + trend) x (1 + cycle) + noise`.
pub fn sample(
    dice: &mut Dice,
    frame: &Frame,
    noise: &mut Noise,
    noise_share: f64,
    value: &dyn Fn(f64, f64) -> f64,
) -> Vec<Point> {
    frame
        .times
        .iter()
        .map(|&t_s| {
            let clean = value(frame.x(t_s), t_s);
            let value = clean + frame.level * noise_share * noise.next(dice);
            Point {
                t_s,
                value: value.max(0.02 * frame.level),
            }
        })
        .collect()
}

/// Growth so far of a smooth trend (relative to the level): from its start to its highest.
pub fn growth_of(trend: impl Fn(f64) -> f64 + 'static) -> Curve {
    Box::new(move |part| {
        let start = trend(0.0);
        let high = (0..=50)
            .map(|i| trend(part * f64::from(i) / 50.0))
            .fold(start, f64::max);
        let low = (0..=50)
            .map(|i| trend(part * f64::from(i) / 50.0))
            .fold(start, f64::min);
        (high - low) / (1.0 + trend(part)).max(0.05)
    })
}

//! Loads: what comes and goes on top of a trend. Curves over 0 to 2 windows, so that a process may be shifted by one.

use std::f64::consts::TAU;

use crate::dice::Dice;
use crate::family::{Collector, Form, Load, Maybe, or};
use crate::shape::Curve;

/// A drawn load.
pub struct Drawn {
    pub curve: Curve,
    pub swing: f64,
    /// Length of one turn where all are alike, in windows.
    pub period: Option<f64>,
    /// The clock drives it: it is the same for all processes.
    pub is_shared: bool,
    /// Turns again and again.
    pub is_cycle: bool,
}

pub fn draw(load: &Load, days: f64, trend: &dyn Fn(f64) -> f64, dice: &mut Dice) -> Drawn {
    let mut drawn = match load {
        Load::Day {
            swing,
            form,
            weekend,
            uneven,
        } => day(swing.draw(dice), *form, (weekend, uneven), days, dice),
        Load::Cycle {
            turns,
            hours,
            swing,
            form,
            duty,
        } => {
            let hours = hours.as_ref().map(|hours| days * 24.0 / hours.draw(dice));
            let turns = hours.unwrap_or_else(|| or(turns, 10.0, dice));
            let (swing, phase) = (swing.draw(dice), dice.unit());
            let (form, duty) = (*form, or(duty, 0.5, dice));
            let curve: Curve = Box::new(move |x| swing * turn(form, x * turns + phase, duty));
            drawn(curve, swing, Some(1.0 / turns))
        }
        Load::Collector(spec) => collector(spec, trend, dice),
        Load::Trim { count, depth, tau } => {
            let (count, tau) = (2 * count.count(dice), tau.draw(dice));
            let mut event = || (2.0 * dice.unit(), depth.draw(dice));
            let events: Vec<(f64, f64)> = (0..count).map(|_| event()).collect();
            let swing = events.iter().map(|e| e.1).fold(0.0, f64::max);
            let low = move |x: f64, e: &(f64, f64)| e.1 * (-(x - e.0) / tau).exp();
            let at = move |x: f64| {
                let past = events.iter().filter(|e| e.0 <= x).map(|e| low(x, e));
                -past.fold(0.0, f64::max)
            };
            drawn(Box::new(at), swing, None)
        }
        Load::Jobs {
            count,
            height,
            length,
        } => {
            let count = count.count(dice);
            let mut job = || {
                (
                    dice.between(0.02, 0.93),
                    length.draw(dice),
                    height.draw(dice),
                )
            };
            let jobs: Vec<(f64, f64, f64)> = (0..count).map(|_| job()).collect();
            let swing = jobs.iter().map(|j| j.2).fold(0.0, f64::max);
            let at = move |x: f64| {
                let now = jobs.iter().filter(|j| (j.0..j.0 + j.1).contains(&x));
                now.map(|j| j.2).sum()
            };
            drawn(Box::new(at), swing, None)
        }
    };
    drawn.is_shared = matches!(load, Load::Day { .. });
    drawn.is_cycle = !matches!(load, Load::Jobs { .. });
    drawn
}

fn drawn(curve: Curve, swing: f64, period: Option<f64>) -> Drawn {
    Drawn {
        curve,
        swing,
        period,
        is_shared: false,
        is_cycle: true,
    }
}

/// One turn, between 0 and 1.
fn turn(form: Form, at: f64, duty: f64) -> f64 {
    let part = at.rem_euclid(1.0);
    let wave = 0.5 - 0.5 * (TAU * at).cos();
    match form {
        Form::Peak => wave.powi(3),
        Form::Office => 1.0 / (1.0 + (-12.0 * (wave - 0.5)).exp()),
        Form::TwoShifts => (2.0 * TAU * at).sin().max(-0.3),
        Form::Square => f64::from(u8::from(part < duty)),
        Form::Triangle if part < duty => part / duty,
        Form::Triangle => (1.0 - part) / (1.0 - duty),
        Form::Any | Form::Wave => wave,
    }
}

fn day(
    swing: f64,
    form: Form,
    (weekend, uneven): (&Maybe, &Maybe),
    days: f64,
    dice: &mut Dice,
) -> Drawn {
    let rest = or(weekend, 1.0, dice);
    let form = match form {
        Form::Any => dice.pick(&[Form::Wave, Form::Wave, Form::Peak, Form::Office]),
        known => known,
    };
    let (phase, second) = (dice.between(0.0, 7.0), dice.pick(&[0.0, 0.0, 0.2, 0.4]));
    let uneven = or(uneven, 0.0, dice);
    let own: Vec<f64> = (0..80)
        .map(|_| 1.0 + uneven * dice.between(-1.0, 1.0))
        .collect();
    let curve = move |x: f64| {
        let at = phase + x * days;
        let busy = if at % 7.0 < 5.0 { 1.0 } else { rest };
        let hour = turn(form, at, 0.5) + second * (2.0 * TAU * at).sin().max(0.0);
        swing * busy * own[at as usize % 80] * hour
    };
    drawn(Box::new(curve), swing, Some(1.0 / days))
}

/// Climbs from what is live to a threshold, again and again.
fn collector(spec: &Collector, trend: &dyn Fn(f64) -> f64, dice: &mut Dice) -> Drawn {
    let (turns, height) = (spec.turns.draw(dice), spec.height.draw(dice));
    let (uneven, quicken) = (or(&spec.uneven, 0.0, dice), or(&spec.quicken, 1.0, dice));
    let (old, bend) = (or(&spec.old, 0.0, dice), or(&spec.bend, 1.0, dice));
    let count = spec
        .regimes
        .as_ref()
        .map_or(1, |regimes| regimes.count(dice).max(1));
    let spread = |dice: &mut Dice| {
        if count > 1 {
            dice.between(0.6, 1.6)
        } else {
            1.0
        }
    };
    let kinds: Vec<(f64, f64)> = (0..count).map(|_| (spread(dice), spread(dice))).collect();
    let mut from = -dice.unit() / turns;
    let mut climbs = Vec::new();
    for i in 0.. {
        if from > 2.0 {
            break;
        }
        let now = from.clamp(0.0, 1.0);
        let kind = kinds[((now * count as f64) as usize).min(count - 1)];
        let own = (1.0 + uneven * dice.normal()).max(0.4);
        let live = if spec.follows_live {
            1.0 + trend(now)
        } else {
            1.0
        };
        let long = kind.0 * own * live / turns / (1.0 + (quicken - 1.0) * now);
        let kept = height * old * f64::from(i % 4);
        climbs.push((from, long, height * kind.1 * own * live, kept));
        from += long;
    }
    let curve = move |x: f64| {
        let (from, long, top, kept) = climbs[climbs.partition_point(|c| c.0 <= x).max(1) - 1];
        kept + top * ((x - from) / long).clamp(0.0, 1.0).powf(bend)
    };
    drawn(Box::new(curve), height, None)
}

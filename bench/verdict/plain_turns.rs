//! The families of the set *plain* in which something comes and goes: loads, collectors, steps, lives.

use std::f64::consts::TAU;

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::dice::Dice;
use crate::plain::{audible, clock, soften};
use crate::scene::Drawn;
use crate::strange::story;

/// A clock over days, at 5 minutes to 2 hours.
pub fn days(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let days = dice.between(lo, hi);
    let step = dice.pick(&[300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0]);
    let n = (days * 86_400.0 / step).floor().clamp(60.0, 5000.0);
    let x = (0..n as usize).map(|i| i as f64 / n).collect();
    (x, days * 86_400.0)
}

/// Adds a wave of a day (half of them with a second harmonic), less of it on two days of seven if it is weekly.
pub fn swing(dice: &mut Dice, drawn: &mut Drawn, height: f64, weekly: bool) {
    let (phase, rest) = (dice.between(0.0, 7.0), dice.between(0.2, 0.7));
    let second = if dice.chance(0.5) {
        0.4 * dice.unit()
    } else {
        0.0
    };
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = phase + x * drawn.span_s / 86_400.0;
        let wave = (TAU * day).sin() + second * (2.0 * TAU * day).cos();
        let busy = if weekly && day % 7.0 >= 5.0 {
            rest
        } else {
            1.0
        };
        *value += 0.5 * height * busy * (1.0 + wave);
    }
    drawn.cyclic = true;
}

/// A trend of size `by` over days, with a swing and noise.
fn by_days(
    dice: &mut Dice,
    (lo, hi): (f64, f64),
    accept: &'static [Label],
    by: f64,
    f: impl Fn(f64) -> f64 + 'static,
) -> Drawn {
    let height = dice.log_between(0.05, 0.6);
    let clock = days(dice, lo, hi);
    let most = audible(by, clock.0.len(), 0.0);
    let share = (height * dice.log_between(0.02, 0.2)).min(most);
    let drawn = story(clock, accept, move |x| by * f(x));
    let mut drawn = soften(dice, drawn, share, 0.0);
    swing(dice, &mut drawn, height, lo > 10.0);
    drawn
}

/// No trend.
const NONE: f64 = f64::INFINITY;

fn only_days(dice: &mut Dice, range: (f64, f64)) -> Drawn {
    let mut drawn = by_days(dice, range, &[Sawtooth, Flat], 0.05, |_| 0.0);
    drawn.slope = None;
    drawn
}

pub fn daily(dice: &mut Dice) -> Drawn {
    only_days(dice, (3.0, 14.0))
}

pub fn daily_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.06, 1.5);
    by_days(dice, (3.0, 14.0), &[Growing], by, |x| x)
}

pub fn daily_fill(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.1, 1.5), dice.log_between(0.05, 0.2));
    let f = move |x: f64| 1.0 - (-x / tau).exp();
    by_days(dice, (4.0, 14.0), &[Plateauing], by, f)
}

pub fn weekly(dice: &mut Dice) -> Drawn {
    only_days(dice, (18.0, 42.0))
}

pub fn weekly_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.08, 1.5);
    by_days(dice, (18.0, 42.0), &[Growing], by, |x| x)
}

/// A wave of 8 to 60 turns.
fn wave(dice: &mut Dice, accept: &'static [Label], by: f64) -> Drawn {
    let turns = dice.log_between(8.0, 60.0);
    let clock = clock(dice, (12.0 * turns, 3000.0));
    let height = dice.log_between(0.04, 0.6);
    let most = audible(by, clock.0.len(), 0.0);
    let share = (height * dice.log_between(0.02, 0.2)).min(most);
    let rise = if by == NONE { 0.0 } else { by };
    let drawn = story(clock, accept, move |x| rise * x);
    let mut drawn = soften(dice, drawn, share, 0.0);
    let phase = dice.unit();
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        *value += 0.5 * height * (1.0 + (TAU * (x * turns + phase)).sin());
    }
    drawn.cyclic = true;
    drawn
}

pub fn short_cycle(dice: &mut Dice) -> Drawn {
    wave(dice, &[Sawtooth, Flat], NONE)
}

pub fn short_cycle_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.06, 1.5);
    wave(dice, &[Growing], by)
}

/// Garbage up to a threshold, then down to what is live; the threshold wavers by up to a tenth.
fn teeth(dice: &mut Dice, accept: &'static [Label], by: f64) -> Drawn {
    let teeth = dice.log_between(6.0, 60.0);
    let clock = clock(dice, ((10.0 * teeth).max(100.0), 3000.0));
    let height = dice.log_between(0.08, 1.5);
    let wavers = dice.between(0.0, 0.1);
    let mut drawn = story(clock, accept, move |x| by * x);
    let (mut from, mut own) = (-dice.unit() / teeth, 1.0 / teeth);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        while *x >= from + own {
            from += own;
            own = (1.0 + wavers * dice.normal()).max(0.5) / teeth;
        }
        *value += height * (x - from) * teeth;
    }
    drawn.cyclic = true;
    let share = height * dice.log_between(0.002, 0.03);
    soften(dice, drawn, share, 0.0)
}

pub fn collector(dice: &mut Dice) -> Drawn {
    teeth(dice, &[Sawtooth, Flat], 0.0)
}

pub fn collector_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.2, 2.0);
    teeth(dice, &[Growing], by)
}

/// Its heap ends well below the limit of its container.
pub fn collector_limit(dice: &mut Dice) -> Drawn {
    let mut drawn = teeth(dice, &[Sawtooth, Flat], 0.0);
    let peak = drawn.values.iter().copied().fold(0.0, f64::max);
    drawn.limit = Some(peak / dice.between(0.4, 0.8));
    drawn
}

fn stairs(dice: &mut Dice, steps: Vec<(f64, f64)>) -> Drawn {
    let least = steps.iter().map(|s| s.1.abs()).fold(f64::MAX, f64::min);
    let clock = clock(dice, (100.0, 2000.0));
    let share = least * dice.log_between(0.01, 0.25);
    let f = move |x: f64| steps.iter().filter(|s| s.0 <= x).map(|s| s.1).sum();
    soften(dice, story(clock, &[Stepped], f), share, 0.0)
}

pub fn one_step(dice: &mut Dice) -> Drawn {
    let down = if dice.chance(0.4) { -0.4 } else { 1.0 };
    let by = dice.log_between(0.05, 1.0) * down;
    let at = dice.between(0.12, 0.88);
    stairs(dice, vec![(at, by)])
}

/// Two to four, in either direction, none within a tenth of another.
pub fn steps(dice: &mut Dice) -> Drawn {
    let count = dice.whole(2, 4);
    let place = |i: usize, dice: &mut Dice| (i as f64 + dice.between(0.3, 0.8)) / count as f64;
    let mut up = dice.chance(0.6);
    let steps = (0..count).map(|i| {
        let by = dice.log_between(0.05, 0.4) * if up { 1.0 } else { -0.5 };
        up = !up || dice.chance(0.3);
        (place(i, dice), by)
    });
    let steps = steps.collect();
    stairs(dice, steps)
}

/// Births at even or uneven distances, one to six.
fn births(dice: &mut Dice) -> Vec<f64> {
    let (count, even) = (dice.whole(1, 6), dice.chance(0.4));
    let part = 1.0 / (count as f64 + 1.0);
    (1..=count)
        .map(|i| part * (i as f64 + if even { 0.0 } else { dice.between(-0.4, 0.4) }))
        .collect()
}

/// Lives of one curve over their own age in windows.
fn lives(
    dice: &mut Dice,
    born: Vec<f64>,
    accept: &'static [Label],
    share: f64,
    f: impl Fn(f64) -> f64 + 'static,
) -> Drawn {
    let clock = clock(dice, (150.0, 3000.0));
    let slope = (f(0.1) - f(0.09)) / 0.01;
    let age = move |x: f64| x - born.iter().copied().filter(|b| *b <= x).fold(0.0, f64::max);
    let mut drawn = story(clock, accept, move |x| f(age(x)));
    drawn.slope = accept.contains(&Growing).then_some(slope);
    soften(dice, drawn, share, 0.0)
}

fn leaking(dice: &mut Dice, born: Vec<f64>) -> Drawn {
    let by = dice.log_between(0.5, 6.0);
    let share = by * dice.log_between(0.002, 0.03);
    lives(dice, born, &[Growing], share, move |age| by * age)
}

pub fn told_leak(dice: &mut Dice) -> Drawn {
    let born = births(dice);
    let mut drawn = leaking(dice, born.clone());
    drawn.restarts = born;
    drawn
}

pub fn told_fill(dice: &mut Dice) -> Drawn {
    let (by, born) = (dice.log_between(0.1, 2.0), births(dice));
    let tau = dice.between(0.05, 0.25) / (born.len() as f64 + 1.0);
    let share = by * dice.log_between(0.003, 0.05);
    let f = move |age: f64| by * (1.0 - (-age / tau).exp());
    let mut drawn = lives(dice, born.clone(), &[Plateauing, Flat], share, f);
    drawn.restarts = born;
    drawn
}

pub fn told_flat(dice: &mut Dice) -> Drawn {
    let (share, born) = (dice.log_between(0.0005, 0.02), births(dice));
    let mut drawn = lives(dice, born.clone(), &[Flat], share, |_| 0.0);
    drawn.restarts = born;
    drawn
}

/// Uneven, so that no threshold of a collector has ended them; each life grows by a third of the level or more.
pub fn untold_leak(dice: &mut Dice) -> Drawn {
    let count = dice.whole(1, 4);
    let part = 1.0 / (count as f64 + 1.0);
    let born = (1..=count).map(|i| part * (i as f64 + dice.between(-0.4, 0.4)));
    let born: Vec<f64> = born.collect();
    let by = dice.log_between(0.35, 2.0) / part;
    let share = by * dice.log_between(0.002, 0.015);
    lives(dice, born, &[Growing], share, move |age| by * age)
}

/// A process that is back where it was within a few readings.
pub fn untold_flat(dice: &mut Dice) -> Drawn {
    let (low, born) = (dice.between(0.1, 0.6), births(dice));
    let tau = dice.log_between(0.001, 0.006);
    let share = dice.log_between(0.0005, 0.02);
    let first = born[0];
    let clock = clock(dice, (150.0, 3000.0));
    let f = move |x: f64| {
        let age = x - born.iter().copied().filter(|b| *b <= x).fold(0.0, f64::max);
        if x < first {
            0.0
        } else {
            -low * (-age / tau).exp()
        }
    };
    let accept = &[Flat, Sawtooth, Plateauing];
    let mut drawn = story(clock, accept, f);
    drawn.growth = Box::new(|_| 0.0);
    drawn.cyclic = true;
    soften(dice, drawn, share, 0.0)
}

/// Straight up to the limit, again and again; the limit is known.
pub fn oom(dice: &mut Dice) -> Drawn {
    let (kills, top) = (dice.between(1.3, 10.0), dice.log_between(0.5, 8.0));
    let born: Vec<f64> = (1..=kills as usize).map(|i| i as f64 / kills).collect();
    let share = top * dice.log_between(0.001, 0.01);
    let mut drawn = lives(dice, born, &[Growing], share, move |age| top * age * kills);
    drawn.limit = Some(1.0 + top);
    for value in drawn.values.iter_mut() {
        *value = value.min(1.0 + top);
    }
    drawn
}

pub fn oom_told(dice: &mut Dice) -> Drawn {
    let (kills, top) = (dice.between(1.3, 10.0), dice.log_between(0.5, 8.0));
    let born: Vec<f64> = (1..=kills as usize).map(|i| i as f64 / kills).collect();
    let share = top * dice.log_between(0.001, 0.01);
    let mut drawn = lives(dice, born.clone(), &[Growing], share, move |age| {
        top * age * kills
    });
    (drawn.limit, drawn.restarts) = (Some(1.0 + top), born);
    drawn
}

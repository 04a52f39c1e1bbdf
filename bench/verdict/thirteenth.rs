//! A thirteenth set, written from what is asked of the judge (its labels, its dirt, its families) and not from the rules,
//! before any verdict on it was looked at: clocks of seconds to hours, 50 to 6,000 readings, every family under noise of
//! a kind of its own.

use std::f64::consts::{PI, TAU};

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain::audible;
use crate::scene::Drawn;
use crate::strange::{Maker, add, memory, noise, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak", leak),
    ("leak, long memory", leak_memory),
    ("leak, dirty file", leak_dirty),
    ("leak, 50 to 90", leak_few),
    ("leak between spikes", leak_spikes),
    ("leak, coarse", leak_coarse),
    ("leak by day", leak_day),
    ("leak by week", leak_week),
    ("leak in office hours", leak_office),
    ("leak after a warm-up", warm_leak),
    ("leak from midway on", late_leak),
    ("power of time", power),
    ("logarithm of time", logarithm),
    ("teeth on a leak", teeth_leak),
    ("told restarts of a leak", told_leak),
    ("untold restarts of a leak", untold_leak),
    ("killed, leak", killed),
    ("cache", cache),
    ("cache, long memory", cache_memory),
    ("cache by day", cache_day),
    ("users come", s_curve),
    ("steady", steady),
    ("steady, long memory", steady_memory),
    ("steady, dirty file", steady_dirty),
    ("steady, coarse", steady_coarse),
    ("drift under 1 %", drift),
    ("load by day", day),
    ("load by week", week),
    ("teeth", teeth),
    ("cron job", cron),
    ("deploys", deploys),
    ("told restarts, steady", told_steady),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x243f_6a88_85a3_08d3);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

/// A clock as a collector writes it: even, even with lost readings, or with a wait of its own after each.
fn clock(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let n = dice.log_between(lo, hi).round() as usize;
    let step_s = dice.log_between(2.0, 3600.0);
    let (kind, lost) = (dice.whole(0, 2), dice.between(0.02, 0.2));
    let mut at = 0.0;
    let mut times = Vec::new();
    for _ in 0..n {
        at += if kind == 2 {
            0.7 + 0.6 * dice.unit()
        } else {
            1.0
        };
        if kind != 1 || !dice.chance(lost) {
            times.push(at);
        }
    }
    let first = times[0];
    let span = times[times.len() - 1] - first;
    let x = times.iter().map(|t| (t - first) / span).collect();
    (x, span * step_s)
}

/// A clock of so many days, with a reading every few minutes to two hours.
fn over_days(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let span_s = dice.log_between(lo, hi) * 86_400.0;
    let step_s = dice.pick(&[180.0, 600.0, 1200.0, 3600.0, 7200.0]);
    let n = (span_s / step_s).clamp(80.0, 6000.0) as usize;
    let jitter = if dice.chance(0.3) { 0.5 } else { 0.0 };
    let x = (0..n).map(|i| (i as f64 + jitter * dice.unit()) / n as f64);
    (x.collect(), span_s)
}

/// Under any noise that leaves a rise `by` audible.
fn heard(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let most = audible(by, drawn.x.len(), 0.5);
    let share = (dice.log_between(0.01, 1.0) * most).min(0.15);
    let loud = noise(dice, drawn.x.len());
    add(&mut drawn, share, loud);
    drawn
}

/// The same under noise that keeps 0.9 to 0.99 of itself from reading to reading.
fn remembered(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let phi = 1.0 - dice.log_between(0.01, 0.1);
    let share = (dice.log_between(0.05, 1.0) * audible(by, drawn.x.len(), phi)).min(0.1);
    let slow = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, share, slow);
    drawn
}

/// A straight rise, without noise, and its size.
fn line(dice: &mut Dice, lo: f64, hi: f64) -> (Drawn, f64) {
    let by = dice.log_between(0.045, 3.0);
    let clock = clock(dice, lo, hi);
    (story(clock, &[Growing], move |x| by * x), by)
}

fn leak(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 100.0, 6000.0);
    heard(dice, drawn, by)
}

fn leak_memory(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 400.0, 6000.0);
    remembered(dice, drawn, by)
}

fn leak_few(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 50.0, 90.0);
    heard(dice, drawn, by)
}

fn leak_spikes(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 150.0, 3000.0);
    let mut drawn = heard(dice, drawn, by);
    spikes(dice, &mut drawn);
    drawn
}

/// One reading of a hundred, or of twenty, is up to four times as high.
fn spikes(dice: &mut Dice, drawn: &mut Drawn) {
    let often = dice.log_between(0.01, 0.05);
    for value in drawn.values.iter_mut() {
        if dice.chance(often) {
            *value *= dice.between(1.1, 4.0);
        }
    }
}

/// Zeros, doubled lines, lines out of order, and a hole.
fn dirt(dice: &mut Dice, drawn: &mut Drawn) {
    let n = drawn.x.len();
    for _ in 0..n.div_ceil(60) {
        let at = dice.whole(0, n - 1);
        drawn.values[at] = dice.pick(&[0.0, f64::NAN]);
        let (from, to) = (dice.whole(0, n - 1), dice.whole(0, n - 1));
        drawn.x.swap(from, to);
        drawn.values.swap(from, to);
    }
    for _ in 0..dice.whole(1, 20) {
        let again = dice.whole(0, n - 1);
        drawn.x.push(drawn.x[again]);
        drawn.values.push(drawn.values[again]);
    }
    let from = dice.between(0.1, 0.7);
    let to = from + dice.between(0.05, 0.2);
    let kept = |x: &f64| !(from..to).contains(x);
    let rows = drawn.x.iter().zip(&drawn.values).filter(|(x, _)| kept(x));
    (drawn.x, drawn.values) = rows.map(|(x, v)| (*x, *v)).unzip();
}

fn leak_dirty(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 150.0, 3000.0);
    let mut drawn = heard(dice, drawn, by);
    dirt(dice, &mut drawn);
    drawn
}

/// Told in a tenth to a quarter of what it gains.
fn leak_coarse(dice: &mut Dice) -> Drawn {
    let (mut drawn, by) = line(dice, 150.0, 3000.0);
    drawn.grain = Some(by * dice.log_between(0.02, 0.2));
    heard(dice, drawn, by)
}

/// A load of days or of working weeks, from 0 to `height`.
fn load(dice: &mut Dice, drawn: &mut Drawn, height: f64, weekend: f64) {
    let (phase, sharp) = (dice.between(0.0, 7.0), dice.between(0.6, 2.5));
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = phase + x * drawn.span_s / 86_400.0;
        let busy = if day % 7.0 < 5.0 { 1.0 } else { weekend };
        *value += height * busy * (PI * day).sin().abs().powf(sharp);
    }
    drawn.cyclic = true;
}

fn under_load(
    dice: &mut Dice,
    clock: (Vec<f64>, f64),
    accept: &'static [Label],
    weekend: f64,
    (by, f): (f64, fn(f64, f64) -> f64),
) -> Drawn {
    let (tau, height) = (dice.between(0.06, 0.25), dice.log_between(0.04, 0.8));
    let drawn = story(clock, accept, move |x| by * f(x, tau));
    let mut drawn = heard(dice, drawn, by.max(0.05));
    load(dice, &mut drawn, height, weekend);
    drawn
}

fn leak_day(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.06, 2.0);
    let clock = over_days(dice, 3.0, 20.0);
    under_load(dice, clock, &[Growing], 1.0, (by, |x, _| x))
}

fn leak_week(dice: &mut Dice) -> Drawn {
    let (by, weekend) = (dice.log_between(0.08, 2.0), dice.between(0.1, 0.7));
    let clock = over_days(dice, 20.0, 50.0);
    under_load(dice, clock, &[Growing], weekend, (by, |x, _| x))
}

/// What leaks only while somebody works, a third of every day.
fn leak_office(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 2.0);
    let clock = over_days(dice, 5.0, 25.0);
    let days = clock.1 / 86_400.0;
    let worked = move |x: f64| {
        let day = x * days;
        (day.floor() + (3.0 * (day.fract() - 0.33)).clamp(0.0, 1.0)) / days
    };
    let mut drawn = story(clock, &[Growing], move |x| by * worked(x));
    (drawn.slope, drawn.cyclic) = (Some(by), true);
    heard(dice, drawn, by / 2.0)
}

fn warm_leak(dice: &mut Dice) -> Drawn {
    let (by, warm) = (dice.log_between(0.08, 1.5), dice.log_between(0.05, 1.0));
    let tau = dice.log_between(0.01, 0.08);
    let clock = clock(dice, 150.0, 3000.0);
    let f = move |x: f64| by * x + warm * (1.0 - (-x / tau).exp());
    heard(dice, story(clock, &[Growing], f), by / 2.0)
}

fn late_leak(dice: &mut Dice) -> Drawn {
    let (by, from) = (dice.log_between(0.1, 2.0), dice.between(0.2, 0.6));
    let clock = clock(dice, 200.0, 3000.0);
    let f = move |x: f64| by * (x - from).max(0.0);
    heard(dice, story(clock, &[Growing], f), by / 2.0)
}

fn power(dice: &mut Dice) -> Drawn {
    let (by, p) = (dice.log_between(0.1, 2.0), dice.between(0.4, 2.5));
    let clock = clock(dice, 100.0, 3000.0);
    let drawn = story(clock, &[Growing], move |x| by * x.powf(p));
    heard(dice, drawn, by / 2.0)
}

fn logarithm(dice: &mut Dice) -> Drawn {
    let (by, near) = (dice.log_between(0.08, 1.5), dice.log_between(0.003, 0.3));
    let clock = clock(dice, 100.0, 3000.0);
    let f = move |x: f64| by * (1.0 + x / near).ln() / (1.0 + 1.0 / near).ln();
    let drawn = story(clock, &[Growing, Plateauing], f);
    heard(dice, drawn, by / 3.0)
}

/// Garbage up to a height that wavers, and down to what is live.
fn add_teeth(dice: &mut Dice, drawn: &mut Drawn) -> f64 {
    let (height, count) = (dice.log_between(0.1, 1.2), dice.log_between(8.0, 60.0));
    let (mut from, mut long) = (-dice.unit() / count, 1.0 / count);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        while *x >= from + long {
            from += long;
            long = dice.between(0.85, 1.15) / count;
        }
        *value += height * count * (x - from);
    }
    drawn.cyclic = true;
    height
}

fn teeth(dice: &mut Dice) -> Drawn {
    let clock = clock(dice, 600.0, 4000.0);
    let mut drawn = story(clock, &[Sawtooth], |_| 0.0);
    let height = add_teeth(dice, &mut drawn);
    if height < 0.3 {
        drawn.accept = &[Sawtooth, Flat];
    }
    heard(dice, drawn, 0.1)
}

fn teeth_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.2, 2.0);
    let clock = clock(dice, 600.0, 4000.0);
    let mut drawn = story(clock, &[Growing], move |x| by * x);
    add_teeth(dice, &mut drawn);
    heard(dice, drawn, by / 4.0)
}

/// Instants at which a process was restarted, not all too near each other.
fn births(dice: &mut Dice) -> Vec<f64> {
    let count = dice.whole(1, 4);
    let each = 1.0 / (count as f64 + 1.0);
    let born = |i: usize| each * (i as f64 + dice.between(-0.3, 0.3));
    (1..=count).map(born).collect()
}

fn age(births: &[f64], x: f64) -> f64 {
    let last = births.iter().filter(|b| **b <= x);
    x - last.copied().fold(0.0, f64::max)
}

fn lives(dice: &mut Dice, lo: f64, rise: f64, accept: &'static [Label]) -> Drawn {
    let born = births(dice);
    let clock = clock(dice, lo, 3000.0);
    let at = born.clone();
    let mut drawn = story(clock, accept, move |x| rise * age(&at, x));
    drawn.restarts = born;
    drawn
}

fn told_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.3, 4.0);
    let mut drawn = lives(dice, 200.0, by, &[Growing]);
    drawn.slope = Some(by);
    heard(dice, drawn, by / 10.0)
}

fn told_steady(dice: &mut Dice) -> Drawn {
    let mut drawn = lives(dice, 200.0, 0.0, &[Flat]);
    let (warm, tau) = (dice.log_between(0.2, 0.8), dice.log_between(0.01, 0.04));
    let born = drawn.restarts.clone();
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        *value -= warm * (-age(&born, *x) / tau).exp();
    }
    drawn.accept = &[Flat, Plateauing];
    heard(dice, drawn, 0.1)
}

/// Nobody told; what the memory lost says when.
fn untold_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(1.5, 6.0);
    let mut drawn = lives(dice, 300.0, by, &[Growing]);
    (drawn.restarts, drawn.slope) = (Vec::new(), Some(by));
    heard(dice, drawn, by / 20.0)
}

/// Up to the limit, and anew, again and again; nobody tells when.
fn killed(dice: &mut Dice) -> Drawn {
    let (room, times) = (dice.log_between(0.5, 4.0), dice.between(1.5, 9.0));
    let clock = clock(dice, 300.0, 4000.0);
    let mut drawn = story(clock, &[Growing], move |x| room * (times * x).fract());
    (drawn.slope, drawn.limit) = (None, Some(1.01 * (1.0 + room)));
    heard(dice, drawn, room / 20.0)
}

fn fill(dice: &mut Dice, lo: f64) -> (Drawn, f64) {
    let (by, tau) = (dice.log_between(0.06, 3.0), dice.log_between(0.01, 0.35));
    let clock = clock(dice, lo, 3000.0);
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    (story(clock, &[Plateauing], f), by)
}

fn cache(dice: &mut Dice) -> Drawn {
    let (drawn, by) = fill(dice, 100.0);
    heard(dice, drawn, by / 3.0)
}

fn cache_memory(dice: &mut Dice) -> Drawn {
    let (drawn, by) = fill(dice, 400.0);
    remembered(dice, drawn, by / 2.0)
}

fn cache_day(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 2.0);
    let clock = over_days(dice, 4.0, 20.0);
    let f = |x: f64, tau: f64| 1.0 - (-x / tau).exp();
    under_load(dice, clock, &[Plateauing], 1.0, (by, f))
}

/// Slow, fast, slow: what users do who come from one week to the next.
fn s_curve(dice: &mut Dice) -> Drawn {
    let (by, mid) = (dice.log_between(0.1, 2.0), dice.between(0.15, 0.5));
    let wide = dice.between(0.02, 0.1);
    let clock = clock(dice, 150.0, 3000.0);
    let f = move |x: f64| by / (1.0 + (-(x - mid) / wide).exp());
    heard(dice, story(clock, &[Plateauing], f), by / 3.0)
}

fn level(dice: &mut Dice, lo: f64) -> Drawn {
    let clock = clock(dice, lo, 6000.0);
    story(clock, &[Flat], |_| 0.0)
}

fn steady(dice: &mut Dice) -> Drawn {
    let drawn = level(dice, 60.0);
    heard(dice, drawn, 0.06)
}

fn steady_memory(dice: &mut Dice) -> Drawn {
    let drawn = level(dice, 400.0);
    remembered(dice, drawn, 0.06)
}

fn steady_dirty(dice: &mut Dice) -> Drawn {
    let drawn = level(dice, 150.0);
    let mut drawn = heard(dice, drawn, 0.06);
    spikes(dice, &mut drawn);
    dirt(dice, &mut drawn);
    drawn
}

fn steady_coarse(dice: &mut Dice) -> Drawn {
    let mut drawn = level(dice, 100.0);
    drawn.grain = Some(dice.log_between(0.0005, 0.01));
    heard(dice, drawn, 0.03)
}

fn drift(dice: &mut Dice) -> Drawn {
    let by = dice.between(-0.01, 0.01);
    let clock = clock(dice, 100.0, 3000.0);
    heard(dice, story(clock, &[Flat], move |x| by * x), 0.04)
}

fn day(dice: &mut Dice) -> Drawn {
    let clock = over_days(dice, 3.0, 20.0);
    under_load(dice, clock, &[Sawtooth, Flat], 1.0, (0.0, |_, _| 0.0))
}

fn week(dice: &mut Dice) -> Drawn {
    let weekend = dice.between(0.1, 0.7);
    let clock = over_days(dice, 20.0, 50.0);
    under_load(dice, clock, &[Sawtooth, Flat], weekend, (0.0, |_, _| 0.0))
}

/// A job at even distances that holds memory for a tenth to a third of them.
fn cron(dice: &mut Dice) -> Drawn {
    let (height, turns) = (dice.log_between(0.05, 1.0), dice.log_between(6.0, 60.0));
    let (busy, phase) = (dice.between(0.1, 0.33), dice.unit());
    let clock = clock(dice, 20.0 * turns, 4000.0);
    let mut drawn = story(clock, &[Sawtooth, Flat], |_| 0.0);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let job = (x * turns + phase).fract() < busy;
        *value += if job { height } else { 0.0 };
    }
    let slow = 0.1 * height.min(0.3) * (TAU * dice.unit()).sin().abs();
    heard(dice, drawn, slow.max(0.02))
}

/// One to three releases, each of which needs more or less than the one before.
fn deploys(dice: &mut Dice) -> Drawn {
    let at = births(dice);
    let by: Vec<f64> = at.iter().map(|_| dice.log_between(0.06, 0.8)).collect();
    let down: Vec<bool> = at.iter().map(|_| dice.chance(0.4)).collect();
    let clock = clock(dice, 120.0, 3000.0);
    let f = move |x: f64| {
        let mut now = 1.0;
        for ((at, by), down) in at.iter().zip(&by).zip(&down) {
            let times = if *down { 1.0 / (1.0 + by) } else { 1.0 + by };
            now *= if *at <= x { times } else { 1.0 };
        }
        now - 1.0
    };
    heard(dice, story(clock, &[Stepped], f), 0.05)
}

//! An eighth set, written by the meanings of the labels as an examiner from outside would, before any verdict on it was
//! looked at: regular clocks of a second to an hour, 60 to 3,000 readings, noise with a memory up to 0.99 in half of the
//! families, noise that grows with the level, loads larger than the leak, and lives that end without a mark.

use std::f64::consts::TAU;

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::scene::Drawn;
use crate::stranger as more;

pub type Maker = fn(&mut Dice) -> Drawn;

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak, any noise", leak),
    ("leak, memory to .99", leak_memory),
    ("leak, noise by level", leak_by_level),
    ("leak told in grains", leak_grains),
    ("leak, 60 to 120", leak_short),
    ("leak, long and quiet", leak_long),
    ("leak among bursts", leak_bursts),
    ("leak with holes", leak_holes),
    ("leak, shuffled", leak_shuffled),
    ("leak by day only", more::leak_by_day),
    ("leak under days", more::leak_under_days),
    ("leak under weeks", more::leak_under_weeks),
    ("leak begins late", leak_late),
    ("leak that stops", leak_stops),
    ("falls, then leaks", leak_warm),
    ("step and leak", leak_step),
    ("fill and leak", leak_fill),
    ("square root", root),
    ("power", power),
    ("logarithm", logarithm),
    ("runaway", runaway),
    ("untold restarts", more::lives_untold),
    ("told restarts", more::lives_told),
    ("told restarts, warm", more::lives_warm),
    ("killed at the limit", more::killed),
    ("collector's floor", more::collector_leaks),
    ("trims over a leak", more::trims_leak),
    ("collector", more::collector),
    ("trims", more::trims),
    ("days", more::days),
    ("weeks", more::weeks),
    ("bursts by the hour", more::hourly),
    ("cache with a term", more::term),
    ("fill, fast", fill_fast),
    ("fill, slow", fill_slow),
    ("adopted", adopted),
    ("steps up", steps_up),
    ("steps both ways", steps_both),
    ("falls, then flat", settles),
    ("flat, any noise", flat),
    ("flat, memory to .99", flat_memory),
    ("flat, heavy tails", flat_heavy),
    ("flat told in grains", flat_grains),
    ("flat, 60 to 120", flat_short),
    ("flat among bursts", flat_bursts),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x91d4_6b3c_05fe_a827);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

/// Readings at a step that people set, between so many; a third of the clocks jitter.
pub fn steady(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let n = dice.log_between(lo, hi).round();
    let step_s = dice.pick(&[1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0]);
    let jitter = if dice.chance(0.33) { 0.6 } else { 0.0 };
    let x = (0..n as usize).map(|i| (i as f64 + jitter * dice.unit()) / n);
    (x.collect(), n * step_s)
}

/// Noise with a memory: `phi` from reading to reading, deviation 1.
pub fn memory(dice: &mut Dice, n: usize, phi: f64) -> Vec<f64> {
    let fresh = (1.0 - phi * phi).sqrt();
    let mut now = dice.normal();
    let mut next = |_| {
        now = phi * now + fresh * dice.normal();
        now
    };
    (0..n).map(&mut next).collect()
}

/// Any noise of deviation 1 without much memory: even, normal, heavy, upwards only, or a memory up to 0.9.
pub fn noise(dice: &mut Dice, n: usize) -> Vec<f64> {
    match dice.whole(0, 5) {
        0 => (0..n).map(|_| 3.46 * (dice.unit() - 0.5)).collect(),
        1 | 2 => (0..n).map(|_| dice.normal()).collect(),
        3 => (0..n).map(|_| dice.heavy()).collect(),
        4 => (0..n).map(|_| dice.exponential() - 1.0).collect(),
        _ => {
            let phi = dice.between(0.3, 0.9);
            memory(dice, n, phi)
        }
    }
}

/// A trend in levels over a clock, without noise.
pub fn story(
    (x, span_s): (Vec<f64>, f64),
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> Drawn {
    let values = x.iter().map(|x| 1.0 + f(*x)).collect();
    let slope = accept.contains(&Growing).then(|| (f(1.0) - f(0.97)) / 0.03);
    Drawn {
        x,
        span_s,
        values,
        accept,
        cyclic: false,
        slope,
        restarts: Vec::new(),
        limit: None,
        grain: None,
        growth: Box::new(move |part| {
            // The highest climb so far: a fall is no growth.
            let (mut low, mut climb) = (f64::MAX, 0.0f64);
            for i in 0..=100 {
                let here = f(part * f64::from(i) / 100.0);
                low = low.min(here);
                climb = climb.max(here - low);
            }
            climb / (1.0 + f(part))
        }),
    }
}

/// Adds noise of this deviation in levels.
pub fn add(drawn: &mut Drawn, share: f64, noise: Vec<f64>) {
    for (value, e) in drawn.values.iter_mut().zip(noise) {
        *value = (*value + share * e).max(0.05);
    }
}

/// The same with any noise.
pub fn any(dice: &mut Dice, mut drawn: Drawn, share: f64) -> Drawn {
    let loud = noise(dice, drawn.x.len());
    add(&mut drawn, share, loud);
    drawn
}

/// A rise, and noise that is 0.5 to 12 % of it, 4 % of the level at most.
pub fn rise(dice: &mut Dice) -> (f64, f64) {
    let by = dice.log_between(0.05, 3.0);
    (by, (by * dice.log_between(0.005, 0.12)).min(0.04))
}

fn leak(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 100.0, 3000.0);
    any(dice, story(clock, &[Growing], move |x| by * x), share)
}

fn long_phi(dice: &mut Dice) -> f64 {
    1.0 - dice.log_between(0.01, 0.1)
}

fn leak_memory(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 200.0, 3000.0);
    let mut drawn = story(clock, &[Growing], move |x| by * x);
    let phi = long_phi(dice);
    let slow = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, share, slow);
    drawn
}

fn leak_by_level(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 100.0, 3000.0);
    let mut drawn = story(clock, &[Growing], move |x| by * x);
    let phi = dice.between(0.0, 0.9);
    let slow = memory(dice, drawn.x.len(), phi);
    for (value, e) in drawn.values.iter_mut().zip(slow) {
        *value *= (share * e).exp();
    }
    drawn
}

fn leak_grains(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.06, 0.8);
    let clock = steady(dice, 100.0, 3000.0);
    let grain = (by / dice.between(5.0, 50.0)).min(0.02);
    let share = grain * dice.log_between(0.1, 2.0);
    let drawn = story(clock, &[Growing], move |x| by * x);
    let mut drawn = any(dice, drawn, share);
    drawn.grain = Some(grain);
    drawn
}

fn leak_short(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 3.0);
    let share = (by * dice.log_between(0.005, 0.06)).min(0.04);
    let clock = steady(dice, 60.0, 120.0);
    any(dice, story(clock, &[Growing], move |x| by * x), share)
}

fn leak_long(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.045, 0.15);
    let share = by * dice.log_between(0.05, 0.3);
    let clock = steady(dice, 1500.0, 3000.0);
    any(dice, story(clock, &[Growing], move |x| by * x), share)
}

/// Requests that are large for a moment: one to five readings, up to twice the level.
fn bursts(dice: &mut Dice, drawn: &mut Drawn) {
    let often = dice.log_between(0.003, 0.03);
    let height = dice.log_between(0.1, 1.0);
    let mut left = 0;
    for value in &mut drawn.values {
        if left == 0 && dice.chance(often) {
            left = dice.whole(1, 5);
        }
        if left > 0 {
            *value += height * dice.between(0.5, 1.5);
            left -= 1;
        }
    }
}

fn leak_bursts(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 3.0);
    let clock = steady(dice, 150.0, 3000.0);
    let share = (by * dice.log_between(0.005, 0.08)).min(0.04);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), share);
    bursts(dice, &mut drawn);
    drawn
}

/// Two to four holes, of up to half of the window together.
fn leak_holes(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 200.0, 3000.0);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), share);
    for _ in 0..dice.whole(2, 4) {
        let from = dice.between(0.02, 0.85);
        let to = from + dice.between(0.03, 0.13);
        let kept: Vec<usize> = (0..drawn.x.len())
            .filter(|i| !(from..to).contains(&drawn.x[*i]))
            .collect();
        drawn.x = kept.iter().map(|i| drawn.x[*i]).collect();
        drawn.values = kept.iter().map(|i| drawn.values[*i]).collect();
    }
    drawn
}

/// Times out of order and doubled, zeros, and a reading a hundredfold now and then.
fn leak_shuffled(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 120.0, 3000.0);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), share);
    for i in 1..drawn.x.len() {
        if dice.chance(0.05) {
            drawn.x.swap(i - 1, i);
            drawn.values.swap(i - 1, i);
        }
        if dice.chance(0.02) {
            drawn.x[i] = drawn.x[i - 1];
        }
        match dice.whole(0, 199) {
            0 | 1 => drawn.values[i] = 0.0,
            2 => drawn.values[i] *= 100.0,
            _ => {}
        }
    }
    drawn
}

fn leak_late(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.08);
    let from = dice.between(0.25, 0.7);
    let clock = steady(dice, 150.0, 3000.0);
    let late = move |x: f64| by * (x - from).max(0.0) / (1.0 - from);
    any(dice, story(clock, &[Growing], late), share)
}

/// Straight to an end: its slope is nought from there on.
fn leak_stops(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let to = dice.between(0.2, 0.6);
    let clock = steady(dice, 150.0, 3000.0);
    let until = move |x: f64| by * x.min(to) / to;
    any(dice, story(clock, &[Plateauing], until), share)
}

fn leak_warm(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (by, tau) = (by.max(0.1), dice.between(0.02, 0.15));
    let high = by * dice.between(0.3, 1.5);
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| high * (-x / tau).exp() + by * x;
    any(dice, story(clock, &[Growing], f), share)
}

fn leak_step(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.1);
    let at = dice.between(0.15, 0.85);
    let step = by * dice.between(0.3, 2.0) * if dice.chance(0.4) { -0.3 } else { 1.0 };
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| by * x + if x > at { step } else { 0.0 };
    let mut drawn = story(clock, &[Growing], f);
    drawn.slope = Some(by);
    any(dice, drawn, share)
}

fn leak_fill(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.1);
    let (fills, tau) = (by * dice.between(0.3, 2.0), dice.between(0.02, 0.12));
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| by * x + fills * (1.0 - (-x / tau).exp());
    any(dice, story(clock, &[Growing], f), share)
}

fn root(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (by, share) = (by.max(0.12), share.min(0.04 * by));
    let clock = steady(dice, 150.0, 3000.0);
    any(
        dice,
        story(clock, &[Growing], move |x| by * x.sqrt()),
        share,
    )
}

fn power(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.1);
    let share = share.min(0.04 * by);
    let p = dice.pick(&[0.4, 0.6, 0.7, 0.8, 1.3, 1.6, 2.0]);
    let clock = steady(dice, 150.0, 3000.0);
    any(
        dice,
        story(clock, &[Growing], move |x| by * x.powf(p)),
        share,
    )
}

fn logarithm(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (by, near) = (by.max(0.1), dice.log_between(0.002, 0.3));
    let clock = steady(dice, 100.0, 3000.0);
    let f = move |x: f64| by * (x / near).ln_1p() / (1.0 / near).ln_1p();
    any(dice, story(clock, &[Growing, Plateauing], f), share)
}

fn runaway(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (by, rate) = (by.max(0.1), dice.between(1.0, 4.0));
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| by * (rate * x).exp_m1() / rate.exp_m1();
    any(dice, story(clock, &[Growing], f), share)
}

fn filled(dice: &mut Dice, tau: f64) -> Drawn {
    let (by, share) = rise(dice);
    let clock = steady(dice, 120.0, 3000.0);
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    any(dice, story(clock, &[Plateauing], f), share)
}

fn fill_fast(dice: &mut Dice) -> Drawn {
    let tau = dice.log_between(0.02, 0.1);
    filled(dice, tau)
}

fn fill_slow(dice: &mut Dice) -> Drawn {
    let tau = dice.between(0.15, 0.33);
    filled(dice, tau)
}

/// An S-curve: what a new version's users do.
fn adopted(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (mid, width) = (dice.between(0.2, 0.5), dice.between(0.02, 0.08));
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| by / (1.0 + (-(x - mid) / width).exp());
    any(dice, story(clock, &[Plateauing, Stepped], f), share)
}

fn stairs(dice: &mut Dice, steps: Vec<(f64, f64)>) -> Drawn {
    let share = 0.05 * dice.log_between(0.02, 0.2);
    let clock = steady(dice, 120.0, 3000.0);
    let f = move |x: f64| steps.iter().filter(|s| s.0 < x).map(|s| s.1).sum();
    any(dice, story(clock, &[Stepped], f), share)
}

fn steps_up(dice: &mut Dice) -> Drawn {
    let count = dice.whole(1, 2);
    let steps = (0..count).map(|i| {
        let at = (i as f64 + dice.between(0.2, 0.75)) / count as f64;
        (at, dice.log_between(0.05, 0.8))
    });
    let steps = steps.collect();
    stairs(dice, steps)
}

fn steps_both(dice: &mut Dice) -> Drawn {
    let count = dice.whole(2, 4);
    let steps = (0..count).map(|i| {
        let at = (i as f64 + dice.between(0.2, 0.8)) / count as f64;
        let down = if i % 2 == 1 { -0.6 } else { 1.0 };
        (at, down * dice.between(0.06, 0.4))
    });
    let steps = steps.collect();
    stairs(dice, steps)
}

/// What was held at the start is given back.
fn settles(dice: &mut Dice) -> Drawn {
    let (high, tau) = (dice.log_between(0.05, 1.0), dice.log_between(0.02, 0.2));
    let share = 0.05 * dice.log_between(0.02, 0.3);
    let clock = steady(dice, 120.0, 3000.0);
    let f = move |x: f64| high * (-x / tau).exp();
    any(dice, story(clock, &[Flat, Plateauing, Stepped], f), share)
}

fn flat(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.0005, 0.04);
    let clock = steady(dice, 100.0, 3000.0);
    any(dice, story(clock, &[Flat], |_| 0.0), share)
}

fn flat_memory(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.0005, 0.012);
    let clock = steady(dice, 200.0, 3000.0);
    let mut drawn = story(clock, &[Flat], |_| 0.0);
    let phi = long_phi(dice);
    let slow = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, share, slow);
    drawn
}

/// Upwards, as the logarithm of Student's t: a reading in a hundred is far off.
fn flat_heavy(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.005, 0.06);
    let clock = steady(dice, 120.0, 3000.0);
    let mut drawn = story(clock, &[Flat], |_| 0.0);
    for value in &mut drawn.values {
        *value *= (share * dice.heavy()).clamp(-1.0, 2.0).exp();
    }
    drawn
}

fn flat_grains(dice: &mut Dice) -> Drawn {
    let grain = dice.log_between(0.001, 0.015);
    let share = grain * dice.log_between(0.1, 2.0);
    let clock = steady(dice, 100.0, 3000.0);
    let mut drawn = any(dice, story(clock, &[Flat], |_| 0.0), share);
    drawn.grain = Some(grain);
    drawn
}

fn flat_short(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.0005, 0.01);
    let clock = steady(dice, 60.0, 120.0);
    any(dice, story(clock, &[Flat], |_| 0.0), share)
}

fn flat_bursts(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.001, 0.02);
    let clock = steady(dice, 150.0, 3000.0);
    let mut drawn = any(dice, story(clock, &[Flat], |_| 0.0), share);
    bursts(dice, &mut drawn);
    drawn
}

/// A turn of a day's load between 0 and 1: a wave, a wave with a peak, or office hours.
pub fn load(form: usize, day: f64) -> f64 {
    let wave = 0.5 - 0.5 * (TAU * day).cos();
    match form {
        0 => wave,
        1 => wave * wave,
        _ => 1.0 / (1.0 + (-10.0 * (wave - 0.55)).exp()),
    }
}

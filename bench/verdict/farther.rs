//! A ninth set, for a figure after the mends: written before anything was said of the set *strange*, looked at once when the
//! rules had been mended for that one. What is alone there comes together here.

use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::scene::Drawn;
use crate::strange::{Maker, add, any, load, memory, rise, steady, story};

const DAY_S: f64 = 86_400.0;

pub const FAMILIES: &[(&str, Maker)] = &[
    ("trims and days, leak", trims_days_leak),
    ("rate changes", rates),
    ("coarse, holes, memory", coarse_memory),
    ("root under weeks", root_weeks),
    ("partly freed", partly_freed),
    ("late leak under days", late_days),
    ("leak, batches", leak_batches),
    ("60 to 110, memory", short_memory),
    ("fill under days", fill_days),
    ("two fills by level", two_fills),
    ("collector fills up", collector_fills),
    ("untold warm restarts", untold_warm),
    ("batches", batches),
    ("steps that shrink", shrinking),
    ("flat, memory to .995", flat_memory),
    ("decline under days", decline_days),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0xd3a8_15c7_72e9_460b);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

fn over_days(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let (x, _) = steady(dice, 200.0, 3000.0);
    (x, dice.between(lo, hi) * DAY_S)
}

/// A load of a day, less of it at weekends.
fn by_day(dice: &mut Dice, drawn: &mut Drawn, swing: f64, rest: f64) {
    let (form, phase) = (dice.whole(0, 2), dice.between(0.0, 7.0));
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = phase + x * drawn.span_s / DAY_S;
        let busy = if day % 7.0 >= 5.0 { rest } else { 1.0 };
        *value += swing * busy * load(form, day);
    }
    drawn.cyclic = true;
}

/// What an allocator gave back, and takes again.
fn trim(dice: &mut Dice, drawn: &mut Drawn, depth: f64) {
    let (often, tau) = (dice.between(4.0, 15.0), dice.log_between(0.003, 0.02));
    let (mut low, mut last) = (0.0, 0.0);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        low *= (-(x - last) / tau).exp();
        if dice.chance(often * (x - last)) {
            low = depth * dice.between(0.6, 1.2);
        }
        last = *x;
        *value -= low;
    }
}

fn trims_days_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.15, 1.0);
    let clock = over_days(dice, 4.0, 14.0);
    let drawn = story(clock, &[Growing], move |x| by * x);
    let mut drawn = any(dice, drawn, 0.02 * by);
    let (swing, depth) = (by * dice.between(0.1, 1.0), dice.between(0.04, 0.15));
    by_day(dice, &mut drawn, swing, 1.0);
    trim(dice, &mut drawn, depth);
    drawn
}

/// Three to six stretches, each with a rate of its own, none of them less than a quarter of the mean.
fn rates(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.12);
    let rates: Vec<f64> = (0..dice.whole(3, 6))
        .map(|_| dice.between(0.25, 1.75))
        .collect();
    let count = rates.len() as f64;
    let whole: f64 = rates.iter().sum();
    let f = move |x: f64| {
        let done = (x * count).floor().min(count - 1.0);
        let before: f64 = rates[..done as usize].iter().sum();
        by * (before + rates[done as usize] * (x * count - done)) / whole
    };
    let clock = steady(dice, 200.0, 3000.0);
    any(dice, story(clock, &[Growing], f), share.min(0.05 * by))
}

fn coarse_memory(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.08, 1.0);
    let clock = steady(dice, 200.0, 2000.0);
    let mut drawn = story(clock, &[Growing], move |x| by * x);
    let phi = dice.between(0.8, 0.98);
    let slow = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, by * dice.log_between(0.005, 0.06), slow);
    drawn.grain = Some((by / dice.between(6.0, 30.0)).min(0.02));
    let (from, long) = (dice.between(0.1, 0.7), dice.between(0.05, 0.25));
    let kept = |x: &f64| !(from..from + long).contains(x);
    let values = drawn.x.iter().zip(&drawn.values);
    drawn.values = values.filter(|(x, _)| kept(x)).map(|(_, v)| *v).collect();
    drawn.x.retain(kept);
    drawn
}

fn root_weeks(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.2, 2.0);
    let clock = over_days(dice, 18.0, 40.0);
    let drawn = story(clock, &[Growing], move |x| by * x.sqrt());
    let mut drawn = any(dice, drawn, 0.015 * by);
    let swing = by * dice.between(0.05, 0.5);
    by_day(dice, &mut drawn, swing, 0.3);
    drawn
}

/// A leak of which a part is freed now and then, at random.
fn partly_freed(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.2, 2.0);
    let frees: Vec<(f64, f64)> = (0..dice.whole(2, 9))
        .map(|_| (dice.between(0.05, 0.95), dice.between(0.02, 0.1)))
        .collect();
    let all: f64 = frees.iter().map(|f| f.1).sum();
    let clock = steady(dice, 200.0, 3000.0);
    let f = move |x: f64| {
        let freed: f64 = frees.iter().filter(|f| f.0 < x).map(|f| f.1).sum();
        by * (x * (1.0 + all) - freed)
    };
    let mut drawn = story(clock, &[Growing], f);
    drawn.slope = None;
    any(dice, drawn, 0.015 * by)
}

fn late_days(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.15, 1.5);
    let from = dice.between(0.2, 0.6);
    let clock = over_days(dice, 5.0, 14.0);
    let f = move |x: f64| by * (x - from).max(0.0) / (1.0 - from);
    let mut drawn = any(dice, story(clock, &[Growing], f), 0.02 * by);
    let swing = by * dice.between(0.1, 0.8);
    by_day(dice, &mut drawn, swing, 1.0);
    drawn
}

/// Jobs at random that hold memory for 1 to 4 % of the window.
fn jobs(dice: &mut Dice, drawn: &mut Drawn, height: f64) {
    for _ in 0..dice.whole(3, 9) {
        let from = dice.between(0.02, 0.93);
        let to = from + dice.between(0.01, 0.04);
        let high = height * dice.between(0.5, 1.5);
        for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
            *value += if (from..to).contains(x) { high } else { 0.0 };
        }
    }
}

fn leak_batches(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.12, 2.0);
    let clock = steady(dice, 300.0, 3000.0);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), 0.02 * by);
    let height = by * dice.between(0.1, 0.7);
    jobs(dice, &mut drawn, height);
    drawn
}

fn batches(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.001, 0.01);
    let clock = steady(dice, 300.0, 3000.0);
    let accept = &[Flat, Sawtooth, Stepped];
    let mut drawn = any(dice, story(clock, accept, |_| 0.0), share);
    let height = dice.log_between(0.05, 0.8);
    jobs(dice, &mut drawn, height);
    drawn
}

fn short_memory(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.12, 2.0);
    let clock = steady(dice, 60.0, 110.0);
    let mut drawn = story(clock, &[Growing], move |x| by * x);
    let phi = dice.between(0.3, 0.8);
    let slow = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, by * dice.log_between(0.005, 0.05), slow);
    drawn
}

fn fill_days(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.15, 1.5), dice.log_between(0.04, 0.2));
    let clock = over_days(dice, 5.0, 16.0);
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    let mut drawn = any(dice, story(clock, &[Plateauing], f), 0.02 * by);
    let swing = by * dice.between(0.1, 0.6);
    by_day(dice, &mut drawn, swing, 1.0);
    drawn
}

fn two_fills(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let (fast, slow) = (dice.log_between(0.01, 0.04), dice.between(0.1, 0.25));
    let part = dice.between(0.3, 0.7);
    let clock = steady(dice, 200.0, 3000.0);
    let f = move |x: f64| {
        let (a, b) = (1.0 - (-x / fast).exp(), 1.0 - (-x / slow).exp());
        by * (part * a + (1.0 - part) * b)
    };
    let mut drawn = story(clock, &[Plateauing], f);
    let phi = dice.between(0.0, 0.8);
    let loud = memory(dice, drawn.x.len(), phi);
    for (value, e) in drawn.values.iter_mut().zip(loud) {
        *value *= (share * e).exp();
    }
    drawn
}

/// Teeth on floors that fill.
fn collector_fills(dice: &mut Dice) -> Drawn {
    let teeth = dice.log_between(12.0, 80.0);
    let (by, tau) = (dice.log_between(0.2, 1.5), dice.log_between(0.03, 0.15));
    let height = dice.log_between(0.1, 1.0);
    let clock = steady(dice, 8.0 * teeth + 100.0, 3000.0);
    let accept = &[Sawtooth, Plateauing, Flat];
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    let mut drawn = story(clock, accept, f);
    let phase = dice.unit();
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        *value += height * (x * teeth + phase).fract();
    }
    drawn.cyclic = true;
    any(dice, drawn, 0.01 * height)
}

/// Restarts that nobody told of; each life comes back to 60 to 90 % at once and is full soon.
fn untold_warm(dice: &mut Dice) -> Drawn {
    let (low, tau) = (dice.between(0.1, 0.4), dice.between(0.004, 0.02));
    let count = dice.whole(1, 4);
    let births: Vec<f64> = (0..count)
        .map(|i| (f64::from(i as u32) + dice.between(0.3, 0.8)) / count as f64)
        .collect();
    let f = move |x: f64| match births.iter().rev().find(|b| **b <= x) {
        Some(born) => -low * (-(x - born) / tau).exp(),
        None => 0.0,
    };
    let clock = steady(dice, 200.0, 3000.0);
    let mut drawn = story(clock, &[Flat, Sawtooth, Plateauing], f);
    drawn.growth = Box::new(|_| 0.0);
    drawn.cyclic = true;
    let share = dice.log_between(0.001, 0.01);
    any(dice, drawn, share)
}

/// A table doubles less and less often: two to four steps, each a half of the last, none in the last third.
fn shrinking(dice: &mut Dice) -> Drawn {
    let first = dice.log_between(0.15, 0.8);
    let mut at = dice.between(0.05, 0.15);
    let steps: Vec<(f64, f64)> = (0..dice.whole(2, 4))
        .map(|i| {
            let step = (at, first * 0.5f64.powi(i as i32));
            at = (at * dice.between(1.5, 2.2)).min(0.65);
            step
        })
        .collect();
    let share = 0.03 * first * dice.between(0.1, 0.5);
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| steps.iter().filter(|s| s.0 < x).map(|s| s.1).sum();
    any(dice, story(clock, &[Stepped, Plateauing], f), share)
}

fn flat_memory(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.0005, 0.008);
    let clock = steady(dice, 300.0, 3000.0);
    let mut drawn = story(clock, &[Flat], |_| 0.0);
    let slow = memory(dice, drawn.x.len(), 0.995);
    add(&mut drawn, share, slow);
    drawn
}

fn decline_days(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.05, 0.4);
    let clock = over_days(dice, 4.0, 14.0);
    let accept = &[Flat, Sawtooth, Plateauing];
    let mut drawn = any(dice, story(clock, accept, move |x| -by * x), 0.02 * by);
    let swing = dice.between(0.05, 0.4);
    by_day(dice, &mut drawn, swing, 1.0);
    drawn
}

//! The families of the set *strange* in which something comes and goes: loads, collectors, trims, lives.

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::dice::Dice;
use crate::scene::Drawn;
use crate::strange::{add, any, load, memory, rise, steady, story};

const DAY_S: f64 = 86_400.0;

/// A clock over these many days, at a step that leaves 150 to 3,000 readings.
fn days_long(dice: &mut Dice, lo: f64, hi: f64) -> (Vec<f64>, f64) {
    let span_s = dice.between(lo, hi) * DAY_S;
    let (x, _) = steady(dice, 150.0, 3000.0);
    (x, span_s)
}

/// Adds a load of a day, with days of uneven height.
fn by_day(dice: &mut Dice, drawn: &mut Drawn, swing: f64, week: bool) {
    let (form, phase) = (dice.whole(0, 2), dice.between(0.0, 7.0));
    let rest = dice.between(0.0, 0.5);
    let heights: Vec<f64> = (0..80).map(|_| dice.between(0.9, 1.1)).collect();
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = phase + x * drawn.span_s / DAY_S;
        let busy = if week && day % 7.0 >= 5.0 { rest } else { 1.0 };
        *value += swing * busy * heights[day as usize % 80] * load(form, day);
    }
    drawn.cyclic = true;
}

/// Work is done by day, and what it leaks stays.
pub fn leak_by_day(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let by = by.max(0.1);
    let clock = days_long(dice, 3.0, 14.0);
    let (days, busy, phase) = (clock.1 / DAY_S, dice.between(0.3, 0.6), dice.unit());
    let worked = move |x: f64| {
        let day = x * days + phase;
        day.floor() * busy + day.fract().min(busy)
    };
    let whole = worked(1.0) - worked(0.0);
    let f = move |x: f64| by * (worked(x) - worked(0.0)) / whole;
    let mut drawn = story(clock, &[Growing], f);
    drawn.slope = None;
    any(dice, drawn, share)
}

pub fn leak_under_days(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.06, 0.6);
    let swing = by * dice.log_between(0.5, 5.0);
    let share = by * dice.log_between(0.005, 0.08);
    let clock = days_long(dice, 4.0, 21.0);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), share);
    by_day(dice, &mut drawn, swing, false);
    drawn
}

pub fn leak_under_weeks(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 1.0);
    let swing = by * dice.log_between(0.2, 1.5);
    let share = by * dice.log_between(0.005, 0.05);
    let clock = days_long(dice, 18.0, 42.0);
    let mut drawn = any(dice, story(clock, &[Growing], move |x| by * x), share);
    by_day(dice, &mut drawn, swing, true);
    drawn
}

fn cycles(dice: &mut Dice, week: bool) -> Drawn {
    let swing = dice.log_between(0.06, 1.0);
    let share = swing * dice.log_between(0.01, 0.1);
    let (lo, hi) = if week { (18.0, 42.0) } else { (3.0, 21.0) };
    let clock = days_long(dice, lo, hi);
    let mut drawn = any(dice, story(clock, &[Sawtooth, Flat], |_| 0.0), share);
    by_day(dice, &mut drawn, swing, week);
    drawn
}

pub fn days(dice: &mut Dice) -> Drawn {
    cycles(dice, false)
}

pub fn weeks(dice: &mut Dice) -> Drawn {
    cycles(dice, true)
}

/// A job every hour that needs memory for 5 to 30 minutes.
pub fn hourly(dice: &mut Dice) -> Drawn {
    let (x, _) = steady(dice, 300.0, 3000.0);
    let hours = dice.between(5.0, x.len() as f64 / 12.0);
    let (height, long) = (dice.log_between(0.08, 1.0), dice.between(0.1, 0.5));
    let share = height * dice.log_between(0.01, 0.08);
    let clock = (x, hours * 3600.0);
    let mut drawn = any(dice, story(clock, &[Sawtooth, Flat], |_| 0.0), share);
    let phase = dice.unit();
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let busy = (x * hours + phase).fract() < long;
        *value += if busy { height } else { 0.0 };
    }
    drawn.cyclic = true;
    drawn
}

/// Lives that begin at these ages of the window, `f` of their own age.
fn lives(
    clock: (Vec<f64>, f64),
    births: Vec<f64>,
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + Copy + 'static,
) -> Drawn {
    let age = move |x: f64| {
        let last = births.iter().rev().find(|b| **b <= x);
        x - last.copied().unwrap_or(0.0)
    };
    let mut drawn = story(clock, accept, move |x| f(age(x)));
    drawn.slope = drawn.slope.map(|_| (f(1.0) - f(0.97)) / 0.03);
    drawn
}

/// One to five births at random, none within 8 % of another.
fn births(dice: &mut Dice) -> Vec<f64> {
    let count = dice.whole(1, 5);
    let mut at: Vec<f64> = (0..200).map(|_| dice.between(0.1, 0.9)).collect();
    let mut kept: Vec<f64> = Vec::new();
    while let Some(b) = at.pop().filter(|_| kept.len() < count) {
        if kept.iter().all(|k| (k - b).abs() > 0.08) {
            kept.push(b);
        }
    }
    kept.sort_by(f64::total_cmp);
    kept
}

/// A leak whose process is restarted, at heights that have nothing in common, and nobody says so.
pub fn lives_untold(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.8, 6.0);
    let share = by * dice.log_between(0.003, 0.02);
    let clock = steady(dice, 200.0, 3000.0);
    let born = births(dice);
    any(
        dice,
        lives(clock, born, &[Growing], move |age| by * age),
        share,
    )
}

pub fn lives_told(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.4, 6.0);
    let share = by * dice.log_between(0.003, 0.02);
    let clock = steady(dice, 200.0, 3000.0);
    let born = births(dice);
    let mut drawn = lives(clock, born.clone(), &[Growing], move |age| by * age);
    drawn.restarts = born;
    any(dice, drawn, share)
}

pub fn lives_warm(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.1, 1.5), dice.between(0.005, 0.025));
    let share = by * dice.log_between(0.005, 0.05);
    let clock = steady(dice, 300.0, 3000.0);
    let born = births(dice);
    let f = move |age: f64| by * (1.0 - (-age / tau).exp());
    let mut drawn = lives(clock, born.clone(), &[Plateauing, Flat], f);
    drawn.restarts = born;
    any(dice, drawn, share)
}

/// Straight up to the limit, then born again; told in two of three.
pub fn killed(dice: &mut Dice) -> Drawn {
    let (kills, top) = (dice.between(1.6, 12.0), dice.between(0.8, 8.0));
    let clock = steady(dice, 25.0 * kills + 60.0, 3000.0);
    let count = kills.floor() as usize;
    let born: Vec<f64> = (1..=count).map(|i| i as f64 / kills).collect();
    let mut drawn = lives(clock, born.clone(), &[Growing], move |age| {
        top * age * kills
    });
    if dice.chance(0.67) {
        drawn.restarts = born;
    }
    drawn.limit = Some(1.0 + top);
    let mut drawn = any(dice, drawn, 0.01 * top);
    for value in &mut drawn.values {
        *value = value.min(1.0 + top);
    }
    drawn
}

/// A collector: garbage to a threshold that wavers by a few percent; every fourth time it also takes old garbage.
fn collected(dice: &mut Dice, by: f64, accept: &'static [Label]) -> Drawn {
    let teeth = dice.log_between(8.0, 80.0);
    let clock = steady(dice, (8.0 * teeth).max(150.0), 3000.0);
    let height = dice.log_between(0.1, 1.5);
    let (uneven, old) = (dice.between(0.0, 0.15), dice.between(0.0, 0.2));
    let mut drawn = story(clock, accept, move |x| by * x);
    let (mut from, mut own, mut count) = (-dice.unit() / teeth, 1.0, 0);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        while *x > from + own / teeth {
            from += own / teeth;
            own = (1.0 + uneven * dice.normal()).max(0.5);
            count += 1;
        }
        *value += height * ((x - from) * teeth + old * f64::from(count % 4));
    }
    drawn.cyclic = true;
    let share = height * dice.log_between(0.003, 0.03);
    let mut drawn = any(dice, drawn, share);
    if by <= 0.0 {
        drawn.growth = Box::new(|_| 0.0);
    }
    drawn
}

pub fn collector(dice: &mut Dice) -> Drawn {
    collected(dice, 0.0, &[Sawtooth, Flat])
}

pub fn collector_leaks(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.25, 2.0);
    collected(dice, by, &[Growing])
}

/// An allocator gives pages back at random instants; they are taken again within a twentieth of the window.
fn trimmed(dice: &mut Dice, by: f64, accept: &'static [Label]) -> Drawn {
    let clock = steady(dice, 200.0, 3000.0);
    let mut drawn = story(clock, accept, move |x| by * x);
    let often = dice.between(4.0, 20.0);
    let (depth, tau) = (dice.between(0.05, 0.25), dice.log_between(0.003, 0.02));
    let (mut low, mut last) = (0.0, 0.0);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        low *= (-(x - last) / tau).exp();
        if dice.chance(often * (x - last)) {
            low = depth * dice.between(0.6, 1.2);
        }
        last = *x;
        *value -= low;
    }
    let share = dice.log_between(0.001, 0.01);
    any(dice, drawn, share)
}

pub fn trims(dice: &mut Dice) -> Drawn {
    let mut drawn = trimmed(dice, 0.0, &[Flat, Sawtooth]);
    drawn.cyclic = true;
    drawn
}

pub fn trims_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.15, 1.5);
    trimmed(dice, by, &[Growing])
}

/// A cache whose entries live for a term: it fills straight until the first of them go, then wavers.
pub fn term(dice: &mut Dice) -> Drawn {
    let (by, share) = rise(dice);
    let to = dice.between(0.08, 0.4);
    let clock = steady(dice, 150.0, 3000.0);
    let f = move |x: f64| by * x.min(to) / to;
    let mut drawn = story(clock, &[Plateauing, Stepped], f);
    let slow = memory(dice, drawn.x.len(), 0.95);
    add(&mut drawn, 0.02 * by, slow);
    any(dice, drawn, 0.5 * share)
}

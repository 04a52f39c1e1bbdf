//! A fourteenth set, written by the labels' meanings, the dirt and the list of families that are asked for, and by nothing
//! else: noise is a share of what is resident then, clocks wait at random or stand still for a while. Committed before any
//! verdict on it was looked at.

use std::f64::consts::{PI, TAU};

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain::audible;
use crate::scene::Drawn;
use crate::strange::{Maker, memory, noise, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("straight", straight),
    ("root", root),
    ("power", power),
    ("logarithm", logarithm),
    ("straight, memory to .99", straight_memory),
    ("straight, coarse", straight_coarse),
    ("straight, holes", straight_holes),
    ("straight, outliers", straight_outliers),
    ("straight, by day", straight_day),
    ("straight, by week", straight_week),
    ("straight, clock set", straight_clock),
    ("straight, 60 to 100", straight_few),
    ("fill, then straight", fill_straight),
    ("many small steps up", many_steps),
    ("floor of a collector rises", teeth_leak),
    ("restarts told, leak", told),
    ("restarts untold, leak", untold),
    ("killed at its limit", killed),
    ("fill", fill),
    ("fill, memory to .99", fill_memory),
    ("fill by day", fill_day),
    ("ramp to full", ramp),
    ("flat", flat),
    ("flat, memory to .99", flat_memory),
    ("flat, coarse", flat_coarse),
    ("flat, outliers, holes", flat_outliers),
    ("flat by day", flat_day),
    ("flat by week", flat_week),
    ("collector", teeth),
    ("one to three steps", steps),
    ("restarts told, warm", told_warm),
    ("less and less", decline),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x452821e638d01377);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

type Clock = (Vec<f64>, f64);

/// Readings with waits between them that are all alike, or exponential, or alike but for one in fifty.
fn clock(dice: &mut Dice, lo: f64, hi: f64) -> Clock {
    let n = dice.log_between(lo, hi).round() as usize;
    let kind = dice.whole(0, 2);
    let mut at = 0.0;
    let times: Vec<f64> = (0..n)
        .map(|_| {
            at += match kind {
                0 => 1.0,
                1 => 0.5 + 0.5 * dice.exponential(),
                _ if dice.chance(0.02) => 4.0,
                _ => 1.0,
            };
            at
        })
        .collect();
    let span = at - times[0];
    let x = times.iter().map(|t| (t - times[0]) / span);
    (x.collect(), span * dice.log_between(5.0, 1800.0))
}

fn days(dice: &mut Dice, lo: f64, hi: f64) -> Clock {
    let (x, _) = clock(dice, 400.0, 4000.0);
    (x, dice.between(lo, hi) * 86_400.0)
}

/// Noise as a share of what is resident, up to what leaves a rise `by` audible.
fn under(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let most = audible(by / (1.0 + by), drawn.x.len(), 0.6);
    let share = (dice.log_between(0.02, 1.0) * most).min(0.08);
    let loud = noise(dice, drawn.x.len());
    times(&mut drawn, share, loud);
    drawn
}

fn under_memory(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let phi = 1.0 - dice.log_between(0.01, 0.2);
    let most = audible(by / (1.0 + by), drawn.x.len(), phi);
    let share = (dice.log_between(0.05, 1.0) * most).min(0.08);
    let slow = memory(dice, drawn.x.len(), phi);
    times(&mut drawn, share, slow);
    drawn
}

fn times(drawn: &mut Drawn, share: f64, noise: Vec<f64>) {
    for (value, e) in drawn.values.iter_mut().zip(noise) {
        *value *= (1.0 + share * e).max(0.05);
    }
}

/// A rise of any size by `f`, which leads from 0 to 1.
fn risen(
    dice: &mut Dice,
    clock: Clock,
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> (Drawn, f64) {
    let by = dice.log_between(0.05, 3.0);
    (story(clock, accept, move |x| by * f(x)), by)
}

fn line(dice: &mut Dice, lo: f64, hi: f64) -> (Drawn, f64) {
    let clock = clock(dice, lo, hi);
    risen(dice, clock, &[Growing], |x| x)
}

fn straight(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 100.0, 5000.0);
    under(dice, drawn, by)
}

fn straight_few(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 60.0, 100.0);
    under(dice, drawn, by)
}

fn straight_memory(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 300.0, 5000.0);
    under_memory(dice, drawn, by)
}

fn straight_coarse(dice: &mut Dice) -> Drawn {
    let (mut drawn, by) = line(dice, 150.0, 3000.0);
    drawn.grain = Some(by / dice.log_between(6.0, 60.0));
    under(dice, drawn, by)
}

fn straight_holes(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 150.0, 3000.0);
    let mut drawn = under(dice, drawn, by);
    holes(dice, &mut drawn);
    drawn
}

fn straight_outliers(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 150.0, 3000.0);
    let mut drawn = under(dice, drawn, by);
    outliers(dice, &mut drawn);
    drawn
}

/// The clock is set forward by up to a fifth of the window, or back by less than three readings.
fn straight_clock(dice: &mut Dice) -> Drawn {
    let (drawn, by) = line(dice, 150.0, 3000.0);
    let mut drawn = under(dice, drawn, by);
    let n = drawn.x.len();
    let from = dice.whole(n / 5, 4 * n / 5);
    let shift = match dice.chance(0.5) {
        true => dice.between(0.02, 0.2),
        false => -dice.between(0.5, 2.5) / n as f64,
    };
    drawn.x[from..].iter_mut().for_each(|x| *x += shift);
    drawn.slope = None;
    drawn
}

fn root(dice: &mut Dice) -> Drawn {
    let clock = clock(dice, 150.0, 4000.0);
    let (drawn, by) = risen(dice, clock, &[Growing], f64::sqrt);
    let by = by.max(0.1) / 2.0;
    under(dice, drawn, by)
}

fn power(dice: &mut Dice) -> Drawn {
    let (clock, p) = (clock(dice, 150.0, 4000.0), dice.between(0.6, 2.5));
    let (drawn, by) = risen(dice, clock, &[Growing], move |x| x.powf(p));
    under(dice, drawn, by / 1.5)
}

fn logarithm(dice: &mut Dice) -> Drawn {
    let (clock, k) = (clock(dice, 150.0, 4000.0), dice.log_between(2.0, 300.0));
    let f = move |x: f64| (k * x).ln_1p() / k.ln_1p();
    let (drawn, by) = risen(dice, clock, &[Growing, Plateauing], f);
    under(dice, drawn, by / 2.0)
}

fn fill_straight(dice: &mut Dice) -> Drawn {
    let (clock, tau) = (clock(dice, 200.0, 4000.0), dice.log_between(0.01, 0.08));
    let warm = dice.log_between(0.3, 1.5);
    let f = move |x: f64| x + warm * (1.0 - (-x / tau).exp());
    let (drawn, by) = risen(dice, clock, &[Growing], f);
    under(dice, drawn, by / 2.0)
}

/// A new slab of one size whenever the old one is full, at uneven times.
fn many_steps(dice: &mut Dice) -> Drawn {
    let many = dice.whole(10, 40);
    let at: Vec<f64> = (0..many)
        .map(|i| (i as f64 + dice.unit()) / many as f64)
        .collect();
    let f = move |x: f64| at.iter().filter(|a| **a <= x).count() as f64 / many as f64;
    let clock = clock(dice, 200.0, 4000.0);
    let (mut drawn, by) = risen(dice, clock, &[Growing], f);
    drawn.slope = Some(by);
    under(dice, drawn, by / 3.0)
}

fn holes(dice: &mut Dice, drawn: &mut Drawn) {
    for _ in 0..dice.whole(1, 3) {
        let from = dice.between(0.05, 0.8);
        let to = from + dice.between(0.03, 0.15);
        let rows = drawn.x.iter().zip(&drawn.values);
        let kept = rows.filter(|(x, _)| !(from..to).contains(*x));
        (drawn.x, drawn.values) = kept.map(|(x, v)| (*x, *v)).unzip();
    }
}

/// Zeros, and readings half as large to five times as large.
fn outliers(dice: &mut Dice, drawn: &mut Drawn) {
    let often = dice.log_between(0.003, 0.04);
    for value in drawn.values.iter_mut() {
        if dice.chance(often) {
            *value *= dice.pick(&[0.0, 0.5, 1.5, 5.0]);
        }
    }
}

/// A load that follows the hour, and is `rest` of it on two days of seven.
fn loaded(dice: &mut Dice, mut drawn: Drawn, rest: f64) -> Drawn {
    let (height, from) = (dice.log_between(0.04, 0.6), dice.between(0.0, 7.0));
    let second = dice.between(0.0, 0.4);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = from + x * drawn.span_s / 86_400.0;
        let busy = if day.rem_euclid(7.0) < 5.0 { 1.0 } else { rest };
        let hour = 0.5 - 0.5 * (TAU * day).cos() + second * (2.0 * TAU * day).sin().max(0.0);
        *value += height * busy * hour;
    }
    drawn.cyclic = true;
    drawn
}

fn straight_day(dice: &mut Dice) -> Drawn {
    let clock = days(dice, 3.0, 18.0);
    let (drawn, by) = risen(dice, clock, &[Growing], |x| x);
    let drawn = under(dice, drawn, by);
    loaded(dice, drawn, 1.0)
}

fn straight_week(dice: &mut Dice) -> Drawn {
    let (clock, rest) = (days(dice, 19.0, 45.0), dice.between(0.1, 0.6));
    let (drawn, by) = risen(dice, clock, &[Growing], |x| x);
    let drawn = under(dice, drawn, by);
    loaded(dice, drawn, rest)
}

fn fill_curve(dice: &mut Dice) -> impl Fn(f64) -> f64 + 'static {
    let (tau, p) = (dice.log_between(0.01, 0.25), dice.between(0.7, 1.4));
    move |x: f64| 1.0 - (-(x / tau).powf(p)).exp()
}

fn fill(dice: &mut Dice) -> Drawn {
    let (clock, f) = (clock(dice, 120.0, 4000.0), fill_curve(dice));
    let (drawn, by) = risen(dice, clock, &[Plateauing], f);
    under(dice, drawn, by / 2.0)
}

fn fill_memory(dice: &mut Dice) -> Drawn {
    let (clock, f) = (clock(dice, 300.0, 4000.0), fill_curve(dice));
    let (drawn, by) = risen(dice, clock, &[Plateauing], f);
    under_memory(dice, drawn, by / 2.0)
}

fn fill_day(dice: &mut Dice) -> Drawn {
    let (clock, f) = (days(dice, 4.0, 18.0), fill_curve(dice));
    let (drawn, by) = risen(dice, clock, &[Plateauing], f);
    let drawn = under(dice, drawn, by / 2.0);
    loaded(dice, drawn, 1.0)
}

/// Reads its table at one pace until it has all of it.
fn ramp(dice: &mut Dice) -> Drawn {
    let (clock, full) = (clock(dice, 150.0, 4000.0), dice.between(0.05, 0.5));
    let (drawn, by) = risen(dice, clock, &[Plateauing], move |x| (x / full).min(1.0));
    under(dice, drawn, by / 2.0)
}

fn level(clock: Clock) -> Drawn {
    story(clock, &[Flat], |_| 0.0)
}

fn flat(dice: &mut Dice) -> Drawn {
    let drawn = level(clock(dice, 60.0, 5000.0));
    under(dice, drawn, 0.06)
}

fn flat_memory(dice: &mut Dice) -> Drawn {
    let drawn = level(clock(dice, 300.0, 5000.0));
    under_memory(dice, drawn, 0.06)
}

fn flat_coarse(dice: &mut Dice) -> Drawn {
    let mut drawn = level(clock(dice, 100.0, 3000.0));
    drawn.grain = Some(dice.log_between(0.0005, 0.009));
    under(dice, drawn, 0.04)
}

fn flat_outliers(dice: &mut Dice) -> Drawn {
    let drawn = level(clock(dice, 150.0, 3000.0));
    let mut drawn = under(dice, drawn, 0.06);
    outliers(dice, &mut drawn);
    holes(dice, &mut drawn);
    drawn
}

const LOAD: &[Label] = &[Sawtooth, Flat];

fn flat_day(dice: &mut Dice) -> Drawn {
    let drawn = story(days(dice, 3.0, 18.0), LOAD, |_| 0.0);
    let drawn = under(dice, drawn, 0.06);
    loaded(dice, drawn, 1.0)
}

fn flat_week(dice: &mut Dice) -> Drawn {
    let (clock, rest) = (days(dice, 19.0, 45.0), dice.between(0.1, 0.6));
    let drawn = under(dice, story(clock, LOAD, |_| 0.0), 0.06);
    loaded(dice, drawn, rest)
}

fn decline(dice: &mut Dice) -> Drawn {
    let (clock, by) = (clock(dice, 150.0, 3000.0), dice.log_between(0.02, 0.4));
    let drawn = story(clock, &[Flat], move |x| by * (1.0 - x));
    under(dice, drawn, 0.06)
}

/// Garbage that is collected when it is as high as `height`, now sooner, now later.
fn collected(dice: &mut Dice, mut drawn: Drawn, height: f64) -> Drawn {
    let turns = dice.log_between(12.0, drawn.x.len() as f64 / 10.0);
    let uneven = dice.between(0.02, 0.2);
    let (mut now, mut last, mut full) = (dice.unit() * height, 0.0, height);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        now += (x - last) * turns * height;
        last = *x;
        if now >= full {
            (now, full) = (0.0, height * (1.0 + uneven * (2.0 * dice.unit() - 1.0)));
        }
        *value += now;
    }
    drawn.cyclic = true;
    drawn
}

fn teeth(dice: &mut Dice) -> Drawn {
    let drawn = story(clock(dice, 300.0, 4000.0), LOAD, |_| 0.0);
    let height = dice.log_between(0.15, 1.5);
    let drawn = under(dice, drawn, 0.03);
    collected(dice, drawn, height)
}

fn teeth_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.15, 2.0);
    let clock = clock(dice, 300.0, 4000.0);
    let drawn = story(clock, &[Growing], move |x| by * x);
    let drawn = under(dice, drawn, by / 3.0);
    let height = by * dice.log_between(0.2, 1.5);
    collected(dice, drawn, height)
}

fn steps(dice: &mut Dice) -> Drawn {
    let mut at = 0.0;
    let stairs: Vec<(f64, f64)> = (0..dice.whole(1, 3))
        .map(|_| {
            at += dice.between(0.12, 0.28);
            let by = dice.log_between(0.06, 0.5);
            (at, if dice.chance(0.5) { by } else { -0.4 * by })
        })
        .collect();
    let f = move |x: f64| stairs.iter().filter(|s| s.0 <= x).map(|s| s.1).sum::<f64>();
    let drawn = story(clock(dice, 120.0, 3000.0), &[Stepped], f);
    under(dice, drawn, 0.04)
}

/// One to six births at will, and what `f` says of the time since the last.
fn lives(
    dice: &mut Dice,
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> (Drawn, Vec<f64>) {
    let many = dice.whole(1, 6);
    let mut born: Vec<f64> = (0..many).map(|_| dice.between(0.08, 0.85)).collect();
    born.sort_by(f64::total_cmp);
    let births = born.clone();
    let age = move |x: f64| {
        x - births
            .iter()
            .copied()
            .filter(|b| *b <= x)
            .fold(0.0, f64::max)
    };
    let drawn = story(clock(dice, 300.0, 4000.0), accept, move |x| f(age(x)));
    (drawn, born)
}

fn told(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.3, 4.0);
    let (mut drawn, born) = lives(dice, &[Growing], move |age| by * age);
    (drawn.restarts, drawn.slope) = (born, Some(by));
    under(dice, drawn, by / 12.0)
}

fn untold(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(1.0, 6.0);
    let (mut drawn, _) = lives(dice, &[Growing], move |age| by * age);
    drawn.slope = Some(by);
    under(dice, drawn, by / 20.0)
}

fn told_warm(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.1, 0.8), dice.log_between(0.005, 0.03));
    let f = move |age: f64| by * (1.0 - (-age / tau).exp());
    let (mut drawn, born) = lives(dice, &[Flat, Plateauing], f);
    drawn.restarts = born;
    under(dice, drawn, 0.06)
}

/// Climbs at one pace to its limit, and begins anew; the picture of its file shows no restart.
fn killed(dice: &mut Dice) -> Drawn {
    let (room, turns) = (dice.log_between(0.4, 3.0), dice.between(2.2, 9.0));
    let bent = dice.between(0.8, 1.2);
    let clock = clock(dice, 300.0, 4000.0);
    let f = move |x: f64| room * (turns * x).fract().powf(bent);
    let mut drawn = story(clock, &[Growing], f);
    (drawn.slope, drawn.limit) = (None, Some(1.02 * (1.0 + room)));
    let quiet = 0.02 * (PI * dice.unit()).sin();
    under(dice, drawn, room * quiet)
}

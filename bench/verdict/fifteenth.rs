//! A fifteenth set, written by the words of the labels and by the dirt and the kinds of growth that are asked for, and by
//! nothing else: 40 to 3,000 readings, levels that swing by factors, deploys at regular times. Committed before any verdict
//! on it was looked at.

use std::f64::consts::TAU;

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain::audible;
use crate::scene::Drawn;
use crate::strange::{Maker, memory, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak, 40 to 120", leak_few),
    ("leak, log-normal", leak_lognormal),
    ("leak, heavy tails", leak_heavy),
    ("leak by week", leak_week),
    ("leak, 1 MiB", leak_coarse),
    ("leak, nights missing", leak_nights),
    ("leak, doubled times", leak_doubled),
    ("heap, floor rises", heap_leak),
    ("leak in two paces", two_paces),
    ("leak from midway", begins),
    ("deploys told, leak", deploys_leak),
    ("deploys untold, leak", deploys_untold),
    ("killed, several pids", killed),
    ("leak until midway", ends),
    ("cache fills", cache),
    ("linear fill stops", filled),
    ("deploys told, warm", deploys_warm),
    ("heap, floor stands", heap),
    ("two moves", moves),
    ("flat, log-normal", flat_lognormal),
    ("flat, heavy tails", flat_heavy),
    ("flat by week", flat_week),
    ("flat by day, nights missing", flat_nights),
    ("flat, doubled, 1 MiB", flat_doubled),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x13198a2e03707344);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

type Clock = (Vec<f64>, f64);

/// Readings every so many seconds.
fn clock(dice: &mut Dice, lo: f64, hi: f64) -> Clock {
    let n = dice.log_between(lo, hi).round();
    let step_s = dice.log_between(2.0, 1800.0);
    ((0..n as usize).map(|i| i as f64 / n).collect(), n * step_s)
}

fn any_clock(dice: &mut Dice) -> Clock {
    clock(dice, 40.0, 3000.0)
}

fn days(dice: &mut Dice, lo: f64, hi: f64) -> Clock {
    let (x, _) = clock(dice, 300.0, 3000.0);
    (x, dice.between(lo, hi) * 86_400.0)
}

/// One in `often` of the readings is there twice, at one time.
fn doubled((x, span_s): Clock, dice: &mut Dice, often: f64) -> Clock {
    let twice = x.into_iter().flat_map(|x| {
        let many = if dice.chance(often) { 2 } else { 1 };
        vec![x; many]
    });
    (twice.collect(), span_s)
}

/// Nobody reads for five to ten hours of every day.
fn without_nights((x, span_s): Clock, dice: &mut Dice) -> Clock {
    let (from, night) = (dice.unit(), dice.between(0.2, 0.4));
    let by_day = x
        .into_iter()
        .filter(|x| (x * span_s / 86_400.0 + from).fract() > night);
    let kept: Vec<f64> = by_day.collect();
    let first = kept[0];
    (kept.into_iter().map(|x| x - first).collect(), span_s)
}

fn risen(
    dice: &mut Dice,
    clock: Clock,
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> (Drawn, f64) {
    let by = dice.log_between(0.05, 2.0);
    (story(clock, accept, move |x| by * f(x)), by)
}

/// Noise of 0.2 to 3 % of the level, with or without a memory, that leaves a rise `by` audible.
fn under(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let phi = if dice.chance(0.5) {
        dice.between(0.3, 0.95)
    } else {
        0.0
    };
    let share = dice.log_between(0.002, 0.03);
    let share = share.min(audible(by, drawn.x.len(), phi));
    let noise = memory(dice, drawn.x.len(), phi);
    for (value, e) in drawn.values.iter_mut().zip(noise) {
        *value = (*value + share * e).max(0.05);
    }
    drawn
}

/// The level is multiplied by a number whose logarithm is normal.
fn lognormal(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let most = audible(by / (1.0 + by), drawn.x.len(), 0.5);
    let sigma = dice.log_between(0.01, 0.3).min(most);
    let noise = memory(dice, drawn.x.len(), 0.5);
    for (value, e) in drawn.values.iter_mut().zip(noise) {
        *value *= (sigma * e).exp();
    }
    drawn
}

/// Student's t with three degrees of freedom.
fn heavy(dice: &mut Dice, mut drawn: Drawn, by: f64) -> Drawn {
    let share = dice.log_between(0.003, 0.06);
    let share = share.min(audible(by, drawn.x.len(), 0.0));
    for value in drawn.values.iter_mut() {
        *value = (*value + share * dice.heavy()).max(0.05);
    }
    drawn
}

/// A load by day; on two days of seven it is `rest` of it.
fn loaded(dice: &mut Dice, mut drawn: Drawn, rest: f64) -> Drawn {
    let (height, from) = (dice.log_between(0.04, 0.5), dice.between(0.0, 7.0));
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = from + x * drawn.span_s / 86_400.0;
        let busy = if day.rem_euclid(7.0) < 5.0 { 1.0 } else { rest };
        *value += height * busy * (0.5 - 0.5 * (TAU * day).cos());
    }
    drawn.cyclic = true;
    drawn
}

fn leak(dice: &mut Dice, clock: Clock) -> (Drawn, f64) {
    risen(dice, clock, &[Growing], |x| x)
}

fn leak_few(dice: &mut Dice) -> Drawn {
    let clock = clock(dice, 40.0, 120.0);
    let (drawn, by) = leak(dice, clock);
    under(dice, drawn, by)
}

fn leak_lognormal(dice: &mut Dice) -> Drawn {
    let clock = any_clock(dice);
    let (drawn, by) = leak(dice, clock);
    lognormal(dice, drawn, by)
}

fn leak_heavy(dice: &mut Dice) -> Drawn {
    let clock = any_clock(dice);
    let (drawn, by) = leak(dice, clock);
    heavy(dice, drawn, by)
}

fn leak_week(dice: &mut Dice) -> Drawn {
    let (clock, rest) = (days(dice, 15.0, 42.0), dice.between(0.1, 0.7));
    let (drawn, by) = leak(dice, clock);
    let drawn = under(dice, drawn, by);
    loaded(dice, drawn, rest)
}

/// Readings in whole MiB of 60 MiB to 4 GiB.
fn leak_coarse(dice: &mut Dice) -> Drawn {
    let clock = clock(dice, 100.0, 3000.0);
    let (mut drawn, by) = leak(dice, clock);
    drawn.grain = Some(dice.log_between(0.00025, 0.017).min(by / 5.0));
    under(dice, drawn, by)
}

fn leak_nights(dice: &mut Dice) -> Drawn {
    let clock = days(dice, 3.0, 20.0);
    let clock = without_nights(clock, dice);
    let (drawn, by) = leak(dice, clock);
    under(dice, drawn, by)
}

fn leak_doubled(dice: &mut Dice) -> Drawn {
    let (clock, often) = (any_clock(dice), dice.log_between(0.01, 0.5));
    let clock = doubled(clock, dice, often);
    let (drawn, by) = leak(dice, clock);
    under(dice, drawn, by)
}

fn two_paces(dice: &mut Dice) -> Drawn {
    let (clock, at) = (clock(dice, 100.0, 3000.0), dice.between(0.3, 0.7));
    let slower = dice.between(0.2, 0.6);
    let paces = if dice.chance(0.5) {
        (slower, 1.0)
    } else {
        (1.0, slower)
    };
    let f = move |x: f64| paces.0 * x.min(at) + paces.1 * (x - at).max(0.0);
    let (drawn, by) = risen(dice, clock, &[Growing], f);
    under(dice, drawn, by / 3.0)
}

fn begins(dice: &mut Dice) -> Drawn {
    let (clock, at) = (clock(dice, 100.0, 3000.0), dice.between(0.3, 0.6));
    let f = move |x: f64| (x - at).max(0.0) / (1.0 - at);
    let (drawn, by) = risen(dice, clock, &[Growing], f);
    under(dice, drawn, by / 3.0)
}

fn ends(dice: &mut Dice) -> Drawn {
    let (clock, at) = (clock(dice, 100.0, 3000.0), dice.between(0.35, 0.6));
    let (drawn, by) = risen(dice, clock, &[Plateauing], move |x| (x / at).min(1.0));
    under(dice, drawn, by / 3.0)
}

fn cache(dice: &mut Dice) -> Drawn {
    let (clock, tau) = (any_clock(dice), dice.log_between(0.02, 0.22));
    let f = move |x: f64| 1.0 - (-x / tau).exp();
    let (drawn, by) = risen(dice, clock, &[Plateauing], f);
    under(dice, drawn, by / 2.0)
}

fn filled(dice: &mut Dice) -> Drawn {
    let (clock, at) = (any_clock(dice), dice.between(0.05, 0.35));
    let (drawn, by) = risen(dice, clock, &[Plateauing], move |x| (x / at).min(1.0));
    under(dice, drawn, by / 2.0)
}

/// What `f` says of the time since the last of two to five deploys at equal distances.
fn deployed(dice: &mut Dice, accept: &'static [Label], f: impl Fn(f64) -> f64 + 'static) -> Drawn {
    let every = 1.0 / dice.between(2.0, 5.0);
    let first = every * dice.between(0.3, 1.0);
    let age = move |x: f64| {
        let since = x - first;
        if since < 0.0 { x } else { since % every }
    };
    let mut drawn = story(clock(dice, 300.0, 3000.0), accept, move |x| f(age(x)));
    let many = ((1.0 - first) / every) as usize;
    drawn.restarts = (0..=many).map(|i| first + i as f64 * every).collect();
    drawn
}

fn deploys_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.4, 3.0);
    let mut drawn = deployed(dice, &[Growing], move |age| by * age);
    drawn.slope = Some(by);
    under(dice, drawn, by / 8.0)
}

fn deploys_untold(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(1.0, 5.0);
    let mut drawn = deployed(dice, &[Growing], move |age| by * age);
    (drawn.restarts, drawn.slope) = (Vec::new(), Some(by));
    under(dice, drawn, by / 20.0)
}

fn deploys_warm(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.08, 0.6), dice.log_between(0.005, 0.03));
    let f = move |age: f64| by * (1.0 - (-age / tau).exp());
    let drawn = deployed(dice, &[Flat, Plateauing], f);
    under(dice, drawn, 0.05)
}

/// Every pid climbs to the limit of its container at a pace of its own; half of the tables name the restarts.
fn killed(dice: &mut Dice) -> Drawn {
    let room = dice.log_between(0.4, 2.5);
    let pace = dice.between(2.5, 8.0);
    let mut born = vec![0.0];
    while born[born.len() - 1] < 1.0 {
        let life = dice.between(0.8, 1.25) / pace;
        born.push(born[born.len() - 1] + life);
    }
    let lives = born.clone();
    let f = move |x: f64| {
        let now = lives.iter().filter(|b| **b <= x).count().max(1);
        let next = lives.get(now).copied().unwrap_or(2.0);
        room * (x - lives[now - 1]) / (next - lives[now - 1])
    };
    let mut drawn = story(clock(dice, 300.0, 3000.0), &[Growing], f);
    (drawn.slope, drawn.limit) = (None, Some(1.03 * (1.0 + room)));
    if dice.chance(0.5) {
        drawn.restarts = born.into_iter().filter(|b| 0.0 < *b && *b < 1.0).collect();
    }
    under(dice, drawn, 0.05 * room)
}

/// Garbage, collected at a height that differs by up to a fifth.
fn collected(dice: &mut Dice, mut drawn: Drawn, height: f64) -> Drawn {
    let turns = dice.log_between(14.0, 0.08 * drawn.x.len() as f64);
    let (mut now, mut last, mut full) = (dice.unit() * height, 0.0, height);
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        now += (x - last) * turns * height;
        last = *x;
        if now >= full {
            (now, full) = (0.0, height * dice.between(0.8, 1.2));
        }
        *value += now;
    }
    drawn.cyclic = true;
    drawn
}

const LOAD: &[Label] = &[Sawtooth, Flat];

fn heap(dice: &mut Dice) -> Drawn {
    let drawn = story(clock(dice, 300.0, 3000.0), LOAD, |_| 0.0);
    let height = dice.log_between(0.1, 1.0);
    let drawn = under(dice, drawn, 0.03);
    collected(dice, drawn, height)
}

fn heap_leak(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.15, 2.0);
    let drawn = story(clock(dice, 300.0, 3000.0), &[Growing], move |x| by * x);
    let height = by * dice.log_between(0.2, 1.5);
    let drawn = under(dice, drawn, by / 3.0);
    collected(dice, drawn, height)
}

/// Up, and up or half of it down again.
fn moves(dice: &mut Dice) -> Drawn {
    let at = (dice.between(0.15, 0.35), dice.between(0.45, 0.65));
    let up = dice.log_between(0.06, 0.6);
    let then = up * dice.pick(&[-0.5, 0.6]);
    let after = |x: f64, at: f64| f64::from(u8::from(x >= at));
    let f = move |x: f64| up * after(x, at.0) + then * after(x, at.1);
    let drawn = story(clock(dice, 100.0, 3000.0), &[Stepped], f);
    under(dice, drawn, 0.03)
}

fn level(clock: Clock) -> Drawn {
    story(clock, &[Flat], |_| 0.0)
}

fn flat_lognormal(dice: &mut Dice) -> Drawn {
    let drawn = level(any_clock(dice));
    lognormal(dice, drawn, 0.06)
}

fn flat_heavy(dice: &mut Dice) -> Drawn {
    let drawn = level(any_clock(dice));
    heavy(dice, drawn, 0.06)
}

fn flat_week(dice: &mut Dice) -> Drawn {
    let (clock, rest) = (days(dice, 15.0, 42.0), dice.between(0.1, 0.7));
    let drawn = under(dice, story(clock, LOAD, |_| 0.0), 0.06);
    loaded(dice, drawn, rest)
}

fn flat_nights(dice: &mut Dice) -> Drawn {
    let clock = days(dice, 4.0, 20.0);
    let clock = without_nights(clock, dice);
    let drawn = under(dice, story(clock, LOAD, |_| 0.0), 0.06);
    loaded(dice, drawn, 1.0)
}

fn flat_doubled(dice: &mut Dice) -> Drawn {
    let (clock, often) = (any_clock(dice), dice.log_between(0.01, 0.5));
    let mut drawn = level(doubled(clock, dice, often));
    drawn.grain = Some(dice.log_between(0.00025, 0.009));
    under(dice, drawn, 0.06)
}

//! A tenth set: the plainest reading of every item of what is asked of the judge, with parameters varied more widely than
//! elsewhere. Hours to weeks, 40 to 5,000 readings, noise from none to 20 % of the level, slopes just above and below
//! what makes a series growing. Written before any verdict on it was looked at. Trends here; what comes and goes in
//! [`plain_turns`](crate::plain_turns).

use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain_turns as turns;
use crate::scene::Drawn;
use crate::strange::{Maker, add, memory, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak, 300 readings", |d| {
        leak(d, (300.0, 300.0), (0.05, 3.0), (0.001, 0.05), 0.0)
    }),
    ("leak of 3.6 to 6 %", |d| {
        leak(d, (150.0, 2000.0), (0.036, 0.06), (0.0005, 0.05), 0.0)
    }),
    ("leak, loud", |d| {
        leak(d, (150.0, 3000.0), (0.1, 3.0), (0.05, 0.2), 0.0)
    }),
    ("leak, 40 to 150", |d| {
        leak(d, (40.0, 150.0), (0.06, 3.0), (0.001, 0.1), 0.0)
    }),
    ("leak, 2,000 to 5,000", |d| {
        leak(d, (2000.0, 5000.0), (0.04, 1.0), (0.002, 0.2), 0.0)
    }),
    ("leak, AR .5 to .9", |d| leak_ar(d, 0.5, 0.9)),
    ("leak, AR .9 to .97", |d| leak_ar(d, 0.9, 0.97)),
    ("leak, AR .97 to .99", |d| leak_ar(d, 0.97, 0.99)),
    ("leak, hardly any noise", |d| {
        leak(d, (60.0, 1000.0), (0.04, 5.0), (1e-6, 1e-4), 0.0)
    }),
    ("fast leak", |d| {
        leak(d, (60.0, 1000.0), (5.0, 40.0), (0.01, 0.2), 0.0)
    }),
    ("leak, heavy tails", leak_heavy),
    ("leak, outliers", leak_outliers),
    ("leak, gappy", leak_gappy),
    ("leak, quantised", leak_quantised),
    ("leak, noise by level", leak_by_level),
    ("leak, readings at random", leak_random),
    ("logarithm", logarithm),
    ("square root", |d| {
        curve(d, &[Growing], (0.06, 1.5), f64::sqrt)
    }),
    ("power .3 to .9", |d| powers(d, 0.3, 0.9)),
    ("power 1.2 to 3", |d| powers(d, 1.2, 3.0)),
    ("exponential growth", runaway),
    ("late leak", late),
    ("fill, then leak", fill_leak),
    ("leak after a step", step_leak),
    ("fill, tau .02 to .1", |d| {
        fill(d, (0.02, 0.1), (100.0, 2000.0), (0.05, 3.0))
    }),
    ("fill, tau .1 to .3", |d| {
        fill(d, (0.1, 0.3), (100.0, 2000.0), (0.05, 3.0))
    }),
    ("fill, tau .3 to .5", |d| {
        fill(d, (0.3, 0.5), (100.0, 2000.0), (0.1, 3.0))
    }),
    ("fill, 40 to 150", |d| {
        fill(d, (0.05, 0.25), (40.0, 150.0), (0.06, 3.0))
    }),
    ("fill of 4 to 10 %", |d| {
        fill(d, (0.03, 0.25), (150.0, 2000.0), (0.04, 0.1))
    }),
    ("fill, AR .5 to .95", fill_ar),
    ("fill, quantised", fill_quantised),
    ("fill in two stages", two_stages),
    ("S-curve", s_curve),
    ("leak that ends", ends),
    ("flat, none to 20 % noise", |d| {
        flat(d, (100.0, 3000.0), (0.0002, 0.2), 0.0)
    }),
    ("flat, 40 to 150", |d| {
        flat(d, (40.0, 150.0), (0.0005, 0.02), 0.0)
    }),
    ("flat, AR .5 to .9", |d| flat_ar(d, 0.5, 0.9)),
    ("flat, AR .9 to .99", |d| flat_ar(d, 0.9, 0.99)),
    ("flat, no noise", |d| {
        flat(d, (40.0, 1000.0), (1e-7, 1e-5), 0.0)
    }),
    ("drift of .2 to 1 %", drift),
    ("slow fall", fall),
    ("flat, quantised", flat_quantised),
    ("flat, outliers", flat_outliers),
    ("flat, gappy", flat_gappy),
    ("daily load", turns::daily),
    ("daily load, leak", turns::daily_leak),
    ("daily load, fill", turns::daily_fill),
    ("weekly load", turns::weekly),
    ("weekly load, leak", turns::weekly_leak),
    ("short cycle", turns::short_cycle),
    ("short cycle, leak", turns::short_cycle_leak),
    ("collector", turns::collector),
    ("collector, leak", turns::collector_leak),
    ("collector under a limit", turns::collector_limit),
    ("one step", turns::one_step),
    ("steps", turns::steps),
    ("restarts told, leak", turns::told_leak),
    ("restarts told, fill", turns::told_fill),
    ("restarts told, flat", turns::told_flat),
    ("restarts untold, leak", turns::untold_leak),
    ("restarts untold, flat", turns::untold_flat),
    ("OOM saw, limit known", turns::oom),
    ("OOM saw, restarts too", turns::oom_told),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x1f83_d9ab_fb41_bd6b);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

/// So many readings at even distances, over two hours to four weeks.
pub fn clock(dice: &mut Dice, (lo, hi): (f64, f64)) -> (Vec<f64>, f64) {
    let n = dice.log_between(lo, hi).round();
    let x = (0..n as usize).map(|i| i as f64 / n).collect();
    (x, dice.log_between(2.0, 28.0 * 24.0) * 3600.0)
}

/// A straight rise stands out of its noise by so many standard errors.
const TELLS: f64 = 10.0;

/// The largest noise out of which a straight rise `by` stands, with a memory `phi` from reading to reading.
pub fn audible(by: f64, readings: usize, phi: f64) -> f64 {
    let free = (readings as f64 * (1.0 - phi) / (1.0 + phi)).max(2.0);
    by / (TELLS * (12.0 / free).sqrt())
}

/// Adds normal noise of this deviation and memory.
pub fn soften(dice: &mut Dice, mut drawn: Drawn, share: f64, phi: f64) -> Drawn {
    let noise = memory(dice, drawn.x.len(), phi);
    add(&mut drawn, share, noise);
    drawn
}

/// A curve under noise that leaves it audible.
fn heard(dice: &mut Dice, drawn: Drawn, by: f64, (lo, hi): (f64, f64), phi: f64) -> Drawn {
    let most = audible(by, drawn.x.len(), phi);
    let share = dice.log_between(lo, hi).min(most);
    soften(dice, drawn, share, phi)
}

type Range = (f64, f64);

fn leak(dice: &mut Dice, readings: Range, size: Range, noise: Range, phi: f64) -> Drawn {
    let by = dice.log_between(size.0, size.1);
    let clock = clock(dice, readings);
    let drawn = story(clock, &[Growing], move |x| by * x);
    heard(dice, drawn, by, noise, phi)
}

fn leak_ar(dice: &mut Dice, lo: f64, hi: f64) -> Drawn {
    let phi = dice.between(lo, hi);
    leak(dice, (200.0, 2000.0), (0.04, 2.0), (0.001, 0.1), phi)
}

/// A leak without noise, and the largest noise it may have.
fn bare_leak(dice: &mut Dice, readings: Range) -> (Drawn, f64) {
    let by = dice.log_between(0.05, 2.0);
    let clock = clock(dice, readings);
    let drawn = story(clock, &[Growing], move |x| by * x);
    let most = audible(by, drawn.x.len(), 0.0);
    (drawn, most)
}

fn leak_heavy(dice: &mut Dice) -> Drawn {
    let (mut drawn, most) = bare_leak(dice, (150.0, 2000.0));
    let share = dice.log_between(0.001, 0.1).min(most);
    let noise = (0..drawn.x.len()).map(|_| dice.heavy()).collect();
    add(&mut drawn, share, noise);
    drawn
}

/// One to five readings in a hundred are 1.2 to 10 times what they should be, or as much less.
pub fn outliers(dice: &mut Dice, drawn: &mut Drawn) {
    let (often, down) = (dice.between(0.01, 0.05), dice.chance(0.3));
    for value in drawn.values.iter_mut() {
        if dice.chance(often) {
            let times = dice.log_between(1.2, 10.0);
            *value *= if down && dice.chance(0.5) {
                1.0 / times
            } else {
                times
            };
        }
    }
}

fn leak_outliers(dice: &mut Dice) -> Drawn {
    let (drawn, most) = bare_leak(dice, (150.0, 2000.0));
    let share = dice.log_between(0.001, 0.05).min(most);
    let mut drawn = soften(dice, drawn, share, 0.0);
    outliers(dice, &mut drawn);
    drawn
}

/// A fifth to a half of the readings is missing, in up to five holes and one by one.
pub fn holes(dice: &mut Dice, drawn: &mut Drawn) {
    let lost = dice.between(0.05, 0.3);
    let holes: Vec<Range> = (0..dice.whole(1, 5))
        .map(|_| (dice.between(0.0, 0.9), dice.between(0.02, 0.08)))
        .collect();
    let kept: Vec<bool> = drawn
        .x
        .iter()
        .map(|x| !dice.chance(lost) && !holes.iter().any(|h| (h.0..h.0 + h.1).contains(x)))
        .collect();
    for column in [&mut drawn.x, &mut drawn.values] {
        let mut keep = kept.iter();
        column.retain(|_| keep.next().copied().unwrap_or(true));
    }
}

fn leak_gappy(dice: &mut Dice) -> Drawn {
    let (drawn, most) = bare_leak(dice, (150.0, 2000.0));
    let share = dice.log_between(0.001, 0.05).min(most);
    let mut drawn = soften(dice, drawn, share, 0.0);
    holes(dice, &mut drawn);
    drawn
}

fn leak_quantised(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.05, 1.0);
    let clock = clock(dice, (100.0, 2000.0));
    let drawn = story(clock, &[Growing], move |x| by * x);
    let grain = by / dice.log_between(5.0, 40.0);
    let mut drawn = heard(dice, drawn, by, (0.05 * grain, 2.0 * grain), 0.0);
    drawn.grain = Some(grain);
    drawn
}

fn leak_by_level(dice: &mut Dice) -> Drawn {
    let (mut drawn, most) = bare_leak(dice, (150.0, 2000.0));
    let share = dice.log_between(0.001, 0.05).min(0.6 * most);
    for value in drawn.values.iter_mut() {
        *value *= (share * dice.normal()).exp();
    }
    drawn
}

fn leak_random(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.05, 2.0);
    let (mut x, span_s) = clock(dice, (100.0, 2000.0));
    x.iter_mut().for_each(|x| *x = dice.unit());
    x.sort_by(f64::total_cmp);
    let drawn = story((x, span_s), &[Growing], move |x| by * x);
    heard(dice, drawn, by, (0.001, 0.05), 0.0)
}

/// A curve from 0 to 1 times its size, its noise 30 standard errors of a line below it.
fn curve(
    dice: &mut Dice,
    accept: &'static [Label],
    size: Range,
    f: impl Fn(f64) -> f64 + 'static,
) -> Drawn {
    let by = dice.log_between(size.0, size.1);
    let clock = clock(dice, (100.0, 2000.0));
    let drawn = story(clock, accept, move |x| by * f(x));
    heard(dice, drawn, by / 3.0, (0.001, 0.05), 0.0)
}

fn logarithm(dice: &mut Dice) -> Drawn {
    let near = dice.log_between(0.001, 0.3);
    let f = move |x: f64| (x / near).ln_1p() / (1.0 / near).ln_1p();
    curve(dice, &[Growing, Plateauing], (0.06, 1.5), f)
}

fn powers(dice: &mut Dice, lo: f64, hi: f64) -> Drawn {
    let p = dice.between(lo, hi);
    curve(dice, &[Growing], (0.1, 2.0), move |x| x.powf(p))
}

fn runaway(dice: &mut Dice) -> Drawn {
    let rate = dice.between(0.7, 4.0);
    let f = move |x: f64| (rate * x).exp_m1() / rate.exp_m1();
    curve(dice, &[Growing], (0.1, 4.0), f)
}

fn late(dice: &mut Dice) -> Drawn {
    let from = dice.between(0.25, 0.75);
    let f = move |x: f64| (x - from).max(0.0) / (1.0 - from);
    curve(dice, &[Growing], (0.06, 2.0), f)
}

fn fill_leak(dice: &mut Dice) -> Drawn {
    let (tau, fills) = (dice.log_between(0.02, 0.15), dice.log_between(0.5, 3.0));
    let f = move |x: f64| x + fills * (1.0 - (-x / tau).exp());
    curve(dice, &[Growing], (0.06, 1.0), f)
}

fn step_leak(dice: &mut Dice) -> Drawn {
    let (at, step) = (dice.between(0.2, 0.8), dice.between(-0.5, 2.0));
    let f = move |x: f64| x + if x >= at { step } else { 0.0 };
    curve(dice, &[Growing], (0.08, 1.0), f)
}

fn filled(dice: &mut Dice, tau: f64, readings: Range, size: Range) -> (Drawn, f64) {
    let by = dice.log_between(size.0, size.1);
    let clock = clock(dice, readings);
    let f = move |x: f64| by * (1.0 - (-x / tau).exp());
    (story(clock, &[Plateauing], f), by)
}

fn fill(dice: &mut Dice, tau: Range, readings: Range, size: Range) -> Drawn {
    let tau = dice.log_between(tau.0, tau.1);
    let (drawn, by) = filled(dice, tau, readings, size);
    heard(dice, drawn, by / 3.0, (0.001, 0.05), 0.0)
}

fn fill_ar(dice: &mut Dice) -> Drawn {
    let (tau, phi) = (dice.log_between(0.02, 0.2), dice.between(0.5, 0.95));
    let (drawn, by) = filled(dice, tau, (200.0, 2000.0), (0.06, 2.0));
    heard(dice, drawn, by / 2.0, (0.001, 0.05), phi)
}

fn fill_quantised(dice: &mut Dice) -> Drawn {
    let tau = dice.log_between(0.03, 0.25);
    let (drawn, by) = filled(dice, tau, (100.0, 2000.0), (0.06, 1.0));
    let grain = by / dice.log_between(5.0, 40.0);
    let mut drawn = heard(dice, drawn, by / 3.0, (0.05 * grain, grain), 0.0);
    drawn.grain = Some(grain);
    drawn
}

fn two_stages(dice: &mut Dice) -> Drawn {
    let (tau, later) = (dice.log_between(0.01, 0.06), dice.log_between(0.02, 0.12));
    let (at, part) = (dice.between(0.15, 0.5), dice.between(0.3, 0.7));
    let f = move |x: f64| {
        let second = 1.0 - (-(x - at).max(0.0) / later).exp();
        part * (1.0 - (-x / tau).exp()) + (1.0 - part) * second
    };
    curve(dice, &[Plateauing, Stepped], (0.08, 2.0), f)
}

fn s_curve(dice: &mut Dice) -> Drawn {
    let (mid, width) = (dice.between(0.15, 0.5), dice.between(0.02, 0.1));
    let f = move |x: f64| 1.0 / (1.0 + (-(x - mid) / width).exp());
    curve(dice, &[Plateauing, Stepped], (0.06, 2.0), f)
}

fn ends(dice: &mut Dice) -> Drawn {
    let to = dice.between(0.15, 0.6);
    curve(dice, &[Plateauing], (0.06, 2.0), move |x| x.min(to) / to)
}

fn flat(dice: &mut Dice, readings: Range, noise: Range, phi: f64) -> Drawn {
    let clock = clock(dice, readings);
    let share = dice.log_between(noise.0, noise.1);
    soften(dice, story(clock, &[Flat], |_| 0.0), share, phi)
}

fn flat_ar(dice: &mut Dice, lo: f64, hi: f64) -> Drawn {
    let phi = dice.between(lo, hi);
    flat(dice, (200.0, 2000.0), (0.0005, 0.02), phi)
}

fn drift(dice: &mut Dice) -> Drawn {
    let by = dice.between(0.002, 0.01) * if dice.chance(0.3) { -1.0 } else { 1.0 };
    let clock = clock(dice, (100.0, 2000.0));
    let share = dice.log_between(0.0005, 0.01);
    soften(dice, story(clock, &[Flat], move |x| by * x), share, 0.0)
}

fn fall(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.01, 0.3);
    let clock = clock(dice, (100.0, 2000.0));
    let share = dice.log_between(0.0005, 0.02);
    let accept = &[Flat, Plateauing];
    soften(dice, story(clock, accept, move |x| -by * x), share, 0.0)
}

fn flat_quantised(dice: &mut Dice) -> Drawn {
    let grain = dice.log_between(0.001, 0.02);
    let share = grain * dice.log_between(0.05, 2.0);
    let mut drawn = flat(dice, (60.0, 2000.0), (share, share), 0.0);
    drawn.grain = Some(grain);
    drawn
}

fn flat_outliers(dice: &mut Dice) -> Drawn {
    let mut drawn = flat(dice, (100.0, 2000.0), (0.0005, 0.03), 0.0);
    outliers(dice, &mut drawn);
    drawn
}

fn flat_gappy(dice: &mut Dice) -> Drawn {
    let mut drawn = flat(dice, (100.0, 2000.0), (0.0005, 0.03), 0.0);
    holes(dice, &mut drawn);
    drawn
}

//! A twelfth set, for the figure of the rules as they are: written when nothing was to be changed any more, looked at once.

use std::f64::consts::TAU;

use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::outside::case_of;
use crate::plain::{audible, clock, soften};
use crate::scene::Drawn;
use crate::strange::{Maker, story};

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak, noise for each size", leak),
    ("leak that quickens", quickens),
    ("leak under a slow wave", slow_wave),
    ("leak, steps both ways", leak_steps),
    ("log of time", logarithm),
    ("fill, then slow fill", two_fills),
    ("fill with steps", fill_steps),
    ("flat under a slow wave", flat_wave),
    ("flat, memory .95", flat_memory),
    ("three levels", levels),
    ("restarts told, bent leak", bent_lives),
    ("bursts of one height", bursts),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x6c44_198c_4a47_5817);
    let drawn = maker(&mut dice);
    case_of(family, drawn, &mut dice)
}

/// Noise up to what leaves a straight rise `by` audible.
fn under(dice: &mut Dice, drawn: Drawn, by: f64, phi: f64) -> Drawn {
    let most = audible(by, drawn.x.len(), phi);
    let share = dice.log_between(0.02, 1.0) * most;
    soften(dice, drawn, share.min(0.2), phi)
}

fn leak(dice: &mut Dice) -> Drawn {
    let (by, phi) = (dice.log_between(0.04, 5.0), dice.between(0.0, 0.9));
    let clock = clock(dice, (80.0, 4000.0));
    let drawn = story(clock, &[Growing], move |x| by * x);
    under(dice, drawn, by, phi)
}

fn quickens(dice: &mut Dice) -> Drawn {
    let (by, at) = (dice.log_between(0.1, 2.0), dice.between(0.2, 0.7));
    let faster = dice.between(1.5, 5.0);
    let clock = clock(dice, (150.0, 2000.0));
    let f = move |x: f64| by * (x + faster * (x - at).max(0.0));
    let drawn = story(clock, &[Growing], f);
    under(dice, drawn, by, 0.0)
}

/// A wave of 2.5 to 8 turns beside a trend.
fn wave(dice: &mut Dice, mut drawn: Drawn, height: f64) -> Drawn {
    let (turns, phase) = (dice.between(2.5, 8.0), dice.unit());
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        *value += height * (0.5 + 0.5 * (TAU * (turns * x + phase)).sin());
    }
    drawn.cyclic = true;
    drawn
}

fn slow_wave(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.08, 1.5);
    let clock = clock(dice, (150.0, 3000.0));
    let drawn = story(clock, &[Growing], move |x| by * x);
    let drawn = under(dice, drawn, by, 0.0);
    let height = by * dice.log_between(0.1, 1.0);
    wave(dice, drawn, height)
}

fn flat_wave(dice: &mut Dice) -> Drawn {
    let height = dice.log_between(0.05, 0.8);
    let clock = clock(dice, (150.0, 3000.0));
    let drawn = story(clock, &[Sawtooth, Flat], |_| 0.0);
    let drawn = under(dice, drawn, height, 0.0);
    wave(dice, drawn, height)
}

fn leak_steps(dice: &mut Dice) -> Drawn {
    let by = dice.log_between(0.1, 1.5);
    let steps: Vec<(f64, f64)> = (0..dice.whole(1, 3))
        .map(|_| (dice.between(0.1, 0.9), by * dice.between(-0.4, 0.8)))
        .collect();
    let clock = clock(dice, (150.0, 2000.0));
    let stairs = move |x: f64| steps.iter().filter(|s| s.0 <= x).map(|s| s.1).sum::<f64>();
    let mut drawn = story(clock, &[Growing], move |x| by * x + stairs(x));
    drawn.slope = Some(by);
    under(dice, drawn, by / 2.0, 0.0)
}

fn logarithm(dice: &mut Dice) -> Drawn {
    let (by, near) = (dice.log_between(0.05, 1.0), dice.log_between(0.002, 0.5));
    let clock = clock(dice, (100.0, 3000.0));
    let f = move |x: f64| by * (x / near).ln_1p() / (1.0 / near).ln_1p();
    let drawn = story(clock, &[Growing, Plateauing], f);
    under(dice, drawn, by / 2.0, 0.0)
}

fn two_fills(dice: &mut Dice) -> Drawn {
    let (by, part) = (dice.log_between(0.1, 2.0), dice.between(0.3, 0.8));
    let (fast, slow) = (dice.between(0.01, 0.05), dice.between(0.08, 0.3));
    let clock = clock(dice, (150.0, 3000.0));
    let f = move |x: f64| by * (1.0 - part * (-x / fast).exp() - (1.0 - part) * (-x / slow).exp());
    let drawn = story(clock, &[Plateauing], f);
    under(dice, drawn, by / 3.0, 0.0)
}

fn fill_steps(dice: &mut Dice) -> Drawn {
    let (by, tau) = (dice.log_between(0.1, 2.0), dice.between(0.02, 0.12));
    let (at, step) = (dice.between(0.4, 0.85), by * dice.between(0.1, 0.5));
    let clock = clock(dice, (150.0, 3000.0));
    let f = move |x: f64| by * (1.0 - (-x / tau).exp()) + if x >= at { step } else { 0.0 };
    let drawn = story(clock, &[Plateauing, Stepped], f);
    under(dice, drawn, by / 3.0, 0.0)
}

fn flat_memory(dice: &mut Dice) -> Drawn {
    let share = dice.log_between(0.0005, 0.01);
    let clock = clock(dice, (150.0, 3000.0));
    soften(dice, story(clock, &[Flat], |_| 0.0), share, 0.95)
}

/// One level, then another, then a third, in either direction.
fn levels(dice: &mut Dice) -> Drawn {
    let sign = |dice: &mut Dice| if dice.chance(0.5) { 1.0 } else { -0.5 };
    let first = dice.log_between(0.06, 0.6) * sign(dice);
    let second = dice.log_between(0.06, 0.6) * sign(dice);
    let (a, b) = (dice.between(0.15, 0.4), dice.between(0.55, 0.85));
    let clock = clock(dice, (100.0, 2000.0));
    let f = move |x: f64| if x < a { 0.0 } else { first } + if x < b { 0.0 } else { second };
    let drawn = story(clock, &[Stepped], f);
    under(dice, drawn, 0.05, 0.0)
}

fn bent_lives(dice: &mut Dice) -> Drawn {
    let (by, p) = (dice.log_between(0.4, 4.0), dice.between(0.5, 1.5));
    let born: Vec<f64> = match dice.whole(1, 3) {
        1 => vec![dice.between(0.3, 0.6)],
        2 => vec![0.3, 0.7],
        _ => vec![0.2, 0.5, 0.7],
    };
    let births = born.clone();
    let f = move |x: f64| {
        let last = births
            .iter()
            .copied()
            .filter(|b| *b <= x)
            .fold(0.0, f64::max);
        by * (x - last).powf(p)
    };
    let clock = clock(dice, (200.0, 3000.0));
    let mut drawn = story(clock, &[Growing], f);
    (drawn.restarts, drawn.slope) = (born, None);
    let share = by * dice.log_between(0.002, 0.02);
    soften(dice, drawn, share, 0.0)
}

/// Requests that need a few readings long as much memory each.
fn bursts(dice: &mut Dice) -> Drawn {
    let (height, often) = (dice.log_between(0.05, 1.0), dice.between(0.01, 0.05));
    let clock = clock(dice, (200.0, 3000.0));
    let drawn = story(clock, &[Flat, Sawtooth], |_| 0.0);
    let mut drawn = soften(dice, drawn, 0.03 * height, 0.0);
    let mut left = 0;
    for value in drawn.values.iter_mut() {
        if left == 0 && dice.chance(often) {
            left = dice.whole(1, 3);
        }
        if left > 0 {
            *value += height;
            left -= 1;
        }
    }
    drawn
}

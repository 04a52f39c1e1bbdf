//! A sixth set: families written after the rules were changed for the last time, looked at once. Nothing was
//! changed for them; bench/results/verdict-error-rates.md has the numbers as they came out.

use std::f64::consts::TAU;

use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::Case;
use crate::dice::Dice;
use crate::exam::{Answer, Maker, Told, make_of, on_trend, rising, saw};

pub const FAMILIES: &[(&str, Told, Maker)] = &[
    ("leak in spurts", Told::Any, spurts),
    ("second leak joins", Told::Any, joined),
    ("bent leak", Told::Any, bent),
    ("far logarithm", Told::Any, far_log),
    ("hill", Told::Any, hill),
    ("fill told in MiB", Told::Mebibytes, fill),
    ("fill, then trimmed", Told::Any, trimmed),
    ("tenants leave", Told::Any, leave),
    ("uneven deploys", Told::Any, deploys),
    ("two shifts a day", Told::Days(3.0, 16.0), shifts),
    ("two shifts a day, leak", Told::Days(3.0, 16.0), shifts_leak),
    ("ragged flat", Told::Any, ragged),
    ("ragged leak", Told::Any, ragged_leak),
    ("collector quickens", Told::Any, quickens),
    ("collector quickens, leak", Told::Any, quickens_leak),
    ("rests, then fills", Told::Any, rests),
];

pub fn make(index: usize, seed: u64) -> Case {
    make_of(
        FAMILIES[index % FAMILIES.len()],
        seed ^ 0x2c9e_71d5_08ab_63f7,
    )
}

/// Rises in stretches of a fiftieth to a twelfth of the window, each at its own rate, none at rest for long.
fn spurts(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let count = dice.whole(12, 50);
    let rates: Vec<f64> = (0..count).map(|_| dice.exponential()).collect();
    let sum: f64 = rates.iter().sum();
    let mut answer = on_trend(dice, x, noise, &[Growing], move |x| {
        let at = x * count as f64;
        let whole = (at as usize).min(count - 1);
        let done: f64 = rates[..whole].iter().sum();
        by * (done + (at - whole as f64) * rates[whole]) / sum
    });
    answer.slope = None;
    answer
}

fn joined(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (from, share) = (dice.between(0.2, 0.7), dice.between(0.3, 0.7));
    on_trend(dice, x, noise, &[Growing], move |x| {
        by * (share * x + (1.0 - share) * (x - from).max(0.0) / (1.0 - from))
    })
}

fn bent(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (near, power) = (dice.log_between(2.0, 30.0), dice.between(0.45, 0.8));
    on_trend(dice, x, noise, &[Growing], move |x| {
        by * ((1.0 + near * x).powf(power) - 1.0) / ((1.0 + near).powf(power) - 1.0)
    })
}

fn far_log(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let near = dice.log_between(40.0, 400.0);
    on_trend(dice, x, noise, &[Growing, Plateauing], move |x| {
        by * (near * x).ln_1p() / near.ln_1p()
    })
}

fn hill(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (half, steep) = (dice.between(0.04, 0.3), dice.between(3.0, 6.0));
    on_trend(dice, x, noise, &[Plateauing], move |x| {
        by * x.powf(steep) / (x.powf(steep) + half.powf(steep))
    })
}

fn fill(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let tau = dice.log_between(0.03, 0.25);
    on_trend(dice, x, noise, &[Plateauing], move |x| {
        by * (1.0 - (-x / tau).exp())
    })
}

fn trimmed(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (tau, at) = (dice.between(0.04, 0.15), dice.between(0.5, 0.85));
    let lost = dice.between(0.2, 0.5);
    on_trend(dice, x, noise, &[Plateauing, Stepped], move |x| {
        by * (1.0 - (-x / tau).exp()) - if x > at { lost * by } else { 0.0 }
    })
}

fn leave(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let count = dice.whole(2, 4);
    let at: Vec<f64> = (0..count).map(|_| dice.between(0.1, 0.9)).collect();
    let by = by.min(0.6);
    on_trend(dice, x, noise, &[Stepped, Flat], move |x| {
        -by * at.iter().filter(|at| x > **at).count() as f64 / count as f64
    })
}

fn deploys(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let at: Vec<(f64, f64)> = (0..dice.whole(1, 3))
        .map(|_| (dice.between(0.1, 0.85), by * dice.between(0.4, 1.0)))
        .collect();
    let mut up = at;
    // The second takes back a part of the first.
    if let Some(second) = up.get_mut(1) {
        second.1 *= -0.4;
    }
    on_trend(dice, x, noise, &[Stepped], move |x| {
        up.iter().filter(|s| x > s.0).map(|s| s.1).sum()
    })
}

fn with_shifts(dice: &mut Dice, x: &[f64], span_s: f64, by: f64) -> Answer {
    let (swing, phase) = (dice.between(0.08, 0.4), dice.unit());
    let noise = (dice.log_between(0.002, 0.01), 1e-9);
    let accept = if by > 0.0 { Growing } else { Sawtooth };
    let mut answer = on_trend(dice, x, noise, &[accept], move |x| by * x);
    for (value, at) in answer.values.iter_mut().zip(x) {
        let turn = at * span_s / 43_200.0 + phase;
        *value += swing * (TAU * turn).sin().max(-0.3);
    }
    answer.cyclic = true;
    answer
}

fn shifts(dice: &mut Dice, x: &[f64], span_s: f64) -> Answer {
    with_shifts(dice, x, span_s, 0.0)
}

fn shifts_leak(dice: &mut Dice, x: &[f64], span_s: f64) -> Answer {
    let by = dice.between(0.2, 1.2);
    with_shifts(dice, x, span_s, by)
}

/// One reading in seven is higher by an exponential height.
fn tear(dice: &mut Dice, mut answer: Answer) -> Answer {
    let height = dice.between(0.005, 0.03);
    for value in &mut answer.values {
        if dice.chance(0.15) {
            *value += height * dice.exponential();
        }
    }
    answer
}

fn ragged(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let share = dice.log_between(0.001, 0.006);
    let answer = on_trend(dice, x, (share, 0.3), &[Flat], |_| 0.0);
    tear(dice, answer)
}

fn ragged_leak(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let answer = on_trend(dice, x, noise, &[Growing], move |x| by * x);
    tear(dice, answer)
}

fn quickening(dice: &mut Dice, x: &[f64], by: f64) -> Answer {
    let (length, height) = (dice.between(0.03, 0.07), dice.between(0.5, 1.5));
    let pace = dice.between(1.3, 2.2);
    saw(dice, x, by, &move |dice, at| {
        let own = (1.0 + 0.07 * dice.normal()).max(0.6);
        (length * own / (1.0 + (pace - 1.0) * at), height * own)
    })
}

fn quickens(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    quickening(dice, x, 0.0)
}

fn quickens_leak(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let by = dice.between(0.4, 1.5);
    quickening(dice, x, by)
}

/// Nothing for a while, then a fill that ends.
fn rests(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (from, tau) = (dice.between(0.1, 0.5), dice.between(0.02, 0.1));
    on_trend(dice, x, noise, &[Plateauing], move |x| {
        by * (1.0 - (-(x - from).max(0.0) / tau).exp())
    })
}

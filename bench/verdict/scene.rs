//! How the set *outside* draws: clocks, noises, loads, and a trend under them.

use std::f64::consts::{PI, TAU};

use verdict::Label;
use verdict::Label::Growing;

use crate::case::Curve;
use crate::dice::Dice;

/// What a family draws. Values are in levels, times in windows.
pub struct Drawn {
    pub x: Vec<f64>,
    pub span_s: f64,
    pub values: Vec<f64>,
    pub accept: &'static [Label],
    pub cyclic: bool,
    pub slope: Option<f64>,
    pub restarts: Vec<f64>,
    pub limit: Option<f64>,
    /// Grain of the readings in levels; a page when there is none.
    pub grain: Option<f64>,
    pub growth: Curve,
}

/// Times of about `n` readings in the window: even, jittered, at random, or even with one to three holes.
pub fn clock(dice: &mut Dice, lo: f64, hi: f64) -> Vec<f64> {
    let n = dice.log_between(lo, hi).round();
    let kind = dice.whole(0, 3);
    let mut x: Vec<f64> = (0..n as usize)
        .map(|i| match kind {
            1 => (i as f64 + 0.8 * dice.unit()) / n,
            2 => dice.unit(),
            _ => i as f64 / n,
        })
        .collect();
    x.sort_by(f64::total_cmp);
    if kind == 3 && n > 60.0 {
        for _ in 0..dice.whole(1, 3) {
            let from = dice.between(0.05, 0.85);
            let to = from + dice.between(0.01, 0.1);
            x.retain(|x| !(from..to).contains(x));
        }
    }
    x
}

/// Noise of deviation 1 at every reading; most kinds have no memory.
fn noise(dice: &mut Dice, n: usize) -> Vec<f64> {
    match dice.whole(0, 4) {
        0 | 1 => (0..n).map(|_| dice.normal()).collect(),
        2 => (0..n).map(|_| dice.heavy()).collect(),
        3 => {
            let phi = dice.between(0.2, 0.7);
            remembering(dice, n, phi)
        }
        // Loud and quiet stretches.
        _ => {
            let loud = remembering(dice, n, 0.95);
            loud.iter()
                .map(|l| (0.6 * l - 0.36).exp() * dice.normal())
                .collect()
        }
    }
}

fn remembering(dice: &mut Dice, n: usize, phi: f64) -> Vec<f64> {
    let mut state = dice.normal();
    let fresh = (1.0 - phi * phi).sqrt();
    (0..n)
        .map(|_| {
            state = phi * state + fresh * dice.normal();
            state
        })
        .collect()
}

fn hours_to_weeks(dice: &mut Dice) -> f64 {
    dice.log_between(1800.0, 30.0 * 86_400.0)
}

/// A trend under noise of deviation `share`, with its growth so far and its slope at the end.
pub fn trend(
    dice: &mut Dice,
    x: Vec<f64>,
    share: f64,
    accept: &'static [Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> Drawn {
    let loud = noise(dice, x.len());
    let values = x.iter().zip(loud).map(|(x, e)| 1.0 + f(*x) + share * e);
    Drawn {
        values: values.map(|v| v.max(0.05)).collect(),
        span_s: hours_to_weeks(dice),
        cyclic: false,
        slope: accept.contains(&Growing).then(|| 50.0 * (f(1.0) - f(0.98))),
        restarts: Vec::new(),
        limit: None,
        grain: None,
        growth: Box::new(move |part| {
            let seen = (0..=60).map(|i| f(part * f64::from(i) / 60.0));
            let (low, high) = seen.fold((f64::MAX, f64::MIN), |a, v| (a.0.min(v), a.1.max(v)));
            (high - low) / (1.0 + f(part))
        }),
        accept,
        x,
    }
}

/// Adds noise that keeps 0.9 to 0.99 of itself from reading to reading.
pub fn with_memory(dice: &mut Dice, drawn: &mut Drawn, share: f64) {
    let phi = 1.0 - dice.log_between(0.01, 0.1);
    let slow = remembering(dice, drawn.x.len(), phi);
    for (value, e) in drawn.values.iter_mut().zip(slow) {
        *value += share * e;
    }
}

/// One turn of a load of a day, between 0 and 1.
fn turn(form: usize, day: f64) -> f64 {
    let wave = 0.5 - 0.5 * (TAU * day).cos();
    match form {
        0 => wave,
        1 => (PI * day.fract()).sin().abs(),
        2 => wave.powi(3),
        _ => 1.0 / (1.0 + (-12.0 * (wave - 0.5)).exp()),
    }
}

/// Adds a load of a day.
pub fn by_day(dice: &mut Dice, drawn: &mut Drawn, swing: f64) {
    let (form, phase) = (dice.whole(0, 3), dice.unit());
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        *value += swing * turn(form, x * drawn.span_s / 86_400.0 + phase);
    }
    drawn.cyclic = true;
}

/// Adds a load of working weeks, and makes the window long enough for two.
pub fn working(dice: &mut Dice, drawn: &mut Drawn, swing: f64) {
    drawn.span_s = dice.between(15.0, 45.0) * 86_400.0;
    let (rest, from) = (dice.between(0.1, 0.6), dice.between(0.0, 7.0));
    for (value, x) in drawn.values.iter_mut().zip(&drawn.x) {
        let day = from + x * drawn.span_s / 86_400.0;
        let busy = if day.rem_euclid(7.0) < 5.0 { 1.0 } else { rest };
        *value += swing * busy * (0.3 + 0.7 * turn(0, day));
    }
    drawn.cyclic = true;
}

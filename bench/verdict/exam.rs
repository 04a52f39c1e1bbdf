//! The exam: families written when the rules stood, and never looked at before their numbers were published.
//! Sizes from small processes told in pages to large ones told in MiB, 40 to 20,000 readings, collectors that change
//! their ways. bench/results/verdict-error-rates.md has the numbers as they came out.

use std::f64::consts::TAU;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::{Case, Curve, Truth};
use crate::dice::Dice;

/// Kind of the clock and of the grain that a family is told in.
#[derive(Clone, Copy)]
pub enum Told {
    Any,
    Sparse,
    Dense,
    Pages,
    Mebibytes,
    Days(f64, f64),
}

pub type Maker = fn(&mut Dice, &[f64], f64) -> Answer;

pub const FAMILIES: &[(&str, Told, Maker)] = &[
    ("sparse leak", Told::Sparse, leak),
    ("sparse flat", Told::Sparse, flat),
    ("dense leak", Told::Dense, leak),
    ("dense drift", Told::Dense, drift),
    ("leak told in pages", Told::Pages, leak),
    ("flat told in MiB", Told::Mebibytes, flat),
    ("leak told in MiB", Told::Mebibytes, leak),
    ("two to four regimes", Told::Any, regimes),
    ("slow leak, big saw", Told::Any, slow_leak_big_saw),
    ("begins late", Told::Any, begins_late),
    ("stops", Told::Any, stops),
    ("warm-up, many scales", Told::Any, warm_up),
    ("logarithmic", Told::Any, logarithmic),
    ("root", Told::Any, root),
    ("power", Told::Any, power),
    ("busy days", Told::Days(5.0, 20.0), busy_days),
    ("busy days, leak", Told::Days(5.0, 20.0), busy_days_leak),
    ("weeks, leak", Told::Days(22.0, 50.0), weeks_leak),
    ("restarts nobody told", Told::Any, restarts),
    ("restarts told, warm-up", Told::Any, warm_restarts),
    ("down and up", Told::Any, down_and_up),
];

pub struct Answer {
    pub values: Vec<f64>,
    pub accept: Vec<Label>,
    pub cyclic: bool,
    pub slope: Option<f64>,
    pub restarts: Vec<usize>,
    pub growth: Curve,
}

pub fn make(index: usize, seed: u64) -> Case {
    make_of(
        FAMILIES[index % FAMILIES.len()],
        seed ^ 0x7b1d_44c3_90e5_a6f1,
    )
}

/// One case of a family, from the seed of its dice.
pub fn make_of((family, told, maker): (&'static str, Told, Maker), seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let count = match told {
        Told::Sparse => 40,
        Told::Dense => 20_000,
        _ => dice.pick(&[120, 200, 300, 300, 700, 3000]),
    };
    let span_s = match told {
        Told::Days(lo, hi) => dice.between(lo, hi) * 86_400.0,
        _ => dice.log_between(1200.0, 25.0 * 86_400.0),
    };
    let x: Vec<f64> = (0..count).map(|i| i as f64 / count as f64).collect();
    let answer = maker(&mut dice, &x, span_s);
    let (level, grain) = match told {
        Told::Pages => (dice.between(3.0, 9.0) * 1_048_576.0, 4096.0),
        Told::Mebibytes => (dice.log_between(60.0, 3000.0) * 1_048_576.0, 1_048_576.0),
        _ => (dice.log_between(2e7, 4e10), 4096.0),
    };
    let point = |(x, v): (&f64, &f64)| Point {
        t_s: 1.76e9 + x * span_s,
        value: (level * v.max(0.01) / grain).round() * grain,
    };
    let restarts_s = answer
        .restarts
        .iter()
        .map(|i| 1.76e9 + x[*i] * span_s)
        .collect();
    let series = Series {
        points: x.iter().zip(&answer.values).map(point).collect(),
        restarts_s,
        ..Series::default()
    };
    let truth = Truth {
        grows: answer.accept.contains(&Growing),
        cyclic: answer.cyclic,
        accept: answer.accept,
        slope_per_hour: answer.slope.map(|s| s * level / span_s * 3600.0),
        asymptote: None,
        growth_so_far: answer.growth,
    };
    Case {
        family,
        series,
        truth,
    }
}

/// A trend in levels under noise of deviation `share` that keeps `keep` of itself over a hundredth of the window.
pub fn on_trend(
    dice: &mut Dice,
    x: &[f64],
    (share, keep): (f64, f64),
    accept: &[Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> Answer {
    let phi = f64::powf(keep, 100.0 / x.len() as f64);
    let mut state = dice.normal();
    let mut values = Vec::with_capacity(x.len());
    for &at in x {
        state = phi * state + (1.0 - phi * phi).sqrt() * dice.normal();
        values.push(1.0 + f(at) + share * state);
    }
    let grows = accept.contains(&Growing);
    let slope = grows.then(|| (f(1.0) - f(0.98)) / 0.02);
    let growth = move |part: f64| {
        let seen = (0..=40).map(|i| f(part * f64::from(i) / 40.0));
        let (low, high) = seen.fold((f64::MAX, f64::MIN), |a, v| (a.0.min(v), a.1.max(v)));
        (high - low) / (1.0 + f(part))
    };
    Answer {
        values,
        accept: accept.to_vec(),
        cyclic: false,
        slope,
        restarts: Vec::new(),
        growth: Box::new(growth),
    }
}

/// Deviation and memory of a noise, and a rise that stands out of it.
pub fn rising(dice: &mut Dice) -> ((f64, f64), f64) {
    let share = dice.log_between(0.001, 0.015);
    let by = dice.log_between((12.0 * share).max(0.12), 2.0);
    ((share, dice.pick(&[1e-9, 0.2, 0.6])), by)
}

fn leak(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    on_trend(dice, x, noise, &[Growing], move |x| by * x)
}

fn flat(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let share = dice.log_between(0.0005, 0.01);
    on_trend(dice, x, (share, 1e-9), &[Flat], |_| 0.0)
}

fn drift(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let noise = (dice.log_between(0.001, 0.008), dice.between(0.3, 0.85));
    on_trend(dice, x, noise, &[Flat], |_| 0.0)
}

/// A saw over `x`: teeth of `(length, height)` drawn one by one, on a floor that rises by `by`.
pub fn saw(
    dice: &mut Dice,
    x: &[f64],
    by: f64,
    tooth: &dyn Fn(&mut Dice, f64) -> (f64, f64),
) -> Answer {
    let (mut from, (mut length, mut height)) = (0.0, tooth(dice, 0.0));
    let mut values = Vec::with_capacity(x.len());
    for &at in x {
        while at >= from + length {
            from += length;
            (length, height) = tooth(dice, from);
        }
        values.push(1.0 + by * at + height * (at - from) / length + 0.01 * height * dice.normal());
    }
    let grows = by > 0.0;
    Answer {
        values,
        accept: vec![if grows { Growing } else { Sawtooth }],
        cyclic: false,
        slope: grows.then_some(by),
        restarts: Vec::new(),
        growth: Box::new(move |part| {
            if grows {
                by * part / (1.0 + by * part)
            } else {
                1.0
            }
        }),
    }
}

/// A collector whose teeth change two to four times: another size, another rhythm, the same live set.
fn regimes(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let count = dice.whole(2, 4);
    let kinds: Vec<(f64, f64)> = (0..count)
        .map(|_| (dice.between(0.03, 0.07), dice.between(0.5, 1.2)))
        .collect();
    saw(dice, x, 0.0, &move |dice, at| {
        let (length, height) = kinds[((at * count as f64) as usize).min(count - 1)];
        let own = 1.0 + 0.05 * dice.normal();
        (length * own, height * own)
    })
}

fn slow_leak_big_saw(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let by = dice.between(0.2, 0.8);
    let (length, height) = (dice.between(0.02, 0.06), dice.between(0.6, 2.0));
    saw(dice, x, by, &move |dice, _| {
        let own = (1.0 + 0.1 * dice.normal()).max(0.5);
        (length * own, height * own)
    })
}

fn begins_late(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let from = dice.between(0.25, 0.65);
    on_trend(dice, x, noise, &[Growing], move |x| {
        by * (x - from).max(0.0) / (1.0 - from)
    })
}

fn stops(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let (from, to) = (dice.between(0.0, 0.2), dice.between(0.3, 0.65));
    on_trend(dice, x, noise, &[Plateauing, Stepped], move |x| {
        by * ((x - from) / (to - from)).clamp(0.0, 1.0)
    })
}

fn warm_up(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let parts: Vec<(f64, f64)> = [0.006, 0.025, 0.1]
        .map(|tau| (tau * dice.between(0.7, 1.3), dice.between(0.2, 1.0)))
        .to_vec();
    let sum: f64 = parts.iter().map(|p| p.1).sum();
    on_trend(dice, x, noise, &[Plateauing], move |x| {
        parts
            .iter()
            .map(|(tau, w)| by * w / sum * (1.0 - (-x / tau).exp()))
            .sum()
    })
}

fn logarithmic(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let t0 = dice.log_between(0.004, 0.2);
    on_trend(dice, x, noise, &[Growing, Plateauing], move |x| {
        by * (x / t0).ln_1p() / (1.0 / t0).ln_1p()
    })
}

fn root(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    on_trend(dice, x, noise, &[Growing], move |x| by * x.sqrt())
}

fn power(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (noise, by) = rising(dice);
    let p = dice.between(0.6, 2.5);
    on_trend(dice, x, noise, &[Growing], move |x| by * x.powf(p))
}

/// Adds a load of `swing` that is high for some hours of every day, and on weekends `quiet` of that.
fn load(dice: &mut Dice, out: &mut Answer, x: &[f64], span_s: f64, swing: f64, quiet: f64) {
    let (rise, hours) = (dice.between(5.0, 10.0), dice.between(7.0, 13.0));
    for (v, x) in out.values.iter_mut().zip(x) {
        let days = x * span_s / 86_400.0;
        let hour = (days.fract() * 24.0 - rise).clamp(0.0, hours);
        let week = if days.rem_euclid(7.0) >= 5.0 {
            quiet
        } else {
            1.0
        };
        *v += swing * week * (0.5 - 0.5 * (TAU * hour / hours).cos());
    }
    out.cyclic = true;
}

fn busy_days(dice: &mut Dice, x: &[f64], span_s: f64) -> Answer {
    let mut out = on_trend(dice, x, (0.005, 0.1), &[Sawtooth, Flat], |_| 0.0);
    let swing = dice.log_between(0.04, 0.4);
    load(dice, &mut out, x, span_s, swing, 1.0);
    out
}

fn busy_days_leak(dice: &mut Dice, x: &[f64], span_s: f64) -> Answer {
    let by = dice.log_between(0.15, 1.5);
    let mut out = on_trend(dice, x, (0.005, 0.1), &[Growing], move |x| by * x);
    let swing = by * dice.between(0.1, 0.6);
    load(dice, &mut out, x, span_s, swing, 1.0);
    out
}

fn weeks_leak(dice: &mut Dice, x: &[f64], span_s: f64) -> Answer {
    let by = dice.log_between(0.2, 1.5);
    let mut out = on_trend(dice, x, (0.005, 0.1), &[Growing], move |x| by * x);
    let (swing, quiet) = (by * dice.between(0.1, 0.4), dice.between(0.2, 0.7));
    load(dice, &mut out, x, span_s, swing, quiet);
    out
}

/// Births of two to four lives, each at least a sixth of the window long.
fn births(dice: &mut Dice) -> Vec<f64> {
    let lengths: Vec<f64> = (0..dice.whole(2, 4))
        .map(|_| dice.between(0.5, 1.5))
        .collect();
    let sum: f64 = lengths.iter().sum();
    let mut at = 0.0;
    let mut out = Vec::new();
    for length in lengths {
        out.push(at);
        at += length / sum;
    }
    out
}

fn of_lives(
    dice: &mut Dice,
    x: &[f64],
    accept: &[Label],
    f: impl Fn(f64) -> f64,
) -> (Answer, Vec<f64>) {
    let births = births(dice);
    let mut out = on_trend(dice, x, (0.004, 0.1), accept, |_| 0.0);
    for (v, x) in out.values.iter_mut().zip(x) {
        *v += f(x - births[births.partition_point(|b| b <= x) - 1]);
    }
    (out, births)
}

fn restarts(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let by = dice.between(1.0, 5.0);
    let (mut out, births) = of_lives(dice, x, &[Growing], |age| by * age);
    out.slope = Some(by);
    let first = births[1];
    out.growth = Box::new(move |part| by * part.min(first));
    out
}

fn warm_restarts(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let (by, tau) = (dice.log_between(0.15, 1.5), dice.between(0.008, 0.035));
    let (mut out, births) = of_lives(dice, x, &[Plateauing], |age| {
        by * (1.0 - (-age / tau).exp())
    });
    out.restarts = births[1..]
        .iter()
        .map(|b| x.partition_point(|x| x < b))
        .collect();
    out.growth = Box::new(|_| 1.0);
    out
}

fn down_and_up(dice: &mut Dice, x: &[f64], _: f64) -> Answer {
    let noise = (dice.log_between(0.001, 0.01), 0.2);
    let (down, up) = (dice.between(0.15, 0.4), dice.between(0.55, 0.85));
    let (less, more) = (dice.between(0.1, 0.4), dice.between(0.1, 0.6));
    let mut out = on_trend(dice, x, noise, &[Stepped], move |x| {
        f64::from(u8::from(x >= up)) * more - f64::from(u8::from(x >= down)) * less
    });
    out.growth = Box::new(move |part| if part < down { 0.0 } else { 1.0 });
    out
}

//! Families on which the judge was developed.
//!
//! Long because each family is a formula with its truth, and all of them are read side by side.

use std::f64::consts::TAU;
use std::rc::Rc;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::{Case, DAY_S, Frame, Noise, Truth, growth_of, quantise, sample, soil};
use crate::dice::Dice;

type Maker = fn(&mut Dice) -> (Series, Truth);

pub const FAMILIES: &[(&str, Maker)] = &[
    ("flat white", flat_white),
    ("flat ar", flat_ar),
    ("flat ar .97-.99", flat_ar_long),
    ("flat heavy", flat_heavy),
    ("flat quantised", flat_quantised),
    ("daily", daily),
    ("weekly", weekly),
    ("leak", leak),
    ("leak small", leak_small),
    ("leak ar", leak_ar),
    ("leak daily", leak_daily),
    ("leak weekly", leak_weekly),
    ("leak quantised", leak_quantised),
    ("square root", square_root),
    ("logarithm", logarithm),
    ("power", power),
    ("late leak", late_leak),
    ("fill", fill),
    ("fill daily", fill_daily),
    ("fill ar", fill_ar),
    ("logistic", logistic),
    ("two-stage fill", two_stage),
    ("fill then leak", fill_leak),
    ("collector", collector),
    ("collector leak", collector_leak),
    ("step up", step_up),
    ("step down", step_down),
    ("steps", steps),
    ("step and leak", step_leak),
    ("restart leak known", restart_leak_known),
    ("restart leak unknown", restart_leak_unknown),
    ("restart flat", restart_flat),
    ("restart fill", restart_fill),
    ("oom saw", oom_saw),
    ("oom saw known", oom_saw_known),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed);
    let (series, truth) = maker(&mut dice);
    Case {
        family,
        series,
        truth,
    }
}

/// A smooth relative trend with a cycle and noise; the truth is read off the trend.
struct Plan {
    frame: Frame,
    noise: Noise,
    share: f64,
    cycle: Rc<dyn Fn(f64) -> f64>,
    accept: Vec<Label>,
    limit_of_trend: Option<f64>,
    grain: Option<f64>,
}

impl Plan {
    fn new(frame: Frame, noise: Noise, share: f64, accept: &[Label]) -> Plan {
        let accept = accept.to_vec();
        let cycle = Rc::new(|_: f64| 0.0);
        Plan {
            frame,
            noise,
            share,
            cycle,
            accept,
            limit_of_trend: None,
            grain: None,
        }
    }

    fn build(mut self, dice: &mut Dice, trend: impl Fn(f64) -> f64 + 'static) -> (Series, Truth) {
        let level = self.frame.level;
        let trend = Rc::new(trend);
        let (curve, cycle) = (trend.clone(), self.cycle.clone());
        let value = move |x: f64, t: f64| level * (1.0 + curve(x)) * (1.0 + cycle(t));
        let mut points = sample(dice, &self.frame, &mut self.noise, self.share, &value);
        if let Some(grain) = self.grain {
            quantise(&mut points, grain * level);
        }
        soil(dice, &mut points);
        let grows = self.accept.contains(&Growing);
        let end = (trend(1.0) - trend(0.98)) / 0.02 * level / self.frame.hours();
        let inner = trend.clone();
        let truth = Truth {
            cyclic: false,
            accept: self.accept,
            grows,
            slope_per_hour: grows.then_some(end),
            asymptote: self.limit_of_trend.map(|l| level * (1.0 + l)),
            growth_so_far: growth_of(move |x| inner(x)),
        };
        (
            Series {
                id: String::new(),
                points,
                restarts_s: Vec::new(),
                limit: None,
            },
            truth,
        )
    }
}

fn any_share(dice: &mut Dice) -> f64 {
    dice.log_between(0.001, 0.04)
}

/// A rise that can be told from the noise: at least 4 % and four deviations.
fn rise(dice: &mut Dice, share: f64) -> f64 {
    dice.log_between((4.0 * share).max(0.05), 3.0)
}

fn flat_white(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (Frame::draw(dice), Noise::white(dice), any_share(dice));
    Plan::new(frame, noise, share, &[Flat]).build(dice, |_| 0.0)
}

fn flat_ar(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::memory(dice, 0.3, 0.97));
    let share = dice.log_between(0.001, 0.025);
    Plan::new(frame, noise, share, &[Flat]).build(dice, |_| 0.0)
}

fn flat_ar_long(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::memory(dice, 0.97, 0.99));
    let share = dice.log_between(0.001, 0.02);
    Plan::new(frame, noise, share, &[Flat]).build(dice, |_| 0.0)
}

fn flat_heavy(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (Frame::draw(dice), Noise::heavy(dice), any_share(dice));
    Plan::new(frame, noise, share, &[Flat]).build(dice, |_| 0.0)
}

fn flat_quantised(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::white(dice));
    let share = dice.log_between(0.0005, 0.01);
    let mut plan = Plan::new(frame, noise, share, &[Flat]);
    plan.grain = Some(dice.between(0.002, 0.009));
    plan.build(dice, |_| 0.0)
}

/// A daily cycle of any shape between a sine and a working day.
fn daily_cycle(dice: &mut Dice, swing: f64) -> Rc<dyn Fn(f64) -> f64> {
    let (phase, sharp) = (dice.unit(), dice.between(0.0, 0.5));
    Rc::new(move |t| {
        let a = TAU * (t / DAY_S + phase);
        swing * 0.5 * (a.sin() + sharp * (2.0 * a).sin())
    })
}

fn daily(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::days(dice, 4.0, 30.0), Noise::any(dice));
    let swing = dice.log_between(0.02, 0.3);
    let share = swing * dice.between(0.02, 0.2);
    let accept: &[Label] = if swing < 0.08 {
        &[Flat, Sawtooth]
    } else {
        &[Sawtooth]
    };
    let mut plan = Plan::new(frame, noise, share, accept);
    plan.cycle = daily_cycle(dice, swing);
    plan.build(dice, |_| 0.0)
}

fn weekly(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::days(dice, 18.0, 60.0), Noise::any(dice));
    let swing = dice.log_between(0.03, 0.25);
    let mut plan = Plan::new(
        frame,
        noise,
        swing * dice.between(0.02, 0.15),
        &[Flat, Sawtooth],
    );
    plan.cycle = week_cycle(dice, swing);
    plan.build(dice, |_| 0.0)
}

/// Days with a weekend of less load.
fn week_cycle(dice: &mut Dice, swing: f64) -> Rc<dyn Fn(f64) -> f64> {
    let (day, quiet) = (daily_cycle(dice, swing), dice.between(0.2, 0.8));
    Rc::new(move |t| {
        let weekend = (t / DAY_S).rem_euclid(7.0) >= 5.0;
        let busy = if weekend { quiet } else { 1.0 };
        busy * (day(t) + 0.5 * swing)
    })
}

fn leak(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (Frame::draw(dice), Noise::any(dice), any_share(dice));
    let by = rise(dice, share);
    Plan::new(frame, noise, share, &[Growing]).build(dice, move |x| by * x)
}

fn leak_small(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::white(dice));
    let (share, by) = (dice.log_between(0.001, 0.01), dice.between(0.045, 0.09));
    Plan::new(frame, noise, share, &[Growing]).build(dice, move |x| by * x)
}

fn leak_ar(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::memory(dice, 0.8, 0.99));
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((6.0 * share).max(0.06), 2.0);
    Plan::new(frame, noise, share, &[Growing]).build(dice, move |x| by * x)
}

fn leak_daily(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::days(dice, 3.0, 30.0), Noise::any(dice));
    let by = dice.log_between(0.06, 2.0);
    let swing = dice.log_between(0.02, (1.5 * by).clamp(0.03, 0.3));
    let mut plan = Plan::new(frame, noise, swing * dice.between(0.03, 0.2), &[Growing]);
    plan.cycle = daily_cycle(dice, swing);
    plan.build(dice, move |x| by * x)
}

fn leak_weekly(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::days(dice, 15.0, 60.0), Noise::any(dice));
    let by = dice.log_between(0.1, 2.0);
    let swing = dice.log_between(0.02, (0.8 * by).min(0.25));
    let mut plan = Plan::new(frame, noise, swing * dice.between(0.03, 0.2), &[Growing]);
    plan.cycle = week_cycle(dice, swing);
    plan.build(dice, move |x| by * x)
}

fn leak_quantised(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::white(dice));
    let by = dice.log_between(0.08, 1.5);
    let mut plan = Plan::new(frame, noise, dice.log_between(0.0003, 0.005), &[Growing]);
    plan.grain = Some((by / dice.between(6.0, 60.0)).min(0.05));
    plan.build(dice, move |x| by * x)
}

fn square_root(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((8.0 * share).max(0.1), 2.0);
    Plan::new(frame, noise, share, &[Growing]).build(dice, move |x| by * x.sqrt())
}

fn logarithm(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((10.0 * share).max(0.12), 2.0);
    let t0 = dice.log_between(0.005, 0.3);
    let accept = &[Growing, Plateauing];
    Plan::new(frame, noise, share, accept)
        .build(dice, move |x| by * (x / t0).ln_1p() / (1.0 / t0).ln_1p())
}

fn power(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((8.0 * share).max(0.08), 2.0);
    let p = dice.between(0.6, 2.2);
    Plan::new(frame, noise, share, &[Growing]).build(dice, move |x| by * x.powf(p))
}

fn late_leak(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((8.0 * share).max(0.1), 2.0);
    let onset = dice.between(0.2, 0.75);
    Plan::new(frame, noise, share, &[Growing])
        .build(dice, move |x| by * (x - onset).max(0.0) / (1.0 - onset))
}

fn fill_of(dice: &mut Dice, frame: Frame, noise: Noise) -> (Plan, f64, f64) {
    let share = dice.log_between(0.001, 0.02);
    let by = dice.log_between((8.0 * share).max(0.08), 3.0);
    let tau = dice.log_between(0.015, 0.34);
    let mut plan = Plan::new(frame, noise, share, &[Plateauing]);
    plan.limit_of_trend = Some(by);
    (plan, by, tau)
}

fn fill(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let (plan, by, tau) = fill_of(dice, frame, noise);
    plan.build(dice, move |x| by * (1.0 - (-x / tau).exp()))
}

fn fill_ar(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::memory(dice, 0.8, 0.98));
    let (mut plan, by, tau) = fill_of(dice, frame, noise);
    plan.share *= 0.7;
    plan.build(dice, move |x| by * (1.0 - (-x / tau).exp()))
}

fn fill_daily(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::days(dice, 4.0, 30.0), Noise::any(dice));
    let (mut plan, by, tau) = fill_of(dice, frame, noise);
    plan.cycle = daily_cycle(dice, dice_swing(by));
    plan.share = plan.share.min(0.1 * by);
    plan.build(dice, move |x| by * (1.0 - (-x / tau).exp()))
}

fn dice_swing(by: f64) -> f64 {
    (0.3 * by).min(0.15)
}

fn logistic(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let (plan, by, _) = fill_of(dice, frame, noise);
    let (mid, width) = (dice.between(0.15, 0.6), dice.between(0.02, 0.07));
    plan.build(dice, move |x| by / (1.0 + (-(x - mid) / width).exp()))
}

fn two_stage(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let (plan, by, _) = fill_of(dice, frame, noise);
    let (first, from) = (dice.between(0.3, 0.7), dice.between(0.25, 0.6));
    let (tau, late) = (dice.log_between(0.02, 0.08), dice.log_between(0.02, 0.1));
    plan.build(dice, move |x| {
        let second = 1.0 - (-(x - from).max(0.0) / late).exp();
        by * (first * (1.0 - (-x / tau).exp()) + (1.0 - first) * second)
    })
}

fn fill_leak(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let share = dice.log_between(0.001, 0.015);
    let fill = dice.log_between(0.1, 1.5);
    let by = dice.log_between((8.0 * share).max(0.1 * (1.0 + fill)), 1.5 * (1.0 + fill));
    let tau = dice.log_between(0.015, 0.15);
    Plan::new(frame, noise, share, &[Growing])
        .build(dice, move |x| fill * (1.0 - (-x / tau).exp()) + by * x)
}

/// A collector's saw: climbs to a threshold, falls to the live set.
fn saw(dice: &mut Dice, by: f64) -> (Series, Truth) {
    let frame = Frame::draw(dice);
    let level = frame.level;
    let (teeth, swing) = (dice.log_between(5.0, 60.0), dice.between(0.3, 1.5));
    let uneven = dice.between(0.0, 0.3);
    let share = swing * dice.log_between(0.003, 0.04);
    let mut noise = Noise::white(dice);
    let mut bounds = vec![0.0];
    while bounds.last().is_some_and(|b| *b < 1.1) {
        let length = (1.0 + uneven * dice.normal()).max(0.3) / teeth;
        bounds.push(bounds.last().unwrap_or(&0.0) + length);
    }
    let value = move |x: f64, _: f64| {
        let next = bounds.partition_point(|b| *b <= x);
        let (from, to) = (bounds[next - 1], bounds[next.min(bounds.len() - 1)]);
        let full = (to - from) * teeth;
        level * (1.0 + by * x + swing * full * (x - from) / (to - from))
    };
    let points = sample(dice, &frame, &mut noise, share, &value);
    let slope = by * level / frame.hours();
    let grows = by > 0.0;
    let truth = Truth {
        cyclic: false,
        accept: vec![if grows { Growing } else { Sawtooth }],
        grows,
        slope_per_hour: grows.then_some(slope),
        asymptote: None,
        growth_so_far: Box::new(move |part| {
            if grows {
                by * part / (1.0 + swing / 2.0)
            } else {
                1.0
            }
        }),
    };
    (
        Series {
            points,
            ..Series::default()
        },
        truth,
    )
}

fn collector(dice: &mut Dice) -> (Series, Truth) {
    saw(dice, 0.0)
}

fn collector_leak(dice: &mut Dice) -> (Series, Truth) {
    let by = dice.log_between(0.25, 3.0);
    saw(dice, by)
}

fn step_case(dice: &mut Dice, heights: &[(f64, f64)], by: f64) -> (Series, Truth) {
    let (frame, noise) = (Frame::draw(dice), Noise::any(dice));
    let least = heights
        .iter()
        .map(|h| h.1.abs())
        .fold(f64::INFINITY, f64::min);
    let share = dice.log_between(0.001, (least / 5.0).clamp(0.0011, 0.02));
    let list = heights.to_vec();
    let accept = if by > 0.0 { [Growing] } else { [Stepped] };
    Plan::new(frame, noise, share, &accept).build(dice, move |x| {
        by * x
            + list
                .iter()
                .filter(|(at, _)| x >= *at)
                .map(|(_, h)| h)
                .sum::<f64>()
    })
}

fn step_up(dice: &mut Dice) -> (Series, Truth) {
    let h = [(dice.between(0.12, 0.88), dice.log_between(0.06, 1.0))];
    step_case(dice, &h, 0.0)
}

fn step_down(dice: &mut Dice) -> (Series, Truth) {
    let h = [(dice.between(0.12, 0.88), -dice.between(0.06, 0.5))];
    step_case(dice, &h, 0.0)
}

fn steps(dice: &mut Dice) -> (Series, Truth) {
    let count = dice.whole(2, 4);
    let mut at = dice.between(0.1, 0.2);
    let mut h = Vec::new();
    for _ in 0..count {
        let sign = if dice.chance(0.7) { 1.0 } else { -0.6 };
        h.push((at, sign * dice.log_between(0.08, 0.5)));
        at += dice.between(0.12, 0.25);
    }
    step_case(dice, &h, 0.0)
}

fn step_leak(dice: &mut Dice) -> (Series, Truth) {
    let h = [(dice.between(0.15, 0.85), dice.between(0.1, 0.5))];
    let by = dice.log_between(0.1, 1.0);
    step_case(dice, &h, by)
}

/// Incarnations with a curve over uptime (hours are windows here); returns cuts too.
fn lives(
    dice: &mut Dice,
    count: usize,
    life: impl Fn(f64) -> f64,
    share: f64,
) -> (Frame, Vec<Point>, Vec<f64>) {
    let frame = Frame::draw(dice);
    let mut noise = Noise::any(dice);
    let level = frame.level;
    let mut cuts: Vec<f64> = (1..count)
        .map(|i| (i as f64 + dice.between(-0.3, 0.3)) / count as f64)
        .collect();
    cuts.insert(0, 0.0);
    let inner = cuts.clone();
    let value = move |x: f64, _: f64| {
        let born = inner[inner.partition_point(|c| *c <= x) - 1];
        level * (1.0 + life(x - born))
    };
    let points = sample(dice, &frame, &mut noise, share, &value);
    (frame, points, cuts)
}

fn longest(cuts: &[f64], part: f64) -> f64 {
    let ends = cuts[1..].iter().copied().chain([1.0]);
    cuts.iter()
        .zip(ends)
        .map(|(a, b)| (b.min(part) - a).max(0.0))
        .fold(0.0, f64::max)
}

fn restart_leak(dice: &mut Dice, known: bool) -> (Series, Truth) {
    let count = if known {
        dice.whole(2, 8)
    } else {
        dice.whole(2, 4)
    };
    let by = dice.log_between(0.3, 2.0) * count as f64;
    let share = dice.log_between(0.001, 0.02);
    let (frame, points, cuts) = lives(dice, count, move |u| by * u, share);
    let start = frame.times[0];
    let restarts_s = if known {
        cuts[1..].iter().map(|c| start + c * frame.span_s).collect()
    } else {
        Vec::new()
    };
    let slope = by * frame.level / frame.hours();
    let truth = Truth {
        cyclic: false,
        accept: vec![Growing],
        grows: true,
        slope_per_hour: Some(slope),
        asymptote: None,
        growth_so_far: Box::new(move |part| by * longest(&cuts, part)),
    };
    (
        Series {
            points,
            restarts_s,
            ..Series::default()
        },
        truth,
    )
}

fn restart_leak_known(dice: &mut Dice) -> (Series, Truth) {
    restart_leak(dice, true)
}

fn restart_leak_unknown(dice: &mut Dice) -> (Series, Truth) {
    restart_leak(dice, false)
}

fn bounded_lives(dice: &mut Dice, label: Label, life: impl Fn(f64) -> f64) -> (Series, Truth) {
    let count = dice.whole(2, 6);
    let share = dice.log_between(0.001, 0.02);
    let (frame, points, cuts) = lives(dice, count, life, share);
    let restarts_s = cuts[1..]
        .iter()
        .map(|c| frame.times[0] + c * frame.span_s)
        .collect();
    let truth = Truth {
        cyclic: false,
        accept: vec![label],
        grows: false,
        slope_per_hour: None,
        asymptote: None,
        growth_so_far: Box::new(move |_| if label == Flat { 0.0 } else { 1.0 }),
    };
    (
        Series {
            points,
            restarts_s,
            ..Series::default()
        },
        truth,
    )
}

fn restart_flat(dice: &mut Dice) -> (Series, Truth) {
    bounded_lives(dice, Flat, |_| 0.0)
}

fn restart_fill(dice: &mut Dice) -> (Series, Truth) {
    let (by, tau) = (dice.log_between(0.2, 2.0), dice.log_between(0.01, 0.04));
    bounded_lives(dice, Plateauing, move |u| by * (1.0 - (-u / tau).exp()))
}

/// Leaks into its limit, is killed, begins again.
fn oom(dice: &mut Dice, known: bool) -> (Series, Truth) {
    let frame = Frame::draw(dice);
    let (level, teeth) = (frame.level, dice.between(1.5, 12.0));
    let height = dice.between(0.8, 5.0);
    let by = height * teeth;
    let mut noise = Noise::any(dice);
    let share = dice.log_between(0.001, 0.03);
    let value = move |x: f64, _: f64| level * (1.0 + by * (x % (1.0 / teeth)));
    let points = sample(dice, &frame, &mut noise, share, &value);
    let start = frame.times[0];
    let restarts_s = if known {
        (1..=teeth as usize)
            .map(|i| start + i as f64 / teeth * frame.span_s)
            .collect()
    } else {
        Vec::new()
    };
    let limit = level * (1.0 + height) * dice.between(1.0, 1.04);
    let truth = Truth {
        cyclic: false,
        accept: vec![Growing],
        grows: true,
        slope_per_hour: Some(by * level / frame.hours()),
        asymptote: None,
        growth_so_far: Box::new(move |part| by * part.min(1.0 / teeth)),
    };
    (
        Series {
            points,
            restarts_s,
            limit: Some(limit),
            ..Series::default()
        },
        truth,
    )
}

fn oom_saw(dice: &mut Dice) -> (Series, Truth) {
    oom(dice, false)
}

fn oom_saw_known(dice: &mut Dice) -> (Series, Truth) {
    oom(dice, true)
}

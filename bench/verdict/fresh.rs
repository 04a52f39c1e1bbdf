//! Families written after the rules were frozen, and looked at once: other clocks (a second to an hour, 60 to
//! 3000 readings), grains, loads and accidents. bench/results/verdict-error-rates.md says what they showed.
//!
//! Long because each family is a formula with its truth, and all of them are read side by side.

use std::f64::consts::TAU;
use std::rc::Rc;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::{Case, DAY_S, Frame, MIB, Noise, Truth, growth_of, soil};
use crate::dice::Dice;

type Maker = fn(&mut Dice) -> (Series, Truth);

pub const FAMILIES: &[(&str, Maker)] = &[
    ("thermal warm-up", thermal),
    ("several leaks", several_leaks),
    ("late leak, daily", late_leak_daily),
    ("step every few hours", bursty),
    ("leak under collector", leak_under_collector),
    ("released at night", released_at_night),
    ("growth that ends", growth_ends),
    ("slow logarithm", slow_log),
    ("restarts, warm-ups", restart_warmups),
    ("oom saw, jitter", oom_jitter),
    ("reclaim dips", reclaim_dips),
    ("one-sided spikes", spikes),
    ("leak, half missing", leak_half),
    ("flat, half missing", flat_half),
    ("leak, clock steps", clock_steps),
    ("leak in MiB", leak_mib),
    ("week and day", week_day),
    ("leak, week and day", leak_week_day),
    ("root, noisy by level", root_noisy),
    ("cache, daily", cache_daily),
    ("leak, short", leak_short),
    ("flat, short", flat_short),
    ("flat, long memory", flat_long),
    ("reload", reload),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x51ed_270b_9f5d_2c35);
    let (series, truth) = maker(&mut dice);
    Case {
        family,
        series,
        truth,
    }
}

/// Readings every second, ten, minute, five, quarter of an hour or hour, now and then late.
fn clock(dice: &mut Dice, count: usize, step_s: f64) -> Frame {
    let start = if dice.chance(0.5) { 1.73e9 } else { 0.0 } + dice.between(0.0, 1e6);
    let late = dice.pick(&[0.0, 0.1, 0.6]);
    let times: Vec<f64> = (0..count)
        .map(|i| start + (i as f64 + late * dice.unit()) * step_s)
        .collect();
    Frame {
        span_s: count as f64 * step_s,
        level: dice.log_between(12.0 * MIB, 9000.0 * MIB),
        times,
    }
}

fn any_clock(dice: &mut Dice) -> Frame {
    let count = dice.log_between(100.0, 3000.0) as usize;
    let step_s = dice.pick(&[1.0, 10.0, 60.0, 300.0, 900.0, 3600.0]);
    clock(dice, count, step_s)
}

fn days(dice: &mut Dice, lo: f64, hi: f64) -> Frame {
    let span = dice.between(lo, hi) * DAY_S;
    let count = dice.log_between(160.0, 1500.0);
    clock(dice, count as usize, span / count)
}

struct Recipe {
    frame: Frame,
    noise: Noise,
    share: f64,
    cycle: Rc<dyn Fn(f64) -> f64>,
    cyclic: bool,
    accept: Vec<Label>,
    limit: Option<f64>,
}

impl Recipe {
    fn new(frame: Frame, noise: Noise, share: f64, accept: &[Label]) -> Recipe {
        Recipe {
            frame,
            noise,
            share,
            cycle: Rc::new(|_| 0.0),
            cyclic: false,
            accept: accept.to_vec(),
            limit: None,
        }
    }

    fn points(&mut self, dice: &mut Dice, trend: &dyn Fn(f64) -> f64) -> Vec<Point> {
        let f = &self.frame;
        let mut out = Vec::with_capacity(f.times.len());
        for &t_s in &f.times {
            let clean = (1.0 + trend(f.x(t_s))) * (1.0 + (self.cycle)(t_s));
            let value = f.level * (clean + self.share * self.noise.next(dice));
            out.push(Point {
                t_s,
                value: (value.max(0.02 * f.level) / 4096.0).round() * 4096.0,
            });
        }
        out
    }

    fn bake(mut self, dice: &mut Dice, trend: impl Fn(f64) -> f64 + 'static) -> (Series, Truth) {
        let mut points = self.points(dice, &trend);
        soil(dice, &mut points);
        let grows = self.accept.contains(&Growing);
        let per_hour = self.frame.level / self.frame.hours();
        let truth = Truth {
            cyclic: self.cyclic,
            grows,
            slope_per_hour: grows.then(|| (trend(1.0) - trend(0.98)) / 0.02 * per_hour),
            asymptote: self.limit.map(|l| self.frame.level * (1.0 + l)),
            accept: self.accept,
            growth_so_far: growth_of(trend),
        };
        let series = Series {
            points,
            ..Series::default()
        };
        (series, truth)
    }
}

fn small(dice: &mut Dice) -> f64 {
    dice.log_between(0.001, 0.015)
}

fn thermal(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let by = dice.log_between((10.0 * share).max(0.08), 0.6);
    let (fast, slow) = (dice.log_between(0.01, 0.04), dice.log_between(0.06, 0.16));
    let mix = dice.between(0.3, 0.8);
    let mut r = Recipe::new(frame, noise, share, &[Plateauing]);
    r.limit = Some(by);
    r.bake(dice, move |x| {
        by * (mix * (1.0 - (-x / fast).exp()) + (1.0 - mix) * (1.0 - (-x / slow).exp()))
    })
}

fn several_leaks(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let leaks: Vec<(f64, f64)> = (0..dice.whole(2, 4))
        .map(|i| {
            let from = if i == 0 { 0.0 } else { dice.between(0.1, 0.7) };
            (from, dice.log_between((8.0 * share).max(0.08), 0.8))
        })
        .collect();
    Recipe::new(frame, noise, share, &[Growing]).bake(dice, move |x| {
        leaks
            .iter()
            .map(|(from, by)| by * (x - from).max(0.0))
            .sum()
    })
}

/// A day with a working part and a quiet one, not a sine.
fn working_day(dice: &mut Dice, swing: f64) -> Rc<dyn Fn(f64) -> f64> {
    let (phase, width) = (dice.unit(), dice.between(0.12, 0.3));
    Rc::new(move |t| {
        let hour = (t / DAY_S + phase).rem_euclid(1.0);
        swing * (-((hour - 0.5) / width).powi(2)).exp()
    })
}

fn late_leak_daily(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (days(dice, 5.0, 20.0), Noise::any(dice));
    let (by, from) = (dice.log_between(0.15, 1.5), dice.between(0.2, 0.6));
    let swing = dice.log_between(0.02, 0.5 * by.min(0.4));
    let mut r = Recipe::new(frame, noise, 0.1 * swing, &[Growing]);
    r.cycle = working_day(dice, swing);
    r.cyclic = true;
    r.bake(dice, move |x| by * (x - from).max(0.0) / (1.0 - from))
}

fn bursty(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (any_clock(dice), Noise::any(dice));
    let count = dice.whole(12, 40);
    let by = dice.log_between(0.2, 2.0);
    let share = by / count as f64 * dice.between(0.02, 0.3);
    let mut steps: Vec<(f64, f64)> = (0..count)
        .map(|i| {
            let at = (i as f64 + dice.between(0.1, 0.9)) / count as f64;
            (at, by / count as f64 * dice.between(0.5, 1.5))
        })
        .collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut r = Recipe::new(frame, noise, share, &[Growing]);
    let at = move |x: f64| steps.iter().filter(|s| s.0 <= x).map(|s| s.1).sum::<f64>();
    let points = r.points(dice, &at);
    let truth = Truth {
        cyclic: false,
        accept: vec![Growing],
        grows: true,
        slope_per_hour: Some(by * r.frame.level / r.frame.hours()),
        asymptote: None,
        growth_so_far: growth_of(at),
    };
    let series = Series {
        points,
        ..Series::default()
    };
    (series, truth)
}

fn leak_under_collector(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (any_clock(dice), Noise::white(dice));
    let teeth = dice.between(8.0, 30.0).min(frame.times.len() as f64 / 12.0);
    let (swing, by) = (dice.between(0.3, 1.2), dice.log_between(0.3, 2.0));
    let saw = move |x: f64| swing * (x * teeth).fract();
    let mut r = Recipe::new(frame, noise, 0.02 * swing, &[Growing]);
    let points = r.points(dice, &|x| by * x + saw(x));
    let truth = Truth {
        cyclic: false,
        accept: vec![Growing],
        grows: true,
        slope_per_hour: Some(by * r.frame.level / r.frame.hours()),
        asymptote: None,
        growth_so_far: Box::new(move |part| by * part / (1.0 + by * part + 0.5 * swing)),
    };
    let series = Series {
        points,
        ..Series::default()
    };
    (series, truth)
}

/// Rises all day, is given back in an hour of the night.
fn released_at_night(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (days(dice, 5.0, 25.0), Noise::any(dice));
    let (swing, phase) = (dice.between(0.1, 0.6), dice.unit());
    let quick = dice.between(0.03, 0.12);
    let mut r = Recipe::new(frame, noise, 0.04 * swing, &[Sawtooth]);
    r.cycle = Rc::new(move |t| {
        let p = (t / DAY_S + phase).rem_euclid(1.0);
        swing
            * if p < 1.0 - quick {
                p
            } else {
                (1.0 - p) * (1.0 - quick) / quick
            }
    });
    let (series, mut truth) = r.bake(dice, |_| 0.0);
    truth.growth_so_far = Box::new(|_| 1.0);
    (series, truth)
}

fn growth_ends(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let (by, to) = (
        dice.log_between((10.0 * share).max(0.1), 1.5),
        dice.between(0.15, 0.6),
    );
    let round = dice.between(0.01, 0.06);
    let mut r = Recipe::new(frame, noise, share, &[Plateauing]);
    r.limit = Some(by);
    r.bake(dice, move |x| {
        let soft = |x: f64| to - round * ((to - x) / round).exp().ln_1p();
        by * (soft(x) - soft(0.0)) / (to - soft(0.0))
    })
}

fn slow_log(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let by = dice.log_between((12.0 * share).max(0.15), 1.5);
    let t0 = dice.log_between(0.002, 0.05);
    let r = Recipe::new(frame, noise, share, &[Growing, Plateauing]);
    r.bake(dice, move |x| by * (x / t0).ln_1p() / (1.0 / t0).ln_1p())
}

fn restart_warmups(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let count = dice.whole(2, 5);
    let by = dice.log_between(0.25, 2.0);
    let lives: Vec<(f64, f64, f64)> = (0..count)
        .map(|i| {
            let jitter = if i == 0 { 0.0 } else { dice.between(-0.2, 0.2) };
            let tau = dice.log_between(0.02, 0.1) / count as f64;
            (
                (i as f64 + jitter) / count as f64,
                tau,
                by * (1.0 + 0.02 * dice.normal()),
            )
        })
        .collect();
    let known: Vec<f64> = lives[1..]
        .iter()
        .map(|l| frame.times[0] + l.0 * frame.span_s)
        .collect();
    let mut r = Recipe::new(frame, noise, share, &[Plateauing, Flat]);
    let points = r.points(dice, &|x| {
        let life = lives.iter().rev().find(|l| l.0 <= x).unwrap_or(&lives[0]);
        life.2 * (1.0 - (-(x - life.0) / life.1).exp())
    });
    let truth = Truth {
        cyclic: false,
        accept: r.accept,
        grows: false,
        slope_per_hour: None,
        asymptote: None,
        growth_so_far: Box::new(|_| 1.0),
    };
    let series = Series {
        points,
        restarts_s: known,
        ..Series::default()
    };
    (series, truth)
}

fn oom_jitter(dice: &mut Dice) -> (Series, Truth) {
    let mut frame = any_clock(dice);
    frame.level = frame.level.min(4000.0 * MIB);
    let (height, lives) = (dice.between(1.0, 5.0), dice.between(2.0, 9.0));
    let rate = height * lives;
    let (mut born, mut top) = (0.0, height * dice.between(0.93, 1.0));
    let mut points = Vec::new();
    for &t_s in &frame.times {
        let x = frame.x(t_s);
        if rate * (x - born) > top {
            (born, top) = (x, height * dice.between(0.93, 1.0));
        }
        let value = frame.level * (1.0 + rate * (x - born) + 0.01 * dice.normal());
        points.push(Point { t_s, value });
    }
    let truth = Truth {
        cyclic: false,
        accept: vec![Growing],
        grows: true,
        slope_per_hour: Some(rate * frame.level / frame.hours()),
        asymptote: None,
        growth_so_far: Box::new(move |part| rate * part.min(0.9 / lives)),
    };
    let series = Series {
        points,
        limit: Some(frame.level * (1.0 + height)),
        ..Series::default()
    };
    (series, truth)
}

/// A level with accidents that never grows.
fn bounded(points: Vec<Point>, accept: Vec<Label>) -> (Series, Truth) {
    let truth = Truth {
        cyclic: false,
        accept,
        grows: false,
        slope_per_hour: None,
        asymptote: None,
        growth_so_far: Box::new(|_| 0.0),
    };
    let series = Series {
        points,
        ..Series::default()
    };
    (series, truth)
}

/// The kernel takes lazily freed pages under pressure; the heap takes them again.
fn reclaim_dips(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let n = frame.times.len();
    let depth = dice.between(0.05, 0.3);
    let mut dips = vec![0.0; n];
    for _ in 0..dice.whole(2, 8) {
        let (from, length) = (dice.whole(3, n - 4), dice.whole(1, 1 + n / 60));
        let deep = depth * dice.between(0.5, 1.0);
        for (i, dip) in dips.iter_mut().skip(from).take(length).enumerate() {
            *dip = deep * (1.0 - i as f64 / length as f64);
        }
    }
    let mut r = Recipe::new(frame, noise, share, &[Flat, Sawtooth]);
    let mut points = r.points(dice, &|_| 0.0);
    for (p, dip) in points.iter_mut().zip(&dips) {
        p.value *= 1.0 - dip;
    }
    bounded(points, r.accept)
}

fn spikes(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let (rate, height) = (dice.between(0.01, 0.1), dice.between(0.1, 1.0));
    let mut r = Recipe::new(frame, noise, share, &[Flat]);
    let mut points = r.points(dice, &|_| 0.0);
    for p in points.iter_mut() {
        if dice.chance(rate) {
            p.value *= 1.0 + height * dice.exponential();
        }
    }
    bounded(points, r.accept)
}

/// A half of the run without readings.
fn tear_out(dice: &mut Dice, series: &mut Series) {
    let n = series.points.len();
    let from = dice.whole(n / 8, n / 3);
    series.points.drain(from..from + n / 2);
}

fn leak_half(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let by = dice.log_between((10.0 * share).max(0.1), 2.0);
    let r = Recipe::new(frame, noise, share, &[Growing]);
    let (mut series, truth) = r.bake(dice, move |x| by * x);
    tear_out(dice, &mut series);
    (series, truth)
}

fn flat_half(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let r = Recipe::new(frame, noise, share, &[Flat]);
    let (mut series, truth) = r.bake(dice, |_| 0.0);
    tear_out(dice, &mut series);
    (series, truth)
}

/// The clock is set forward or back, once or twice, by up to a fifth of the run.
fn clock_steps(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let (by, span) = (
        dice.log_between((10.0 * share).max(0.15), 2.0),
        frame.span_s,
    );
    let r = Recipe::new(frame, noise, share, &[Growing]);
    let (mut series, mut truth) = r.bake(dice, move |x| by * x);
    truth.slope_per_hour = None;
    for _ in 0..dice.whole(1, 2) {
        let from = dice.whole(5, series.points.len() - 5);
        let jump = span * dice.between(-0.03, 0.2);
        for p in &mut series.points[from..] {
            p.t_s += jump;
        }
    }
    (series, truth)
}

fn leak_mib(dice: &mut Dice) -> (Series, Truth) {
    let mut frame = any_clock(dice);
    frame.level = dice.between(20.0, 90.0) * MIB;
    let (noise, share) = (Noise::any(dice), dice.log_between(0.001, 0.01));
    let by = dice.log_between(0.15, 1.0);
    let r = Recipe::new(frame, noise, share, &[Growing]);
    let (mut series, truth) = r.bake(dice, move |x| by * x);
    for p in &mut series.points {
        p.value = (p.value / MIB).floor() * MIB;
    }
    (series, truth)
}

fn week(dice: &mut Dice, swing: f64) -> Rc<dyn Fn(f64) -> f64> {
    let (day, quiet) = (working_day(dice, swing), dice.between(0.1, 0.7));
    Rc::new(move |t| {
        let free = (t / DAY_S + 2.0).rem_euclid(7.0) < 2.0;
        day(t) * if free { quiet } else { 1.0 }
    })
}

fn week_day(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (days(dice, 15.0, 50.0), Noise::any(dice));
    let swing = dice.log_between(0.04, 0.4);
    let mut r = Recipe::new(frame, noise, 0.06 * swing, &[Flat, Sawtooth]);
    r.cycle = week(dice, swing);
    r.bake(dice, |_| 0.0)
}

fn leak_week_day(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (days(dice, 15.0, 50.0), Noise::any(dice));
    let by = dice.log_between(0.15, 1.5);
    let swing = dice.log_between(0.03, 0.6 * by.min(0.5));
    let mut r = Recipe::new(frame, noise, 0.06 * swing, &[Growing]);
    r.cycle = week(dice, swing);
    r.bake(dice, move |x| by * x)
}

fn root_noisy(dice: &mut Dice) -> (Series, Truth) {
    let (frame, share) = (any_clock(dice), small(dice));
    let noise = Noise::any(dice);
    let by = dice.log_between((12.0 * share).max(0.2), 2.5);
    let p = dice.between(0.45, 0.75);
    let mut r = Recipe::new(frame, noise, share, &[Growing]);
    let wobble = share * dice.between(0.5, 1.5);
    let beat = dice.between(20.0, 90.0);
    let span = r.frame.span_s;
    r.cycle = Rc::new(move |t| wobble * (TAU * beat * t / span).sin());
    r.bake(dice, move |x| by * x.max(0.0).powf(p))
}

fn cache_daily(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise) = (days(dice, 6.0, 25.0), Noise::any(dice));
    let (by, tau) = (dice.log_between(0.2, 1.5), dice.log_between(0.03, 0.15));
    let swing = by * dice.between(0.03, 0.25);
    let mut r = Recipe::new(frame, noise, 0.05 * swing, &[Plateauing]);
    r.cycle = working_day(dice, swing);
    r.bake(dice, move |x| by * (1.0 - (-x / tau).exp()))
}

fn leak_short(dice: &mut Dice) -> (Series, Truth) {
    let (count, step_s) = (dice.whole(60, 95), dice.pick(&[1.0, 60.0, 600.0, 3600.0]));
    let frame = clock(dice, count, step_s);
    let noise = Noise::memory(dice, 0.1, 0.85);
    let share = small(dice);
    let by = dice.log_between((14.0 * share).max(0.12), 1.5);
    Recipe::new(frame, noise, share, &[Growing]).bake(dice, move |x| by * x)
}

fn flat_short(dice: &mut Dice) -> (Series, Truth) {
    let (count, step_s) = (dice.whole(60, 95), dice.pick(&[1.0, 60.0, 600.0, 3600.0]));
    let frame = clock(dice, count, step_s);
    let (noise, share) = (Noise::memory(dice, 0.1, 0.9), small(dice));
    Recipe::new(frame, noise, share, &[Flat]).bake(dice, |_| 0.0)
}

fn flat_long(dice: &mut Dice) -> (Series, Truth) {
    let step_s = dice.pick(&[1.0, 60.0, 300.0]);
    let frame = clock(dice, 3000, step_s);
    let (noise, share) = (
        Noise::memory(dice, 0.98, 0.995),
        dice.log_between(0.003, 0.02),
    );
    Recipe::new(frame, noise, share, &[Flat]).bake(dice, |_| 0.0)
}

/// A reload of the configuration drops a cache; or takes on another.
fn reload(dice: &mut Dice) -> (Series, Truth) {
    let (frame, noise, share) = (any_clock(dice), Noise::any(dice), small(dice));
    let by = dice.log_between((8.0 * share).max(0.08), 0.5);
    let (at, sign) = (dice.between(0.2, 0.8), dice.pick(&[-1.0, 1.0]));
    Recipe::new(frame, noise, share, &[Stepped])
        .bake(dice, move |x| if x >= at { sign * by } else { 0.0 })
}

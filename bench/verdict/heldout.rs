//! Families apart from those on which the judge was developed: other code, other formulas, other
//! parameters. They were run several times meanwhile, and three of them showed faults that were then
//! changed: bench/results/verdict-error-rates.md names those, which count as development.
//!
//! Long because each family is a formula with its truth, and all of them are read side by side.

use std::f64::consts::TAU;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::{Case, Curve, Truth};
use crate::dice::Dice;

/// Builds values one by one from a state that the family keeps.
type Maker = fn(&mut Dice, &mut Clock) -> Told;

/// What a family tells of a series it made.
pub struct Told {
    values: Vec<f64>,
    accept: Vec<Label>,
    slope_per_s: Option<f64>,
    asymptote: Option<f64>,
    restarts: Vec<usize>,
    limit: Option<f64>,
    growth: Option<Curve>,
}

/// Sampling instants, drawn before the family sees them.
pub struct Clock {
    t: Vec<f64>,
    x: Vec<f64>,
    span: f64,
}

pub const FAMILIES: &[(&str, Maker)] = &[
    ("office hours", office_hours),
    ("two memories", two_memories),
    ("noisy by day", noisy_by_day),
    ("bursts of jobs", bursts),
    ("square wave", square_wave),
    ("triangle", triangle),
    ("overshoot", overshoot),
    ("half saturation", half_saturation),
    ("fill to the brim", brim),
    ("gompertz", gompertz),
    ("stretched fill", stretched),
    ("leak that stops", leak_stops),
    ("leak by load", leak_by_load),
    ("leak in bursts", leak_in_bursts),
    ("arena steps", arena_steps),
    ("accelerating", accelerating),
    ("cache then leak", cache_then_leak),
    ("slow power", slow_power),
    ("leak, wild noise", leak_wild),
    ("leak in levels", leak_in_levels),
    ("two collectors", two_collectors),
    ("two collectors leak", two_collectors_leak),
    ("excursion", excursion),
    ("deploys", deploys),
    ("nightly restart leak", nightly_leak),
    ("nightly restart flat", nightly_flat),
    ("crash loop", crash_loop),
    ("bent oom", bent_oom),
];

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x7f4a_7c15_9e37_79b9);
    let mut clock = Clock::draw(&mut dice);
    let told = maker(&mut dice, &mut clock);
    let mut points: Vec<Point> = clock
        .t
        .iter()
        .zip(&told.values)
        .map(|(&t_s, &value)| Point {
            t_s,
            value: value.max(1.0),
        })
        .collect();
    let restarts_s = told.restarts.iter().map(|i| clock.t[*i]).collect();
    dirty(&mut dice, &mut points);
    let grows = told.accept.contains(&Growing);
    let bounded: Curve = Box::new(|_| 1.0);
    let truth = Truth {
        cyclic: false,
        grows,
        accept: told.accept,
        slope_per_hour: told.slope_per_s.map(|s| s * 3600.0),
        asymptote: told.asymptote,
        growth_so_far: told.growth.unwrap_or(bounded),
    };
    Case {
        family,
        series: Series {
            id: String::new(),
            points,
            restarts_s,
            limit: told.limit,
        },
        truth,
    }
}

impl Clock {
    fn draw(dice: &mut Dice) -> Clock {
        let count = dice.pick(&[120, 200, 288, 300, 300, 480, 720]);
        let span = dice.log_between(600.0, 30.0 * 86_400.0);
        Clock::over(dice, count, span)
    }

    fn over(dice: &mut Dice, count: usize, span: f64) -> Clock {
        // A scraper that is now and then late, on an epoch clock.
        let start = 1.6e9 + dice.between(0.0, 1e8);
        let step = span / count as f64;
        let mut t = Vec::with_capacity(count);
        for i in 0..count {
            let late = if dice.chance(0.05) {
                dice.between(0.0, 0.8)
            } else {
                0.0
            };
            t.push(start + (i as f64 + late) * step);
        }
        let x = t.iter().map(|t| (t - start) / span).collect();
        Clock { t, x, span }
    }

    fn stretch(&mut self, dice: &mut Dice, lo_days: f64, hi_days: f64) {
        let span = dice_days(dice, lo_days, hi_days);
        *self = Clock::over(dice, self.t.len(), span);
    }
}

fn dice_days(dice: &mut Dice, lo: f64, hi: f64) -> f64 {
    dice.log_between(lo, hi) * 86_400.0
}

fn dirty(dice: &mut Dice, points: &mut Vec<Point>) {
    match dice.whole(0, 9) {
        0 => {
            let n = points.len();
            let hole = dice.whole(n / 20, n / 5);
            let from = dice.whole(n / 8, n - hole - n / 8);
            points.drain(from..from + hole);
        }
        1 => points.retain(|_| !dice.chance(0.12)),
        2 => {
            for p in points.iter_mut() {
                p.value = (p.value / 1024.0).floor() * 1024.0;
            }
        }
        3 => {
            let at = dice.whole(5, points.len() - 5);
            points[at].value *= dice.between(0.3, 4.0);
        }
        4 => {
            let at = dice.whole(5, points.len() - 5);
            points.swap(at, at + 1);
        }
        _ => {}
    }
}

fn told(values: Vec<f64>, accept: &[Label]) -> Told {
    Told {
        values,
        accept: accept.to_vec(),
        slope_per_s: None,
        asymptote: None,
        restarts: Vec::new(),
        limit: None,
        growth: None,
    }
}

fn base(dice: &mut Dice) -> f64 {
    dice.log_between(8e6, 1.2e10)
}

/// Sum of a slow and a fast memory.
struct Drift {
    slow: f64,
    fast: f64,
    keep: f64,
    mix: f64,
}

impl Drift {
    fn new(dice: &mut Dice, keep: f64) -> Drift {
        Drift {
            slow: dice.normal(),
            fast: 0.0,
            keep,
            mix: dice.between(0.2, 0.8),
        }
    }

    fn next(&mut self, dice: &mut Dice) -> f64 {
        self.slow = self.keep * self.slow + (1.0 - self.keep * self.keep).sqrt() * dice.normal();
        self.fast = 0.4 * self.fast + 0.9 * dice.normal();
        self.mix * self.slow + (1.0 - self.mix) * self.fast
    }
}

/// `base * (1 + trend) + drift`, and the truth of a trend.
fn trending(
    dice: &mut Dice,
    clock: &Clock,
    noise: f64,
    accept: &[Label],
    trend: impl Fn(f64) -> f64 + 'static,
) -> Told {
    let base = base(dice);
    let keep = dice.between(0.5, 0.96);
    let mut drift = Drift::new(dice, keep);
    let values = clock
        .x
        .iter()
        .map(|&x| base * (1.0 + trend(x) + noise * drift.next(dice)))
        .collect();
    let mut out = told(values, accept);
    if accept.contains(&Growing) {
        out.slope_per_s = Some(base * (trend(1.0) - trend(0.99)) / 0.01 / clock.span);
    }
    out.growth = Some(Box::new(move |part| {
        let now = trend(part);
        (0..=40)
            .map(|i| now - trend(part * f64::from(i) / 40.0))
            .fold(0.0, f64::max)
            / (1.0 + now)
    }));
    out
}

fn office_hours(dice: &mut Dice, clock: &mut Clock) -> Told {
    clock.stretch(dice, 3.5, 25.0);
    let (base, swing, noise) = (
        base(dice),
        dice.between(0.05, 0.5),
        dice.between(0.003, 0.03),
    );
    let values = clock
        .t
        .iter()
        .map(|t| {
            let hour = (t / 3600.0).rem_euclid(24.0);
            let busy = if (8.0..18.0).contains(&hour) {
                1.0
            } else {
                0.1
            };
            base * (1.0 + swing * busy + noise * dice.normal())
        })
        .collect();
    told(values, &[Sawtooth, Flat])
}

fn two_memories(dice: &mut Dice, clock: &mut Clock) -> Told {
    let noise = dice.log_between(0.001, 0.015);
    let keep = dice.between(0.9, 0.985);
    let base = base(dice);
    let mut drift = Drift::new(dice, keep);
    let values = clock
        .x
        .iter()
        .map(|_| base * (1.0 + noise * drift.next(dice)))
        .collect();
    told(values, &[Flat])
}

fn noisy_by_day(dice: &mut Dice, clock: &mut Clock) -> Told {
    clock.stretch(dice, 2.0, 20.0);
    let (base, noise) = (base(dice), dice.between(0.003, 0.03));
    let values = clock
        .t
        .iter()
        .map(|t| {
            let day = 0.5 + 0.5 * (TAU * t / 86_400.0).sin();
            base * (1.0 + noise * (0.1 + day) * dice.normal())
        })
        .collect();
    told(values, &[Flat])
}

fn bursts(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, height) = (base(dice), dice.between(0.1, 0.8));
    let (rate, length) = (dice.between(0.01, 0.04), dice.whole(2, 6));
    let mut left = 0;
    let values = clock
        .x
        .iter()
        .map(|_| {
            if left == 0 && dice.chance(rate) {
                left = length;
            }
            let busy = left > 0;
            left = left.saturating_sub(1);
            base * (1.0 + if busy { height } else { 0.0 } + 0.005 * dice.normal())
        })
        .collect();
    told(values, &[Flat, Sawtooth, Stepped])
}

fn square_wave(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, height) = (base(dice), dice.between(0.1, 1.0));
    let (cycles, duty) = (dice.between(6.0, 30.0), dice.between(0.25, 0.75));
    let noise = height * dice.between(0.005, 0.05);
    let wave = |x: f64| {
        if (x * cycles).fract() < duty {
            height
        } else {
            0.0
        }
    };
    let values = clock
        .x
        .iter()
        .map(|&x| base * (1.0 + wave(x) + noise * dice.normal()))
        .collect();
    told(values, &[Sawtooth])
}

fn triangle(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, height) = (base(dice), dice.between(0.1, 1.0));
    let (cycles, lean) = (dice.between(6.0, 25.0), dice.between(0.15, 0.85));
    let noise = height * dice.between(0.01, 0.08);
    let wave = |x: f64| {
        let p = (x * cycles).fract();
        height
            * if p < lean {
                p / lean
            } else {
                (1.0 - p) / (1.0 - lean)
            }
    };
    let values = clock
        .x
        .iter()
        .map(|&x| base * (1.0 + wave(x) + noise * dice.normal()))
        .collect();
    told(values, &[Sawtooth])
}

fn overshoot(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, tau) = (dice.between(0.05, 0.6), dice.between(0.02, 0.12));
    let noise = dice.between(0.001, 0.01);
    trending(dice, clock, noise, &[Flat, Plateauing], move |x| {
        by * (-x / tau).exp()
    })
}

fn half_saturation(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, k) = (dice.log_between(0.15, 2.0), dice.log_between(0.005, 0.03));
    let noise = dice.between(0.002, 0.01);
    trending(dice, clock, noise, &[Plateauing], move |x| by * x / (x + k))
}

fn brim(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, full) = (dice.log_between(0.1, 2.0), dice.between(0.1, 0.7));
    let noise = dice.between(0.001, (by / 10.0).min(0.02));
    trending(dice, clock, noise, &[Plateauing], move |x| {
        by * (x / full).min(1.0)
    })
}

fn gompertz(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, b, c) = (
        dice.log_between(0.15, 2.0),
        dice.between(2.0, 6.0),
        dice.between(10.0, 25.0),
    );
    let noise = dice.between(0.001, 0.012);
    trending(dice, clock, noise, &[Plateauing], move |x| {
        by * (-b * (-c * x).exp()).exp()
    })
}

fn stretched(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, tau) = (dice.log_between(0.15, 2.0), dice.log_between(0.01, 0.08));
    let (beta, noise) = (dice.between(0.65, 0.95), dice.between(0.002, 0.012));
    trending(dice, clock, noise, &[Plateauing], move |x| {
        by * (1.0 - (-(x / tau).powf(beta)).exp())
    })
}

fn leak_stops(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, from) = (dice.between(0.15, 1.5), dice.between(0.05, 0.3));
    let to = from + dice.between(0.15, 0.45);
    let noise = dice.between(0.001, 0.012);
    trending(dice, clock, noise, &[Plateauing, Stepped], move |x| {
        by * ((x - from) / (to - from)).clamp(0.0, 1.0)
    })
}

fn leak_by_load(dice: &mut Dice, clock: &mut Clock) -> Told {
    clock.stretch(dice, 3.0, 25.0);
    let days = clock.span / 86_400.0;
    let (by, depth) = (dice.log_between(0.1, 2.0), dice.between(0.3, 0.95));
    let (noise, phase) = (dice.between(0.001, 0.015), dice.unit());
    let angle = move |x: f64| TAU * (x * days + phase);
    let straight = move |x: f64| by * x;
    let mut out = trending(dice, clock, noise, &[Growing], move |x| {
        straight(x) - by * depth / (TAU * days) * (angle(x).cos() - angle(0.0).cos())
    });
    // The slope that matters is that of whole days.
    let level = out.values.iter().sum::<f64>() / out.values.len() as f64 / (1.0 + by / 2.0);
    out.slope_per_s = Some(by * level / clock.span);
    out
}

fn leak_in_bursts(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, by) = (base(dice), dice.log_between(0.15, 2.0));
    let (bursts, noise) = (dice.between(40.0, 150.0), dice.between(0.001, 0.01));
    let n = clock.t.len() as f64;
    let (mut grown, mut so_far) = (0.0, Vec::new());
    let values = clock
        .x
        .iter()
        .map(|_| {
            if dice.chance(bursts / n) {
                grown += by / bursts * dice.exponential();
            }
            so_far.push(grown);
            base * (1.0 + grown + noise * dice.normal())
        })
        .collect();
    let mut out = told(values, &[Growing]);
    out.growth = Some(Box::new(move |part| {
        let now = so_far[((part * so_far.len() as f64) as usize).min(so_far.len() - 1)];
        now / (1.0 + now)
    }));
    out
}

fn arena_steps(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, arenas) = (dice.log_between(0.2, 3.0), dice.between(12.0, 40.0));
    let (base, noise) = (base(dice), dice.between(0.0005, 0.006));
    let at = move |x: f64| by * (x * arenas).floor() / arenas;
    let values = clock
        .x
        .iter()
        .map(|&x| base * (1.0 + at(x) + noise * dice.normal()))
        .collect();
    let mut out = told(values, &[Growing]);
    out.slope_per_s = Some(base * by / clock.span);
    out.growth = Some(Box::new(move |part| at(part) / (1.0 + at(part))));
    out
}

fn accelerating(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, rate) = (dice.log_between(0.15, 2.0), dice.between(1.0, 3.5));
    let noise = dice.between(0.001, 0.012);
    trending(dice, clock, noise, &[Growing], move |x| {
        by * (rate * x).exp_m1() / rate.exp_m1()
    })
}

fn cache_then_leak(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (cache, full) = (dice.between(0.1, 1.0), dice.between(0.05, 0.3));
    let (by, noise) = (
        dice.between(0.15, 1.2) * (1.0 + cache),
        dice.between(0.001, 0.01),
    );
    trending(dice, clock, noise, &[Growing], move |x| {
        cache * (x / full).min(1.0) + by * x
    })
}

fn slow_power(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, p) = (dice.log_between(0.2, 2.0), dice.between(0.4, 0.7));
    let noise = dice.between(0.001, 0.01);
    trending(dice, clock, noise, &[Growing], move |x| by * x.powf(p))
}

fn leak_wild(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, by) = (base(dice), dice.log_between(0.2, 2.0));
    let noise = by * dice.between(0.02, 0.1);
    let values = clock
        .x
        .iter()
        .map(|&x| base * (1.0 + by * x + noise * (dice.exponential() - 1.0)))
        .collect();
    let mut out = told(values, &[Growing]);
    out.slope_per_s = Some(base * by / clock.span);
    out.growth = Some(Box::new(move |part| by * part / (1.0 + by * part)));
    out
}

fn leak_in_levels(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, by) = (base(dice), dice.between(0.1, 0.6));
    let grain = base * by / dice.between(8.0, 25.0);
    let noise = dice.between(0.001, 0.01);
    let values = clock
        .x
        .iter()
        .map(|&x| (base * (1.0 + by * x + noise * dice.normal()) / grain).round() * grain)
        .collect();
    let mut out = told(values, &[Growing]);
    out.slope_per_s = Some(base * by / clock.span);
    out.growth = Some(Box::new(move |part| by * part / (1.0 + by * part)));
    out
}

/// Small collections within large ones.
fn nested(dice: &mut Dice, clock: &Clock, by: f64) -> Told {
    let base = base(dice);
    let (major, minor) = (dice.between(6.0, 20.0), dice.between(3.0, 6.0));
    let (high, low) = (dice.between(0.4, 1.2), dice.between(0.05, 0.15));
    let values = clock
        .x
        .iter()
        .map(|&x| {
            let (big, small) = ((x * major).fract(), (x * major * minor).fract());
            base * (1.0 + by * x + high * big + low * small + 0.01 * dice.normal())
        })
        .collect();
    if by == 0.0 {
        return told(values, &[Sawtooth]);
    }
    let mut out = told(values, &[Growing]);
    out.slope_per_s = Some(base * by / clock.span);
    out.growth = Some(Box::new(move |part| {
        by * part / (1.0 + by * part + high / 2.0)
    }));
    out
}

fn two_collectors(dice: &mut Dice, clock: &mut Clock) -> Told {
    nested(dice, clock, 0.0)
}

fn two_collectors_leak(dice: &mut Dice, clock: &mut Clock) -> Told {
    let by = dice.between(0.4, 2.0);
    nested(dice, clock, by)
}

fn excursion(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (by, from) = (dice.between(0.1, 0.8), dice.between(0.1, 0.5));
    let to = from + dice.between(0.1, 0.35);
    let noise = dice.between(0.001, 0.01);
    let mut out = trending(dice, clock, noise, &[Stepped], move |x| {
        if (from..to).contains(&x) { by } else { 0.0 }
    });
    out.growth = Some(Box::new(move |part| if part < from { 0.0 } else { 1.0 }));
    out
}

/// Versions with slightly different needs, deployed now and then; every deploy is known.
fn deploys(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, noise) = (base(dice), dice.between(0.001, 0.01));
    let n = clock.t.len();
    let mut restarts = Vec::new();
    let mut need = 1.0;
    let values = (0..n)
        .map(|i| {
            if i > 0 && i % (n / 5) == 0 {
                restarts.push(i);
                need = 1.0 + 0.005 * dice.normal();
            }
            base * (need + noise * dice.normal())
        })
        .collect();
    Told {
        restarts,
        ..told(values, &[Flat])
    }
}

fn nightly(dice: &mut Dice, clock: &mut Clock, by: f64) -> Told {
    let days = dice.whole(4, 14) as f64;
    *clock = Clock::over(dice, clock.t.len(), days * 86_400.0);
    let (base, noise) = (base(dice), dice.between(0.002, 0.015));
    let mut restarts = Vec::new();
    let values = clock
        .x
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let today = (x * days).fract();
            if i > 0 && (clock.x[i - 1] * days).floor() < (x * days).floor() {
                restarts.push(i);
            }
            base * (1.0 + by * today + noise * dice.normal())
        })
        .collect();
    let mut out = Told {
        restarts,
        ..told(values, if by > 0.0 { &[Growing] } else { &[Flat] })
    };
    if by > 0.0 {
        out.slope_per_s = Some(base * by / 86_400.0);
        out.growth = Some(Box::new(move |part| by * (part * days).min(1.0)));
    }
    out
}

fn nightly_leak(dice: &mut Dice, clock: &mut Clock) -> Told {
    let by = dice.between(0.15, 1.5);
    nightly(dice, clock, by)
}

fn nightly_flat(dice: &mut Dice, clock: &mut Clock) -> Told {
    nightly(dice, clock, 0.0)
}

/// Leaks until it is killed, at a limit that is known, after times that differ.
fn crash_loop(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, limit) = (base(dice), dice.between(2.0, 6.0));
    let n = clock.t.len() as f64;
    let lives = dice.between(2.5, 10.0);
    let mut pace = 1.0;
    let mut level = 1.0;
    let mut restarts = Vec::new();
    let mut values = Vec::new();
    for i in 0..clock.t.len() {
        level += pace * (limit - 1.0) * lives / n;
        if level >= limit {
            level = 1.0;
            pace = dice.between(0.8, 1.25);
            restarts.push(i);
        }
        values.push(base * (level + 0.01 * dice.normal()));
    }
    let mut out = told(values, &[Growing]);
    out.limit = Some(base * limit * 1.01);
    if dice.chance(0.5) {
        out.restarts = restarts;
    }
    out.growth = Some(Box::new(move |part| {
        (limit - 1.0) * (lives * part).min(1.0)
    }));
    out
}

/// Grows like a root, is killed at the limit.
fn bent_oom(dice: &mut Dice, clock: &mut Clock) -> Told {
    let (base, height, lives) = (base(dice), dice.between(1.0, 4.0), dice.between(1.6, 6.0));
    let p = dice.between(0.55, 0.9);
    let noise = dice.between(0.005, 0.03);
    let values = clock
        .x
        .iter()
        .map(|x| base * (1.0 + height * (x * lives).fract().powf(p) + noise * dice.normal()))
        .collect();
    let mut out = told(values, &[Growing]);
    out.limit = Some(base * (1.0 + height) * dice.between(1.0, 1.03));
    out.growth = Some(Box::new(move |part| {
        height * (lives * part).min(1.0).powf(p)
    }));
    out
}

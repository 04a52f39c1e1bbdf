//! The last families: written after what `fresh` showed was mended, for the number that is published.
//!
//! Long because each family is a formula with its truth, and all of them are read side by side.

use std::f64::consts::TAU;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped};

use crate::case::{Case, Curve, Truth};
use crate::dice::Dice;

/// Makes values one by one at the given times (windows and seconds).
type Maker = fn(&mut Dice, &Times) -> Made;

pub const FAMILIES: &[(&str, Maker)] = &[
    ("leak, noise grows", leak_noise_grows),
    ("leak, then faster", leak_faster),
    ("queue backlog", queue_backlog),
    ("fragmentation creep", creep),
    ("tenants come", tenants),
    ("tenants come and go", tenants_go),
    ("buffer pool", buffer_pool),
    ("cold start, flat", cold_start),
    ("hourly job", hourly_job),
    ("hourly job, leak", hourly_job_leak),
    ("arena trim", arena_trim),
    ("wave of two tides", tides),
    ("leak beside two tides", tides_leak),
    ("drift that returns", drift_returns),
    ("swap out", swap_out),
    ("log of requests", log_requests),
    ("weak leak, long run", weak_leak),
    ("restarts of a leak", restarts_leak),
    ("young restarts", young_restarts),
    ("limit and kill, bent", kill_bent),
];

/// Instants of the readings.
pub struct Times {
    s: Vec<f64>,
    x: Vec<f64>,
    span_s: f64,
}

pub struct Made {
    /// Relative to a level that is drawn afterwards.
    values: Vec<f64>,
    accept: Vec<Label>,
    /// Slope at the end, levels per window.
    slope: Option<f64>,
    restarts: Vec<usize>,
    limit: Option<f64>,
    cyclic: bool,
    growth: Option<Curve>,
}

pub fn make(index: usize, seed: u64) -> Case {
    let (family, maker) = FAMILIES[index % FAMILIES.len()];
    let mut dice = Dice::new(seed ^ 0x2545_f491_4f6c_dd1d);
    let count = dice.pick(&[72, 110, 240, 300, 300, 600, 1440, 2400]);
    let span_s = match family {
        "hourly job" | "hourly job, leak" => dice.between(12.0, 100.0) * 3600.0,
        "wave of two tides" | "leak beside two tides" => dice.between(6.0, 30.0) * 86_400.0,
        _ => dice.log_between(300.0, 20.0 * 86_400.0),
    };
    let jitter = dice.pick(&[0.0, 0.2]);
    let x: Vec<f64> = (0..count)
        .map(|i| (i as f64 + jitter * dice.unit()) / count as f64)
        .collect();
    let s = x.iter().map(|x| 1.75e9 + x * span_s).collect();
    let times = Times { s, x, span_s };
    let made = maker(&mut dice, &times);
    finish(&mut dice, family, &times, made)
}

fn finish(dice: &mut Dice, family: &'static str, times: &Times, made: Made) -> Case {
    let level = dice.log_between(2e7, 3e10);
    let grain = dice.pick(&[4096.0, 65_536.0, 1_048_576.0]);
    let grain = if grain < 0.004 * level { grain } else { 4096.0 };
    let mut points: Vec<Point> = times
        .s
        .iter()
        .zip(&made.values)
        .map(|(&t_s, v)| Point {
            t_s,
            value: (level * v.max(0.02) / grain).round() * grain,
        })
        .collect();
    let restarts_s = made.restarts.iter().map(|i| times.s[*i]).collect();
    if dice.chance(0.25) {
        let lost = dice.between(0.02, 0.15);
        points.retain(|_| !dice.chance(lost));
    }
    let truth = Truth {
        grows: made.accept.contains(&Growing),
        cyclic: made.cyclic,
        accept: made.accept,
        slope_per_hour: made.slope.map(|s| s * level / times.span_s * 3600.0),
        asymptote: None,
        growth_so_far: made.growth.unwrap_or_else(|| Box::new(|_| 1.0)),
    };
    let series = Series {
        points,
        restarts_s,
        limit: made.limit.map(|l| l * level),
        ..Series::default()
    };
    Case {
        family,
        series,
        truth,
    }
}

fn made(values: Vec<f64>, accept: &[Label]) -> Made {
    Made {
        values,
        accept: accept.to_vec(),
        slope: None,
        restarts: Vec::new(),
        limit: None,
        cyclic: false,
        growth: None,
    }
}

/// A cycle on a line that rises by `by` levels over the run, or by nothing.
fn cycle_on_a_line(values: Vec<f64>, by: f64) -> Made {
    if by == 0.0 {
        let mut out = made(values, &[Sawtooth, Flat]);
        out.cyclic = true;
        return out;
    }
    let mut out = made(values, &[Growing]);
    out.cyclic = true;
    out.slope = Some(by);
    out.growth = Some(Box::new(move |part| by * part / (1.0 + by * part)));
    out
}

/// A trend under noise with a memory; growth is read off the trend.
fn trend(
    dice: &mut Dice,
    t: &Times,
    share: f64,
    accept: &[Label],
    f: impl Fn(f64) -> f64 + 'static,
) -> Made {
    let (keep, mut state) = (dice.between(0.0, 0.9), dice.normal());
    let values =
        t.x.iter()
            .map(|&x| {
                state = keep * state + (1.0 - keep * keep).sqrt() * dice.normal();
                1.0 + f(x) + share * state
            })
            .collect();
    let mut out = made(values, accept);
    if accept.contains(&Growing) {
        out.slope = Some((f(1.0) - f(0.97)) / 0.03);
    }
    out.growth = Some(Box::new(move |part| {
        let seen = (0..=60).map(|i| f(part * f64::from(i) / 60.0));
        let (low, high) = seen.fold((f64::MAX, f64::MIN), |a, v| (a.0.min(v), a.1.max(v)));
        (high - low) / (1.0 + f(part))
    }));
    out
}

fn quiet(dice: &mut Dice) -> f64 {
    dice.log_between(0.0008, 0.012)
}

fn leak_noise_grows(dice: &mut Dice, t: &Times) -> Made {
    let (by, share) = (dice.log_between(0.15, 2.0), quiet(dice));
    let mut out = trend(dice, t, 0.0, &[Growing], move |x| by * x);
    for (v, x) in out.values.iter_mut().zip(&t.x) {
        *v += share * (0.5 + 3.0 * x) * dice.normal();
    }
    out
}

fn leak_faster(dice: &mut Dice, t: &Times) -> Made {
    let (share, slow) = (quiet(dice), dice.log_between(0.05, 0.3));
    let (fast, at) = (slow * dice.between(2.0, 6.0), dice.between(0.3, 0.75));
    trend(dice, t, share, &[Growing], move |x| {
        slow * x + (fast - slow) * (x - at).max(0.0)
    })
}

/// Work arrives faster than it is done, in waves: the backlog climbs.
fn queue_backlog(dice: &mut Dice, t: &Times) -> Made {
    let (share, by) = (quiet(dice), dice.log_between(0.2, 2.0));
    let (waves, depth) = (dice.between(6.0, 25.0), dice.between(0.2, 0.7));
    let wave = move |x: f64| depth / waves * (1.0 - (TAU * waves * x).cos());
    let mut out = trend(dice, t, share, &[Growing], move |x| by * (x + wave(x)));
    out.slope = Some(by);
    out
}

fn creep(dice: &mut Dice, t: &Times) -> Made {
    let (share, by, p) = (
        quiet(dice),
        dice.log_between(0.2, 1.5),
        dice.between(0.5, 0.8),
    );
    let knee = dice.between(0.01, 0.1);
    trend(dice, t, share, &[Growing], move |x| {
        by * ((x + knee).powf(p) - knee.powf(p)) / ((1.0 + knee).powf(p) - knee.powf(p))
    })
}

/// Customers come one by one, at random, and stay.
fn tenants(dice: &mut Dice, t: &Times) -> Made {
    let (count, by) = (dice.between(40.0, 120.0), dice.log_between(0.3, 2.0));
    let mut arrivals: Vec<f64> = (0..count as usize).map(|_| dice.unit()).collect();
    arrivals.sort_by(f64::total_cmp);
    let f = move |x: f64| by * arrivals.partition_point(|a| *a <= x) as f64 / count;
    let mut out = trend(dice, t, 0.003, &[Growing], f);
    out.slope = None;
    out
}

/// As many leave as come: a birth and death process about a level.
fn tenants_go(dice: &mut Dice, t: &Times) -> Made {
    let (mean, rate) = (
        dice.between(40.0, 300.0),
        dice.between(30.0, 120.0) / t.x.len() as f64,
    );
    let mut here = mean;
    let values =
        t.x.iter()
            .map(|_| {
                here += (rate * (mean - here)).clamp(-mean, mean)
                    + (2.0 * rate * mean).sqrt() * dice.normal();
                1.0 + 0.3 * (here / mean - 1.0) + 0.002 * dice.normal()
            })
            .collect();
    let mut out = made(values, &[Flat]);
    out.growth = Some(Box::new(|_| 0.0));
    out
}

fn buffer_pool(dice: &mut Dice, t: &Times) -> Made {
    let (share, by) = (quiet(dice), dice.log_between(0.2, 2.5));
    let (rate, keep) = (dice.between(8.0, 40.0), dice.between(0.6, 1.6));
    trend(dice, t, share, &[Plateauing], move |x| {
        by * (1.0 - 1.0 / (1.0 + (rate * x).powf(keep + 1.0)))
    })
}

fn cold_start(dice: &mut Dice, t: &Times) -> Made {
    let share = quiet(dice);
    let (from, length) = (dice.between(0.3, 0.9), dice.between(0.004, 0.02));
    let mut out = trend(dice, t, share, &[Plateauing, Flat, Stepped], move |x| {
        -from * (-x / length).exp()
    });
    out.growth = Some(Box::new(|_| 0.0));
    out
}

fn jobs(dice: &mut Dice, t: &Times, by: f64) -> Made {
    let (height, length) = (dice.between(0.08, 0.6), dice.between(0.1, 0.5));
    let (phase, share) = (dice.unit(), quiet(dice));
    let values = t.s.iter().zip(&t.x).map(|(s, x)| {
        let busy = (s / 3600.0 + phase).fract() < length;
        1.0 + by * x + if busy { height } else { 0.0 } + share * dice.normal()
    });
    cycle_on_a_line(values.collect(), by)
}

fn hourly_job(dice: &mut Dice, t: &Times) -> Made {
    jobs(dice, t, 0.0)
}

fn hourly_job_leak(dice: &mut Dice, t: &Times) -> Made {
    let by = dice.log_between(0.2, 1.5);
    jobs(dice, t, by)
}

/// Fills slowly, gives a part back now and then, and fills again: bounded.
fn arena_trim(dice: &mut Dice, t: &Times) -> Made {
    let (top, share) = (dice.between(0.2, 0.8), quiet(dice));
    let (every, part) = (dice.between(0.06, 0.16), dice.between(0.5, 0.95));
    let tau = every * dice.between(0.3, 1.0);
    let mut level = 0.0;
    let (mut next, mut before) = (every, 0.0);
    let mut values = Vec::with_capacity(t.x.len());
    for &x in &t.x {
        if x >= next {
            level *= 1.0 - part;
            next += every * dice.between(0.85, 1.15);
        }
        level += (top - level) * (1.0 - (-(x - before) / tau).exp());
        before = x;
        values.push(1.0 + level + share * dice.normal());
    }
    made(values, &[Sawtooth, Flat])
}

fn two_tides(dice: &mut Dice, t: &Times, by: f64) -> Made {
    let (day, half) = (dice.between(0.03, 0.2), dice.between(0.02, 0.1));
    let (a, b, share) = (dice.unit(), dice.unit(), quiet(dice));
    let values = t.s.iter().zip(&t.x).map(|(s, x)| {
        let d = s / 86_400.0;
        let wave = day * (TAU * (d + a)).sin() + half * (TAU * (1.93 * d + b)).sin();
        1.0 + by * x + 0.5 * wave + share * dice.normal()
    });
    cycle_on_a_line(values.collect(), by)
}

fn tides(dice: &mut Dice, t: &Times) -> Made {
    two_tides(dice, t, 0.0)
}

fn tides_leak(dice: &mut Dice, t: &Times) -> Made {
    let by = dice.log_between(0.2, 1.5);
    two_tides(dice, t, by)
}

/// Wanders about its level and is drawn back to it, a few times in the run.
fn drift_returns(dice: &mut Dice, t: &Times) -> Made {
    let (keep, share) = (
        1.0 - dice.between(8.0, 30.0) / t.x.len() as f64,
        dice.log_between(0.003, 0.02),
    );
    let keep = keep.max(0.5);
    let mut state = dice.normal();
    let values = t.x.iter().map(|_| {
        state = keep * state + (1.0 - keep * keep).sqrt() * dice.normal();
        1.0 + share * state
    });
    let mut out = made(values.collect(), &[Flat]);
    out.growth = Some(Box::new(|_| 0.0));
    out
}

/// Pages go to swap under pressure and do not come back.
fn swap_out(dice: &mut Dice, t: &Times) -> Made {
    let (share, by, tau) = (
        quiet(dice),
        dice.between(0.1, 0.5),
        dice.between(0.005, 0.05),
    );
    let at = dice.between(0.2, 0.75);
    let mut out = trend(dice, t, share.min(0.1 * by), &[Stepped, Flat], move |x| {
        -by * (1.0 - (-(x - at).max(0.0) / tau).exp())
    });
    out.growth = Some(Box::new(|_| 0.0));
    out
}

fn log_requests(dice: &mut Dice, t: &Times) -> Made {
    let (share, by, t0) = (
        quiet(dice),
        dice.log_between(0.2, 1.5),
        dice.log_between(0.003, 0.15),
    );
    trend(dice, t, share, &[Growing, Plateauing], move |x| {
        by * (x / t0).ln_1p() / (1.0 / t0).ln_1p()
    })
}

fn weak_leak(dice: &mut Dice, t: &Times) -> Made {
    let by = dice.between(0.05, 0.12);
    let share = by * dice.between(0.01, 0.12);
    trend(dice, t, share, &[Growing], move |x| by * x)
}

fn lives(dice: &mut Dice, t: &Times, least: usize) -> (Vec<usize>, Vec<f64>) {
    let count = dice.whole(least, 6);
    let mut cuts: Vec<f64> = (1..count)
        .map(|i| (i as f64 + dice.between(-0.35, 0.35)) / count as f64)
        .collect();
    cuts.dedup();
    let restarts = cuts
        .iter()
        .map(|c| t.x.partition_point(|x| x < c))
        .collect();
    cuts.insert(0, 0.0);
    (restarts, cuts)
}

fn restarts_leak(dice: &mut Dice, t: &Times) -> Made {
    let (restarts, cuts) = lives(dice, t, 2);
    let by = dice.log_between(0.2, 2.0) * cuts.len() as f64;
    let share = quiet(dice);
    let values = t.x.iter().map(|x| {
        let born = cuts[cuts.partition_point(|c| c <= x) - 1];
        1.0 + by * (x - born) + share * dice.normal()
    });
    let mut out = made(values.collect(), &[Growing]);
    out.restarts = restarts;
    out.slope = Some(by);
    out.growth = Some(Box::new(move |part| by * part.min(1.0 / 6.0)));
    out
}

/// Restarted so often that every life is young: each fills to the same level.
fn young_restarts(dice: &mut Dice, t: &Times) -> Made {
    let (restarts, cuts) = lives(dice, t, 4);
    let (by, tau) = (dice.log_between(0.2, 1.5), dice.between(0.01, 0.03));
    let share = quiet(dice);
    let values = t.x.iter().map(|x| {
        let born = cuts[cuts.partition_point(|c| c <= x) - 1];
        1.0 + by * (1.0 - (-(x - born) / tau).exp()) + share * dice.normal()
    });
    let mut out = made(values.collect(), &[Plateauing]);
    out.restarts = restarts;
    out
}

fn kill_bent(dice: &mut Dice, t: &Times) -> Made {
    let (height, lives, p) = (
        dice.between(0.8, 4.0),
        dice.between(1.6, 8.0),
        dice.between(0.5, 1.4),
    );
    let share = quiet(dice);
    let values =
        t.x.iter()
            .map(|x| 1.0 + height * (x * lives).fract().powf(p) + share * dice.normal());
    let mut out = made(values.collect(), &[Growing]);
    out.limit = Some((1.0 + height) * dice.between(1.0, 1.02));
    out.growth = Some(Box::new(move |part| {
        height * (lives * part).min(1.0).powf(p)
    }));
    out
}

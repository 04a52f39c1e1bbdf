//! Tests on what weeks bring: working days and weekends, levels that shift, a start that is over at once.

use super::short_runs::Dice;
use super::{Label, Rules, series};
use ::series::series::{Point, Series};

const MIB: f64 = 1_048_576.0;
const DAY_S: f64 = 86_400.0;

/// Three weeks at an hour; the curve by days, in MiB, with noise of 1 MiB.
fn three_weeks(seed: u64, curve: impl Fn(f64) -> f64) -> Series {
    let mut dice = Dice(seed);
    let point = |hour: u32| {
        let t_s = 3600.0 * f64::from(hour);
        Point {
            t_s,
            value: (curve(t_s / DAY_S) + dice.normal()) * MIB,
        }
    };
    Series {
        points: (0..504).map(point).collect(),
        ..Series::default()
    }
}

fn label(of: &Series) -> Label {
    series::judge(of, &Rules::default()).label
}

/// Five days of one level, two of another; the week begins at `from` days.
fn at_work(day: f64, from: f64) -> f64 {
    f64::from(u8::from((day + from) % 7.0 < 5.0))
}

#[test]
fn weekends_are_a_cycle_and_no_steps() {
    for seed in 0..20 {
        let from = 0.35 * seed as f64;
        let series = three_weeks(seed, |day| 100.0 + 20.0 * at_work(day, from));
        let verdict = series::judge(&series, &Rules::default());
        assert_eq!(verdict.label, Label::Sawtooth, "seed {seed}: {verdict:?}");
        let week = verdict.period_s.unwrap_or_default() / DAY_S;
        assert!((week - 7.0).abs() < 0.3, "seed {seed}: {week} days");
    }
}

#[test]
fn a_leak_below_weekends_is_growing() {
    for seed in 0..20 {
        let from = 0.35 * seed as f64;
        let curve = |day: f64| 100.0 + 20.0 * at_work(day, from) + 0.9 * day;
        assert_eq!(
            label(&three_weeks(seed, curve)),
            Label::Growing,
            "seed {seed}"
        );
    }
}

#[test]
fn three_unlike_shifts_are_steps_and_like_ones_may_go_on() {
    let stairs = |at: [f64; 3], by: [f64; 3]| {
        move |day: f64| {
            let steps = at.iter().zip(by).filter(|(at, _)| day >= **at);
            100.0 + steps.map(|(_, by)| by).sum::<f64>()
        }
    };
    for seed in 0..10 {
        let unlike = three_weeks(seed, stairs([2.0, 11.0, 15.0], [8.0, 30.0, 12.0]));
        assert_eq!(label(&unlike), Label::Stepped, "seed {seed}");
        let like = three_weeks(seed, stairs([4.0, 9.5, 15.0], [20.0, 22.0, 19.0]));
        assert_ne!(label(&like), Label::Stepped, "seed {seed}");
    }
}

#[test]
fn a_start_that_is_over_at_once_hides_no_leak() {
    for seed in 0..20 {
        let curve = |day: f64| 150.0 - 60.0 * (-day / 0.25).exp() + 1.2 * day;
        assert_eq!(
            label(&three_weeks(seed, curve)),
            Label::Growing,
            "seed {seed}"
        );
        let bounded = |day: f64| 150.0 - 60.0 * (-day / 0.25).exp();
        assert_ne!(
            label(&three_weeks(seed, bounded)),
            Label::Growing,
            "seed {seed}"
        );
    }
}

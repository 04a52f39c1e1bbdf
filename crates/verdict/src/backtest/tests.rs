//! Tests on what is counted of a forecast.

use super::rules::RULES;
use super::{Backtest, NAME, try_on};
use crate::Rules;
use crate::short_runs::Dice;
use series::series::{Point, Series};

fn series(seed: u64, readings: u32, curve: impl Fn(f64) -> f64) -> Series {
    let mut dice = Dice(seed);
    let point = |i: u32| Point {
        t_s: 60.0 * f64::from(i),
        value: curve(f64::from(i)) + dice.normal(),
    };
    Series {
        id: format!("{seed}"),
        points: (0..readings).map(point).collect(),
        ..Series::default()
    }
}

fn tried(hidden: f64, curve: impl Fn(f64) -> f64 + Copy) -> Backtest {
    let all = (0..20).map(|seed| try_on(&series(seed, 400, curve), hidden, &Rules::default()));
    Backtest::of(&all.collect::<Vec<_>>())
}

#[test]
fn a_leak_is_called_and_rises() {
    let all = tried(0.25, |i| 200.0 + 0.2 * i);
    assert_eq!((all.series, all.rose, all.left_out), (20, 20, 0));
    let row = |name: &str| all.rows.iter().find(|row| row.name == name).unwrap();
    let own = row(NAME);
    assert_eq!((own.called, own.called_rose), (20, 20));
    assert!(own.covered >= 0.9, "{own:?}");
    assert_eq!(row("stays as it is").called, 0);
    assert!(row("stays as it is").covered < 0.1);
    let line = row("least squares, p < 0.05");
    assert!(line.covered >= 0.6 && line.width < own.width, "{line:?}");
    assert_eq!(row("last over first by 10 %").forecasts, 0);
}

#[test]
fn what_stands_still_is_not_called() {
    let all = tried(0.25, |_| 200.0);
    assert_eq!((all.series, all.rose), (20, 0));
    let own = &all.rows[0];
    assert_eq!(own.called, 0);
    assert!(own.covered >= 0.9 && own.width < 0.03, "{own:?}");
    assert!(own.interval_score >= own.width * 0.9 && own.crps > 0.0);
}

#[test]
fn a_restart_in_what_is_known_counts() {
    let curve = |i: f64| if i < 150.0 { 200.0 + 8.0 * i } else { 200.0 };
    let all = tried(0.25, curve);
    let own = &all.rows[0];
    assert!(own.covered >= 0.9 && own.width < 0.2, "{own:?}");
}

#[test]
fn too_little_is_left_out() {
    let few = series(1, 10, |_| 100.0);
    let all = Backtest::of(&[try_on(&few, 0.25, &Rules::default())]);
    assert_eq!((all.series, all.left_out), (0, 1));
    assert_eq!(all.rows.len(), 2 + RULES.len());
    assert!(
        all.rows
            .iter()
            .all(|row| row.forecasts == 0 && row.called == 0)
    );
}

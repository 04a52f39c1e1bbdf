//! Tests of forecasts on series of known kinds.

use super::*;
use testkit::Random;

const KNOWN: usize = 300;
const ALL: usize = 400;
const SEEDS: u64 = 100;

/// The share of intervals that held what came, and their median width.
fn covered(curve: impl Fn(usize, &mut Random) -> f64) -> (f64, f64) {
    let mut widths = Vec::new();
    let mut held = 0;
    for seed in 0..SEEDS {
        let mut dice = Random::new(seed);
        let point = |i: usize| Point {
            t_s: i as f64,
            value: curve(i, &mut dice),
        };
        let points: Vec<Point> = (0..ALL).map(point).collect();
        let forecast = Forecast::of(&points[..KNOWN], 25.0).unwrap();
        let level = forecast.level(76.0, 100.0);
        let (lo, hi) = (level.quantile(0.025), level.quantile(0.975));
        let came: Vec<f64> = points[375..].iter().map(|p| p.value).collect();
        held += u64::from((lo..=hi).contains(&median(&came)));
        widths.push(hi - lo);
    }
    (held as f64 / SEEDS as f64, median(&widths))
}

#[test]
fn what_stands_still_does_so() {
    let (share, width) = covered(|_, dice| 100.0 + dice.normal());
    assert!(share >= 0.93, "{share}");
    assert!(width < 2.0, "{width}");
}

#[test]
fn what_rises_goes_on() {
    let (share, width) = covered(|i, dice| 100.0 + 0.1 * i as f64 + dice.normal());
    assert!(share >= 0.93, "{share}");
    assert!(width < 8.0, "a rise of 9 until then: {width}");
}

#[test]
fn what_levels_off_is_within() {
    let curve = |i: usize| 100.0 + 30.0 * (1.0 - (-(i as f64) / 60.0).exp());
    let (share, width) = covered(|i, dice| curve(i) + dice.normal());
    assert!(share >= 0.93, "{share}");
    assert!(width < 20.0, "{width}");
}

#[test]
fn what_wanders_may_wander_on() {
    let walk = std::cell::RefCell::new(0.0);
    let (share, _) = covered(|i, dice| {
        let mut at = walk.borrow_mut();
        *at = if i == 0 {
            0.0
        } else {
            *at + 0.3 * dice.normal()
        };
        100.0 + *at + dice.normal()
    });
    assert!(share >= 0.9, "{share}");
}

#[test]
fn too_little_is_none_and_equal_values_are_one_level() {
    let flat = |n: usize| -> Vec<Point> {
        let point = |i: usize| Point {
            t_s: i as f64,
            value: 5.0,
        };
        (0..n).map(point).collect()
    };
    assert!(Forecast::of(&[], 1.0).is_none());
    assert!(Forecast::of(&flat(READ_MIN - 1), 1.0).is_none());
    assert!(Forecast::of(&flat(100), f64::NAN).is_none());
    let level = Forecast::of(&flat(100), 10.0).unwrap().level(10.0, 20.0);
    assert!((level.mean() - 5.0).abs() < 1e-6);
    assert!(level.quantile(0.975) - level.quantile(0.025) < 0.05);
}

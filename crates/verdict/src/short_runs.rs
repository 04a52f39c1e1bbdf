//! Tests on what `run` meets first: minutes at one sample a second, two or three replicas.

use super::{Label, Rules, arm, pair, series};
use ::series::series::{Point, Series};

const MIB: f64 = 1_048_576.0;

/// Deterministic noise, roughly normal with deviation 1 (the sum of twelve uniforms).
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Four minutes at one second; noise of `noise` bytes with a memory of a few seconds.
pub(crate) fn four_minutes(id: &str, seed: u64, noise: f64, curve: impl Fn(f64) -> f64) -> Series {
    let mut dice = Dice(seed);
    let mut drift = 0.0;
    let points = (0..240)
        .map(|i| {
            let t_s = f64::from(i);
            drift = 0.7 * drift + 0.7 * noise * dice.normal();
            // RSS comes in pages.
            let value = ((curve(t_s) + drift) / 4096.0).round() * 4096.0;
            Point { t_s, value }
        })
        .collect();
    Series {
        id: id.to_owned(),
        points,
        ..Series::default()
    }
}

fn leak(base_mib: f64) -> impl Fn(f64) -> f64 {
    move |t| base_mib * MIB + 80.0 * 1024.0 * t
}

#[test]
fn a_leak_of_80_kib_per_second_is_growing_and_its_slope_is_honest() {
    let truth = 80.0 * 1024.0 * 3600.0;
    let (mut right, mut covered) = (0, 0);
    for seed in 0..40 {
        let base = 20.0 + 2.0 * seed as f64;
        let v = series::judge(
            &four_minutes("leak", seed, 0.4 * MIB, leak(base)),
            &Rules::default(),
        );
        right += usize::from(v.label == Label::Growing);
        let slope = v.slope_per_hour.unwrap();
        covered += usize::from(slope.lo <= truth && truth <= slope.hi);
    }
    assert!(right >= 39, "{right} of 40");
    assert!(covered >= 36, "{covered} of 40");
}

#[test]
fn the_flat_twin_is_flat_and_the_fill_levels_off() {
    for seed in 0..20 {
        let flat = four_minutes("flat", seed, 0.4 * MIB, |_| 60.0 * MIB);
        let v = series::judge(&flat, &Rules::default());
        assert_eq!(v.label, Label::Flat, "seed {seed}: {v:?}");
        let fill = |t: f64| 30.0 * MIB + 40.0 * MIB * (1.0 - (-t / 40.0).exp());
        let v = series::judge(
            &four_minutes("fill", seed, 0.4 * MIB, fill),
            &Rules::default(),
        );
        assert_eq!(v.label, Label::Plateauing, "seed {seed}: {v:?}");
        let end = v.asymptote.unwrap();
        assert!((end.value / MIB - 70.0).abs() < 1.5, "seed {seed}: {end:?}");
    }
}

/// Relays that map memory for a vote every 20 s, and give it back at once: one reading in ten is high, the last one as
/// it happens too. Seen on real ones (subjects/tor/README.md): the level was called 56 MiB where nine readings of ten
/// were 20.
#[test]
fn a_series_of_spikes_that_ends_in_one_has_the_level_between_them() {
    let mut dice = Dice(7);
    let readings: Vec<Point> = (0..184)
        .map(|i| {
            let spike = i == 183 || i % 10 == 3 && i > 20;
            let height = if spike {
                15.0 + 45.0 * dice.uniform()
            } else {
                0.1 * dice.uniform()
            };
            Point {
                t_s: 240.0 + 2.0 * f64::from(i),
                value: (20.0 + height) * MIB,
            }
        })
        .collect();
    let series = Series {
        id: "relay".into(),
        points: readings,
        ..Series::default()
    };
    let said = series::judge(&series, &Rules::default());
    let level = said.level.unwrap().value / MIB;
    assert!((19.0..26.0).contains(&level), "level {level}: {said:?}");
    assert_ne!(said.label, Label::Growing, "{said:?}");
}

/// Levels of 40 and 44 MiB, four processes each: told apart, unless a tenth more does not matter.
#[test]
fn what_does_not_matter_is_not_called_different() {
    let level = |arm: &str, seed: u64, mib: f64| -> Vec<Series> {
        let one = |i| four_minutes(&format!("{arm}/{i}"), seed + i, 0.1 * MIB, |_| mib * MIB);
        (0..4).map(one).collect()
    };
    let (low, high) = (level("low", 1, 40.0), level("high", 50, 44.0));
    let compared = |matters: f64| {
        let rules = Rules {
            matters,
            ..Rules::default()
        };
        let (arm, processes) = ("low", low.as_slice());
        let a = pair::ArmInput { arm, processes };
        let (arm, processes) = ("high", high.as_slice());
        pair::compare(&a, &pair::ArmInput { arm, processes }, 1, &rules)
    };
    let plain = compared(0.0);
    assert!(
        plain.decided && plain.words.contains("uses less"),
        "{plain:?}"
    );
    let alike = compared(0.3);
    assert!(!alike.decided && alike.needs.is_none(), "{alike:?}");
    assert!(
        alike
            .words
            .starts_with("low and high differ by less than 30 %"),
        "{alike:?}"
    );
    // The truth lies on the border: nothing can be said.
    let border = compared(0.1);
    assert!(!border.decided && border.needs.is_some(), "{border:?}");
    assert_eq!(plain.ratio, border.ratio);
}

#[test]
fn an_arm_of_two_or_one_is_judged_and_compared() {
    let rules = Rules::default();
    let leaking: Vec<Series> = (0..2)
        .map(|i| four_minutes(&format!("leak/{i}"), i, 0.4 * MIB, leak(40.0)))
        .collect();
    let flat: Vec<Series> = (0..2)
        .map(|i| four_minutes(&format!("flat/{i}"), 50 + i, 0.4 * MIB, |_| 40.0 * MIB))
        .collect();
    let grown = arm::judge("leak", &leaking, &rules);
    assert_eq!(grown.label, Label::Growing, "{grown:?}");
    assert_eq!(arm::judge("flat", &flat, &rules).label, Label::Flat);
    assert_eq!(
        arm::judge("one", &leaking[..1], &rules).label,
        Label::Growing
    );
    let a = pair::ArmInput {
        arm: "leak",
        processes: &leaking,
    };
    let b = pair::ArmInput {
        arm: "flat",
        processes: &flat,
    };
    let pair = pair::compare(&a, &b, 1, &rules);
    let ratio = pair.ratio.unwrap();
    let truth = (40.0 + 80.0 * 240.0 / 1024.0) / 40.0;
    assert!(ratio.lo < truth && truth < ratio.hi, "{pair:?}");
    assert!(pair.decided && pair.p_better.unwrap() < 0.05, "{pair:?}");
    let one = pair::compare(
        &pair::ArmInput {
            arm: "one",
            processes: &flat[..1],
        },
        &b,
        1,
        &rules,
    );
    assert!(!one.decided && one.needs.is_some(), "{one:?}");
}

#[test]
fn too_little_says_what_is_missing() {
    let v = series::judge(&Series::default(), &Rules::default());
    assert_eq!(v.label, Label::Insufficient);
    assert!(v.needs.is_some());
    let mut short = four_minutes("short", 1, MIB, |_| 40.0 * MIB);
    short.points.truncate(5);
    let v = series::judge(&short, &Rules::default());
    assert_eq!(
        (v.label, v.needs.as_deref()),
        (Label::Insufficient, Some("3 more readings"))
    );
    let none = arm::judge("none", &[], &Rules::default());
    assert_eq!(none.label, Label::Insufficient);
}

#[test]
fn equal_values_are_flat_and_bad_numbers_do_not_panic() {
    let flat = four_minutes("flat", 1, 0.0, |_| 40.0 * MIB);
    assert_eq!(series::judge(&flat, &Rules::default()).label, Label::Flat);
    for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 1e-300] {
        let mut odd = flat.clone();
        for p in odd.points.iter_mut().step_by(3) {
            p.value = bad;
        }
        series::judge(&odd, &Rules::default());
        for p in &mut odd.points {
            p.t_s = bad;
        }
        series::judge(&odd, &Rules::default());
    }
}

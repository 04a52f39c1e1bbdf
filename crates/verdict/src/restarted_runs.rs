//! Tests on restarts: level and slope are of what runs now.

use super::short_runs::Dice;
use super::{Label, Rules, arm, series};
use ::series::series::{Point, Series};

const MIB: f64 = 1_048_576.0;
const DAY_S: f64 = 86_400.0;
const SEEDS: u64 = 20;

/// A process that is restarted at `restart` days, read every four hours for ten days; MiB by days of its uptime, with
/// noise of one per cent.
struct Restarted {
    seed: u64,
    restart: f64,
    is_told: bool,
}

const DAYS: f64 = 10.0;

impl Restarted {
    fn told(seed: u64, restart: f64) -> Restarted {
        Restarted {
            seed,
            restart,
            is_told: true,
        }
    }

    fn of(&self, before: impl Fn(f64) -> f64, after: impl Fn(f64) -> f64) -> Series {
        let mut dice = Dice(self.seed);
        let readings = (DAYS * 6.0) as u32;
        let point = |i: u32| {
            let day = f64::from(i) / 6.0;
            let mib = match day < self.restart {
                true => before(day),
                false => after(day - self.restart),
            };
            Point {
                t_s: day * DAY_S,
                value: mib * MIB * (1.0 + 0.01 * dice.normal()),
            }
        };
        Series {
            points: (1..=readings).map(point).collect(),
            restarts_s: self
                .is_told
                .then_some(self.restart * DAY_S)
                .into_iter()
                .collect(),
            ..Series::default()
        }
    }
}

fn grows(day: f64) -> f64 {
    600.0 + 750.0 * day
}

fn fills(day: f64) -> f64 {
    1_300.0 * (1.0 - 0.5 * (-day / 0.6).exp())
}

#[test]
fn another_program_is_judged_by_itself() {
    for seed in 0..SEEDS {
        for is_told in [true, false] {
            let of = Restarted {
                is_told,
                ..Restarted::told(seed, 4.5)
            };
            let said = series::judge(&of.of(grows, fills), &Rules::default());
            let what = format!("seed {seed}, told {is_told}: {said:?}");
            assert_eq!(said.label, Label::Plateauing, "{what}");
            let level = said.level.unwrap().value / MIB;
            assert!((level / 1_300.0 - 1.0).abs() < 0.02, "{what}");
            let slope = said.slope_per_hour.unwrap().value / MIB;
            assert!(slope.abs() < 0.5, "{what}");
            assert!(said.rule.contains("from its last restart on, 5."), "{what}");
        }
    }
}

#[test]
fn one_that_grows_after_one_that_did_not_is_growing() {
    for seed in 0..SEEDS {
        let of = Restarted::told(seed, 4.0);
        let said = series::judge(&of.of(|_| 3_000.0, grows), &Rules::default());
        assert_eq!(said.label, Label::Growing, "seed {seed}: {said:?}");
        let slope = said.slope_per_hour.unwrap().value / MIB * 24.0;
        assert!(
            (slope / 750.0 - 1.0).abs() < 0.1,
            "seed {seed}: {slope} MiB a day"
        );
    }
}

#[test]
fn too_little_of_another_program_says_so() {
    for seed in 0..SEEDS {
        let of = Restarted::told(seed, 9.5);
        let said = series::judge(&of.of(grows, |_| 300.0), &Rules::default());
        let what = format!("seed {seed}: {said:?}");
        assert_eq!(said.label, Label::Insufficient, "{what}");
        assert!(said.rule.contains("since the last restart"), "{what}");
        assert!(
            (said.level.unwrap().value / MIB - 300.0).abs() < 15.0,
            "{what}"
        );
        assert!(said.needs.is_some_and(|needs| needs.contains("readings")));
    }
}

#[test]
fn the_same_program_is_judged_by_all_its_lives() {
    for seed in 0..SEEDS {
        let of = Restarted::told(seed, 7.5);
        let said = series::judge(&of.of(grows, grows), &Rules::default());
        assert_eq!(said.label, Label::Growing, "seed {seed}: {said:?}");
        assert!(
            !said.rule.contains("from its last restart on"),
            "seed {seed}: {said:?}"
        );
    }
}

#[test]
fn an_arm_has_the_level_of_what_runs_now() {
    let of = |seed| {
        let of = Restarted {
            is_told: false,
            ..Restarted::told(seed, 4.5)
        };
        of.of(grows, fills)
    };
    let all: Vec<Series> = (100..110).map(of).collect();
    let said = arm::judge("moved", &all, &Rules::default());
    assert_eq!(said.label, Label::Plateauing, "{}", said.rule);
    let level = said.level.unwrap();
    assert!(
        level.lo < 1_300.0 * MIB && 1_300.0 * MIB < level.hi,
        "{level:?}"
    );
    assert!(
        said.rule.contains("10 classified since their restart"),
        "{}",
        said.rule
    );
}

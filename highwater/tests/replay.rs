//! A long experiment, played as its operator would have seen it: arms of different age, two of them founded by
//! processes restarted into them, two arms restarted in the middle, one arm that loses members, one load for all.
//!
//! `bench/verdict/replay.py` plays the same in full size, or a real one, through the command.

use series::series::Point;
use verdict::Rules;
use verdict::arm;
use verdict::audit::{
    AuditInput, Check, Finding, ProcessFacts, Severity, audit, equal_uptime_s, survivors_at,
};
use verdict::pair;
use verdict::pair::PairVerdict;

const HOUR_S: f64 = 3600.0;
const BEFORE_H: i32 = 72;
const AFTER_H: i32 = 144;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// An arm as it was planned: level in GiB, hours to two thirds of it, growth an hour.
struct Plan {
    name: &'static str,
    count: usize,
    level: f64,
    tau_h: f64,
    growth: f64,
    spread: f64,
    restart_h: Option<i32>,
}

const fn plan(name: &'static str, count: usize, level: f64, tau_h: f64, spread: f64) -> Plan {
    Plan {
        name,
        count,
        level,
        tau_h,
        growth: 0.0,
        spread,
        restart_h: None,
    }
}

const PLANS: [Plan; 5] = [
    plan("lost", 10, 4.0, 30.0, 0.3),
    Plan {
        restart_h: Some(58),
        ..plan("middle", 12, 2.64, 22.0, 0.08)
    },
    Plan {
        growth: 0.04,
        ..plan("grows", 8, 2.6, 10.0, 0.1)
    },
    Plan {
        restart_h: Some(61),
        ..plan("least", 12, 1.2, 14.0, 0.08)
    },
    plan("second", 8, 1.8, 18.0, 0.08),
];

const RANKING: [&str; 4] = ["least", "second", "middle", "grows"];

fn plan_of(name: &str) -> &'static Plan {
    PLANS.iter().find(|p| p.name == name).unwrap_or(&PLANS[0])
}

/// One process that is born at the given hours into the given arms.
fn process(id: String, births: &[(i32, &str)], dice: &mut Dice) -> ProcessFacts {
    let mut facts = ProcessFacts {
        id,
        ..ProcessFacts::default()
    };
    let mut own = 0.0;
    let (mut high, mut drift, mut arm) = (0.0f64, 0.0, "");
    for hour in -BEFORE_H..=AFTER_H {
        let Some((born, name)) = births.iter().rev().find(|b| b.0 <= hour) else {
            continue;
        };
        let plan = plan_of(name);
        let t_s = f64::from(hour + BEFORE_H) * HOUR_S;
        if *name != arm {
            own = (plan.spread * dice.normal()).exp();
            facts.arms.push((t_s, (*name).to_owned()));
            arm = name;
        }
        let age = f64::from(hour - born);
        drift = 0.9 * drift + 0.436 * dice.normal();
        let load = 1.0 + 0.03 * (std::f64::consts::TAU * f64::from(hour) / 24.0).sin();
        let fill = 0.25 + (plan.level - 0.25) * (1.0 - (-age / plan.tau_h).exp());
        let value = (fill + plan.growth * age) * own * load * (1.0 + 0.015 * drift) * 1.0737e9;
        high = if age == 0.0 { value } else { high.max(value) };
        facts.rss.push(Point { t_s, value });
        facts.hwm.push(Point { t_s, value: high });
    }
    facts
}

fn experiment(seed: u64) -> Vec<ProcessFacts> {
    let mut dice = Dice(seed);
    let mut all = Vec::new();
    for plan in &PLANS {
        for p in 0..plan.count {
            let young = matches!(plan.name, "least" | "second");
            let mut births = vec![(-BEFORE_H, if young { "middle" } else { plan.name })];
            if young {
                births.push((0, plan.name));
            }
            if plan.name == "lost" && p < 4 {
                births.push((40 + p as i32, "grows"));
            } else if let Some(hour) = plan.restart_h {
                births.push((hour, plan.name));
            }
            all.push(process(format!("{}/{p}", plan.name), &births, &mut dice));
        }
    }
    all
}

/// What was known at an hour.
fn until(all: &[ProcessFacts], hour: i32) -> AuditInput {
    let end_s = f64::from(hour + BEFORE_H) * HOUR_S;
    let cut = |points: &[Point]| points.iter().filter(|p| p.t_s <= end_s).copied().collect();
    let process = |p: &ProcessFacts| ProcessFacts {
        id: p.id.clone(),
        arms: p.arms.iter().filter(|a| a.0 <= end_s).cloned().collect(),
        rss: cut(&p.rss),
        hwm: cut(&p.hwm),
        ..ProcessFacts::default()
    };
    AuditInput {
        processes: all.iter().map(process).collect(),
        snapshots_s: (0..=hour + BEFORE_H)
            .map(|h| f64::from(h) * HOUR_S)
            .collect(),
        ..AuditInput::default()
    }
}

/// Findings, and the neighbours of the ranking compared at equal uptime.
fn judged(input: &AuditInput) -> (Vec<Finding>, Vec<PairVerdict>) {
    let found = audit(input);
    let equal_s = equal_uptime_s(input).expect("arms");
    let rules = Rules::default();
    let arms: Vec<arm::ArmVerdict> = survivors_at(input, &found, equal_s)
        .iter()
        .filter(|s| RANKING.contains(&s.arm.as_str()))
        .map(|s| arm::judge(&s.arm, &s.processes, &rules))
        .collect();
    let by = |name: &str| {
        arms.iter()
            .find(|a| a.arm == name)
            .expect("an arm that survives")
    };
    let pairs = RANKING
        .windows(2)
        .map(|w| pair::compare_judged(by(w[0]), by(w[1]), 10, &rules))
        .collect();
    (found, pairs)
}

/// By hour 52 every pair of neighbours is apart and stays so, although two arms were restarted at 58 and 61;
/// nothing is said wrongly before.
#[test]
fn neighbours_are_told_apart_in_time_and_never_wrongly() {
    for seed in [1, 2] {
        let all = experiment(seed);
        for hour in [12, 52, 73, AFTER_H] {
            let (_, pairs) = judged(&until(&all, hour));
            for pair in &pairs {
                let right = pair.ratio.is_some_and(|r| r.hi < 1.0);
                assert!(right || !pair.decided, "seed {seed} hour {hour}: {pair:?}");
                assert!(
                    hour < 52 || pair.decided,
                    "seed {seed} hour {hour}: {pair:?}"
                );
            }
        }
    }
}

#[test]
fn the_arm_that_lost_members_is_refused_and_the_young_arms_are_not() {
    let all = experiment(3);
    let found = audit(&until(&all, AFTER_H));
    let refused: Vec<&str> = found
        .iter()
        .filter(|f| f.severity == Severity::Refuses)
        .flat_map(|f| f.arms.iter().map(String::as_str))
        .collect();
    assert!(refused.contains(&"lost"), "{refused:?}");
    assert!(
        !refused.contains(&"least") && !refused.contains(&"second"),
        "{refused:?}"
    );
    let restarted: Vec<&str> = found
        .iter()
        .filter(|f| f.check == Check::Restarted)
        .flat_map(|f| f.arms.iter().map(String::as_str))
        .collect();
    // Into the arm that grows came four that were restarted elsewhere.
    assert_eq!(restarted, ["grows", "least", "middle"]);
    assert!(found.iter().any(|f| f.check == Check::Uptimes));
    let quiet = audit(&until(&all, 30));
    assert!(
        !quiet
            .iter()
            .any(|f| f.arms == ["lost"] && f.severity == Severity::Refuses)
    );
}

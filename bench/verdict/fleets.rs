//! Arms and pairs once more, of kinds that [`arms`](crate::arms) has not: restarts, steps of all at once, leaks at paces of
//! their own, one that grows among others that do not. Written before any verdict on them was looked at.

use std::f64::consts::TAU;

use series::series::{Point, Series};
use verdict::Label;
use verdict::Label::{Flat, Growing, Plateauing, Sawtooth, Stepped, Variable};
use verdict::{Rules, arm, pair};

use crate::dice::Dice;

/// Processes of one arm, of these labels.
struct Kind {
    name: &'static str,
    accept: &'static [Label],
    /// Fewest processes.
    least: usize,
    /// Trend of process `p` at a part of the window, in levels.
    trend: fn(&Plan, usize, f64) -> f64,
}

/// What the processes of an arm have in common, and what each has of its own.
struct Plan {
    by: f64,
    at: f64,
    tau: f64,
    paces: Vec<f64>,
    restarts: Vec<Vec<f64>>,
    is_told: bool,
    samples: usize,
    days: f64,
    /// Memory and size of the noise, swing of the common load.
    phi: f64,
    noise: f64,
    load: f64,
}

impl Plan {
    fn age(&self, p: usize, x: f64) -> f64 {
        let births = self.restarts[p].iter().filter(|b| **b <= x);
        x - births.fold(0.0, |a: f64, b| a.max(*b))
    }
}

const KINDS: [Kind; 11] = [
    Kind {
        name: "leak, restarted late",
        accept: &[Growing],
        least: 2,
        trend: |plan, p, x| 2.0 * plan.by * plan.age(p, x),
    },
    Kind {
        name: "leak, restarted at will",
        accept: &[Growing],
        least: 2,
        trend: |plan, p, x| 4.0 * plan.by * plan.age(p, x),
    },
    Kind {
        name: "root",
        accept: &[Growing],
        least: 2,
        trend: |plan, p, x| plan.by * plan.paces[p] * x.sqrt(),
    },
    Kind {
        name: "paces of their own",
        accept: &[Growing],
        least: 2,
        trend: |plan, p, x| plan.by * plan.paces[p].powi(3) * x,
    },
    Kind {
        name: "late leak",
        accept: &[Growing],
        least: 2,
        trend: |plan, p, x| plan.by * plan.paces[p] * (x - 0.6 * plan.at).max(0.0),
    },
    Kind {
        name: "deployed",
        accept: &[Stepped],
        least: 2,
        trend: |plan, _, x| if x > plan.at { plan.by } else { 0.0 },
    },
    Kind {
        name: "one of six and more grows",
        accept: &[Flat],
        least: 6,
        trend: |plan, p, x| if p == 0 { 2.0 * plan.by * x } else { 0.0 },
    },
    Kind {
        name: "weeks",
        accept: &[Flat, Sawtooth],
        least: 2,
        trend: |plan, p, x| {
            let day = 3.0 * (1.0 + plan.tau) * 7.0 * x + 0.05 * plan.paces[p];
            let busy = if day % 7.0 < 5.0 { 1.0 } else { 0.4 };
            0.3 * busy * (0.5 - 0.5 * (TAU * day).cos())
        },
    },
    Kind {
        name: "flat",
        accept: &[Flat],
        least: 2,
        trend: |_, _, _| 0.0,
    },
    Kind {
        name: "fills at their own pace",
        accept: &[Plateauing],
        least: 2,
        trend: |plan, p, x| plan.by * (1.0 - (-x / (plan.tau * plan.paces[p])).exp()),
    },
    Kind {
        name: "half of them leak",
        accept: &[Variable],
        least: 6,
        trend: |plan, p, x| if p % 2 == 0 { plan.by * x } else { 0.0 },
    },
];

fn plan(dice: &mut Dice, kind: &Kind, n: usize) -> Plan {
    let born = |dice: &mut Dice| match kind.name {
        "leak, restarted late" => vec![dice.between(0.6, 0.95)],
        "leak, restarted at will" => (0..dice.whole(1, 3))
            .map(|_| dice.between(0.1, 0.9))
            .collect(),
        _ => Vec::new(),
    };
    Plan {
        by: dice.log_between(0.12, 1.2),
        at: dice.between(0.3, 0.8),
        tau: dice.log_between(0.03, 0.15),
        paces: (0..n).map(|_| dice.log_between(0.7, 1.5)).collect(),
        restarts: (0..n).map(|_| born(dice)).collect(),
        is_told: dice.chance(0.5),
        samples: dice.whole(120, 800),
        days: match kind.name {
            "weeks" => 24.0,
            _ => dice.between(0.2, 10.0),
        },
        phi: dice.pick(&[0.0, 0.5, 0.9, 0.98]),
        noise: dice.log_between(0.001, 0.008),
        load: dice.between(0.0, 0.008),
    }
}

/// `n` processes about this level.
fn processes(
    dice: &mut Dice,
    (kind, plan): (&Kind, &Plan),
    (level, spread): (f64, f64),
    n: usize,
) -> Vec<Series> {
    let one = |p: usize| {
        let own = level * (spread * dice.normal()).exp();
        let mut slow = dice.normal();
        let at = |x: f64| x * plan.days * 86_400.0;
        let mut point = |i: usize| {
            let x = i as f64 / plan.samples as f64;
            slow = plan.phi * slow + (1.0 - plan.phi * plan.phi).sqrt() * dice.normal();
            let day = plan.load * (TAU * x * plan.days).sin();
            let trend = (kind.trend)(plan, p, x);
            Point {
                t_s: at(x),
                value: own * (1.0 + trend + day + plan.noise * slow),
            }
        };
        let points = (0..plan.samples).map(&mut point).collect();
        let told = plan.restarts[p].iter().filter(|_| plan.is_told);
        Series {
            id: format!("p{p}"),
            restarts_s: told.map(|x| at(*x)).collect(),
            points,
            ..Series::default()
        }
    };
    (0..n).map(one).collect()
}

/// Counts of one kind: arms, right, pairs, covered, decided in the wrong order.
type Counts = [f64; 5];

/// `each` experiments of two arms of every kind, as a table.
pub fn table(seed: u64, each: u64, verbose: bool) -> String {
    let mut out = "arms of                       n  right  pairs covers  wrong\n".to_owned();
    let mut all = [0.0; 5];
    for (k, kind) in KINDS.iter().enumerate() {
        let counts = run(kind, (seed, k as u64), each, verbose);
        all.iter_mut().zip(counts).for_each(|(a, c)| *a += c);
        out += &line(kind.name, &counts);
    }
    out + &line("ALL", &all)
}

fn line(name: &str, [arms, right, pairs, covered, wrong]: &Counts) -> String {
    let of = |part: f64, whole: f64| part / whole.max(1.0);
    format!(
        "{name:26} {arms:4} {:6.3} {pairs:6} {:6.3} {:6.3}\n",
        of(*right, *arms),
        of(*covered, *pairs),
        of(*wrong, *pairs)
    )
}

fn run(kind: &Kind, (seed, k): (u64, u64), each: u64, verbose: bool) -> Counts {
    let rules = Rules::default();
    let mut counts = [0.0; 5];
    for i in 0..each {
        let mut dice = Dice::new(seed.wrapping_mul(6_700_417) ^ (k << 24) ^ i);
        let mut size = || dice.pick(&[2, 3, 4, 6, 8, 12, 20]).max(kind.least);
        let (n, m) = (size(), size());
        let (level, spread) = (dice.log_between(1e7, 2e10), dice.log_between(0.005, 0.1));
        let truth = match dice.chance(0.3) {
            true => 1.0,
            false => dice.log_between(0.4, 2.5),
        };
        let plan = plan(&mut dice, kind, n.max(m));
        let mut judged = |name, level, n| {
            let of = processes(&mut dice, (kind, &plan), (level, spread), n);
            arm::judge(name, &of, &rules)
        };
        let (a, b) = (judged("a", level, n), judged("b", level / truth, m));
        for arm in [&a, &b] {
            let right = kind.accept.contains(&arm.label);
            counts[0] += 1.0;
            counts[1] += f64::from(u8::from(right));
            if verbose && !right {
                let each: Vec<&str> = arm.processes.iter().map(|p| p.label.word()).collect();
                let (name, label, sure) = (kind.name, arm.label, arm.confidence);
                println!("arm {name} {i} said {label:?} {sure:.2} {each:?}");
            }
        }
        // Of lives and paces of their own no ratio is true.
        if matches!(
            kind.name,
            "deployed" | "weeks" | "flat" | "one of six and more grows"
        ) {
            let pair = pair::compare_judged(&a, &b, 1, &rules);
            let Some(ratio) = pair.ratio else { continue };
            counts[2] += 1.0;
            counts[3] += f64::from(u8::from(ratio.lo <= truth && truth <= ratio.hi));
            let wrong = pair.decided && (ratio.value < 1.0) != (truth < 1.0);
            counts[4] += f64::from(u8::from(wrong));
        }
    }
    counts
}

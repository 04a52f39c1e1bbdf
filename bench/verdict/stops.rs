//! The stop rule under repeated analyses: how often a run that is analysed again and again is decided wrongly, beside
//! the rule that people use (stop at the first analysis at which a plain 95 % interval excludes equality).

use series::estimate::Estimate;
use series::series::Series;
use verdict::arm;
use verdict::arm::ArmVerdict;
use verdict::series::{SeriesVerdict, judge};
use verdict::stop::{Stages, evaluate};
use verdict::{Label, Rules, pair};

use crate::dice::Dice;

/// Analyses of one run; each a fifth later than the one before.
const ANALYSES: i32 = 16;
const PROCESSES: usize = 4;

/// Name, level of the second arm over the first, spread between processes, and whether every analysis has other
/// processes (the worst case for peeking).
type Scene = (&'static str, f64, f64, bool);

const SCENES: [Scene; 5] = [
    ("equal, other processes at each analysis", 1.0, 0.06, true),
    ("equal, the same processes", 1.0, 0.06, false),
    ("5 % apart", 1.05, 0.03, false),
    ("20 % apart", 1.2, 0.06, false),
    ("60 % apart", 1.6, 0.1, false),
];

/// An arm of flat processes, each read to half a per cent: what the rule takes.
fn arm_at(name: &str, levels: &[f64], template: &SeriesVerdict, dice: &mut Dice) -> ArmVerdict {
    let rules = Rules::default();
    let within = |value: f64, share: f64| Estimate {
        value,
        lo: value * (1.0 - share),
        hi: value * (1.0 + share),
    };
    let read = |level: &f64| within(1e8 * level * (1.0 + 0.002 * dice.normal()), 0.005);
    let levels: Vec<Estimate> = levels.iter().map(read).collect();
    let process = |level: &Estimate| SeriesVerdict {
        level: Some(*level),
        ..template.clone()
    };
    ArmVerdict {
        label: Label::Flat,
        confidence: 0.99,
        level: arm::across(&levels, &rules),
        slope_per_hour: Some(within(0.0, 0.0)),
        processes: levels.iter().map(process).collect(),
        ..arm::judge(name, &[], &rules)
    }
}

fn levels(dice: &mut Dice, ratio: f64, spread: f64) -> Vec<f64> {
    (0..PROCESSES)
        .map(|_| ratio * (spread * dice.normal()).exp())
        .collect()
}

#[derive(Default)]
struct Counted {
    /// Ordered at some analysis, ordered the wrong way (or ordered at all, of equals), settled as the same.
    ordered: f64,
    wrong: f64,
    same: f64,
    /// Hours at which it was settled.
    hours: Vec<f64>,
    /// The same of the plain rule.
    plain_wrong: f64,
}

fn run_one((_, ratio, spread, fresh): Scene, seed: u64, counted: &mut Counted) {
    let mut dice = Dice::new(seed);
    let mut drawn = [1.0, ratio].map(|ratio| levels(&mut dice, ratio, spread));
    let template = judge(&Series::default(), &Rules::default());
    let mut stages = Stages::default();
    let mut plain: Option<bool> = None;
    for k in 0..ANALYSES {
        if fresh {
            drawn = [1.0, ratio].map(|ratio| levels(&mut dice, ratio, spread));
        }
        let hours = 4.0 * 1.2f64.powi(k);
        let arms = [
            arm_at("x", &drawn[0], &template, &mut dice),
            arm_at("y", &drawn[1], &template, &mut dice),
        ];
        evaluate(&mut stages, &arms, 3600.0 * hours, 0.0, &Rules::default());
        let pair = pair::compare_judged(&arms[0], &arms[1], 1, &Rules::default());
        if plain.is_none() && pair.decided {
            plain = pair.ratio.map(|r| r.value < 1.0);
        }
    }
    let wrong = |x_low: bool| ratio == 1.0 || !x_low;
    counted.plain_wrong += f64::from(u8::from(plain.is_some_and(wrong)));
    if let Some(s) = stages.settled.first() {
        counted.hours.push(s.at_s / 3600.0);
        counted.same += f64::from(u8::from(s.same));
        counted.ordered += f64::from(u8::from(!s.same));
        counted.wrong += f64::from(u8::from(!s.same && wrong(s.low == "x")));
    }
}

/// Plays every scene `count` times and prints a line for each.
pub fn table(seed: u64, count: u64) -> String {
    let mut out = format!(
        "stop rule, {count} runs of {ANALYSES} analyses, {PROCESSES} processes an arm, joint error allowed 0.05\n\
         {:36} ordered  wrong   same  hours (median)  wrong by plain intervals\n",
        "scene"
    );
    for scene in SCENES {
        let mut c = Counted::default();
        for i in 0..count {
            run_one(scene, seed.wrapping_mul(48_271) ^ i, &mut c);
        }
        c.hours.sort_by(f64::total_cmp);
        let n = count as f64;
        let median = c
            .hours
            .get(c.hours.len() / 2)
            .map_or("-".to_owned(), |h| format!("{h:.1}"));
        out += &format!(
            "{:36} {:7.3} {:6.3} {:6.3}  {median:>14}  {:.3}\n",
            scene.0,
            c.ordered / n,
            c.wrong / n,
            c.same / n,
            c.plain_wrong / n
        );
    }
    out
}

//! When to stop: at every analysis, "decided" or "undecided, about N more hours".
//!
//! Valid under repeated analyses, by a union bound. Analyses are grouped into stages: a stage begins whenever
//! the window has grown by a quarter, so a run of any length has few. Stage k of pair j of m may err with
//! probability `alpha / (m k (k + 1))`; summed over all stages and pairs that is at most alpha, whatever
//! the dependence between analyses. Only the first analysis of a stage may decide; analyses between change nothing.
//! What a bound at one analysis assumes is what the interval of a pair assumes: processes of an arm are
//! independent, and their logarithms are about normal.

use serde::{Deserialize, Serialize};

use super::arm::{ArmVerdict, usual};
use super::{Label, Rules};
use series::estimate::Estimate;
use series::student::t_quantile;

/// A stage begins when the window is this many times the last.
pub const STAGE_GROWTH: f64 = 1.25;
/// Intervals within this share of equality settle a pair as "no difference worth having".
pub const SAME_SHARE: f64 = 0.05;
/// A bounded label this sure limits what the arm may still grow.
const BOUNDED_SURE: f64 = 0.9;
/// Longer than this many times the run so far is not forecast.
const FORECAST_MAX: f64 = 8.0;

/// The state of a run under repeated analyses. Keep it from analysis to analysis (it is small and can be stored).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Window at which the last stage began, seconds; 0 before the first.
    pub began_s: f64,
    /// Stages so far.
    pub count: u32,
    /// Pairs settled so far: never reopened, in the order in which they were settled.
    pub settled: Vec<Settled>,
    /// Joint error probability over all pairs and analyses.
    pub alpha: f64,
}

impl Default for Stages {
    fn default() -> Stages {
        Stages {
            began_s: 0.0,
            count: 0,
            settled: Vec::new(),
            alpha: 0.05,
        }
    }
}

/// A pair that is settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The arm that will be lower at the horizon; of equal arms, the first by name.
    pub low: String,
    pub high: String,
    /// Equal within [`SAME_SHARE`], as opposed to ordered.
    pub same: bool,
    /// Window at which it was settled, seconds.
    pub at_s: f64,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopVerdict {
    pub decided: bool,
    /// In one sentence.
    pub words: String,
    /// Seconds that would decide it, when time can.
    pub more_s: Option<f64>,
    /// What would decide it otherwise.
    pub needs: Option<String>,
    /// Error probability spent on each pair at this analysis.
    pub alpha_now: f64,
}

/// Where an arm will be at the horizon.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Band {
    middle: f64,
    lo: f64,
    hi: f64,
}

/// One analysis. `window_s` is the time over which the arms were judged, `horizon_s` how far beyond now the
/// decision must hold (the time until the next deploy, say; 0 asks about now).
pub fn evaluate(
    stages: &mut Stages,
    arms: &[ArmVerdict],
    window_s: f64,
    horizon_s: f64,
    rules: &Rules,
) -> StopVerdict {
    let pairs = arms.len() * arms.len().saturating_sub(1) / 2;
    if pairs == 0 {
        return single(arms, rules);
    }
    let fresh = window_s > 0.0 && window_s >= STAGE_GROWTH * stages.began_s;
    if fresh {
        stages.began_s = window_s;
        stages.count += 1;
    }
    let k = f64::from(stages.count.max(1));
    let alpha = stages.alpha / (pairs as f64 * k * (k + 1.0));
    if fresh {
        settle(stages, arms, (window_s, horizon_s), alpha, rules);
    }
    let open = open_pairs(stages, arms, horizon_s);
    if open.is_empty() {
        return StopVerdict {
            decided: true,
            words: format!("decided: {}", order(stages, arms, horizon_s)),
            more_s: None,
            needs: None,
            alpha_now: alpha,
        };
    }
    undecided(&open, stages, (window_s, horizon_s), alpha, rules)
}

/// One arm alone is decided when its label is.
fn single(arms: &[ArmVerdict], rules: &Rules) -> StopVerdict {
    let sure = 1.0 - 0.5 * (1.0 - rules.interval);
    let decided = arms
        .first()
        .is_some_and(|a| a.label != Label::Insufficient && a.confidence >= sure.min(0.97));
    StopVerdict {
        decided,
        words: match arms.first() {
            Some(a) => format!(
                "{} is {} (confidence {:.2})",
                a.arm,
                a.label.word(),
                a.confidence
            ),
            None => "no arm".to_owned(),
        },
        more_s: None,
        needs: arms
            .first()
            .filter(|_| !decided)
            .and_then(|a| a.needs.clone()),
        alpha_now: 0.0,
    }
}

/// Standard error behind an estimate over `n` processes.
fn se_of(e: &Estimate, n: usize, rules: &Rules) -> f64 {
    let df = if n > 1 { n as f64 } else { 60.0 };
    0.5 * (e.hi - e.lo) / t_quantile(0.5 + 0.5 * rules.interval, df)
}

/// The band of one arm at the horizon; `sharper` divides the errors (how they would be after more time).
fn band(a: &ArmVerdict, horizon_s: f64, tail: f64, sharper: f64, rules: &Rules) -> Option<Band> {
    let (level, slope) = (a.level?, a.slope_per_hour?);
    let n = usual(&a.processes, a.label).len();
    let q = t_quantile(1.0 - tail, (n as f64).max(2.0));
    let hours = horizon_s / 3600.0;
    let level_se = se_of(&level, n, rules);
    let slope_se = se_of(&slope, n, rules) / sharper;
    let proven = (slope.value - q * slope_se).max(0.0);
    let mut rise = (slope.value + q * slope_se).max(0.0) * hours;
    let bounded = !matches!(
        a.label,
        Label::Growing | Label::Insufficient | Label::Variable
    );
    if bounded && a.confidence >= BOUNDED_SURE {
        let room = a
            .asymptote
            .map_or(0.0, |end| (end.hi - level.value).max(0.0));
        rise = rise.min(room.max(rules.growth_share * level.value));
    }
    let growing = if a.label == Label::Growing {
        slope.value.max(0.0) * hours
    } else {
        0.0
    };
    Some(Band {
        middle: level.value + growing,
        lo: level.value - q * level_se + 0.5 * proven * hours,
        hi: level.value + q * level_se + rise,
    })
}

fn is_settled(stages: &Stages, a: &str, b: &str) -> bool {
    let same = |s: &&Settled| (s.low == a && s.high == b) || (s.low == b && s.high == a);
    stages.settled.iter().any(|s| same(&s))
}

fn settle(
    stages: &mut Stages,
    arms: &[ArmVerdict],
    (window_s, horizon_s): (f64, f64),
    alpha: f64,
    rules: &Rules,
) {
    for (i, a) in arms.iter().enumerate() {
        for b in &arms[i + 1..] {
            if is_settled(stages, &a.arm, &b.arm) {
                continue;
            }
            if let Some((a_low, same)) = compare(a, b, horizon_s, 0.5 * alpha, 1.0, rules) {
                let (low, high) = if a_low { (a, b) } else { (b, a) };
                let (low, high) = (low.arm.clone(), high.arm.clone());
                stages.settled.push(Settled {
                    low,
                    high,
                    same,
                    at_s: window_s,
                });
            }
        }
    }
}

/// Whether `a` is the lower, and whether they are the same; `None` when open.
fn compare(
    a: &ArmVerdict,
    b: &ArmVerdict,
    horizon_s: f64,
    tail: f64,
    sharper: f64,
    rules: &Rules,
) -> Option<(bool, bool)> {
    let told = |v: &ArmVerdict| v.label != Label::Variable || v.processes.len() > 3;
    if !told(a) || !told(b) {
        return None;
    }
    let (x, y) = (
        band(a, horizon_s, tail, sharper, rules)?,
        band(b, horizon_s, tail, sharper, rules)?,
    );
    if x.hi < y.lo {
        return Some((true, false));
    }
    if y.hi < x.lo {
        return Some((false, false));
    }
    let (low, high) = (x.lo.min(y.lo), x.hi.max(y.hi));
    (low > 0.0 && high / low < 1.0 + SAME_SHARE).then_some((true, true))
}

/// Arms from low to high by where they will be.
fn ranked(arms: &[ArmVerdict], horizon_s: f64) -> Vec<&ArmVerdict> {
    let rules = Rules::default();
    let mut order: Vec<(f64, &ArmVerdict)> = arms
        .iter()
        .map(|a| {
            (
                band(a, horizon_s, 0.1, 1.0, &rules).map_or(f64::INFINITY, |b| b.middle),
                a,
            )
        })
        .collect();
    order.sort_by(|x, y| x.0.total_cmp(&y.0));
    order.into_iter().map(|(_, a)| a).collect()
}

/// Neighbours in the ranking that are not settled.
fn open_pairs<'a>(
    stages: &Stages,
    arms: &'a [ArmVerdict],
    horizon_s: f64,
) -> Vec<(&'a ArmVerdict, &'a ArmVerdict)> {
    ranked(arms, horizon_s)
        .windows(2)
        .map(|w| (w[0], w[1]))
        .filter(|(a, b)| !is_settled(stages, &a.arm, &b.arm))
        .collect()
}

fn order(stages: &Stages, arms: &[ArmVerdict], horizon_s: f64) -> String {
    let mut out = String::new();
    let ranking = ranked(arms, horizon_s);
    for (i, arm) in ranking.iter().enumerate() {
        if i > 0 {
            let pair = stages.settled.iter().find(|s| {
                [&s.low, &s.high].contains(&&arm.arm)
                    && [&s.low, &s.high].contains(&&ranking[i - 1].arm)
            });
            out += if pair.is_some_and(|s| s.same) {
                " = "
            } else {
                " < "
            };
        }
        out += &arm.arm;
    }
    out
}

fn undecided(
    open: &[(&ArmVerdict, &ArmVerdict)],
    stages: &Stages,
    (window_s, horizon_s): (f64, f64),
    alpha: f64,
    rules: &Rules,
) -> StopVerdict {
    let names: Vec<String> = open
        .iter()
        .map(|(a, b)| format!("{} and {}", a.arm, b.arm))
        .collect();
    let factors: Vec<Option<f64>> = open
        .iter()
        .map(|(a, b)| factor_needed(a, b, horizon_s, alpha, rules))
        .collect();
    let all = factors.iter().copied().collect::<Option<Vec<f64>>>();
    let more_s = all.map(|f| {
        let longest = f.into_iter().fold(1.0, f64::max);
        // Nothing is decided before the next stage.
        (longest * window_s).max(STAGE_GROWTH * stages.began_s) - window_s
    });
    let what = names.join(", ");
    let (words, needs) = match more_s {
        Some(s) => {
            let hours = s / 3600.0;
            (
                format!("undecided ({what}), about {hours:.1} more hours"),
                format!("{hours:.1} more hours"),
            )
        }
        None => (
            format!("undecided ({what}): their processes differ among themselves as much"),
            "more processes in these arms; time alone will not tell them apart".to_owned(),
        ),
    };
    StopVerdict {
        decided: false,
        words,
        more_s,
        needs: Some(needs),
        alpha_now: alpha,
    }
}

/// How many times the window would settle a pair, if what is seen goes on: the error of a slope shrinks
/// with the window to the power 1.5.
fn factor_needed(
    a: &ArmVerdict,
    b: &ArmVerdict,
    horizon_s: f64,
    alpha: f64,
    rules: &Rules,
) -> Option<f64> {
    let mut factor = STAGE_GROWTH;
    while factor <= FORECAST_MAX {
        if compare(a, b, horizon_s, 0.5 * alpha, factor.powf(1.5), rules).is_some() {
            return Some(factor);
        }
        factor *= STAGE_GROWTH;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm;
    use crate::short_runs::{Dice, four_minutes};

    const MIB: f64 = 1_048_576.0;

    fn arm_of(name: &str, seed: u64, level_mib: f64, n: u64) -> ArmVerdict {
        let mut dice = Dice(seed);
        let processes: Vec<_> = (0..n)
            .map(|i| {
                let own = level_mib * (1.0 + 0.02 * dice.normal());
                four_minutes(&format!("{name}/{i}"), seed * 31 + i, 0.3 * MIB, |_| {
                    own * MIB
                })
            })
            .collect();
        arm::judge(name, &processes, &Rules::default())
    }

    #[test]
    fn clearly_different_arms_are_decided_and_stay_so() {
        let arms = [arm_of("low", 1, 40.0, 4), arm_of("high", 2, 80.0, 4)];
        let mut stages = Stages::default();
        let v = evaluate(&mut stages, &arms, 240.0, 0.0, &Rules::default());
        assert!(v.decided, "{v:?}");
        assert_eq!(v.words, "decided: low < high");
        assert!(evaluate(&mut stages, &arms, 250.0, 0.0, &Rules::default()).decided);
        assert_eq!(stages.count, 1);
    }

    #[test]
    fn equal_arms_with_little_spread_are_the_same_and_with_much_stay_open() {
        let twin = [arm_of("a", 3, 60.0, 12), arm_of("b", 4, 60.0, 12)];
        let v = evaluate(&mut Stages::default(), &twin, 240.0, 0.0, &Rules::default());
        assert!(v.decided && v.words.contains('='), "{v:?}");
        let few = [arm_of("a", 5, 60.0, 2), arm_of("b", 6, 61.0, 2)];
        let v = evaluate(&mut Stages::default(), &few, 240.0, 0.0, &Rules::default());
        assert!(!v.decided && v.needs.is_some(), "{v:?}");
    }

    /// An arm from levels alone, without judging series.
    fn made(name: &str, dice: &mut Dice, n: usize) -> ArmVerdict {
        let levels: Vec<Estimate> = (0..n)
            .map(|_| 100.0 * (1.0 + 0.05 * dice.normal()))
            .map(|value| Estimate {
                value,
                lo: value - 0.1,
                hi: value + 0.1,
            })
            .collect();
        let flat = Estimate {
            value: 0.0,
            lo: 0.0,
            hi: 0.0,
        };
        let rules = Rules::default();
        ArmVerdict {
            arm: name.to_owned(),
            level: arm::across(&levels, &rules),
            slope_per_hour: Some(flat),
            processes: vec![blank(); n],
            ..arm::judge(name, &[], &rules)
        }
    }

    fn blank() -> crate::series::SeriesVerdict {
        crate::series::judge(&series::series::Series::default(), &Rules::default())
    }

    #[test]
    fn repeated_analyses_of_equal_arms_rarely_order_them() {
        // 400 experiments of 15 stages each with fresh processes at each (the worst case); the joint
        // error allowed is 5 %, here with a margin of three deviations of the count.
        let wrong = (0..400u64)
            .filter(|seed| {
                let mut dice = Dice(*seed);
                let mut stages = Stages::default();
                for k in 1..=15 {
                    let arms = [made("x", &mut dice, 4), made("y", &mut dice, 4)];
                    let window_s = 240.0 * (1.01 * STAGE_GROWTH).powi(k);
                    evaluate(&mut stages, &arms, window_s, 0.0, &Rules::default());
                }
                assert_eq!(stages.count, 15);
                stages.settled.iter().any(|s| !s.same)
            })
            .count();
        assert!(wrong <= 33, "{wrong} of 400");
    }

    #[test]
    fn one_arm_is_decided_by_its_label() {
        let v = evaluate(
            &mut Stages::default(),
            &[arm_of("a", 3, 60.0, 3)],
            240.0,
            0.0,
            &Rules::default(),
        );
        assert!(v.decided, "{v:?}");
        assert!(!evaluate(&mut Stages::default(), &[], 240.0, 0.0, &Rules::default()).decided);
    }
}

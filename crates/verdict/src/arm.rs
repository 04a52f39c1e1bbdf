//! The verdict on an arm: its processes are the replicates.

use serde::{Deserialize, Serialize};

use super::series::{self, SeriesVerdict};
use super::{Label, Rules};
use ::series::estimate::Estimate;
use ::series::order::{mad, mean_sd, median};
use ::series::series::Series;
use ::series::student::t_quantile;

/// What is said of one arm. Values in the unit of the series (bytes), slopes per hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmVerdict {
    pub arm: String,
    pub label: Label,
    pub confidence: f64,
    pub rule: String,
    /// Mean over processes of the level at the end of the window; the interval is over processes. This and all other
    /// numbers are without the processes that differ, where these are few.
    pub level: Option<Estimate>,
    /// Growth at the end of the window, per hour and process.
    pub slope_per_hour: Option<Estimate>,
    pub asymptote: Option<Estimate>,
    pub time_to_limit_s: Option<Estimate>,
    /// Processes that differ from the others of their arm, by id, with why.
    pub outliers: Vec<Outlier>,
    pub needs: Option<String>,
    pub processes: Vec<SeriesVerdict>,
}

/// A process that differs from the others of its arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    pub id: String,
    pub why: String,
}

/// Spread between processes that is assumed before any is seen, as a share of the level, and how many
/// degrees of freedom that assumption is worth. Replicas of one service differ by a few per cent (0.5 to
/// 3 % on the relays of subjects/tor/README.md); with two replicas a bare t interval would be 12.7 standard errors.
pub(super) const SPREAD_PRIOR: f64 = 0.03;
pub(super) const SPREAD_PRIOR_DF: f64 = 1.0;
/// A process this many deviations (of the logarithm of levels) from its arm's median differs from it.
const ODD_DEVIATIONS: f64 = 5.0;
/// Deviations are never taken smaller than this share of the level.
const ODD_FLOOR: f64 = 0.04;
/// Fewer processes than this have no usual level from which one could differ so much that it is left out.
const USUAL_OF: usize = 6;
/// A camp of this share of the processes makes an arm variable, and not one of outliers.
const CAMP_SHARE: f64 = 0.2;
/// A process counts as of another kind only when its own verdict is this sure.
const SURE: f64 = 0.8;

/// Judges an arm: each process, then what they say together.
pub fn judge(arm: &str, processes: &[Series], rules: &Rules) -> ArmVerdict {
    let each = processes.iter().map(|p| series::judge(p, rules)).collect();
    of_judged(arm, each, rules)
}

/// The same of processes that are already judged.
pub fn of_judged(arm: &str, each: Vec<SeriesVerdict>, rules: &Rules) -> ArmVerdict {
    let (label, confidence, mut rule) = together(&each, rules);
    let needs = needs_of(&each, label);
    let usual = usual(&each, label);
    let same = |v: &&SeriesVerdict| v.label == label || label == Label::Variable;
    let agreeing: Vec<&SeriesVerdict> = usual.iter().copied().filter(same).collect();
    let pick = |of: fn(&SeriesVerdict) -> Option<Estimate>, from: &[&SeriesVerdict]| {
        let parts: Vec<Estimate> = from.iter().filter_map(|v| of(v)).collect();
        across(&parts, rules)
    };
    let mut slope = pick(|v| v.slope_per_hour, &usual);
    if label == Label::Growing {
        slope = slope.map(|mean| {
            if usual.len() > 1 && all_rise(&usual) {
                positive(mean)
            } else {
                mean
            }
        });
        rule += &unlike(&usual, slope);
    }
    rule += &since_restarts(&each);
    if usual.len() < each.len() {
        let left_out = each.len() - usual.len();
        let word = if left_out == 1 { "outlier" } else { "outliers" };
        rule += &format!("; its numbers are without {left_out} {word}");
    }
    // An odd process is killed at its limit too.
    let grown = each.iter().filter(same);
    let limits: Vec<Estimate> = grown.filter_map(|v| v.time_to_limit_s).collect();
    ArmVerdict {
        arm: arm.to_owned(),
        label,
        confidence,
        rule,
        level: pick(|v| v.level, &usual),
        slope_per_hour: slope,
        asymptote: pick(|v| v.asymptote, &agreeing),
        time_to_limit_s: limits
            .into_iter()
            .min_by(|a, b| a.value.total_cmp(&b.value)),
        outliers: outliers(&each, label),
        needs,
        processes: each,
    }
}

/// Of how many processes only what runs since their last restart was judged.
fn since_restarts(each: &[SeriesVerdict]) -> String {
    let judged = |v: &SeriesVerdict| v.label != Label::Insufficient;
    let only = |v: &&SeriesVerdict| judged(v) && v.evidence.contains_key("judged_from_s");
    match each.iter().filter(only).count() {
        0 => String::new(),
        of => format!("; {of} classified since their restart alone"),
    }
}

/// Weights of the labels that a verdict carries as evidence.
fn weight(v: &SeriesVerdict, label: Label) -> f64 {
    let of = |name: &str| v.evidence.get(name).copied().unwrap_or(0.0);
    match label {
        Label::Flat | Label::Sawtooth => of("p_flat"),
        Label::Plateauing => of("p_plateauing"),
        Label::Growing => of("p_growing"),
        Label::Stepped => of("p_stepped"),
        _ => 0.0,
    }
}

fn grows(v: &SeriesVerdict) -> Option<bool> {
    match v.label {
        Label::Insufficient => None,
        _ if v.confidence < SURE => None,
        label => Some(label == Label::Growing),
    }
}

/// Label, confidence and rule of the arm. Processes of one arm share the load, so their opinions are not
/// independent: log weights are averaged and count for the square root of their number.
fn together(each: &[SeriesVerdict], rules: &Rules) -> (Label, f64, String) {
    let n = each.len();
    match each {
        [] => return (Label::Insufficient, 0.0, "no process".to_owned()),
        [only] => {
            let rule = format!("its only process: {}", only.rule);
            return (only.label, only.confidence, rule);
        }
        _ => {}
    }
    let growing = each.iter().filter(|v| grows(v) == Some(true)).count();
    let bounded = each.iter().filter(|v| grows(v) == Some(false)).count();
    let camp = (CAMP_SHARE * n as f64).max(1.0);
    if growing as f64 >= camp && bounded as f64 >= camp {
        let rule = format!("{growing} of {n} processes grow, {bounded} do not");
        return (Label::Variable, SURE, rule);
    }
    let (mut label, side_share, share) = pooled(each);
    if each
        .iter()
        .all(|v| v.label == Label::Insufficient && v.evidence.len() < 3)
    {
        return (
            Label::Insufficient,
            0.0,
            "no process could be classified".to_owned(),
        );
    }
    let periodic = each.iter().filter(|v| v.label == Label::Sawtooth).count();
    if label == Label::Flat && 2 * periodic > n {
        label = Label::Sawtooth;
    }
    let asked = match label {
        Label::Growing => rules.growing_from,
        _ => rules.bounded_from,
    };
    if side_share < asked {
        return (
            Label::Insufficient,
            side_share,
            "the processes together do not decide".to_owned(),
        );
    }
    (label, share, agreement(each, label))
}

/// How many processes say alone what they say together: a fleet of short or noisy series may be sure where none is.
fn agreement(each: &[SeriesVerdict], label: Label) -> String {
    let (n, agree) = (each.len(), each.iter().filter(|v| v.label == label).count());
    match 2 * agree >= n {
        true => format!("{agree} of {n} processes are {}", label.word()),
        false => format!("{} together; alone, {agree} of {n} say so", label.word()),
    }
}

/// What a process may be found to do, grouped by what it means for its memory: bounded, growing.
const SIDES: [&[Label]; 2] = [
    &[Label::Flat, Label::Plateauing, Label::Stepped],
    &[Label::Growing],
];

/// The side first, then the label within it: processes that are bounded in different ways (one levelled off, its
/// twin already flat) agree in what matters.
///
/// Returns the label, the share of its side, and the share of the label itself.
fn pooled(each: &[SeriesVerdict]) -> (Label, f64, f64) {
    let root = (each.len() as f64).sqrt();
    let log = |of: &dyn Fn(&SeriesVerdict) -> f64| {
        each.iter().map(|v| of(v).max(0.02).ln()).sum::<f64>() / root
    };
    let side_log = |side: &[Label]| log(&|v| side.iter().map(|label| weight(v, *label)).sum());
    let logs = SIDES.map(side_log);
    let total: f64 = logs.iter().map(|l| l.exp()).sum();
    let (side, share) = SIDES
        .into_iter()
        .zip(logs.map(|l| l.exp() / total))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((&[Label::Insufficient], 0.0));
    let within: f64 = side.iter().map(|l| log(&|v| weight(v, *l)).exp()).sum();
    let (label, part) = side
        .iter()
        .map(|label| (*label, log(&|v| weight(v, *label)).exp() / within))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((Label::Insufficient, 1.0));
    (label, share, share * part)
}

fn needs_of(each: &[SeriesVerdict], label: Label) -> Option<String> {
    if label != Label::Insufficient {
        return None;
    }
    each.iter()
        .find_map(|v| v.needs.clone())
        .or_else(|| Some("a process to classify".to_owned()))
}

/// Mean over processes with an interval that holds both the spread between them and the doubt within.
pub fn across(parts: &[Estimate], rules: &Rules) -> Option<Estimate> {
    let n = parts.len() as f64;
    if parts.is_empty() {
        return None;
    }
    if let [only] = parts {
        return Some(*only);
    }
    let means: Vec<f64> = parts.iter().map(|e| e.value).collect();
    let (mean, sd) = mean_sd(&means);
    let half = |e: &Estimate| 0.5 * (e.hi - e.lo) / 1.96;
    let within2 = parts.iter().map(|e| half(e).powi(2)).sum::<f64>() / n;
    // The spread between processes contains the doubt within; a few may agree by chance.
    let df = n - 1.0 + SPREAD_PRIOR_DF;
    let prior2 = within2.max((SPREAD_PRIOR * mean).powi(2));
    let variance = ((n - 1.0) * sd * sd + SPREAD_PRIOR_DF * prior2) / df;
    let away = t_quantile(0.5 + 0.5 * rules.interval, df) * (variance / n).sqrt();
    Some(Estimate {
        value: mean,
        lo: mean - away,
        hi: mean + away,
    })
}

/// Whether no process speaks against growth: none is bounded, and none falls.
fn all_rise(each: &[&SeriesVerdict]) -> bool {
    let rises = |v: &&SeriesVerdict| {
        matches!(v.label, Label::Growing | Label::Insufficient)
            && v.slope_per_hour.is_some_and(|slope| slope.value > 0.0)
    };
    each.iter().all(rises)
}

/// The interval of a mean that cannot be negative, since every one of its parts is positive: on the logarithm,
/// with the same relative error. Of two processes that grow unlike each other the plain one reaches below zero
/// and would contradict what is known of both.
fn positive(mean: Estimate) -> Estimate {
    let away = 0.5 * (mean.hi - mean.lo) / mean.value;
    Estimate {
        value: mean.value,
        lo: mean.value * (-away).exp(),
        hi: mean.value * away.exp(),
    }
}

/// From here on rates are called unlike.
const UNLIKE: f64 = 2.0;

/// What stands behind a wide interval of the mean slope: rates that differ, or processes that do not grow.
fn unlike(each: &[&SeriesVerdict], mean: Option<Estimate>) -> String {
    let growing = each.iter().filter(|v| v.label == Label::Growing);
    let rates: Vec<f64> = growing
        .filter_map(|v| v.slope_per_hour.map(|slope| slope.value))
        .collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    let mut words = String::new();
    if low > 0.0 && high >= UNLIKE * low && low.is_finite() {
        words += &format!(
            "; the fastest grows {:.1} times as fast as the slowest",
            high / low
        );
    }
    if each.len() > 1 && mean.is_some_and(|mean| mean.lo <= 0.0) {
        words += "; they differ so much that their mean slope may be zero";
    }
    words
}

/// Why each process differs from the others of its arm, in level or in kind; nothing of those that do not, and of
/// arms of two.
fn odd(each: &[SeriesVerdict], label: Label) -> Vec<Option<String>> {
    let log = |v: &SeriesVerdict| v.level.filter(|e| e.value > 0.0).map(|e| e.value.ln());
    let logs: Vec<f64> = each.iter().filter_map(log).collect();
    let (centre, spread) = (median(&logs), mad(&logs).max(ODD_FLOOR));
    let of = |v: &SeriesVerdict| {
        let away = log(v).map_or(0.0, |l| l - centre);
        if away.abs() > ODD_DEVIATIONS * spread {
            let side = if away > 0.0 { "above" } else { "below" };
            let by = 100.0 * away.exp_m1().abs();
            return Some(format!("{by:.0} % {side} the arm's median"));
        }
        let told = !matches!(label, Label::Insufficient | Label::Variable);
        let other = grows(v).filter(|g| told && *g != (label == Label::Growing));
        other.map(|_| format!("{} where the arm is {}", v.label.word(), label.word()))
    };
    each.iter()
        .map(|v| of(v).filter(|_| each.len() > 2))
        .collect()
}

/// The processes that the numbers of an arm are about: without those that differ, where these are a third at most of
/// six or more. What makes them differ is not the arm, and a mean over both kinds says little of either.
pub(super) fn usual(each: &[SeriesVerdict], label: Label) -> Vec<&SeriesVerdict> {
    let odd = odd(each, label);
    let count = odd.iter().flatten().count();
    let few = each.len() >= USUAL_OF && 3 * count <= each.len();
    let kept = each
        .iter()
        .zip(odd)
        .filter(|(_, odd)| !few || odd.is_none());
    kept.map(|(v, _)| v).collect()
}

fn outliers(each: &[SeriesVerdict], label: Label) -> Vec<Outlier> {
    let named = |(v, why): (&SeriesVerdict, Option<String>)| {
        let id = v.id.clone();
        why.map(|why| Outlier { id, why })
    };
    each.iter()
        .zip(odd(each, label))
        .filter_map(named)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::series::series::Point;

    /// Two hundred minutes, `by` of the level a window.
    fn leak(by: f64) -> Series {
        let point = |i: u32| {
            let wobble = f64::from(i * 7919 % 17) / 17.0 - 0.5;
            Point {
                t_s: 60.0 * f64::from(i),
                value: 1e8 * (1.0 + by * f64::from(i) / 200.0 + 0.01 * wobble),
            }
        };
        Series {
            points: (0..200).map(point).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn an_arm_of_one_process_says_what_its_process_says() {
        let rules = Rules::default();
        for readings in [7, 12, 20, 40, 200] {
            let mut series = leak(0.1);
            series.points.truncate(readings);
            let alone = series::judge(&series, &rules);
            let arm = judge("a", &[series], &rules);
            assert_eq!((arm.label, arm.needs), (alone.label, alone.needs));
            assert_eq!(arm.confidence, alone.confidence);
            assert_eq!(arm.slope_per_hour, alone.slope_per_hour);
        }
    }

    #[test]
    fn processes_that_grow_unlike_each_other_have_a_mean_slope_above_zero() {
        let arm = judge("a", &[leak(0.1), leak(0.9)], &Rules::default());
        assert_eq!(arm.label, Label::Growing);
        let slope = arm.slope_per_hour.unwrap();
        assert!(slope.lo > 0.0 && slope.lo < 0.2 * slope.value, "{slope:?}");
        assert!(arm.rule.contains("times as fast"), "{}", arm.rule);
        let alike = judge("a", &[leak(0.5), leak(0.5)], &Rules::default());
        let slope = alike.slope_per_hour.unwrap();
        assert!(slope.lo > 0.8 * slope.value, "{slope:?}");
        assert!(!alike.rule.contains("times as fast"), "{}", alike.rule);
    }
}

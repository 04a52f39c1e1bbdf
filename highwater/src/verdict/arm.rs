//! The verdict on an arm (its processes are the replicates) and on a pair of arms.

use serde::{Deserialize, Serialize};

use super::series::{self, SeriesVerdict};
use super::{Estimate, Label, Rules};
use crate::analyse::order::{mad, mean_sd, median};
use crate::analyse::series::Series;
use crate::analyse::student::{t_cdf, t_quantile};

/// What is said of one arm. Values in the unit of the series (bytes), slopes per hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmVerdict {
    pub arm: String,
    pub label: Label,
    pub confidence: f64,
    pub rule: String,
    /// Mean over processes of the level at the end of the window; the interval is over processes.
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

/// Arm `a` against arm `b` (the control, usually): `ratio` is level of a over level of b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairVerdict {
    pub a: String,
    pub b: String,
    /// Ratio of levels with its interval, corrected for the number of pairs compared.
    pub ratio: Option<Estimate>,
    /// Probability that a random process of `a` stays below a random process of `b`.
    pub p_better: Option<f64>,
    /// Growth of the difference a - b, per hour: a shared load moves both, this does not move with it.
    pub difference_slope_per_hour: Option<Estimate>,
    /// In one sentence.
    pub words: String,
    /// Decided, as opposed to "about N more hours": the interval excludes equality (and whatever does not matter),
    /// and the lower arm does not grow so that it would pass the other within the time they were watched.
    pub decided: bool,
    pub needs: Option<String>,
}

/// An arm as it goes into a comparison.
#[derive(Debug, Clone, Copy)]
pub struct ArmInput<'a> {
    pub arm: &'a str,
    pub processes: &'a [Series],
}

/// Spread between processes that is assumed before any is seen, as a share of the level, and how many
/// degrees of freedom that assumption is worth. Replicas of one service differ by a few per cent (0.5 to
/// 3 % on the relays of docs/verdict.md); with two replicas a bare t interval would be 12.7 standard errors.
const SPREAD_PRIOR: f64 = 0.03;
const SPREAD_PRIOR_DF: f64 = 1.0;
/// A process this many deviations from its arm differs from it.
const ODD_DEVIATIONS: f64 = 5.0;
/// Deviations are never taken smaller than this share of the level.
const ODD_FLOOR: f64 = 0.04;
/// A camp of this share of the processes makes an arm variable, and not one of outliers.
const CAMP_SHARE: f64 = 0.2;
/// A process counts as of another kind only when its own verdict is this sure.
const SURE: f64 = 0.8;

/// Judges an arm: each process, then what they say together.
pub fn judge(arm: &str, processes: &[Series], rules: &Rules) -> ArmVerdict {
    let each: Vec<SeriesVerdict> = processes.iter().map(|p| series::judge(p, rules)).collect();
    let (label, confidence, rule) = together(&each, rules);
    let needs = needs_of(&each, label);
    let same = |v: &&SeriesVerdict| v.label == label || label == Label::Variable;
    let agreeing: Vec<&SeriesVerdict> = each.iter().filter(same).collect();
    let pick = |of: fn(&SeriesVerdict) -> Option<Estimate>, from: &[&SeriesVerdict]| {
        let parts: Vec<Estimate> = from.iter().filter_map(|v| of(v)).collect();
        across(&parts, rules)
    };
    let all: Vec<&SeriesVerdict> = each.iter().collect();
    let limits: Vec<Estimate> = agreeing.iter().filter_map(|v| v.time_to_limit_s).collect();
    ArmVerdict {
        arm: arm.to_owned(),
        label,
        confidence,
        rule,
        level: pick(|v| v.level, &all),
        slope_per_hour: pick(|v| v.slope_per_hour, &all),
        asymptote: pick(|v| v.asymptote, &agreeing),
        time_to_limit_s: limits
            .into_iter()
            .min_by(|a, b| a.value.total_cmp(&b.value)),
        outliers: outliers(&each, label),
        needs,
        processes: each,
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
        _ => of("p_open"),
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
    if n == 0 {
        return (Label::Insufficient, 0.0, "no process".to_owned());
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
            "no process could be judged".to_owned(),
        );
    }
    let periodic = each.iter().filter(|v| v.label == Label::Sawtooth).count();
    if label == Label::Flat && 2 * periodic > n {
        label = Label::Sawtooth;
    }
    if side_share < rules.decisive {
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

/// What a process may be found to do, grouped by what it means for its memory: bounded, growing, open.
const SIDES: [&[Label]; 3] = [
    &[Label::Flat, Label::Plateauing, Label::Stepped],
    &[Label::Growing],
    &[Label::Insufficient],
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
        .or_else(|| Some("a process to judge".to_owned()))
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

fn outliers(each: &[SeriesVerdict], label: Label) -> Vec<Outlier> {
    let mut odd = Vec::new();
    let levels: Vec<f64> = each
        .iter()
        .filter_map(|v| v.level)
        .map(|e| e.value)
        .collect();
    let centre = median(&levels);
    let spread = mad(&levels).max(ODD_FLOOR * centre);
    for v in each {
        let kind = grows(v).filter(|_| label != Label::Insufficient && each.len() > 2);
        let arm_grows = label == Label::Growing;
        let away = v.level.map(|e| (e.value - centre) / spread);
        if let Some(away) = away.filter(|a| a.abs() > ODD_DEVIATIONS && each.len() > 2) {
            let side = if away > 0.0 { "above" } else { "below" };
            let by = 100.0 * (away * spread / centre).abs();
            odd.push(Outlier {
                id: v.id.clone(),
                why: format!("{by:.0} % {side} the arm's median"),
            });
        } else if kind.is_some_and(|g| g != arm_grows && label != Label::Variable) {
            odd.push(Outlier {
                id: v.id.clone(),
                why: format!("{} where the arm is {}", v.label.word(), label.word()),
            });
        }
    }
    odd
}

/// Compares two arms. Intervals are corrected for `pairs_compared` (Bonferroni).
pub fn compare(a: &ArmInput, b: &ArmInput, pairs_compared: usize, rules: &Rules) -> PairVerdict {
    let side = |arm: &ArmInput| judge(arm.arm, arm.processes, rules);
    compare_judged(&side(a), &side(b), pairs_compared, rules)
}

struct Side {
    n: f64,
    mean: f64,
    sum2: f64,
}

fn side_of(values: &[f64]) -> Side {
    let (mean, sd) = mean_sd(values);
    let n = values.len() as f64;
    Side {
        n,
        mean,
        sum2: sd * sd * (n - 1.0).max(0.0),
    }
}

/// The same for arms that are already judged.
pub fn compare_judged(
    a: &ArmVerdict,
    b: &ArmVerdict,
    pairs_compared: usize,
    rules: &Rules,
) -> PairVerdict {
    let logs = |arm: &ArmVerdict| -> Vec<f64> {
        let levels = arm.processes.iter().filter_map(|v| v.level);
        levels
            .filter(|e| e.value > 0.0)
            .map(|e| e.value.ln())
            .collect()
    };
    let (x, y) = (side_of(&logs(a)), side_of(&logs(b)));
    let mut pair = PairVerdict {
        a: a.arm.clone(),
        b: b.arm.clone(),
        ratio: None,
        p_better: None,
        difference_slope_per_hour: None,
        words: format!("{} against {}: not enough readings", a.arm, b.arm),
        decided: false,
        needs: Some("processes with a level on both sides".to_owned()),
    };
    if x.n < 1.0 || y.n < 1.0 {
        return pair;
    }
    let tail = 0.5 * (1.0 - rules.interval) / pairs_compared.max(1) as f64;
    let (se, df, va, vb) = welch(&x, &y);
    let away = t_quantile(1.0 - tail, df) * se;
    let d = x.mean - y.mean;
    let ratio = Estimate {
        value: d.exp(),
        lo: (d - away).exp(),
        hi: (d + away).exp(),
    };
    pair.ratio = Some(ratio);
    pair.p_better = Some(t_cdf(-d / (va + vb).sqrt().max(1e-9), df));
    pair.difference_slope_per_hour = difference(a, b, tail);
    let enough = 1.0 + rules.matters;
    let apart = ratio.lo > enough || ratio.hi < 1.0 / enough;
    let is_alike = ratio.lo > 1.0 / enough && ratio.hi < enough;
    let (low, high) = if d < 0.0 { (a, b) } else { (b, a) };
    let crossing_s = crossing(low, high);
    pair.decided = apart && crossing_s.is_none();
    pair.words = words(&pair, ratio);
    pair.needs = match crossing_s.filter(|_| apart) {
        Some(seconds) => {
            let faster = format!("; {} grows faster and may pass it", low.arm);
            pair.words += &faster;
            Some(format!("{:.1} more hours", seconds / 3600.0))
        }
        None => {
            let is_open = !pair.decided && !is_alike;
            is_open.then(|| more_processes(&x, &y, d, (va, vb), tail))
        }
    };
    if is_alike {
        let (a, b, percent) = (&pair.a, &pair.b, 100.0 * rules.matters);
        pair.words = format!(
            "{a} and {b} differ by less than {percent:.0} %: {}",
            span(ratio)
        );
    }
    pair
}

/// Seconds until the lower arm would pass the higher, if both go on as they do; `None` when that is further
/// off than they were watched.
fn crossing(low: &ArmVerdict, high: &ArmVerdict) -> Option<f64> {
    let (from, to) = (low.level?.value, high.level?.value);
    let pace = |arm: &ArmVerdict| match arm.label {
        Label::Growing => arm.slope_per_hour.map_or(0.0, |s| s.value.max(0.0)),
        _ => 0.0,
    };
    let closing = pace(low) - pace(high);
    let watched = |arm: &ArmVerdict| {
        let windows = arm
            .processes
            .iter()
            .filter_map(|v| v.evidence.get("window_s"));
        median(&windows.copied().collect::<Vec<f64>>())
    };
    let horizon_s = watched(low).min(watched(high));
    let seconds = 3600.0 * (to - from) / closing;
    (closing > 0.0 && seconds > 0.0 && seconds < horizon_s).then_some(seconds)
}

/// Standard error of the difference, its degrees of freedom, and the variance on each side. Each side's
/// variance is drawn towards what both sides share, and that towards [`SPREAD_PRIOR`].
fn welch(x: &Side, y: &Side) -> (f64, f64, f64, f64) {
    let shared_df = x.n + y.n - 2.0 + SPREAD_PRIOR_DF;
    let shared = (x.sum2 + y.sum2 + SPREAD_PRIOR_DF * SPREAD_PRIOR.powi(2)) / shared_df;
    let own = |s: &Side| (s.sum2 + SPREAD_PRIOR_DF * shared) / (s.n - 1.0 + SPREAD_PRIOR_DF);
    let (va, vb) = (own(x), own(y));
    let (ea, eb) = (va / x.n, vb / y.n);
    let dfs = |s: &Side| s.n - 1.0 + SPREAD_PRIOR_DF;
    let df = (ea + eb).powi(2) / (ea * ea / dfs(x) + eb * eb / dfs(y));
    ((ea + eb).sqrt(), df, va, vb)
}

/// Growth of the difference: what both arms share (load) falls out of it.
fn difference(a: &ArmVerdict, b: &ArmVerdict, tail: f64) -> Option<Estimate> {
    let (x, y) = (a.slope_per_hour?, b.slope_per_hour?);
    let se = |e: &Estimate| 0.5 * (e.hi - e.lo) / 1.96;
    let away = t_quantile(1.0 - tail, 30.0) * se(&x).hypot(se(&y));
    let value = x.value - y.value;
    Some(Estimate {
        value,
        lo: value - away,
        hi: value + away,
    })
}

fn span(ratio: Estimate) -> String {
    let Estimate { value, lo, hi } = ratio;
    format!("{value:.2} times ({lo:.2} to {hi:.2})")
}

fn words(pair: &PairVerdict, ratio: Estimate) -> String {
    let (a, b) = (&pair.a, &pair.b);
    let span = span(ratio);
    match (pair.decided, ratio.value < 1.0) {
        (true, true) => format!("{a} uses less than {b}: {span}"),
        (true, false) => format!("{a} uses more than {b}: {span}"),
        (false, _) => format!("{a} and {b} are not told apart: {span}"),
    }
}

fn more_processes(x: &Side, y: &Side, d: f64, (va, vb): (f64, f64), tail: f64) -> String {
    let per_arm = (t_quantile(1.0 - tail, 30.0) / d.abs().max(0.005)).powi(2) * (va + vb);
    let least = x.n.min(y.n) + 1.0;
    if per_arm > 200.0 {
        return "the difference, if any, is too small for 200 processes in each arm".to_owned();
    }
    format!(
        "about {:.0} processes in each arm",
        per_arm.ceil().max(least)
    )
}

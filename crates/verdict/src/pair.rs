//! The verdict on a pair of arms.

use serde::{Deserialize, Serialize};

use super::arm::{ArmVerdict, SPREAD_PRIOR, SPREAD_PRIOR_DF, judge, usual};
use super::series::SeriesVerdict;
use super::{Label, Rules};
use series::estimate::Estimate;
use series::order::{mean_sd, median};
use series::series::Series;
use series::student::{t_cdf, t_quantile};

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

/// Compares two arms. Intervals are corrected for `pairs_compared` (Bonferroni).
pub fn compare(a: &ArmInput, b: &ArmInput, pairs_compared: usize, rules: &Rules) -> PairVerdict {
    let side = |arm: &ArmInput| judge(arm.arm, arm.processes, rules);
    compare_judged(&side(a), &side(b), pairs_compared, rules)
}

fn left_out(pair: &PairVerdict, odd: (usize, usize)) -> String {
    let odd_ones = |count| if count == 1 { "outlier" } else { "outliers" };
    match odd {
        (0, 0) => String::new(),
        (a, 0) => format!(", without {a} {} of {}", odd_ones(a), pair.a),
        (0, b) => format!(", without {b} {} of {}", odd_ones(b), pair.b),
        (a, b) => format!(
            ", without {a} {} of {} and {b} of {}",
            odd_ones(a),
            pair.a,
            pair.b
        ),
    }
}

/// Logarithms of the levels.
fn logs(processes: &[&SeriesVerdict]) -> Vec<f64> {
    let levels = processes.iter().filter_map(|v| v.level);
    let positive = levels.filter(|e| e.value > 0.0);
    positive.map(|e| e.value.ln()).collect()
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
    let (usual_a, usual_b) = (usual(&a.processes, a.label), usual(&b.processes, b.label));
    let odd = (
        a.processes.len() - usual_a.len(),
        b.processes.len() - usual_b.len(),
    );
    let (x, y) = (side_of(&logs(&usual_a)), side_of(&logs(&usual_b)));
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
    pair.words = words(&pair, ratio) + &left_out(&pair, odd);
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
        let less = format!("{a} and {b} differ by less than {percent:.0} %: ");
        pair.words = less + &span(ratio) + &left_out(&pair, odd);
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
        (false, _) => format!("{a} and {b} cannot be distinguished: {span}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use series::series::Point;

    /// A flat process of this level with a wobble of a per cent.
    fn flat(level: f64) -> Series {
        let point = |i: u32| Point {
            t_s: 60.0 * f64::from(i),
            value: level * (1.0 + 0.01 * f64::from(i * 7919 % 17) / 17.0),
        };
        Series {
            points: (0..30).map(point).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn arms_in_which_some_processes_are_of_another_kind_are_compared_without_them() {
        let arm = |level: f64| -> Vec<Series> {
            let usual = (0..7).map(|i| level * (1.0 + 0.01 * f64::from(i)));
            let small = (0..3).map(|i| 0.4e9 * (1.0 + 0.01 * f64::from(i)));
            usual.chain(small).map(flat).collect()
        };
        let (more, less) = (arm(2.1e9), arm(1.5e9));
        let input = |arm, processes| ArmInput { arm, processes };
        let pair = compare(&input("a", &more), &input("b", &less), 1, &Rules::default());
        let ratio = pair.ratio.unwrap();
        assert!(
            pair.decided && ratio.lo > 1.3 && ratio.hi < 1.5,
            "{ratio:?}"
        );
        assert!(
            pair.words.ends_with("without 3 outliers of a and 3 of b"),
            "{}",
            pair.words
        );
        // The arm's own level is that of the same processes.
        let alone = judge("a", &more, &Rules::default());
        let level = alone.level.unwrap();
        assert!(level.lo > 2.0e9 && level.hi < 2.3e9, "{level:?}");
        assert_eq!(alone.outliers.len(), 3);
        assert!(alone.rule.ends_with("without 3 outliers"), "{}", alone.rule);
        // Half and half have no usual level, and neither has a handful.
        let kept = |levels: &[f64]| {
            let each: Vec<Series> = levels.iter().map(|l| flat(1e9 * l)).collect();
            let arm = judge("a", &each, &Rules::default());
            usual(&arm.processes, arm.label).len()
        };
        assert_eq!(kept(&[1.0, 1.0, 1.0, 5.0, 5.0, 5.0]), 6);
        assert_eq!(kept(&[1.0, 1.1, 9.0]), 3);
    }
}

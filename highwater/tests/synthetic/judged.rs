//! Verdicts for synthetic runs. A stand-in for the judge: least squares over the second half of
//! each series, growing from 3 % of the level over the window on. Tests of what comes after the
//! judge need its values, not its statistics.

use record::run::Run;
use series::arms::{ArmSeries, arm_series};
use series::estimate::Estimate;
use series::replicas::over_processes;
use verdict::arm::ArmVerdict;
use verdict::check::judge_checks;
use verdict::cost::arm_costs;
use verdict::pair::PairVerdict;
use verdict::run::heap::arm_heaps;
use verdict::run::{RunVerdict, conclude};
use verdict::{Label, Rules};

/// Everything that the command line would do between the record and the report.
pub fn verdict(run: &Run) -> RunVerdict {
    let series = arm_series(run, "rss_bytes", run.experiment.warmup);
    let arms: Vec<ArmVerdict> = series.iter().map(arm).collect();
    let pairs = pairs(&arms, &run.experiment.control);
    let costs = arm_costs(run, run.experiment.warmup);
    let checks = judge_checks(run, &arms, &costs);
    let heaps = arm_heaps(run, &Rules::default());
    conclude(run, &arms, pairs, &costs, &heaps, checks, Vec::new())
}

fn arm(series: &ArmSeries) -> ArmVerdict {
    let fits: Vec<(f64, f64, f64)> = series
        .replicas
        .iter()
        .filter_map(|r| fit(&r.joined.points))
        .collect();
    let level = over_processes(&fits.iter().map(|fit| fit.0).collect::<Vec<_>>());
    let slope = over_processes(&fits.iter().map(|fit| fit.1).collect::<Vec<_>>());
    let window = fits.iter().map(|fit| fit.2).fold(0.0, f64::max);
    let label = match (level, slope) {
        (Some(level), Some(slope)) if slope.value * window / 3600.0 > 0.03 * level.value => {
            Label::Growing
        }
        (Some(_), Some(_)) => Label::Flat,
        _ => Label::Insufficient,
    };
    ArmVerdict {
        level,
        slope_per_hour: slope,
        ..blank(&series.arm, label)
    }
}

/// An arm of which only the label is known.
pub fn blank(arm: &str, label: Label) -> ArmVerdict {
    ArmVerdict {
        arm: arm.to_string(),
        label,
        confidence: 0.95,
        rule: "least squares over the second half".to_string(),
        level: None,
        slope_per_hour: None,
        asymptote: None,
        time_to_limit_s: None,
        outliers: Vec::new(),
        needs: (label == Label::Insufficient)
            .then(|| "20 more minutes at this rate of samples".to_string()),
        processes: Vec::new(),
    }
}

/// Level at the end, slope per hour, window in seconds.
fn fit(points: &[series::series::Point]) -> Option<(f64, f64, f64)> {
    let half = &points[points.len() / 2..];
    let n = half.len() as f64;
    let (first, last) = (half.first()?, half.last()?);
    let (mt, mv) = half
        .iter()
        .fold((0.0, 0.0), |(t, v), p| (t + p.t_s / n, v + p.value / n));
    let over: f64 = half.iter().map(|p| (p.t_s - mt) * (p.value - mv)).sum();
    let under: f64 = half.iter().map(|p| (p.t_s - mt).powi(2)).sum();
    let slope = (under > 0.0).then(|| over / under)?;
    Some((
        mv + slope * (last.t_s - mt),
        slope * 3600.0,
        last.t_s - first.t_s,
    ))
}

/// Every arm against the control: ratio of levels by the delta method, difference of slopes.
pub fn pairs(arms: &[ArmVerdict], control: &str) -> Vec<PairVerdict> {
    let Some(base) = arms.iter().find(|arm| arm.arm == control) else {
        return Vec::new();
    };
    arms.iter()
        .filter(|arm| arm.arm != control)
        .map(|arm| pair(arm, base))
        .collect()
}

fn pair(a: &ArmVerdict, b: &ArmVerdict) -> PairVerdict {
    let half = |e: Estimate| (e.hi - e.lo) / 2.0;
    let ratio = a.level.zip(b.level).map(|(x, y)| {
        let ratio = x.value / y.value;
        let spread = ratio * ((half(x) / x.value).powi(2) + (half(y) / y.value).powi(2)).sqrt();
        Estimate {
            value: ratio,
            lo: ratio - spread,
            hi: ratio + spread,
        }
    });
    let difference = a.slope_per_hour.zip(b.slope_per_hour).map(|(x, y)| {
        let value = x.value - y.value;
        let spread = half(x).hypot(half(y));
        Estimate {
            value,
            lo: value - spread,
            hi: value + spread,
        }
    });
    let decided = ratio.is_some_and(|r| r.hi < 1.0 || r.lo > 1.0);
    PairVerdict {
        a: a.arm.clone(),
        b: b.arm.clone(),
        ratio,
        p_better: ratio.map(|r| if r.value < 1.0 { 0.97 } else { 0.03 }),
        difference_slope_per_hour: difference,
        words: format!("{} against {}", a.arm, b.arm),
        decided,
        needs: (!decided).then(|| "2 more hours".to_string()),
    }
}

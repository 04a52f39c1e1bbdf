//! Levels of the arms at fixed shares of a run: how far each has grown by an eighth, a quarter, half and all of it.

use std::time::Duration;

use super::arms::{ArmSeries, arm_series, seconds_between};
use super::series::Point;
use observe::metric;
use record::run::Run;

/// Doubling, so that straight growth doubles from column to column and a fill does not.
pub const SHARES: [f64; 4] = [0.125, 0.25, 0.5, 1.0];
/// A level is the mean over this share of the run that ends there: one reading may be the peak of a saw.
const WINDOW: f64 = 0.0625;

/// One arm at each of [`SHARES`].
#[derive(Debug, Clone, PartialEq)]
pub struct ArmLevels {
    pub arm: String,
    /// `None` where no process of the arm was read.
    pub levels: Vec<Option<Level>>,
    /// From the first of [`SHARES`] to the last, over the processes that were read at both; bytes.
    pub grown: Option<Level>,
}

/// Over the processes of an arm, bytes of RSS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    pub mean: f64,
    pub lowest: f64,
    pub highest: f64,
    pub processes: usize,
}

/// Every arm of the run, in its order; warm-up is not left out.
pub fn levels(run: &Run) -> Vec<ArmLevels> {
    let took_s = seconds_between(run.begun, run.last);
    let arms = arm_series(run, metric::RSS.name, Duration::ZERO);
    arms.iter().map(|arm| of_arm(arm, took_s)).collect()
}

fn of_arm(arm: &ArmSeries, took_s: f64) -> ArmLevels {
    let replicas = || {
        arm.replicas
            .iter()
            .map(|replica| replica.joined.points.as_slice())
    };
    let at = |share: &f64| {
        let values = replicas().filter_map(|points| mean_before(points, share * took_s, took_s));
        across(&values.collect::<Vec<_>>())
    };
    let grown = replicas().filter_map(|points| {
        let first = mean_before(points, SHARES[0] * took_s, took_s)?;
        let last = mean_before(points, took_s, took_s)?;
        Some(last - first)
    });
    ArmLevels {
        arm: arm.arm.clone(),
        levels: SHARES.iter().map(at).collect(),
        grown: across(&grown.collect::<Vec<_>>()),
    }
}

/// Mean of the readings in the window that ends at `t_s`.
fn mean_before(points: &[Point], t_s: f64, took_s: f64) -> Option<f64> {
    let from_s = t_s - WINDOW * took_s;
    let inside = |p: &&Point| p.t_s > from_s && p.t_s <= t_s && p.value.is_finite();
    let values: Vec<f64> = points.iter().filter(inside).map(|p| p.value).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(mean).filter(|mean| mean.is_finite())
}

fn across(values: &[f64]) -> Option<Level> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then(|| Level {
        mean,
        lowest: values.iter().copied().fold(f64::INFINITY, f64::min),
        highest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        processes: values.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::arms::ReplicaSeries;
    use super::super::series::Series;
    use super::*;

    fn replica(value: impl Fn(f64) -> f64, from: i32) -> ReplicaSeries {
        let point = |t: i32| Point {
            t_s: f64::from(t),
            value: value(f64::from(t)),
        };
        let joined = Series {
            points: (from..=1600).map(point).collect(),
            ..Series::default()
        };
        ReplicaSeries {
            joined,
            ..ReplicaSeries::default()
        }
    }

    #[test]
    fn a_line_doubles_and_a_late_comer_has_no_past() {
        let arm = ArmSeries {
            arm: "a".into(),
            replicas: vec![replica(|t| t, 0), replica(|t| t + 100.0, 900)],
        };
        let levels = of_arm(&arm, 1600.0);
        let first = levels.levels[0].unwrap();
        assert!(
            (first.mean - 150.5).abs() < 1.0 && first.processes == 1,
            "{first:?}"
        );
        let last = levels.levels[3].unwrap();
        assert_eq!(last.processes, 2);
        assert!((last.highest - last.lowest - 100.0).abs() < 1e-6);
        assert!((levels.grown.unwrap().mean - 1400.0).abs() < 1e-6);
        let none = of_arm(&ArmSeries::default(), 1600.0);
        assert!(none.levels.iter().all(Option::is_none) && none.grown.is_none());
    }
}

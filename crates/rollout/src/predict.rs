//! The total that a fleet is expected to settle at, told from the processes of a run.

use serde::{Deserialize, Serialize};

use series::estimate::Estimate;
use series::order::mean_sd;
use series::student::t_quantile;
use verdict::arm::ArmVerdict;
use verdict::{Label, Rules};

/// Spread between processes that is assumed before any is seen, and how many degrees of freedom that is worth: as
/// the comparison of arms has it.
const SPREAD_PRIOR: f64 = 0.03;
const SPREAD_PRIOR_DF: f64 = 1.0;

/// What the run says of one process, and what that makes of a fleet under the same load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The arm's label in the run.
    pub label: Label,
    /// Mean over the run's processes, bytes.
    pub mean_bytes: f64,
    /// Spread between processes, bytes.
    pub spread_bytes: f64,
    pub processes: usize,
    /// How old the run's processes were at its end.
    pub age_s: f64,
    pub instances: usize,
    /// Of all instances together, bytes.
    pub total: Estimate,
}

/// From the arm's verdict; `None` when no process of it has a level.
///
/// The rule. k processes with mean m and spread s (drawn towards the doubt within each, at least towards 3 % of m)
/// predict the mean of n others: m +- t(k) * s * sqrt(1/k + 1/n). The interval holds what processes differ by; a load
/// that differs from the run's is not in it.
pub fn predict(arm: &ArmVerdict, age_s: f64) -> Option<Prediction> {
    let levels: Vec<Estimate> = arm.processes.iter().filter_map(|v| v.level).collect();
    let means: Vec<f64> = levels.iter().map(|level| level.value).collect();
    if means.is_empty() {
        return None;
    }
    let (mean, sd) = match means[..] {
        [only] => (only, 0.0),
        _ => mean_sd(&means),
    };
    let n = means.len() as f64;
    let within = levels
        .iter()
        .map(|level| (0.25 * (level.hi - level.lo)).powi(2))
        .sum::<f64>()
        / n;
    let prior = within.max((SPREAD_PRIOR * mean).powi(2));
    let variance = ((n - 1.0) * sd * sd + SPREAD_PRIOR_DF * prior) / (n - 1.0 + SPREAD_PRIOR_DF);
    let prediction = Prediction {
        label: arm.label,
        mean_bytes: mean,
        spread_bytes: variance.sqrt(),
        processes: means.len(),
        age_s,
        instances: 1,
        total: Estimate {
            value: mean,
            lo: mean,
            hi: mean,
        },
    };
    Some(prediction.for_instances(1))
}

impl Prediction {
    /// The same for another number of instances.
    pub fn for_instances(&self, instances: usize) -> Prediction {
        let (k, n) = (self.processes as f64, instances.max(1) as f64);
        let df = k - 1.0 + SPREAD_PRIOR_DF;
        let tail = 0.5 + 0.5 * Rules::default().interval;
        let away = t_quantile(tail, df) * self.spread_bytes * (1.0 / k + 1.0 / n).sqrt();
        let total = Estimate {
            value: n * self.mean_bytes,
            lo: n * (self.mean_bytes - away).max(0.0),
            hi: n * (self.mean_bytes + away),
        };
        Prediction {
            instances,
            total,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prediction(levels: &[f64]) -> Prediction {
        let series = |value: &f64| series::series::Series {
            id: "a/0".into(),
            points: (0..100)
                .map(|t| series::series::Point {
                    t_s: f64::from(t),
                    value: value * (1.0 + 0.001 * f64::from(t % 7)),
                })
                .collect(),
            restarts_s: Vec::new(),
            limit: None,
        };
        let all: Vec<_> = levels.iter().map(series).collect();
        let rules = Rules::default();
        let arm = verdict::arm::judge("a", &all, &rules);
        predict(&arm, 100.0).expect("a level")
    }

    #[test]
    fn a_fleet_is_its_mean_times_its_size_and_no_surer_than_the_run() {
        let few = prediction(&[50e6, 52e6]).for_instances(20);
        assert!(
            (few.total.value / (20.0 * 51.15e6) - 1.0).abs() < 0.01,
            "{few:?}"
        );
        let more = prediction(&[50e6, 52e6, 51e6, 50e6, 52e6, 51e6]).for_instances(20);
        let width = |p: &Prediction| (p.total.hi - p.total.lo) / p.total.value;
        assert!(
            width(&more) < 0.5 * width(&few),
            "{} {}",
            width(&more),
            width(&few)
        );
        // One process says something of others too, but little.
        let one = prediction(&[50e6]).for_instances(20);
        assert!(width(&one) > width(&few) && one.total.lo > 0.0, "{one:?}");
        // The mean of many is surer than any one.
        assert!(width(&few.for_instances(1)) > width(&few));
    }

    #[test]
    fn the_interval_holds_nine_fleets_in_ten() {
        use rand::{RngExt, SeedableRng};
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut held = 0;
        for _ in 0..400 {
            let mut draw =
                |n: usize| -> Vec<f64> { (0..n).map(|_| 50e6 * (1.0 + 0.04 * normal())).collect() };
            let run = draw(3);
            let (mean, sd) = mean_sd(&run);
            let variance = (2.0 * sd * sd + (SPREAD_PRIOR * mean).powi(2)) / 3.0;
            let prediction = Prediction {
                label: Label::Flat,
                mean_bytes: mean,
                spread_bytes: variance.sqrt(),
                processes: 3,
                age_s: 1.0,
                instances: 1,
                total: Estimate {
                    value: mean,
                    lo: mean,
                    hi: mean,
                },
            };
            let total = prediction.for_instances(20).total;
            let fleet: f64 = draw(20).iter().sum();
            held += usize::from(total.lo <= fleet && fleet <= total.hi);
        }
        assert!(held >= 360, "seed 1: {held} of 400");
    }
}

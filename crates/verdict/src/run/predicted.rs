//! Predictions of the experiment file, each compared with what the arm's processes took.
//!
//! In: a run whose arms carry a [`Prediction`]. Out: an [`Outcome`] for each of them. Called by: [`super::judge`].

use experiment::file::{Arm, Prediction};
use observe::metric;
use record::run::Run;
use serde::{Deserialize, Serialize};
use series::arms::arm_series;
use series::estimate::Estimate;
use series::series::{Point, Series};
use std::time::Duration;
use units::written;

use crate::Rules;
use crate::arm::across;

/// Shares of the predicted time by which a process is first and last sampled, at least. What is missed is less of the
/// time than the interval of a prediction (10 %) is of its mean.
const FIRST_SHARE: f64 = 0.05;
const LAST_SHARE: f64 = 0.95;

/// The prediction of one arm, and what came of it. Mean anonymous resident bytes of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub arm: String,
    pub predicted: Estimate,
    /// Seconds of a process's life, from its start, that the prediction is for.
    pub over_s: f64,
    /// Mean over processes, with an interval over processes; `None`: [`Outcome::why`] says why.
    pub measured: Option<Estimate>,
    /// Processes that were sampled over that time.
    pub processes: u32,
    /// Why nothing can be compared; empty when it can.
    pub why: String,
}

/// Where a measured mean lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Within the predicted interval.
    Inside,
    Below,
    Above,
    /// Not measured.
    Unknown,
}

impl Place {
    /// As in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Place::Inside => "inside",
            Place::Below => "below",
            Place::Above => "above",
            Place::Unknown => "unknown",
        }
    }
}

impl Outcome {
    /// Where the measured mean lies.
    pub fn place(&self) -> Place {
        match self.measured {
            None => Place::Unknown,
            Some(measured) if measured.value < self.predicted.lo => Place::Below,
            Some(measured) if measured.value > self.predicted.hi => Place::Above,
            Some(_) => Place::Inside,
        }
    }

    /// How much the prediction was too high, as a share of what was measured; negative: too low.
    pub fn error(&self) -> Option<f64> {
        let measured = self.measured.filter(|measured| measured.value > 0.0)?;
        Some(self.predicted.value / measured.value - 1.0)
    }
}

/// Every arm that has a prediction, in the experiment's order.
pub fn outcomes(run: &Run, rules: &Rules) -> Vec<Outcome> {
    let planned = run.experiment.arms.iter();
    let predicted: Vec<(&Arm, Prediction)> = planned
        .filter_map(|arm| Some((arm, arm.prediction?)))
        .collect();
    if predicted.is_empty() {
        return Vec::new();
    }
    let series = arm_series(run, metric::RSS_ANON.name, Duration::ZERO);
    let of_arm = |name: &str| {
        let replicas = series.iter().filter(|one| one.arm == name);
        replicas
            .flat_map(|one| &one.replicas)
            .flat_map(|replica| &replica.incarnations)
            .collect::<Vec<&Series>>()
    };
    predicted
        .into_iter()
        .map(|(arm, prediction)| {
            let over = prediction.over.unwrap_or(run.experiment.duration);
            outcome(&arm.name, prediction, over, &of_arm(&arm.name), rules)
        })
        .collect()
}

fn outcome(
    arm: &str,
    prediction: Prediction,
    over: Duration,
    incarnations: &[&Series],
    rules: &Rules,
) -> Outcome {
    let over_s = over.as_secs_f64();
    let means: Vec<Estimate> = incarnations
        .iter()
        .filter_map(|one| mean(&one.points, over_s))
        .map(|value| Estimate {
            value,
            lo: value,
            hi: value,
        })
        .collect();
    let measured = across(&means, rules);
    Outcome {
        arm: arm.to_owned(),
        predicted: Estimate {
            value: prediction.mean_bytes as f64,
            lo: prediction.lo_bytes as f64,
            hi: prediction.hi_bytes as f64,
        },
        over_s,
        measured,
        processes: means.len() as u32,
        why: match measured {
            Some(_) => String::new(),
            None => unseen(incarnations, over_s),
        },
    }
}

/// Mean over the first `over_s` of a process's life; `None` when its samples do not reach over them.
fn mean(points: &[Point], over_s: f64) -> Option<f64> {
    let within: Vec<&Point> = points.iter().filter(|point| point.t_s <= over_s).collect();
    let (first, last) = (within.first()?, within.last()?);
    if first.t_s > FIRST_SHARE * over_s || last.t_s < LAST_SHARE * over_s {
        return None;
    }
    let area: f64 = within
        .windows(2)
        .map(|pair| 0.5 * (pair[0].value + pair[1].value) * (pair[1].t_s - pair[0].t_s))
        .sum();
    let seconds = last.t_s - first.t_s;
    (seconds > 0.0).then(|| area / seconds)
}

fn unseen(incarnations: &[&Series], over_s: f64) -> String {
    let seen = |one: &&Series| Some((one.points.first()?.t_s, one.points.last()?.t_s));
    let longest = incarnations
        .iter()
        .filter_map(seen)
        .max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    match longest {
        None => "no anonymous memory of its processes was sampled".to_owned(),
        Some((from, to)) => format!(
            "the prediction is for the first {} of a process; the longest sampled was from {} to {} of its life",
            written::seconds(over_s),
            written::seconds(from),
            written::seconds(to.min(over_s).max(from)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn series(from_s: f64, to_s: f64, value: fn(f64) -> f64) -> Series {
        let at = |n: u32| from_s + (to_s - from_s) * f64::from(n) / 100.0;
        let point = |t_s: f64| Point {
            t_s,
            value: value(t_s) * MIB,
        };
        Series {
            points: (0..=100).map(|n| point(at(n))).collect(),
            ..Series::default()
        }
    }

    fn of(all: &[&Series]) -> Outcome {
        let prediction = Prediction {
            mean_bytes: 50 << 20,
            lo_bytes: 45 << 20,
            hi_bytes: 55 << 20,
            over: None,
        };
        let over = Duration::from_secs(100);
        outcome("a", prediction, over, all, &Rules::default())
    }

    #[test]
    fn the_mean_is_that_of_the_predicted_time_alone() {
        // 0 to 100 MiB within the time, and far more behind it.
        let one = series(0.0, 400.0, |t| if t <= 100.0 { t } else { 900.0 });
        let outcome = of(&[&one]);
        let measured = outcome.measured.expect("a mean");
        assert!((measured.value / MIB - 50.0).abs() < 0.1, "{measured:?}");
        assert_eq!(outcome.place(), Place::Inside);
        assert!(outcome.error().expect("an error").abs() < 0.01);
    }

    #[test]
    fn a_mean_outside_of_the_interval_is_said_to_be_so() {
        let high = series(0.0, 100.0, |_| 56.0);
        let low = series(0.0, 100.0, |_| 40.0);
        assert_eq!(of(&[&high]).place(), Place::Above);
        assert_eq!(of(&[&low]).place(), Place::Below);
        let both = of(&[&high, &low]);
        assert_eq!((both.place(), both.processes), (Place::Inside, 2));
        let measured = both.measured.expect("a mean");
        assert!(measured.lo < 40.0 * MIB && measured.hi > 56.0 * MIB);
    }

    #[test]
    fn what_was_not_sampled_over_that_time_is_not_compared() {
        let late = series(9.0, 100.0, |_| 50.0);
        let short = series(0.0, 60.0, |_| 50.0);
        for one in [&late, &short] {
            let outcome = of(&[one]);
            assert_eq!(
                (outcome.place(), outcome.processes, outcome.error()),
                (Place::Unknown, 0, None)
            );
            assert!(outcome.why.contains("of its life"), "{}", outcome.why);
        }
        assert!(of(&[]).why.contains("was sampled"));
        // One that lived long enough is enough.
        let whole = series(0.0, 100.0, |_| 50.0);
        assert_eq!(of(&[&late, &short, &whole]).processes, 1);
    }
}

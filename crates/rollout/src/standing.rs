//! Whether an adopted arm keeps what its run promised: pure, from the prediction and the snapshots since.

use serde::{Deserialize, Serialize};

use super::predict::Prediction;
use super::samples::Snapshot;
use series::estimate::Estimate;
use series::order::median;
use series::series::{Point, Series};
use verdict::arm::{ArmVerdict, judge};
use verdict::{Label, Rules};

/// Snapshots above the predicted interval, one after the other, that need no further waiting.
const HIGH_SNAPSHOTS: usize = 3;

/// The answer of `adopt --status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    Holding,
    Regressed,
    TooEarly,
}

impl Word {
    pub fn word(self) -> &'static str {
        match self {
            Word::Holding => "holding",
            Word::Regressed => "regressed",
            Word::TooEarly => "too early to say",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub word: Word,
    /// The rule that decided, with its numbers.
    pub why: String,
    /// What would decide it, when it is too early.
    pub needs: Option<String>,
    /// Of all instances at the last snapshot, bytes.
    pub total_bytes: Option<f64>,
    /// As judged from all snapshots, bytes.
    pub total: Option<Estimate>,
    pub label: Option<Label>,
    pub snapshots: usize,
}

/// Judges. `since_s` is when the arm came into service; snapshots before it count for nothing.
///
/// The rules, in order. An instance that is seen to run something else: regressed. The last three snapshots each above
/// the predicted interval: regressed, however early (memory rises towards its level, not down to it). Fewer than eight
/// snapshots, or processes younger than half the age at which the run measured: too early. A median of the later half
/// of the snapshots above the interval, or growth that the run did not have: regressed. Otherwise: holding.
pub fn stand(prediction: Option<&Prediction>, snapshots: &[Snapshot], since_s: f64) -> Standing {
    let rules = Rules::default();
    let snapshots: Vec<&Snapshot> = snapshots
        .iter()
        .filter(|snapshot| snapshot.at_s >= since_s)
        .collect();
    let totals: Vec<f64> = snapshots
        .iter()
        .filter_map(|snapshot| total_of(snapshot))
        .collect();
    let arm = judge("fleet", &series(&snapshots), &rules);
    let mut standing = Standing {
        word: Word::TooEarly,
        why: String::new(),
        needs: None,
        total_bytes: totals.last().copied(),
        total: total(&arm, &snapshots),
        label: Some(arm.label).filter(|label| *label != Label::Insufficient),
        snapshots: snapshots.len(),
    };
    let say = |standing: Standing, word, why: String| Standing {
        word,
        why,
        ..standing
    };
    if let Some(why) = snapshots.last().and_then(|snapshot| not_the_arm(snapshot)) {
        return say(standing, Word::Regressed, why);
    }
    let Some(predicted) = prediction else {
        standing.needs = Some("a run that measured the arm".to_owned());
        return say(standing, Word::TooEarly, "nothing was predicted".to_owned());
    };
    let bar = predicted.total.hi;
    let high = totals
        .iter()
        .rev()
        .take_while(|total| **total > bar)
        .count();
    if high >= HIGH_SNAPSHOTS {
        let why = format!("the last {high} samples are above the predicted interval");
        return say(standing, Word::Regressed, why);
    }
    if let Some(needs) = missing(predicted, &snapshots, totals.len(), since_s, &rules) {
        standing.needs = Some(needs);
        return say(
            standing,
            Word::TooEarly,
            "not watched for long enough".to_owned(),
        );
    }
    if median(&totals[totals.len() / 2..]) > bar {
        let why = "the median of the later half of the samples is above the predicted interval";
        return say(standing, Word::Regressed, why.to_owned());
    }
    if arm.label == Label::Growing && predicted.label != Label::Growing {
        let why = format!("it grows, and in the run it was {}", predicted.label.word());
        return say(standing, Word::Regressed, why);
    }
    let below = median(&totals[totals.len() / 2..]) < predicted.total.lo;
    let why = if below {
        "below the predicted interval"
    } else {
        "inside the predicted interval"
    };
    say(standing, Word::Holding, why.to_owned())
}

/// What is missing before it can be judged, in words.
fn missing(
    predicted: &Prediction,
    snapshots: &[&Snapshot],
    whole: usize,
    since_s: f64,
    rules: &Rules,
) -> Option<String> {
    let age_s = snapshots
        .last()
        .map_or(0.0, |snapshot| snapshot.at_s - since_s);
    let wanted_s = 0.5 * predicted.age_s;
    let more_snapshots = rules.samples_min.saturating_sub(whole);
    let more_s = wanted_s - age_s;
    let words = |s: f64| units::written::seconds(s);
    match (more_snapshots, more_s > 0.0) {
        (0, false) => None,
        (0, true) => Some(format!("{} more", words(more_s))),
        (n, false) => Some(format!("{n} more samples (`highwater adopt --status`)")),
        (n, true) => Some(format!("{n} more samples, over {}", words(more_s))),
    }
}

/// `None` when an instance could not be read: a sum that lacks a part is no total.
fn total_of(snapshot: &Snapshot) -> Option<f64> {
    let parts = snapshot
        .instances
        .iter()
        .map(|sample| sample.rss_bytes.map(|bytes| bytes as f64));
    parts.sum()
}

fn not_the_arm(snapshot: &Snapshot) -> Option<String> {
    let odd = |wanted: fn(&super::samples::Sample) -> bool| -> Vec<&str> {
        let found = snapshot.instances.iter().filter(|sample| wanted(sample));
        found.map(|sample| sample.unit.as_str()).collect()
    };
    let other = odd(|sample| sample.runs_arm == Some(false));
    if !other.is_empty() {
        return Some(format!(
            "{} of {} instances do not run the arm: {}",
            other.len(),
            snapshot.instances.len(),
            some(&other)
        ));
    }
    let down = odd(|sample| sample.pid == 0);
    (!down.is_empty()).then(|| format!("not running: {}", some(&down)))
}

/// The first few of many names.
fn some(names: &[&str]) -> String {
    let shown = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0..=5 => shown,
        n => format!("{shown} and {} more", n - 5),
    }
}

/// One series for each instance, a change of process noted as a restart.
fn series(snapshots: &[&Snapshot]) -> Vec<Series> {
    let begun = snapshots.first().map_or(0.0, |snapshot| snapshot.at_s);
    let mut all: Vec<(Series, u64)> = Vec::new();
    for snapshot in snapshots {
        let t_s = snapshot.at_s - begun;
        for sample in &snapshot.instances {
            let Some(bytes) = sample.rss_bytes else {
                continue;
            };
            let at = all
                .iter()
                .position(|(series, _)| series.id == sample.unit)
                .unwrap_or_else(|| {
                    let series = Series {
                        id: sample.unit.clone(),
                        ..Series::default()
                    };
                    all.push((series, sample.start_ticks));
                    all.len() - 1
                });
            let (series, start) = &mut all[at];
            if *start != sample.start_ticks {
                series.restarts_s.push(t_s);
                *start = sample.start_ticks;
            }
            series.points.push(Point {
                t_s,
                value: bytes as f64,
            });
        }
    }
    all.into_iter().map(|(series, _)| series).collect()
}

fn total(arm: &ArmVerdict, snapshots: &[&Snapshot]) -> Option<Estimate> {
    let n = snapshots.last()?.instances.len() as f64;
    let level = arm.level?;
    Some(Estimate {
        value: n * level.value,
        lo: n * level.lo,
        hi: n * level.hi,
    })
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;

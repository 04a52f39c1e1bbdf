//! Predictions of the experiment file, each compared with what the arm's processes took.
//!
//! In: a run whose arms carry a [`Prediction`]. Out: an [`Outcome`] for each of them. Called by: [`super::judge`].

use std::cmp::Ordering;
use std::time::Duration;

use experiment::file::{Over, Prediction};
use observe::member;
use observe::metric;
use observe::metric::Metric;
use observe::snapshot::{Event, EventKind, TimeNs};
use record::run::{Process, Run};
use serde::{Deserialize, Serialize};
use series::arms::{incarnation_points, seconds_between, subjects};
use series::estimate::Estimate;
use series::series::Point;
use units::written;

use crate::Rules;
use crate::arm::across;

/// Shares of the predicted time by which a process is first and last sampled, at least, and the longest gap between two
/// samples. What is missed is less of the time than the interval of a prediction (10 %) is of its mean.
const FIRST_SHARE: f64 = 0.05;
const LAST_SHARE: f64 = 0.95;
const GAP_SHARE: f64 = 0.1;
/// A process that waits for a CPU for more of its time gets less far than the prediction assumes; same reason.
pub const STARVED_SHARE: f64 = 0.1;

/// The prediction of one arm, and what came of it. Mean anonymous resident bytes of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub arm: String,
    pub predicted: Estimate,
    /// Seconds of a process's life, from its start, that the prediction is for; `None`: all of it.
    pub over_s: Option<f64>,
    /// Mean over replicas, with an interval over replicas; `None`: [`Outcome::why`] says why.
    pub measured: Option<Estimate>,
    /// Replicas that were sampled over that time, and all of the arm.
    pub processes: u32,
    #[serde(default)]
    pub processes_all: u32,
    /// Share of that time for which they did not get on because others had the CPUs, on average. Of a whole life it
    /// does not change the mean, unless the allocator gives memory back by the clock: it does so more often then.
    #[serde(default)]
    pub starved_share: f64,
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
    planned
        .filter_map(|arm| Some(outcome(run, &arm.name, arm.prediction?, rules)))
        .collect()
}

fn outcome(run: &Run, arm: &str, prediction: Prediction, rules: &Rules) -> Outcome {
    let over_s = match prediction.over {
        Over::Run => Some(run.experiment.duration.as_secs_f64()),
        Over::First(time) => Some(time.as_secs_f64()),
        Over::Life => None,
    };
    let replicas = subjects(run, arm);
    let all: Vec<Result<Seen, Unseen>> = replicas
        .values()
        .map(|incarnations| of_replica(run, incarnations, over_s))
        .collect();
    let seen: Vec<Seen> = all.iter().flatten().copied().collect();
    let means: Vec<Estimate> = seen.iter().map(|one| exact(one.mean)).collect();
    let measured = across(&means, rules);
    let starved = seen.iter().map(|one| one.starved_share).sum::<f64>();
    Outcome {
        arm: arm.to_owned(),
        predicted: Estimate {
            value: prediction.mean_bytes as f64,
            lo: prediction.lo_bytes as f64,
            hi: prediction.hi_bytes as f64,
        },
        over_s,
        measured,
        processes: seen.len() as u32,
        processes_all: replicas.len() as u32,
        starved_share: starved / seen.len().max(1) as f64,
        why: match measured {
            Some(_) => String::new(),
            None => reason(&all).words(over_s),
        },
    }
}

fn exact(value: f64) -> Estimate {
    Estimate {
        value,
        lo: value,
        hi: value,
    }
}

/// Why the mean of a process is none to compare; what comes later says more.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Unseen {
    Nothing,
    /// First and last sample, seconds of its life.
    Part(f64, f64),
    /// The longest time without a sample, seconds.
    Gap(f64),
    /// It did not end with exit code 0, or how it ended is not known.
    Unended,
    /// Share of its time that it waited for a CPU.
    Starved(f64),
}

impl Unseen {
    fn words(self, over_s: Option<f64>) -> String {
        let over = over_s.map_or("whole life".to_owned(), |over_s| {
            format!("first {}", written::seconds(over_s))
        });
        match self {
            Unseen::Nothing => "no anonymous memory of its processes was sampled".to_owned(),
            Unseen::Part(from, to) => format!(
                "the prediction is for the {over} of a process; it was sampled from {} to {} of its life",
                written::seconds(from),
                written::seconds(to),
            ),
            Unseen::Gap(gap) => format!(
                "the prediction is for the {over} of a process; for {} of it no sample was taken",
                written::seconds(gap)
            ),
            Unseen::Unended => {
                "the prediction is for the whole life of a process, and none was seen to its end with exit code 0"
                    .to_owned()
            }
            Unseen::Starved(share) => format!(
                "its processes waited for a CPU for {} of their time and got less far than the prediction assumes: \
                 run fewer arms or replicas at once",
                written::percent(share)
            ),
        }
    }
}

/// What is compared of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Anonymous bytes.
    mean: f64,
    starved_share: f64,
}

/// The unit is the replica: of one that was restarted, the mean of its processes.
fn of_replica(run: &Run, incarnations: &[&Process], over_s: Option<f64>) -> Result<Seen, Unseen> {
    let all: Vec<Result<Seen, Unseen>> = incarnations
        .iter()
        .map(|process| of_process(run, process, over_s))
        .collect();
    let seen: Vec<Seen> = all.iter().flatten().copied().collect();
    let mean = |of: fn(&Seen) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
    match seen.is_empty() {
        false => Ok(Seen {
            mean: mean(|one| one.mean),
            starved_share: mean(|one| one.starved_share),
        }),
        true => Err(reason(&all)),
    }
}

/// Of several reasons the one that says most.
fn reason(all: &[Result<Seen, Unseen>]) -> Unseen {
    let unseen = all.iter().filter_map(|one| one.err());
    unseen
        .max_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal))
        .unwrap_or(Unseen::Nothing)
}

/// Mean anonymous memory over the first `over_s` of a process's life, or over all of it.
fn of_process(run: &Run, process: &Process, over_s: Option<f64>) -> Result<Seen, Unseen> {
    // A process that ran before it was watched has an age.
    let born = member::latest(&process.facts, member::BORN).and_then(|born| born.parse().ok());
    let born = TimeNs(born.map_or(process.started.0, |born: i64| born.min(process.started.0)));
    let age_s = seconds_between(born, process.started);
    let mut memory = incarnation_points(process, metric::RSS_ANON.name, Duration::ZERO);
    for point in &mut memory {
        point.t_s += age_s;
    }
    let exited =
        |event: &&Event| event.process == Some(process.id) && event.kind == EventKind::Exited;
    let end_s = match over_s {
        Some(over_s) => over_s,
        None => {
            let exited = run.events.iter().find(exited).ok_or(Unseen::Unended)?;
            seconds_between(born, exited.time)
        }
    };
    let mean = mean(&memory, end_s)?;
    let spent = |metric| spent_s(process, metric, end_s - age_s);
    let cpu_s = spent(metric::CPU_USER) + spent(metric::CPU_SYSTEM);
    let starved_share = starved_share(cpu_s, spent(metric::RUN_DELAY), end_s);
    // A slower life has the same phases and the same mean; the first minute of it has not.
    match over_s.is_some() && starved_share > STARVED_SHARE {
        true => Err(Unseen::Starved(starved_share)),
        false => Ok(Seen {
            mean,
            starved_share,
        }),
    }
}

/// Of `over_s`, the share for which the process did not get on because others had the CPUs. `delay_s`: for how long
/// its threads together waited for one. Where more than one thread is ready, each second of waiting is that much less
/// than a second of delay.
fn starved_share(cpu_s: f64, delay_s: f64, over_s: f64) -> f64 {
    delay_s / (cpu_s + delay_s).max(over_s)
}

/// Seconds that a counter of nanoseconds rose by in the first `over_s` of a process's life.
fn spent_s(process: &Process, metric: Metric, over_s: f64) -> f64 {
    let readings = process
        .samples
        .get(metric.name)
        .map_or(&[][..], Vec::as_slice);
    let until = |reading: &&(TimeNs, f64)| seconds_between(process.started, reading.0) <= over_s;
    let values: Vec<f64> = readings
        .iter()
        .take_while(until)
        .map(|(_, ns)| *ns)
        .collect();
    let steps = values.windows(2).map(|pair| (pair[1] - pair[0]).max(0.0));
    steps.sum::<f64>() / 1e9
}

/// Mean over the first `end_s` of a life.
fn mean(points: &[Point], end_s: f64) -> Result<f64, Unseen> {
    let within: Vec<&Point> = points.iter().filter(|point| point.t_s <= end_s).collect();
    let (Some(first), Some(last)) = (within.first(), within.last()) else {
        return Err(Unseen::Nothing);
    };
    let seconds = last.t_s - first.t_s;
    let gaps = within.windows(2).map(|pair| pair[1].t_s - pair[0].t_s);
    let is_part = first.t_s > FIRST_SHARE * end_s || last.t_s < LAST_SHARE * end_s;
    if is_part || seconds <= 0.0 {
        return Err(Unseen::Part(first.t_s, last.t_s));
    }
    let gap = gaps.fold(0.0, f64::max);
    if gap > GAP_SHARE * end_s {
        return Err(Unseen::Gap(gap));
    }
    let area: f64 = within
        .windows(2)
        .map(|pair| 0.5 * (pair[0].value + pair[1].value) * (pair[1].t_s - pair[0].t_s))
        .sum();
    Ok(area / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    /// 101 samples from `from_s` to `to_s`, MiB by time.
    fn points(from_s: f64, to_s: f64, value: fn(f64) -> f64) -> Vec<Point> {
        let at = |n: u32| from_s + (to_s - from_s) * f64::from(n) / 100.0;
        let point = |t_s: f64| Point {
            t_s,
            value: value(t_s) * MIB,
        };
        (0..=100).map(|n| point(at(n))).collect()
    }

    fn of(measured_mib: Option<f64>) -> Outcome {
        let mib = |value: f64| exact(value * MIB);
        Outcome {
            arm: "a".to_owned(),
            predicted: Estimate {
                value: 50.0 * MIB,
                lo: 45.0 * MIB,
                hi: 55.0 * MIB,
            },
            over_s: Some(100.0),
            measured: measured_mib.map(mib),
            processes: 1,
            processes_all: 1,
            starved_share: 0.0,
            why: String::new(),
        }
    }

    #[test]
    fn the_mean_is_that_of_the_predicted_time_alone() {
        // 0 to 100 MiB within the time, and far more behind it.
        let points = points(0.0, 400.0, |t| if t <= 100.0 { t } else { 900.0 });
        let first = mean(&points, 100.0).expect("a mean") / MIB;
        assert!((first - 50.0).abs() < 0.1, "{first}");
        let all = mean(&points, 400.0).expect("a mean") / MIB;
        assert!(all > 600.0, "{all}");
    }

    #[test]
    fn a_slower_life_has_the_same_mean() {
        let fast = mean(&points(0.0, 100.0, |t| t), 100.0);
        let slow = mean(&points(0.0, 400.0, |t| t / 4.0), 400.0);
        assert_eq!(fast, slow);
    }

    #[test]
    fn what_was_not_sampled_over_that_time_is_not_compared() {
        let late = mean(&points(9.0, 100.0, |_| 50.0), 100.0);
        assert_eq!(late, Err(Unseen::Part(9.0, 100.0)));
        let short = mean(&points(0.0, 60.0, |_| 50.0), 100.0);
        assert_eq!(short, Err(Unseen::Part(0.0, 60.0)));
        assert_eq!(mean(&[], 100.0), Err(Unseen::Nothing));
        let one = points(1.0, 1.0, |_| 50.0);
        assert_eq!(mean(&one[..1], 1.0), Err(Unseen::Part(1.0, 1.0)));
        // The collector was away for a fifth of it.
        let mut holed = points(0.0, 100.0, |_| 50.0);
        holed.retain(|point| point.t_s <= 40.0 || point.t_s >= 60.0);
        assert_eq!(mean(&holed, 100.0), Err(Unseen::Gap(20.0)));
    }

    #[test]
    fn a_mean_outside_of_the_interval_is_said_to_be_so() {
        let places = [Some(56.0), Some(44.0), Some(45.0), Some(55.0), None]
            .map(|measured| of(measured).place());
        let expected = [
            Place::Above,
            Place::Below,
            Place::Inside,
            Place::Inside,
            Place::Unknown,
        ];
        assert_eq!(places, expected);
        assert_eq!(of(Some(40.0)).error(), Some(0.25));
        assert_eq!((of(None).error(), of(Some(0.0)).error()), (None, None));
    }

    #[test]
    fn waiting_for_a_cpu_counts_by_how_far_the_process_gets() {
        // One thread that wants a CPU all the time and gets a quarter; two such; one that hardly wants any.
        for (cpu_s, delay_s, share) in [(25.0, 75.0, 0.75), (50.0, 150.0, 0.75), (2.0, 3.0, 0.03)] {
            assert_eq!(starved_share(cpu_s, delay_s, 100.0), share);
        }
    }

    #[test]
    fn the_reason_that_says_most_is_given() {
        let reasons = [
            Unseen::Nothing,
            Unseen::Part(0.0, 1.0),
            Unseen::Gap(1.0),
            Unseen::Unended,
            Unseen::Starved(0.5),
        ];
        assert!(reasons.is_sorted_by(|a, b| a < b));
        assert!(
            Unseen::Starved(0.5)
                .words(Some(9.0))
                .contains("50 % of their time")
        );
        assert!(
            Unseen::Part(0.0, 1.0)
                .words(None)
                .contains("the whole life of a process")
        );
    }
}

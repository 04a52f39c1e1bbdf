//! The experiment's own conditions (`verify`, `guard`), judged.
//!
//! Rules, one for each kind of condition. `after` counts from the start of each process.
//!
//! - `rss_max`: the highest RSS of any process of the arm. Without `after` the kernel's high-water
//!   mark counts too, so that a peak between two snapshots is seen; it has no date, so with `after`
//!   only readings do.
//! - `metric`: every reading lies within [min, max], from `after` on (from the end of the warm-up
//!   when there is no `after`). `min` of a counter is asked of the last reading of each process
//!   only: counters start at 0.
//! - `p99_max`, `pauses_per_minute_max`: over all requests of the arm after warm-up and `after`.
//! - `restarts_max`: restarts of the replica that had most, those that only systemd saw among them;
//!   with `within`, in any stretch of that length.
//! - `trend`: the arm's label is among those wanted; *insufficient* is neither passed nor failed.
//! - `http`, `command`: tried by the runner, which records each outcome as a fact ([`fact::key`],
//!   [`fact::value`]); with `after` every outcome from then on must pass, without it the last of
//!   each replica.

pub mod fact;
pub mod guard;
mod reading;
mod restarts;
mod words;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arm::ArmVerdict;
use super::label::Label;
use crate::cost::ArmCost;
use experiment::file::{Check, Condition, Trend};
use record::run::{Process, Run};
use series::arms::{replica_id, subjects};
use series::latency::Latency;
use series::latency::arm_requests;
use units::written;

/// How one condition came out for one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckOutcome {
    /// The condition as written, in words: "rss_max 512 MiB after 1 m".
    pub check: String,
    pub arm: String,
    /// `None`: could not be judged; `observed` says why.
    pub passed: Option<bool>,
    /// What was seen: "peak 498 MiB (process glibc/2)".
    pub observed: String,
}

/// Passed or not (or not to be told), and what was seen.
type Seen = (Option<bool>, String);

/// Every entry of `verify` for every arm it names, in the order of the experiment. Arms without a
/// verdict or costs in the slices are judged without them.
pub fn judge_checks(run: &Run, verdicts: &[ArmVerdict], costs: &[ArmCost]) -> Vec<CheckOutcome> {
    let mut outcomes = Vec::new();
    for check in &run.experiment.verify {
        let named = |arm: &str| check.arms.is_empty() || check.arms.iter().any(|name| name == arm);
        for arm in run.experiment.arms.iter().filter(|arm| named(&arm.name)) {
            let verdict = verdicts.iter().find(|verdict| verdict.arm == arm.name);
            let cost = costs.iter().find(|cost| cost.arm == arm.name);
            outcomes.push(judge(check, &arm.name, run, verdict, cost));
        }
    }
    outcomes
}

/// One condition for one arm. See the module's documentation for the rule of each kind.
pub fn judge_check(
    check: &Check,
    arm: &str,
    run: &Run,
    verdict: &ArmVerdict,
    cost: &ArmCost,
) -> CheckOutcome {
    judge(check, arm, run, Some(verdict), Some(cost))
}

fn judge(
    check: &Check,
    arm: &str,
    run: &Run,
    verdict: Option<&ArmVerdict>,
    cost: Option<&ArmCost>,
) -> CheckOutcome {
    let processes: Vec<&Process> = subjects(run, arm).into_values().flatten().collect();
    let latency = || latency_after(run, arm, check.after, cost);
    let (passed, observed) = match (&check.condition, processes.is_empty()) {
        (_, true) => (None, "no process of this arm was started".to_string()),
        (Condition::RssMax { bytes }, _) => rss_max(&processes, check.after, *bytes as f64),
        (Condition::Metric { name, min, max }, _) => {
            let from = if check.after.is_zero() {
                run.experiment.warmup
            } else {
                check.after
            };
            reading::within(&processes, name, *min, *max, from)
        }
        (Condition::P99Max { limit }, _) => p99_max(latency(), *limit),
        (Condition::PausesPerMinuteMax { max }, _) => pauses_max(latency(), *max),
        (Condition::RestartsMax { count, within }, _) => {
            restarts::of_arm(run, &processes, *count, *within, check.after)
        }
        (Condition::Trend { any_of }, _) => trend(verdict, any_of),
        (Condition::Http { .. } | Condition::Command { .. }, _) => {
            fact::recorded(&check.condition, &processes, check.after)
        }
    };
    CheckOutcome {
        check: words::of(check),
        arm: arm.to_string(),
        passed,
        observed,
    }
}

fn rss_max(processes: &[&Process], after: Duration, limit: f64) -> Seen {
    let highest = processes
        .iter()
        .filter_map(|process| Some((reading::highest_rss(process, after)?, replica_id(process))))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match highest {
        Some((peak, id)) => (
            Some(peak <= limit),
            format!("peak {} (process {id})", written::bytes(peak)),
        ),
        None => (None, format!("no reading of RSS{}", words::after(after))),
    }
}

/// The costs already hold the latency after warm-up; it is merged again only for a later `after`.
fn latency_after(run: &Run, arm: &str, after: Duration, cost: Option<&ArmCost>) -> Option<Latency> {
    match cost {
        Some(cost) if after <= run.experiment.warmup => cost.latency,
        _ => arm_requests(run, arm, after.max(run.experiment.warmup)).latency,
    }
}

const NO_REQUESTS: &str =
    "no latency was recorded: the load program prints none, and the subject exposes none";

fn p99_max(latency: Option<Latency>, limit: Duration) -> Seen {
    let Some(latency) = latency else {
        return (None, NO_REQUESTS.to_string());
    };
    let requests = written::count(latency.requests as f64);
    let p99 = written::nanoseconds(latency.p99_ns as f64);
    (
        Some(u128::from(latency.p99_ns) <= limit.as_nanos()),
        format!("p99 {p99} of {requests} requests"),
    )
}

fn pauses_max(latency: Option<Latency>, max: f64) -> Seen {
    let Some(latency) = latency else {
        return (None, NO_REQUESTS.to_string());
    };
    let pauses = latency.pauses_per_minute;
    let observed = match pauses {
        // Never a bare zero: it is as good as the time that was watched.
        0.0 if latency.watched_s > 0.0 => {
            let watched = written::seconds(latency.watched_s);
            format!("no pause in {watched}: one that comes less often than that is not excluded")
        }
        _ => format!("{} pauses a minute and process", written::digits(pauses)),
    };
    (Some(pauses <= max), observed)
}

fn trend(verdict: Option<&ArmVerdict>, any_of: &[Trend]) -> Seen {
    let Some(verdict) = verdict else {
        return (None, "the arm has no verdict".to_string());
    };
    let label = match verdict.label {
        Label::Flat => Some(Trend::Flat),
        Label::Plateauing => Some(Trend::Plateauing),
        Label::Growing => Some(Trend::Growing),
        Label::Sawtooth => Some(Trend::Sawtooth),
        Label::Stepped => Some(Trend::Stepped),
        Label::Variable | Label::Insufficient => None,
    };
    let seen = verdict.label.word().to_string();
    match (label, verdict.label) {
        (Some(label), _) => (Some(any_of.contains(&label)), seen),
        (None, Label::Insufficient) => {
            let needs = verdict
                .needs
                .as_deref()
                .map(|needs| format!("; needs {needs}"));
            (None, seen + &needs.unwrap_or_default())
        }
        (None, _) => (Some(false), seen + ": its processes disagree"),
    }
}

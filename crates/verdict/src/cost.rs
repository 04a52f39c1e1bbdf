//! What an arm costs beside its memory: CPU, faults, latency, throughput, and highwater's own
//! share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use observe::metric;
use observe::metric::Metric;
use observe::snapshot::{Role, TimeNs};
use record::run::{Process, Run};
use series::arms::{arm_names, by_replica, replica_id, seconds_between, subjects};
use series::estimate::Estimate;
use series::latency::{Latency, arm_requests};
use series::replicas::{over_processes, replica_rate};
use stalls::arm::{ArmStalls, stalls_of};

const NS_PER_S: f64 = 1e9;

/// Costs of one arm after warm-up: mean over processes, interval over processes where there are two
/// or more (with one, `lo` and `hi` are the value itself). `None`: not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ArmCost {
    pub arm: String,
    /// Share of one core.
    pub cpu_user: Option<Estimate>,
    pub cpu_system: Option<Estimate>,
    pub minor_faults_per_second: Option<Estimate>,
    pub major_faults_per_second: Option<Estimate>,
    /// Mean over the window, of RSS.
    pub lazy_free_share: Option<f64>,
    pub huge_pages_share: Option<f64>,
    /// Seconds of run-queue wait per second.
    pub run_delay_share: Option<Estimate>,
    pub requests_per_second: Option<Estimate>,
    pub errors: u64,
    pub dropped: u64,
    pub latency: Option<Latency>,
    /// `None` unless the experiment asks for `stalls`.
    #[serde(default)]
    pub stalls: Option<ArmStalls>,
    /// Histograms that could not be read; `latency` is without them.
    #[serde(default)]
    pub histograms_unreadable: u64,
}

/// What highwater itself took during the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct OwnCost {
    /// Share of one core, supervisor and collector together.
    pub cpu: f64,
    pub rss_bytes: f64,
    /// Median and longest look.
    pub snapshot_ns_p50: f64,
    pub snapshot_ns_max: f64,
    pub snapshots: u64,
    pub snapshots_missed: u64,
}

/// Costs of every arm after `warmup`, in the experiment's order. Rates are over all incarnations of
/// a replica; the mean and its interval are over replicas.
pub fn arm_costs(run: &Run, warmup: Duration) -> Vec<ArmCost> {
    arm_names(run)
        .into_iter()
        .map(|arm| arm_cost(run, arm, warmup))
        .collect()
}

fn arm_cost(run: &Run, arm: String, warmup: Duration) -> ArmCost {
    let replicas: Vec<Vec<&Process>> = subjects(run, &arm).into_values().collect();
    let rate = |metric: Metric, divisor: f64| {
        let rates = replicas
            .iter()
            .filter_map(|processes| replica_rate(processes, metric.name, warmup));
        over_processes(&rates.map(|rate| rate / divisor).collect::<Vec<_>>())
    };
    let share = |metric: Metric| share_of_rss(&replicas, metric.name, warmup);
    let requests = arm_requests(run, &arm, warmup);
    ArmCost {
        cpu_user: rate(metric::CPU_USER, NS_PER_S),
        cpu_system: rate(metric::CPU_SYSTEM, NS_PER_S),
        minor_faults_per_second: rate(metric::MINOR_FAULTS, 1.0),
        major_faults_per_second: rate(metric::MAJOR_FAULTS, 1.0),
        lazy_free_share: share(metric::LAZY_FREE),
        huge_pages_share: share(metric::HUGE_PAGES),
        run_delay_share: rate(metric::RUN_DELAY, NS_PER_S),
        requests_per_second: over_processes(&requests.rates),
        errors: requests.errors,
        dropped: requests.dropped,
        latency: requests.latency,
        stalls: stalls_of(&replicas, warmup),
        histograms_unreadable: requests.unreadable,
        arm,
    }
}

/// Mean of a part of RSS over the mean of RSS, both at the instants when the part was read (a
/// slower rate).
fn share_of_rss(replicas: &[Vec<&Process>], part: &str, warmup: Duration) -> Option<f64> {
    let (mut parts, mut wholes) = (0.0, 0.0);
    for process in replicas.iter().flatten() {
        let (Some(part), Some(rss)) = (
            process.samples.get(part),
            process.samples.get(metric::RSS.name),
        ) else {
            continue;
        };
        for (time, value) in part {
            let at = rss.partition_point(|(t, _)| t <= time);
            let late = seconds_between(process.started, *time) >= warmup.as_secs_f64();
            if let Some((_, whole)) = at
                .checked_sub(1)
                .and_then(|at| rss.get(at))
                .filter(|_| late)
            {
                parts += value;
                wholes += whole;
            }
        }
    }
    (wholes > 0.0).then(|| parts / wholes)
}

/// What highwater took: CPU of all its processes over the run, the sum of their highest RSS, and
/// its snapshots.
pub fn own_cost(run: &Run) -> OwnCost {
    let own = by_replica(run, |process| process.role == Role::Highwater);
    let rate = |metric: Metric| -> f64 {
        own.values()
            .filter_map(|p| replica_rate(p, metric.name, Duration::ZERO))
            .sum()
    };
    let highest = |processes: &[&Process]| {
        let rss = processes
            .iter()
            .filter_map(|p| p.samples.get(metric::RSS.name))
            .flatten();
        rss.map(|(_, value)| *value).fold(0.0, f64::max)
    };
    let mut snapshots: Vec<(TimeNs, f64)> = own
        .values()
        .flatten()
        .filter_map(|process| process.samples.get(metric::SNAPSHOT_COST.name))
        .flatten()
        .copied()
        .collect();
    snapshots.sort_by_key(|(time, _)| *time);
    let missed = missed_snapshots(&snapshots, run.experiment.interval);
    snapshots.sort_by(|a, b| a.1.total_cmp(&b.1));
    OwnCost {
        cpu: (rate(metric::CPU_USER) + rate(metric::CPU_SYSTEM)) / NS_PER_S,
        rss_bytes: own.values().map(|processes| highest(processes)).sum(),
        snapshot_ns_p50: snapshots
            .get(snapshots.len() / 2)
            .map_or(0.0, |(_, cost)| *cost),
        snapshot_ns_max: snapshots.last().map_or(0.0, |(_, cost)| *cost),
        snapshots: snapshots.len() as u64,
        snapshots_missed: missed,
    }
}

/// Snapshots that the interval promised and that are not there: whole intervals missing from each gap.
fn missed_snapshots(snapshots: &[(TimeNs, f64)], interval: Duration) -> u64 {
    let interval = interval.as_secs_f64();
    if interval <= 0.0 {
        return 0;
    }
    let missing =
        |pair: &[(TimeNs, f64)]| (seconds_between(pair[0].0, pair[1].0) / interval).round() as u64;
    snapshots
        .windows(2)
        .map(|pair| missing(pair).saturating_sub(1))
        .sum()
}

/// Highest RSS of any process of the arm, bytes, and which: the kernel's high-water mark where it
/// was read.
pub fn rss_peak(run: &Run, arm: &str) -> Option<(f64, String)> {
    let processes = run
        .processes
        .iter()
        .filter(|p| p.role == Role::Subject && p.arm == arm);
    let peaks = processes.flat_map(|process| {
        [metric::RSS_PEAK.name, metric::RSS.name]
            .into_iter()
            .filter_map(|name| process.samples.get(name))
            .flatten()
            .map(|(_, value)| (*value, replica_id(process)))
    });
    peaks
        .filter(|(value, _)| value.is_finite())
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

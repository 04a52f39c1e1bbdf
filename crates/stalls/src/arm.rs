//! Stalls as a cost of an arm: how many a minute, by cause, from the counters of its processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use observe::metric;
use observe::metric::Metric;
use record::run::Process;
use series::estimate::Estimate;
use series::replicas::{over_processes, replica_rate};

const SECONDS_PER_MINUTE: f64 = 60.0;
const NS_PER_S: f64 = 1e9;

/// Stalls of 1 ms and more, per minute and process: mean over processes, 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmStalls {
    /// All causes together: pauses over 1 ms.
    pub per_minute: Estimate,
    /// Of each cause; those that nothing was counted of are there, with 0.
    pub by_cause: Vec<(Cause, Estimate)>,
    /// What watching one process took of a core.
    pub watch_cpu: Option<Estimate>,
    /// Records that did not fit the ring, of all processes: above 0, counts are too low.
    pub records_lost: u64,
}

pub fn metric_of(cause: Cause) -> Metric {
    match cause {
        Cause::Lock => metric::STALLS_LOCK,
        Cause::CpuStarvation => metric::STALLS_CPU_STARVATION,
        Cause::CpuQuota => metric::STALLS_CPU_QUOTA,
        Cause::Disk => metric::STALLS_DISK,
        Cause::Network => metric::STALLS_NETWORK,
        Cause::Process => metric::STALLS_PROCESS,
        Cause::PageFault => metric::STALLS_PAGE_FAULT,
        Cause::Allocator => metric::STALLS_ALLOCATOR,
        Cause::Runtime => metric::STALLS_RUNTIME,
        Cause::Sleep => metric::STALLS_SLEEP,
        Cause::OnCpu => metric::STALLS_ON_CPU,
    }
}

/// `None` when no process of the arm was watched.
pub fn stalls_of(replicas: &[Vec<&Process>], warmup: Duration) -> Option<ArmStalls> {
    let rates = |metric: Metric, times: f64| -> Vec<f64> {
        let rates = replicas
            .iter()
            .filter_map(|processes| replica_rate(processes, metric.name, warmup));
        rates.map(|rate| rate * times).collect()
    };
    let of_each: Vec<(Cause, Vec<f64>)> = Cause::ALL
        .into_iter()
        .map(|cause| (cause, rates(metric_of(cause), SECONDS_PER_MINUTE)))
        .collect();
    let watched = of_each.iter().map(|(_, rates)| rates.len()).max()?;
    let sum_of = |at: usize| of_each.iter().filter_map(|(_, rates)| rates.get(at)).sum();
    let sums: Vec<f64> = (0..watched).map(sum_of).collect();
    Some(ArmStalls {
        per_minute: over_processes(&sums)?,
        by_cause: of_each
            .iter()
            .filter_map(|(cause, rates)| Some((*cause, over_processes(rates)?)))
            .collect(),
        watch_cpu: over_processes(&rates(metric::STALLS_COST, 1.0 / NS_PER_S)),
        records_lost: replicas.iter().flatten().map(|p| lost(p)).sum(),
    })
}

fn lost(process: &Process) -> u64 {
    let readings = process.samples.get(metric::STALLS_LOST.name);
    readings
        .and_then(|r| r.last())
        .map_or(0, |(_, n)| *n as u64)
}

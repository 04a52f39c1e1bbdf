//! Latency of an arm, from the histograms that its load programs (or its subjects) recorded.
//!
//! HdrHistograms are added bucket by bucket, so quantiles of an arm are those of all its requests
//! together, not means of quantiles.

pub mod beat;
pub mod over_time;
pub mod pauses;
pub mod rhythm;

use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};

use super::arms::{by_replica, seconds_between};
use observe::load_lines::PAUSE_METRIC;
use observe::snapshot::{HistogramRow, Role, TimeNs};
use record::run::{Process, Run};

/// A recorded interval with a request slower than this counts as a pause.
pub const PAUSE_NS: u64 = 1_000_000;
/// The metric of a load program's lines.
pub const LOAD_METRIC: &str = "latency";

/// Quantiles of the merged histograms of an arm, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    pub requests: u64,
    /// Recorded intervals whose worst latency exceeded 1 ms, per minute and process.
    pub pauses_per_minute: f64,
    /// The longest that one process was watched, seconds: a pause that comes at least so often was seen. 0 in records
    /// of earlier versions, which did not keep it.
    #[serde(default)]
    pub watched_s: f64,
}

/// The requests of one arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArmRequests {
    /// `None` when no request was recorded.
    pub latency: Option<Latency>,
    /// Requests per second of each replica.
    pub rates: Vec<f64>,
    pub errors: u64,
    pub dropped: u64,
    /// Histograms that could not be read; they are missing from `latency`.
    pub unreadable: u64,
}

/// Latency of an arm over one stretch of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyPoint {
    /// Middle of the stretch, seconds since the run began.
    pub t_s: f64,
    pub latency: Latency,
}

/// Requests of an arm recorded from `after` on, counted from the first start of each replica.
pub fn arm_requests(run: &Run, arm: &str, after: Duration) -> ArmRequests {
    let mut requests = ArmRequests::default();
    let mut merged = Merged::default();
    for rows in arm_rows(run, arm, after) {
        let before = merged.seconds;
        let count: u64 = rows.iter().map(|row| row.requests).sum();
        for row in rows {
            requests.errors = requests.errors.saturating_add(row.errors);
            requests.dropped = requests.dropped.saturating_add(row.dropped);
            merged.add(row);
        }
        let seconds = merged.seconds - before;
        merged.longest = merged.longest.max(seconds);
        if seconds > 0.0 {
            requests.rates.push(count as f64 / seconds);
        }
    }
    requests.unreadable = merged.unreadable;
    requests.latency = merged.latency();
    requests
}

/// Histograms of a metered allocator's own calls (highwater-alloc), which are no requests.
const METER_METRICS: &str = "openmetrics:highwater_alloc_";

/// The rows of an arm by replica. Load lines when there are any, otherwise the first histogram
/// metric (by name) that the subject itself exposes: never two sources of the same requests.
fn arm_rows<'a>(run: &'a Run, arm: &str, after: Duration) -> Vec<Vec<&'a HistogramRow>> {
    let sources = run.processes.iter().filter(|p| is_source(p, arm));
    match preferred_metric(sources) {
        Some(metric) => arm_rows_of(run, arm, after, metric),
        None => Vec::new(),
    }
}

fn is_source(process: &Process, arm: &str) -> bool {
    matches!(process.role, Role::Subject | Role::Load) && process.arm == arm
}

/// The rows of one metric of an arm by replica, from `after` on, counted from the first start of each.
fn arm_rows_of<'a>(
    run: &'a Run,
    arm: &str,
    after: Duration,
    metric: &str,
) -> Vec<Vec<&'a HistogramRow>> {
    let begins = by_replica(run, |p| p.role == Role::Subject && p.arm == arm);
    let sources = by_replica(run, |p| is_source(p, arm));
    let from = |replica: &u32| {
        let start = begins
            .get(replica)
            .and_then(|all| all.first())
            .map_or(run.begun, |p| p.started);
        TimeNs(
            start
                .0
                .saturating_add(after.as_nanos().min(i64::MAX as u128) as i64),
        )
    };
    let rows = |replica: &u32, processes: &[&'a Process]| {
        let from = from(replica);
        let all = processes.iter().flat_map(|process| &process.histograms);
        all.filter(|row| row.metric == metric && row.start >= from)
            .collect::<Vec<_>>()
    };
    sources
        .iter()
        .map(|(replica, processes)| rows(replica, processes))
        .collect()
}

fn preferred_metric<'a>(processes: impl Iterator<Item = &'a Process>) -> Option<&'a str> {
    let names = processes
        .flat_map(|p| &p.histograms)
        .map(|row| row.metric.as_str())
        .filter(|name| *name != PAUSE_METRIC && !name.starts_with(METER_METRICS));
    names.min_by_key(|name| (*name != LOAD_METRIC, *name))
}

/// Histograms added up, with the time they cover.
#[derive(Clone, Default)]
pub struct Merged {
    sum: Option<Histogram<u64>>,
    requests: u64,
    pauses: u64,
    /// Covered by rows, over all replicas.
    seconds: f64,
    /// Of those, the most of one replica, where the caller keeps count.
    longest: f64,
    unreadable: u64,
}

impl Merged {
    pub fn add(&mut self, row: &HistogramRow) {
        let Ok(one) = parse_histogram(&row.histogram) else {
            self.unreadable += 1;
            return;
        };
        self.seconds += seconds_between(row.start, row.end).max(0.0);
        self.requests = self.requests.saturating_add(row.requests);
        self.pauses += u64::from(!one.is_empty() && one.max() >= PAUSE_NS);
        self.join(Some(&one));
    }

    /// Adds what was merged elsewhere.
    fn merge(&mut self, other: &Merged) {
        self.seconds += other.seconds;
        self.requests = self.requests.saturating_add(other.requests);
        self.pauses += other.pauses;
        self.unreadable += other.unreadable;
        self.join(other.sum.as_ref());
    }

    fn join(&mut self, one: Option<&Histogram<u64>>) {
        let Some(one) = one else { return };
        let sum = self.sum.get_or_insert_with(|| {
            let mut sum = Histogram::new_from(one);
            sum.auto(true);
            sum
        });
        if sum.add(one).is_err() {
            self.unreadable += 1;
        }
    }

    /// Intervals with a request slower than [`PAUSE_NS`].
    pub fn pauses(&self) -> u64 {
        self.pauses
    }

    pub fn latency(&self) -> Option<Latency> {
        let sum = self.sum.as_ref().filter(|sum| !sum.is_empty())?;
        let minutes = self.seconds / 60.0;
        Some(Latency {
            p50_ns: sum.value_at_quantile(0.5),
            p99_ns: sum.value_at_quantile(0.99),
            p999_ns: sum.value_at_quantile(0.999),
            max_ns: sum.max(),
            requests: self.requests,
            pauses_per_minute: if minutes > 0.0 {
                self.pauses as f64 / minutes
            } else {
                0.0
            },
            watched_s: self.longest,
        })
    }
}

/// An HdrHistogram in V2 form, compressed or not.
fn parse_histogram(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| error.to_string())
}

//! What an arm costs beside its memory: CPU, faults, latency, throughput, and highwater's own share.

use serde::{Deserialize, Serialize};

use crate::verdict::Estimate;

/// Costs of one arm after warm-up: mean over processes, interval over processes where there are two or more.
/// `None`: not measured.
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
}

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
}

/// What highwater itself took during the run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, Default)]
pub struct OwnCost {
    /// Share of one core, supervisor and collector together.
    pub cpu: f64,
    pub rss_bytes: f64,
    /// Median and longest look.
    pub look_ns_p50: f64,
    pub look_ns_max: f64,
    pub looks: u64,
    pub looks_missed: u64,
}

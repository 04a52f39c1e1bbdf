//! A condition on an arm: the entries of `verify` and `guard`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A condition, since when it counts, and for which arms (all when empty).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub condition: Condition,
    /// Counted from the start of the arm's processes.
    pub after: Duration,
    pub arms: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// GET `url` (placeholders allowed) answers `status`.
    Http { url: String, status: u16 },
    /// The command (placeholders allowed) ends with `exit`.
    Command { command: Vec<String>, exit: i32 },
    /// Any recorded metric, or any OpenMetrics name of the subject, stays within [min, max].
    Metric {
        name: String,
        min: Option<f64>,
        max: Option<f64>,
    },
    /// Bytes.
    RssMax { bytes: u64 },
    /// Latency at p99 over the judged window, from load lines or the subject's own histogram.
    P99Max { limit: Duration },
    /// Intervals whose worst latency exceeds 1 ms ... per minute; see `verdict::check`.
    PausesPerMinuteMax { max: f64 },
    /// No process of the arm is started anew more often than that, within any stretch of this length, else within
    /// the run.
    RestartsMax {
        count: u32,
        #[serde(default)]
        within: Option<Duration>,
    },
    /// The arm's verdict is one of these.
    Trend { any_of: Vec<Trend> },
}

/// Labels that an arm may be required to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    Flat,
    Plateauing,
    Growing,
    Sawtooth,
    Stepped,
}

impl Trend {
    /// As the experiment file and every report write it.
    pub fn word(self) -> &'static str {
        match self {
            Trend::Flat => "flat",
            Trend::Plateauing => "plateauing",
            Trend::Growing => "growing",
            Trend::Sawtooth => "sawtooth",
            Trend::Stepped => "stepped",
        }
    }
}

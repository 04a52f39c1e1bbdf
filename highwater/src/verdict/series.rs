//! The verdict on one series.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Estimate, Label};

/// What is said of one series. Values are in the unit of the series (bytes for memory),
/// times in seconds, slopes per hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesVerdict {
    pub id: String,
    pub label: Label,
    /// Calibrated: of verdicts said at 0.9, nine in ten are right.
    pub confidence: f64,
    /// The rule that decided, in words: "terminal slope x window is 7 % of the level (3 % makes it growing)".
    pub rule: String,
    /// Level at the end of the window.
    pub level: Option<Estimate>,
    /// Slope at the end of the window, per hour.
    pub slope_per_hour: Option<Estimate>,
    /// Where a plateauing series is heading.
    pub asymptote: Option<Estimate>,
    /// Seconds from the end of the window to the limit, when growing and a limit is known.
    pub time_to_limit_s: Option<Estimate>,
    /// Period of a sawtooth.
    pub period_s: Option<f64>,
    /// Shifts of level: when (`t_s`) and by how much.
    pub steps: Vec<(f64, f64)>,
    /// What would decide it, when it is insufficient: "3.5 more hours at this rate of samples".
    pub needs: Option<String>,
    /// Named numbers behind the label (n, window_s, incarnations, weights of the models ...).
    pub evidence: BTreeMap<String, f64>,
}

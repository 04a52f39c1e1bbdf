//! The verdict on an arm (its processes are the replicates) and on a pair of arms.

use serde::{Deserialize, Serialize};

use super::{Estimate, Label, series::SeriesVerdict};

/// What is said of one arm. Values in the unit of the series (bytes), slopes per hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmVerdict {
    pub arm: String,
    pub label: Label,
    pub confidence: f64,
    pub rule: String,
    /// Mean over processes of the level at the end of the window; the interval is over processes.
    pub level: Option<Estimate>,
    /// Growth at the end of the window, per hour and process.
    pub slope_per_hour: Option<Estimate>,
    pub asymptote: Option<Estimate>,
    pub time_to_limit_s: Option<Estimate>,
    /// Processes that differ from the others of their arm, by id, with why.
    pub outliers: Vec<Outlier>,
    pub needs: Option<String>,
    pub processes: Vec<SeriesVerdict>,
}

/// A process that differs from the others of its arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    pub id: String,
    pub why: String,
}

/// Arm `a` against arm `b` (the control, usually): `ratio` is level of a over level of b.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairVerdict {
    pub a: String,
    pub b: String,
    /// Ratio of levels with its interval, corrected for the number of pairs compared.
    pub ratio: Option<Estimate>,
    /// Probability that a random process of `a` stays below a random process of `b`.
    pub p_better: Option<f64>,
    /// Growth of the difference a - b, per hour: a shared load moves both, this does not move with it.
    pub difference_slope_per_hour: Option<Estimate>,
    /// In one sentence.
    pub words: String,
    /// Decided, as opposed to "about N more hours".
    pub decided: bool,
    pub needs: Option<String>,
}

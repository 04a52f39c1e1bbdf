//! One quantity of one process over time.

/// One reading. `t_s` is seconds on any clock that does not jump within the series (for our own
/// runs: seconds since the run began); `value` is in the unit of the series (bytes for memory).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub t_s: f64,
    pub value: f64,
}

/// Readings of one process, as they came: they may be unordered, doubled, zero, NaN or full of
/// gaps; cleaning is the first step of the analysis, so that it can say what it dropped.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Who this is, in words for the reader ("glibc/2", "relay17").
    pub id: String,
    pub points: Vec<Point>,
    /// Known starts of a new incarnation, in `t_s`; empty when unknown (then they are detected).
    pub restarts_s: Vec<f64>,
    /// The limit at which the process would be killed, in the unit of the values.
    pub limit: Option<f64>,
}

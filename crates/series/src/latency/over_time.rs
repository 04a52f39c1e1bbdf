//! Latency of an arm over the run, from one pass over its histograms: quantiles of long stretches, and how the requests
//! of short ones spread over classes of latency.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{LatencyPoint, Merged, arm_rows};
use crate::arms::seconds_between;
use observe::load_lines::PAUSE_METRIC;
use record::run::Run;

/// Classes of latency in a factor of ten: each is a quarter wider than the one below.
pub const CLASSES_PER_DECADE: f64 = 10.0;
/// Short stretches in each long one.
const SHORT_PER_LONG: usize = 2;
/// Steps on the way from one quantile to half its distance from 1.
const STEPS_PER_HALF: u32 = 4;

/// Those that people ask for, as 1 - quantile; they are among the others.
pub const NINES: [f64; 5] = [0.1, 0.01, 0.001, 1e-4, 1e-5];

/// One arm over the run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OverTime {
    /// Long stretches that have a request.
    pub points: Vec<LatencyPoint>,
    /// Length of a short stretch, seconds; the first begins with the run.
    pub step_s: f64,
    /// Requests of each short stretch by their class.
    pub columns: Vec<BTreeMap<i32, u64>>,
    /// Of all requests: (1 - quantile, latency in ns), from the median on; the last is 0 with the longest.
    pub quantiles: Vec<(f64, u64)>,
    pub requests: u64,
}

/// The class of a latency; class 0 begins at a nanosecond, and each [`CLASSES_PER_DECADE`] classes are a factor of ten.
pub fn class_of(ns: u64) -> i32 {
    ((ns.max(1) as f64).log10() * CLASSES_PER_DECADE).floor() as i32
}

/// An arm in at most `stretches` equal long stretches, each at least twice as long as the longest recorded interval of
/// the run; the short ones are half as long.
pub fn over_time(run: &Run, arm: &str, stretches: usize) -> OverTime {
    let whole = seconds_between(run.begun, run.last);
    if whole <= 0.0 {
        return OverTime::default();
    }
    let stretches = stretches_of(run, whole, stretches);
    let short = merge(run, arm, whole, stretches * SHORT_PER_LONG);
    let middle = |at: usize| (at as f64 + 0.5) * whole / stretches as f64;
    let mut all = Merged::default();
    let mut points = Vec::new();
    for (at, parts) in short.chunks(SHORT_PER_LONG).enumerate() {
        let mut long = Merged::default();
        parts.iter().for_each(|part| long.merge(part));
        all.merge(&long);
        let t_s = middle(at);
        points.extend(long.latency().map(|latency| LatencyPoint { t_s, latency }));
    }
    OverTime {
        points,
        step_s: whole / short.len() as f64,
        columns: short.iter().map(classes).collect(),
        quantiles: all.sum.as_ref().map(quantiles).unwrap_or_default(),
        requests: all.sum.as_ref().map_or(0, Histogram::len),
    }
}

fn stretches_of(run: &Run, whole: f64, most: usize) -> usize {
    let rows = run.processes.iter().flat_map(|process| &process.histograms);
    let longest = rows
        .filter(|row| row.metric != PAUSE_METRIC)
        .map(|row| seconds_between(row.start, row.end))
        .fold(0.0, f64::max);
    match longest > 0.0 {
        true => most.min((whole / (SHORT_PER_LONG as f64 * longest)) as usize),
        false => most,
    }
    .max(1)
}

/// Each row in the stretch of its middle.
fn merge(run: &Run, arm: &str, whole: f64, count: usize) -> Vec<Merged> {
    let mut merged: Vec<Merged> = vec![Merged::default(); count];
    for row in arm_rows(run, arm, Duration::ZERO).into_iter().flatten() {
        let middle =
            (seconds_between(run.begun, row.start) + seconds_between(run.begun, row.end)) / 2.0;
        let at = (middle / whole * count as f64).clamp(0.0, count as f64 - 1.0);
        merged[at as usize].add(row);
    }
    merged
}

fn classes(merged: &Merged) -> BTreeMap<i32, u64> {
    let mut classes = BTreeMap::new();
    for bucket in merged.sum.iter().flat_map(Histogram::iter_recorded) {
        let ns = merged
            .sum
            .as_ref()
            .map_or(0, |sum| sum.median_equivalent(bucket.value_iterated_to()));
        *classes.entry(class_of(ns)).or_insert(0) += bucket.count_at_value();
    }
    classes
}

/// Quantiles ever closer to 1, as far as there are requests to tell them apart.
fn quantiles(sum: &Histogram<u64>) -> Vec<(f64, u64)> {
    if sum.is_empty() {
        return Vec::new();
    }
    let at = |step: u32| 0.5_f64.powf(f64::from(step) / f64::from(STEPS_PER_HALF));
    let is_told = |rest: &f64| *rest * sum.len() as f64 >= 1.0;
    let mut rests: Vec<f64> = (STEPS_PER_HALF..).map(at).take_while(is_told).collect();
    rests.extend(NINES.iter().copied().filter(is_told));
    rests.sort_by(|a, b| b.total_cmp(a));
    rests.dedup();
    let quantile = |rest: &f64| (*rest, sum.value_at_quantile(1.0 - *rest));
    let mut found: Vec<(f64, u64)> = rests.iter().map(quantile).collect();
    found.push((0.0, sum.max()));
    found
}

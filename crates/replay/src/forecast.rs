//! What all replays of an arm predict together.

use serde::Serialize;
use trace::{Trace, UNKNOWN};

use crate::outcome::{End, Ran};

/// Memory of a process over time, at the same instants as the recorded samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(pub Vec<f64>);

impl Curve {
    /// A replay's memory, with what the recorded program had besides its heap.
    pub fn of(ran: &Ran, other_bytes: &[u64]) -> Curve {
        let other = |index: usize| {
            other_bytes
                .get(index)
                .or(other_bytes.last())
                .copied()
                .unwrap_or(0)
        };
        let points = ran.anon_bytes.iter().enumerate();
        Curve(
            points
                .map(|(index, anon)| (anon + other(index)) as f64)
                .collect(),
        )
    }

    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    pub fn end(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    pub fn peak(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// Anonymous bytes outside of heaps at each sample: the last that was read; before that the first.
pub fn other_bytes(trace: &Trace) -> Vec<u64> {
    let known = |bytes: &u64| *bytes != UNKNOWN;
    let all = || trace.samples.iter().map(|sample| sample.other_bytes);
    let mut last = all().find(known).unwrap_or(0);
    all()
        .map(|bytes| {
            last = if known(&bytes) { bytes } else { last };
            last
        })
        .collect()
}

/// The median over the replays, and the least and the largest of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Range {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        Some(Range { median, min, max })
    }
}

/// What is predicted of an arm. Memory is the process's anonymous resident bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub mean_bytes: Range,
    pub end_bytes: Range,
    pub peak_bytes: Range,
    pub minor_faults: Range,
    pub user_ns: Range,
    pub system_ns: Range,
    pub wall_ns: Range,
    /// Of the replayer before its first operation.
    pub base_bytes: u64,
    /// Whether the allocator ever read the virtual clock; where not, purging by time is missing.
    pub reads_clock: bool,
    /// Allocations that returned null, at most in one replay.
    pub failed: u64,
}

impl Forecast {
    /// Of the replays that finished; `None`: none did.
    pub fn of(runs: &[Ran], trace: &Trace) -> Option<Forecast> {
        let other = other_bytes(trace);
        let finished: Vec<&Ran> = runs.iter().filter(|ran| ran.end == End::Finished).collect();
        let curves: Vec<Curve> = finished.iter().map(|ran| Curve::of(ran, &other)).collect();
        let of_runs =
            |value: fn(&Ran) -> u64| Range::of(finished.iter().map(|ran| value(ran) as f64));
        Some(Forecast {
            mean_bytes: Range::of(curves.iter().map(Curve::mean))?,
            end_bytes: Range::of(curves.iter().map(Curve::end))?,
            peak_bytes: Range::of(curves.iter().map(Curve::peak))?,
            minor_faults: of_runs(|ran| ran.minor_faults)?,
            user_ns: of_runs(|ran| ran.user_ns)?,
            system_ns: of_runs(|ran| ran.system_ns)?,
            wall_ns: of_runs(|ran| ran.wall_ns)?,
            base_bytes: finished.first()?.base_bytes,
            reads_clock: finished.iter().any(|ran| ran.clock_reads > 0),
            failed: finished.iter().map(|ran| ran.failed).max()?,
        })
    }
}

/// Two arms whose mean memory differs by less than this cannot be told apart: what the self-check allows.
const ALIKE_SHARE: f64 = 0.05;

/// Whether two arms cannot be told apart by their mean memory: the ranges of their replays meet, or they differ by less
/// than a replay may be off.
pub fn alike(a: &Forecast, b: &Forecast) -> bool {
    let (a, b) = (a.mean_bytes, b.mean_bytes);
    let meet = a.min <= b.max && b.min <= a.max;
    let larger = a.median.max(b.median);
    meet || (a.median - b.median).abs() <= ALIKE_SHARE * larger
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_few() {
        assert_eq!(Range::of([]), None);
        assert_eq!(
            Range::of([3.0]),
            Some(Range {
                median: 3.0,
                min: 3.0,
                max: 3.0
            })
        );
        assert_eq!(
            Range::of([3.0, 1.0]),
            Some(Range {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            Range::of([9.0, 1.0, 2.0]),
            Some(Range {
                median: 2.0,
                min: 1.0,
                max: 9.0
            })
        );
    }

    #[test]
    fn a_curve_has_what_is_outside_of_the_heap() {
        let ran = Ran {
            end: End::Finished,
            done_share: 1.0,
            anon_bytes: vec![10, 20, 30],
            base_bytes: 0,
            clock_reads: 0,
            failed: 0,
            minor_faults: 0,
            user_ns: 0,
            system_ns: 0,
            wall_ns: 0,
            malloc_path: String::new(),
        };
        let curve = Curve::of(&ran, &[1, 2]);
        assert_eq!(curve.0, [11.0, 22.0, 32.0]);
        assert_eq!((curve.end(), curve.peak()), (32.0, 32.0));
    }
}

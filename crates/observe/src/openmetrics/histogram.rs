//! Latency histograms of an endpoint, as differences from snapshot to snapshot.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;

use super::parse::{Exposition, Labels, Series, full_name};
use crate::load_lines::serialize;
use crate::snapshot::{HistogramRow, ProcessId, TimeNs};

/// Histograms that are followed for one process.
const HISTOGRAMS_MAX: usize = 32;
/// Points over which the requests of one bucket are spread.
const POINTS_MAX: u64 = 16;
/// Largest latency that is kept apart: an hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Upper bounds in seconds, ascending, the last one infinite; cumulative counts.
pub type Buckets = Vec<(f64, f64)>;

/// Units by the end of a family's name, in nanoseconds. Prometheus wants seconds; the others are
/// seen in the wild.
const UNITS: [(&str, f64); 5] = [
    ("_seconds", 1e9),
    ("_milliseconds", 1e6),
    ("_ms", 1e6),
    ("_microseconds", 1e3),
    ("_nanoseconds", 1.0),
];

/// The part of a family's name that ends in `_bucket`, and its unit, if it is a latency.
pub fn latency_family(series: &Series) -> Option<(&str, f64)> {
    let family = series.name.strip_suffix("_bucket")?;
    let unit = UNITS.iter().find(|(end, _)| family.ends_with(end))?;
    Some((family, unit.1))
}

/// The latency histograms of a page: by full name without `le`, bounds in nanoseconds.
pub fn latency_histograms(writer: &Exposition) -> BTreeMap<String, Buckets> {
    let mut found: BTreeMap<String, Buckets> = BTreeMap::new();
    for series in &writer.series {
        let Some((family, unit)) = latency_family(series) else {
            continue;
        };
        let bound = series.labels.iter().find(|(key, _)| key == "le");
        let Some(bound) = bound.and_then(|(_, value)| value.parse::<f64>().ok()) else {
            continue;
        };
        let labels: Labels = series
            .labels
            .iter()
            .filter(|(key, _)| key != "le")
            .cloned()
            .collect();
        let buckets = found.entry(full_name(family, &labels)).or_default();
        if !bound.is_nan() && series.value.is_finite() {
            buckets.push((bound * unit, series.value));
        }
    }
    for buckets in found.values_mut() {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    found
}

/// What is remembered between two snapshots.
#[derive(Debug, Default)]
pub struct Histograms {
    before: HashMap<String, (TimeNs, Buckets)>,
    /// Histograms beyond the limit at the last snapshot.
    pub left_out: usize,
}

impl Histograms {
    /// One row per histogram for what happened since it was last seen. The first sight of a
    /// histogram only sets the mark: what it counted before has no known beginning.
    pub fn sample(
        &mut self,
        process: ProcessId,
        now: TimeNs,
        writer: &Exposition,
    ) -> Vec<HistogramRow> {
        let mut rows = Vec::new();
        self.left_out = 0;
        for (name, buckets) in latency_histograms(writer) {
            if !self.before.contains_key(&name) && self.before.len() >= HISTOGRAMS_MAX {
                self.left_out += 1;
                continue;
            }
            let before = self.before.insert(name.clone(), (now, buckets.clone()));
            let Some((start, before)) = before else {
                continue;
            };
            let counts = difference(&before, &buckets);
            let requests = counts.iter().map(|&(_, count)| count).sum();
            let Some(histogram) = approximate(&counts).and_then(|h| serialize(&h).ok()) else {
                continue;
            };
            rows.push(HistogramRow {
                process,
                start,
                end: now,
                metric: format!("openmetrics:{name}"),
                requests,
                errors: 0,
                dropped: 0,
                histogram,
            });
        }
        rows
    }
}

/// Requests per bucket since `before`. Counts that fell mean a reset: then all of `now` is new.
fn difference(before: &Buckets, now: &Buckets) -> Vec<(f64, u64)> {
    let is_reset =
        before.len() != now.len() || before.iter().zip(now).any(|(b, n)| b.0 != n.0 || n.1 < b.1);
    let mut below = 0.0;
    let mut counts = Vec::with_capacity(now.len());
    for (index, &(bound, count)) in now.iter().enumerate() {
        let old = if is_reset { 0.0 } else { before[index].1 };
        let cumulative = (count - old).max(below);
        counts.push((bound, (cumulative - below).round() as u64));
        below = cumulative;
    }
    counts
}

/// Spreads the requests of each bucket evenly between its bounds, as Prometheus's own
/// histogram_quantile does; what lies above the last finite bound is put on it. Quantiles are no
/// finer than the buckets, whatever the digits say.
fn approximate(counts: &[(f64, u64)]) -> Option<Histogram<u64>> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 3).ok()?;
    let mut low = 0.0f64;
    for &(bound, count) in counts {
        let high = if bound.is_finite() {
            bound.max(low)
        } else {
            low
        };
        let points = count.min(POINTS_MAX);
        for point in 0..points {
            let at = low + (high - low) * (point as f64 + 0.5) / points as f64;
            // The first points take what does not divide evenly.
            let share = count / points + u64::from(point < count % points);
            histogram.saturating_record_n(at.max(1.0) as u64, share);
        }
        low = high;
    }
    Some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_resets() {
        let before = vec![(1.0, 2.0), (2.0, 5.0), (f64::INFINITY, 6.0)];
        let now = vec![(1.0, 4.0), (2.0, 10.0), (f64::INFINITY, 12.0)];
        let counts: Vec<u64> = difference(&before, &now)
            .iter()
            .map(|&(_, count)| count)
            .collect();
        assert_eq!(counts, [2, 3, 1]);
        let counts: Vec<u64> = difference(&now, &before)
            .iter()
            .map(|&(_, count)| count)
            .collect();
        assert_eq!(counts, [2, 3, 1], "all of it is new after a reset");
        assert_eq!(difference(&vec![], &vec![]), []);
    }

    #[test]
    fn quantiles_lie_in_their_buckets() {
        let counts = [(1e6, 90), (1e7, 9), (f64::INFINITY, 1)];
        let histogram = approximate(&counts).unwrap();
        assert_eq!(histogram.len(), 100);
        let at = |quantile| histogram.value_at_quantile(quantile) as f64;
        assert!((4.0e5..6.0e5).contains(&at(0.5)), "{}", at(0.5));
        assert!((1.0e6..1.0e7).contains(&at(0.95)), "{}", at(0.95));
        assert!((0.99e7..1.01e7).contains(&at(1.0)), "{}", at(1.0));
    }
}

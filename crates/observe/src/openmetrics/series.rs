//! What of a page becomes samples, with limits.

use std::collections::HashSet;

use super::histogram::{Histograms, latency_family};
use super::parse::{Series, parse_exposition};
use crate::metric;
use crate::proc::process::Loss;
use crate::snapshot_writer::SnapshotWriter;

/// Series that are kept of one process.
pub const SERIES_MAX: usize = 500;
/// Longest name with labels.
pub const NAME_BYTES_MAX: usize = 400;

/// What is remembered of one endpoint.
#[derive(Debug, Default)]
pub struct Metrics {
    /// First come, and from then on always: a label that changes from snapshot to snapshot (a request id)
    /// must not push out what was there before.
    admitted: HashSet<String>,
    histograms: Histograms,
}

impl Metrics {
    /// Writes down one page.
    pub fn sample(&mut self, text: &str, writer: &mut SnapshotWriter<'_>, losses: &mut Vec<Loss>) {
        let exposition = parse_exposition(text);
        if let Some(bad) = &exposition.first_bad {
            let why = format!("{} lines, the first is {bad:?}", exposition.bad_lines);
            losses.push(Loss {
                what: "a line of the metrics endpoint",
                why,
            });
        }
        if let Some(limit) = &exposition.limit {
            let why = format!(
                "{limit}; {} lines are not read: let it export fewer series",
                exposition.beyond
            );
            losses.push(Loss {
                what: "lines of the metrics endpoint beyond a limit",
                why,
            });
        }
        let mut left_out = exposition.bad_lines + exposition.beyond;
        for series in &exposition.series {
            let is_bucket = series.name.ends_with("_bucket")
                && series.labels.iter().any(|(key, _)| key == "le");
            if is_bucket {
                // Buckets that are no latency have no place in the record.
                left_out += usize::from(latency_family(series).is_none());
            } else if let Some(name) = self.admit(series) {
                writer.named(name, series.value);
            } else {
                left_out += 1;
            }
        }
        for row in self
            .histograms
            .sample(writer.process(), writer.time(), &exposition)
        {
            writer.histogram(row);
        }
        left_out += self.histograms.left_out;
        writer.value(metric::METRICS_LEFT_OUT, left_out as u64);
        if self.admitted.len() >= SERIES_MAX {
            let why = format!("it has more than {SERIES_MAX} series; the first ones are kept");
            losses.push(Loss {
                what: "a part of the metrics endpoint",
                why,
            });
        }
    }

    /// The name of the sample, if there is a place for it.
    fn admit(&mut self, series: &Series) -> Option<String> {
        // SQLite knows no NaN, and no sum or slope survives an infinity.
        if !series.value.is_finite() {
            return None;
        }
        let name = format!("openmetrics:{}", series.full_name());
        if self.admitted.contains(&name) {
            return Some(name);
        }
        if self.admitted.len() >= SERIES_MAX || name.len() > NAME_BYTES_MAX {
            return None;
        }
        self.admitted.insert(name.clone());
        Some(name)
    }
}

//! Counts of what the service did, as OpenMetrics.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::spans::Processor;

#[derive(Debug, Default)]
pub struct Figures {
    pub answered: AtomicU64,
    pub refused: AtomicU64,
    /// Connections that nobody had time for.
    pub overflowed: AtomicU64,
    /// Answers that the client did not take.
    pub unsent: AtomicU64,
    pub failed: AtomicU64,
    pub edits: AtomicU64,
    pub syncs: AtomicU64,
    pub sync_errors: AtomicU64,
    pub flushes: AtomicU64,
}

impl Figures {
    pub fn page(&self, spans: Option<&Processor>) -> String {
        let mut page = String::new();
        let mut line = |name: &str, help: &str, value: &AtomicU64| {
            let value = value.load(Relaxed);
            let _ = writeln!(
                page,
                "# HELP search_{name} {help}\n# TYPE search_{name} counter\nsearch_{name}_total {value}"
            );
        };
        line("answers", "Requests answered.", &self.answered);
        line("refusals", "What was no request.", &self.refused);
        line(
            "overflows",
            "Connections that found no place in the queue.",
            &self.overflowed,
        );
        line(
            "unsent",
            "Answers that the client did not take.",
            &self.unsent,
        );
        line("errors", "Requests that the database failed.", &self.failed);
        line("edits", "Edited documents written.", &self.edits);
        line("syncs", "Batches written.", &self.syncs);
        line(
            "sync_errors",
            "Batches that were not written.",
            &self.sync_errors,
        );
        line(
            "flushes",
            "Times that counts of searches were written.",
            &self.flushes,
        );
        if let Some(spans) = spans {
            line(
                "spans_exported",
                "Spans that the collector took.",
                &spans.exported,
            );
            line("spans_failed", "Spans that it did not take.", &spans.failed);
            line(
                "spans_dropped",
                "Spans that found no place.",
                &spans.dropped,
            );
            line("posts", "Exports.", &spans.posts);
        }
        page.push_str("# EOF\n");
        page
    }
}

//! Where one process writes its part of a snapshot.

use super::metric::Metric;
use super::snapshot::{Event, EventKind, Fact, HistogramRow, ProcessId, Sample, Snapshot, TimeNs};

/// The part of a [`Snapshot`] that belongs to one process: its samples, facts and events.
pub struct SnapshotWriter<'a> {
    snapshot: &'a mut Snapshot,
    process: ProcessId,
}

impl<'a> SnapshotWriter<'a> {
    pub fn new(snapshot: &'a mut Snapshot, process: ProcessId) -> SnapshotWriter<'a> {
        SnapshotWriter { snapshot, process }
    }

    pub fn value(&mut self, metric: Metric, value: u64) {
        self.float(metric, value as f64);
    }

    pub fn float(&mut self, metric: Metric, value: f64) {
        self.named(metric.name.to_owned(), value);
    }

    /// Nothing is written for a quantity that this kernel does not tell: absent is not zero.
    pub fn maybe(&mut self, metric: Metric, value: Option<u64>) {
        if let Some(value) = value {
            self.value(metric, value);
        }
    }

    /// A metric of the subject's own.
    pub fn named(&mut self, metric: String, value: f64) {
        self.snapshot.samples.push(Sample {
            process: self.process,
            metric,
            value,
        });
    }

    pub fn fact(&mut self, key: &str, value: String) {
        self.snapshot.facts.push(Fact {
            process: self.process,
            key: key.to_owned(),
            value,
        });
    }

    pub fn event(&mut self, kind: EventKind, words: String) {
        let (time, process) = (self.snapshot.time, Some(self.process));
        self.snapshot.events.push(Event {
            time,
            process,
            kind,
            words,
        });
    }

    pub fn histogram(&mut self, row: HistogramRow) {
        self.snapshot.histograms.push(row);
    }

    pub fn time(&self) -> TimeNs {
        self.snapshot.time
    }

    pub fn process(&self) -> ProcessId {
        self.process
    }
}

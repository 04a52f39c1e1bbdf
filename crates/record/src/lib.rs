//! What is kept: the run folder with its `run.db`, one transaction per snapshot.
//!
//! In: snapshots, events, findings. Out: the same, by arm and time, also while the run goes on. Called by: the
//! supervisor and the collector, which write at once ([`Recorder`]); `series`, `verdict` and `report` read
//! ([`Reader`]).
//!
//! docs/reference/record.md describes the tables.

pub mod ledger;

pub mod error;
pub mod export;
pub mod folder;
mod meta;
pub mod news;
pub mod reader;
pub mod recorder;
pub mod run;
mod samples;
mod schema;
mod word;

pub use error::RecordError;
pub use folder::{Folder, list};
pub use news::News;
pub use reader::{EventId, ReadOptions, Reader, SampleRow, SnapshotId};
pub use recorder::{NewProcess, Recorder};
pub use schema::SCHEMA;

use observe::snapshot::TimeNs;

/// Something that weakens the run, as it stands in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingRow {
    pub time: TimeNs,
    /// Who found it: "audit".
    pub source: String,
    pub what: String,
    /// The processes concerned, in words ("glibc/2").
    pub processes: Vec<String>,
    /// What it does to the verdict.
    pub effect: String,
}

//! A run as read back from its record: everything that analysis, verdict and report need, and no handle on anything.

use std::collections::BTreeMap;
use std::path::PathBuf;

use experiment::file::Experiment;
pub use observe::host::Machine;
use observe::snapshot::{Event, HistogramRow, ProcessId, Role, TimeNs};

/// A finished, running or broken-off run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Folder name: `2026-11-21-relay-1`.
    pub id: String,
    pub folder: PathBuf,
    pub experiment: Experiment,
    pub begun: TimeNs,
    /// Time of the last snapshot.
    pub last: TimeNs,
    /// How it ended; `None` while it runs, or when nobody could write it down any more.
    pub end: Option<RunEnd>,
    pub machine: Machine,
    pub processes: Vec<Process>,
    pub events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub time: TimeNs,
    pub words: String,
}

/// One incarnation of one replica (or a load program, or highwater itself).
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    pub id: ProcessId,
    pub arm: String,
    pub replica: u32,
    /// 0 for the first start; a restarted replica counts up.
    pub incarnation: u32,
    pub role: Role,
    pub pid: i32,
    pub start_ticks: u64,
    pub started: TimeNs,
    pub ended: Option<TimeNs>,
    /// Exit code or signal in words, when it ended and it is known.
    pub exit: Option<String>,
    /// As started; secrets redacted.
    pub command: Vec<String>,
    /// By metric name: (time, value), ordered in time.
    pub samples: BTreeMap<String, Vec<(TimeNs, f64)>>,
    /// By key: (valid from, value), ordered in time.
    pub facts: BTreeMap<String, Vec<(TimeNs, String)>>,
    pub histograms: Vec<HistogramRow>,
}

//! One snapshot: everything that was read at one instant, ready to be recorded in one transaction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Row id of a process in the record (one per incarnation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessId(pub i64);

/// Nanoseconds since the Unix epoch on the run's own clock: the wall clock at the start of the run plus
/// CLOCK_BOOTTIME elapsed since, so that it never jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeNs(pub i64);

/// What the snapshot that ends a run may take.
pub const LAST_SNAPSHOT_MAX: Duration = Duration::from_secs(10);

/// What the collector must know of a process in order to look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub process: ProcessId,
    pub pid: i32,
    /// Field 22 of /proc/PID/stat: clock ticks after boot. A pid whose start differs is another process.
    pub start_ticks: u64,
    pub arm: String,
    pub replica: u32,
    pub role: Role,
    /// Metrics endpoint, placeholders filled in.
    pub metrics_url: Option<String>,
    /// File with the load program's JSON lines (role `Load`).
    pub load_lines: Option<std::path::PathBuf>,
    /// Folders of the process's cgroup, when it has one of its own.
    pub cgroup: Option<std::path::PathBuf>,
    /// What the arm says must answer malloc.
    pub expected_allocator: Expected,
}

/// Which allocator an arm promises.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// The arm names none: the program as it comes, whatever it is linked with.
    #[default]
    Any,
    /// The system's C library.
    System,
    /// This library, preloaded.
    Library(std::path::PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A replica of the subject.
    Subject,
    /// A load program.
    Load,
    /// highwater itself (supervisor, collector): our own cost.
    Highwater,
    /// The machine as a whole.
    Host,
}

/// One reading.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub process: ProcessId,
    /// A name of `observe::metric`, or `openmetrics:` followed by the subject's own name and labels.
    pub metric: String,
    pub value: f64,
}

/// Something true of a process from this instant on, until the next fact of the same key:
/// `allocator.path`, `allocator.build_id`, `allocator.sha256`, `allocator.version`, `malloc.address`,
/// `malloc.library`, `exe`, `maps.digest`, `alive` ...
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub process: ProcessId,
    pub key: String,
    pub value: String,
}

/// Latencies over an interval, as recorded by the load program or the subject.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramRow {
    pub process: ProcessId,
    pub start: TimeNs,
    pub end: TimeNs,
    /// `latency` for a load program's lines.
    pub metric: String,
    pub requests: u64,
    pub errors: u64,
    pub dropped: u64,
    /// HdrHistogram V2 serialisation, values in nanoseconds.
    pub histogram: Vec<u8>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub time: TimeNs,
    pub process: Option<ProcessId>,
    pub kind: EventKind,
    /// For people; may carry the last lines of a log (hostile text).
    pub words: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    Started,
    /// It could not even be started.
    StartFailed,
    Ready,
    NeverReady,
    Exited,
    Crashed,
    OomKilled,
    Killed,
    Restarted,
    /// It failed too often and is not started again.
    GaveUp,
    Stopped,
    /// The grace was over: SIGKILL.
    StopForced,
    /// The process does not run what its arm says.
    NotTheArm,
    /// CPU time and switches stand still.
    Hung,
    Vanished,
    /// A watched process went into another arm.
    Moved,
    /// A watched process is in no arm any more, and goes on.
    Left,
    /// A guard aborted the arm.
    Aborted,
    /// What the experiment file says under `revert` was run for the arm.
    Reverted,
    LogTruncated,
    CollectorRestarted,
    Resumed,
    /// Something could not be read or kept; it says what is lost.
    Degraded,
    /// Snapshots that the record could not take; it says how many, and why.
    #[serde(rename = "snapshots-lost", alias = "looks-lost")]
    SnapshotsLost,
    Note,
    /// The word of a kind that a newer highwater wrote.
    #[serde(untagged)]
    Unknown(String),
}

/// All that one snapshot brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub time: TimeNs,
    pub samples: Vec<Sample>,
    pub facts: Vec<Fact>,
    pub histograms: Vec<HistogramRow>,
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Nothing yet.
    pub fn at(time: TimeNs) -> Snapshot {
        Snapshot {
            time,
            samples: Vec::new(),
            facts: Vec::new(),
            histograms: Vec::new(),
            events: Vec::new(),
        }
    }
}

//! The plan of an experiment, as checked and complete values: what was typed (TOML) has become what it means.
//!
//! Nothing here touches a process. Durations are `std::time::Duration`, sizes are bytes.

pub mod check;
pub mod command;
pub mod draft;
pub mod facts;
pub mod freeze;
mod frozen_arm;
pub mod parse;
pub mod placeholder;
pub mod redact;
pub mod replayed;
pub mod signal;
pub mod syntax;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use check::{Check, Condition, Trend};
pub use freeze::freeze;
pub use parse::{parse_experiment, read_experiment};
pub use syntax::problem::Problems;

/// One experiment: hypothesis, subject, load, arms, and when it counts as answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short name, `[a-z0-9-]`; part of the run folder's name.
    pub name: String,
    /// What is believed, in one sentence that the run can refute.
    pub hypothesis: String,
    pub why: String,
    pub evidence: String,
    /// Name of the arm that the others are compared with.
    pub control: String,
    /// Name of the arm that must pass `verify` for exit code 0.
    pub adopt: Option<String>,
    pub subject: SubjectPlan,
    /// Runs before the first replica starts and after the last has ended.
    #[serde(default)]
    pub backing: Option<BackingPlan>,
    pub load: Option<LoadPlan>,
    pub arms: Vec<Arm>,
    /// Processes per arm.
    pub replicas: u32,
    pub duration: Duration,
    /// Time from one snapshot to the next.
    pub interval: Duration,
    /// Left out of every verdict.
    pub warmup: Duration,
    /// Seed of the shuffle in which replicas start (arms are interleaved).
    pub seed: u64,
    /// The smallest difference between two arms' memory that matters, as a share of the lower: 0.2 is a fifth.
    #[serde(default)]
    pub matters: f64,
    /// The heap probe is loaded into every process: live heap, allocator-held and fragmentation become series.
    #[serde(default)]
    pub probe: bool,
    /// Every process is watched for stalls: how many a minute, by cause, becomes a cost of its arm.
    #[serde(default)]
    pub stalls: bool,
    /// Judged at the end (and, with `after`, from then on).
    pub verify: Vec<Check>,
    /// Judged at every snapshot; a failure aborts that arm at once while the others go on.
    pub guard: Vec<Check>,
    pub revert: Revert,
    /// The folder of the experiment file; relative paths and commands start there unless `directory` says otherwise.
    pub base: PathBuf,
}

/// The program under study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectPlan {
    pub kind: SubjectKind,
    /// Program and arguments with placeholders; empty for `Attach` and `Fake`.
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
    pub ready: Option<Ready>,
    /// How long `ready` may take.
    pub ready_timeout: Duration,
    pub stop: Stop,
    pub restart: Restart,
    /// Processes outlive a killed supervisor; `--resume` finds them again.
    pub keep: bool,
    /// The program comes to an end: one with exit code 0 is none that came too early.
    #[serde(default)]
    pub ends: bool,
    /// Bytes; enforced by a cgroup where possible, else by highwater itself at each snapshot.
    pub memory_limit: Option<u64>,
    /// URL of an OpenMetrics endpoint, with placeholders.
    pub metrics: Option<String>,
    /// Only for `Attach`.
    pub attach: Vec<AttachGroup>,
    /// Only for `Attach`: the commands of `revert` may be run when a guard stops an arm. Otherwise highwater only
    /// observes: it starts, restarts and signals nothing.
    #[serde(default)]
    pub managed: bool,
    /// Only for `Remote`.
    #[serde(default)]
    pub remote: Option<Remote>,
}

/// Processes of other hosts, by the samples that a store with the API of Prometheus holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    pub url: String,
    /// Resident memory; unless given, what `highwater observe` writes, with everything beside it.
    pub metric: Option<String>,
    /// A file with a header a line ("Authorization: Bearer ..."), so that no secret gets into the record.
    pub headers: Option<PathBuf>,
    pub series: Vec<RemoteSeries>,
}

/// The series of one arm: those that fulfil all conditions on labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSeries {
    pub arm: String,
    /// `LABEL=VALUE`, also with `!=`, `=~`, `!~`.
    pub matching: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// highwater starts and stops the processes.
    Service,
    /// The processes run already; they are only watched.
    Attach,
    /// The processes run on other hosts; a Prometheus holds their samples.
    Remote,
    /// No process at all: each arm has a scripted curve and time is simulated.
    Fake,
}

/// Processes that already run, of one arm or (with `groups`) of several. Everything that is given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttachGroup {
    /// Empty when `groups` says it of each process.
    pub arm: String,
    pub pids: Vec<i32>,
    /// Regular expressions on the executable's path and on the arguments joined by spaces. The first group of
    /// `args` in parentheses is the name of the process.
    pub exe: Option<String>,
    pub args: Option<String>,
    /// Names of systemd units with `*`, `?` and `[a-z]`; of a unit, its main process.
    #[serde(default)]
    pub units: Vec<String>,
    /// Variables that the process was started with, values with `*` and `?`.
    #[serde(default)]
    pub environ: BTreeMap<String, String>,
    /// Path of the cgroup (v2) with `*` and `?`.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// A CSV file that says which process is in which arm, and since when; read again during the run.
    #[serde(default)]
    pub groups: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ready {
    Http {
        url: String,
        status: u16,
    },
    /// A regular expression that a line of stdout or stderr matches.
    Log {
        regex: String,
    },
    /// `host:port` accepts a connection.
    Tcp {
        address: String,
    },
}

/// One signal, a grace, then SIGKILL to the process group. Never two signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Signal number.
    pub signal: i32,
    pub grace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    Never,
    OnFailure,
}

/// A service that every process of the subject needs and that is no arm: the network that relays join, a database.
/// One for the whole run, so that all arms meet the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackingPlan {
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
    pub ready: Option<Ready>,
    pub ready_timeout: Duration,
    pub stop: Stop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    pub command: Vec<String>,
    pub per: LoadPer,
    pub environment: BTreeMap<String, String>,
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadPer {
    Process,
    Run,
}

/// One variant of the subject.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Arm {
    pub name: String,
    /// "glibc", "jemalloc@5.3.0", or the path of a library; empty: the program as it comes.
    pub allocator: String,
    pub environment: BTreeMap<String, String>,
    /// Appended to the command.
    pub arguments: Vec<String>,
    /// Replaces the subject's command.
    pub command: Option<Vec<String>>,
    /// Only for `Fake`: the scripted curve, see `subject::fake`.
    pub curve: Option<String>,
    /// What a replay predicts; the verdict compares it with what is measured.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// (factor, level), of an experiment that varies several things together. The first arm has each factor's
    /// reference.
    #[serde(default)]
    pub levels: Vec<(String, String)>,
}

/// Mean anonymous resident memory of a process over the first part of its life: the predicted value, and between which
/// bounds a measurement is expected. Bytes, `lo <= mean <= hi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub mean_bytes: u64,
    pub lo_bytes: u64,
    pub hi_bytes: u64,
    #[serde(default)]
    pub over: Over,
}

/// How a file writes [`Over::Life`].
pub(crate) const LIFE: &str = "life";

/// The part of a process's life that a prediction is for, from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Over {
    /// The experiment's duration.
    #[default]
    Run,
    First(Duration),
    /// Until it ends by itself.
    Life,
}

/// How to undo what adopting the arm did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Revert {
    pub words: String,
    pub commands: Vec<Vec<String>>,
}

//! What a rollout is asked for, what was found on the machine, and the plan that is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::files::Kept;
use super::health::Health;
use super::predict::Prediction;
use super::unit::Unit;

/// Version of the plan as it is kept.
pub const SCHEMA: &str = "highwater.rollout/1";

/// The arm, and how it is to be put into service.
#[derive(Debug, Clone)]
pub struct Request {
    pub arm: String,
    pub run: String,
    /// As typed, with `.service`.
    pub patterns: Vec<String>,
    /// To be preloaded in this order; the last is the allocator.
    pub libraries: Vec<Source>,
    pub environment: BTreeMap<String, String>,
    /// The arm names the system's own allocator.
    pub system: bool,
    pub health: Health,
    pub timing: Timing,
    pub prediction: Option<Prediction>,
    pub ledger: Option<LedgerPlace>,
    /// Lines about the arm for the head of each drop-in.
    pub told: Vec<String>,
}

/// A library of the arm and the place from which services load it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is now: a cache, a package's folder.
    pub from: PathBuf,
    pub to: PathBuf,
    pub sha256: String,
    pub build_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// How long an instance may take until it is well.
    pub health_s: f64,
    /// How long it must stay well before the next one is touched.
    pub settle_s: f64,
    /// Between two instances.
    pub pause_s: f64,
}

/// The ledger's folder, and the entry of the experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerPlace {
    pub folder: PathBuf,
    pub entry: String,
}

/// A unit that may take part, with what lies around it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub unit: Unit,
    pub start_ticks: u64,
    /// Path and text of each drop-in.
    pub drop_ins: Vec<(PathBuf, String)>,
    pub environment_files: Vec<(PathBuf, String)>,
    /// Why the arm's library cannot be preloaded into its program.
    pub misfit: Option<String>,
}

/// What was found on the machine.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub candidates: Vec<Candidate>,
    /// Files that are there, of those that a plan may write; an error in words for what is no regular file.
    pub files: BTreeMap<PathBuf, Result<Kept, String>>,
    /// sha256 of `files` with their content.
    pub digests: BTreeMap<PathBuf, String>,
    pub folders: BTreeSet<PathBuf>,
    /// Of the files in `LD_PRELOAD` now: those that export malloc.
    pub allocators: BTreeSet<PathBuf>,
    /// sha256 of each file that rollouts in force have written, by path; folders and libraries of theirs.
    pub ours: BTreeMap<PathBuf, String>,
    pub our_folders: BTreeSet<PathBuf>,
    /// Services that systemd has loaded, for the name that was meant; only read when one is not there.
    pub known: Vec<String>,
}

/// The plan of one rollout, as it is kept from the first step to long after the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub schema: String,
    /// Name of its folder among the rollouts.
    pub id: String,
    pub arm: String,
    pub run: String,
    pub patterns: Vec<String>,
    /// To be preloaded in this order; the last is the allocator.
    pub libraries: Vec<Source>,
    /// The arm names the system's own allocator.
    pub system: bool,
    /// Folders that were not there, outermost first.
    pub folders: Vec<PathBuf>,
    pub files: Vec<PlannedFile>,
    /// In the order of their restart.
    pub instances: Vec<Instance>,
    pub health: Health,
    pub timing: Timing,
    pub prediction: Option<Prediction>,
    pub ledger: Option<LedgerPlace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    pub path: PathBuf,
    pub after: After,
    /// sha256 of the content to be.
    pub sha256: String,
    /// Permissions, such as 0o644.
    pub mode: u32,
    /// `None`: there was no such file.
    pub before: Option<Kept>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    Text(String),
    CopyOf(PathBuf),
}

/// A running unit that takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub unit: String,
    /// Its main process when the plan was made.
    pub pid: i32,
    pub start_ticks: u64,
    /// Variables that the unit must have afterwards, `LD_PRELOAD` among them.
    pub environment: BTreeMap<String, String>,
}

/// A plan with all that is to be said before it is carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub plan: Plan,
    /// Each of them forbids it.
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

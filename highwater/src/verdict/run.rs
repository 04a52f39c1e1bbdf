//! The verdict on a whole run: what the terminal, the page and the ledger say.

use serde::{Deserialize, Serialize};

use super::arm::{ArmVerdict, PairVerdict};
use super::check::CheckOutcome;
use crate::analyse::cost::{ArmCost, OwnCost};

/// The answer first, then the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// One sentence: "Every allocator grows alike (+290 MiB/h); only `fixed` is flat: a leak, not fragmentation."
    pub headline: String,
    /// Whether the question of the experiment is answered.
    pub decided: bool,
    /// What would decide it, when it is not.
    pub needs: Option<String>,
    pub arms: Vec<ArmRow>,
    /// Every arm against the control.
    pub pairs: Vec<PairVerdict>,
    pub checks: Vec<CheckOutcome>,
    /// Confounds found by the audit, worst first.
    pub findings: Vec<Finding>,
    /// What the experiment taught, a sentence each.
    pub learnings: Vec<String>,
    pub own: OwnCost,
}

/// One arm in the verdict table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmRow {
    pub arm: String,
    pub is_control: bool,
    /// On RSS.
    pub memory: ArmVerdict,
    pub cost: ArmCost,
    /// Peak RSS of any process, bytes.
    pub rss_peak_bytes: f64,
    /// What the processes were proved to run, one entry when all agree: "jemalloc 5.3.0 (build id 1f2e...)".
    pub proved: Vec<String>,
    /// Known defects of the allocator.
    pub defects: Vec<String>,
    /// Why the arm ended early, if it did.
    pub aborted: Option<String>,
    /// Processes started, ended unexpectedly, restarted.
    pub started: u32,
    pub crashed: u32,
    pub restarted: u32,
}

/// Something that weakens the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub what: String,
    pub processes: Vec<String>,
    /// What it does to the verdict, and what can still be said.
    pub effect: String,
}

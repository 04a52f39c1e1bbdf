//! The verdict on a whole run: what the terminal, the page and the ledger say.
//!
//! [`conclude`] turns the verdicts on arms and pairs into one answer. It knows no experiment by
//! name: what it says follows from the labels, from which arms differ from the control by allocator
//! only ([`standing`]), and from what the processes were seen to do.

pub mod audited;
pub mod factors;
mod headline;
pub mod heap;
pub mod judge;
mod learnings;
mod phrases;
pub mod predicted;
pub mod recommend;
mod rows;
mod standing;
pub mod steady;
pub mod stopped;

pub use rows::{DEFECTS_FACT, PROTECTIONS_FACT, proved_words};

use serde::{Deserialize, Serialize};

use self::heap::ArmHeap;
use super::arm::ArmVerdict;
use super::check::CheckOutcome;
use super::pair::PairVerdict;
use crate::cost::{ArmCost, OwnCost, own_cost};
use record::run::Run;

/// The answer first, then the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// One sentence: "Every allocator grows alike (+290 MiB/h); only `fixed` is flat: a leak, not
    /// fragmentation."
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
    /// How the arm to adopt came out; `None` when the experiment names none.
    #[serde(default)]
    pub adopt: Option<Adopt>,
    /// What the factors of the experiment do; empty without factors.
    #[serde(default)]
    pub factors: Vec<factors::FactorEffects>,
    /// What the experiment file predicted, and what was measured.
    #[serde(default)]
    pub predictions: Vec<predicted::Outcome>,
    pub own: OwnCost,
}

/// The arm that must pass `verify`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adopt {
    pub arm: String,
    /// `None`: not to be told. `false` when any condition failed, or when the arm ended early.
    pub passed: Option<bool>,
    /// In one sentence.
    pub words: String,
}

/// One arm in the verdict table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmRow {
    pub arm: String,
    pub is_control: bool,
    /// On RSS.
    pub memory: ArmVerdict,
    pub cost: ArmCost,
    /// Where a probe was read: `None` without `probe = true`.
    #[serde(default)]
    pub heap: Option<ArmHeap>,
    /// Peak RSS of any process, bytes.
    pub rss_peak_bytes: f64,
    /// What the processes were proved to run, one entry when all agree: "jemalloc 5.3.0 (build id
    /// 1f2e...)".
    pub proved: Vec<String>,
    /// Known defects of the allocator.
    pub defects: Vec<String>,
    /// Misuse that ends a process of this arm instead of corrupting it, by name: "double-free".
    pub protections: Vec<String>,
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

/// The answer to the experiment, from the verdicts on its arms.
///
/// `arms`, `costs` and `heaps` may miss an arm (it then has no verdict, costs or parts of its heap);
/// `pairs` is every arm against the control; `checks` comes from [`super::check::judge_checks`];
/// `findings` from the audit, worst first. `ArmVerdict::level` and slopes are bytes of RSS.
pub fn conclude(
    run: &Run,
    arms: &[ArmVerdict],
    pairs: Vec<PairVerdict>,
    costs: &[ArmCost],
    heaps: &[ArmHeap],
    checks: Vec<CheckOutcome>,
    findings: Vec<Finding>,
) -> RunVerdict {
    let rows = rows::rows(run, arms, costs, heaps);
    let standings = standing::standings(run, &rows, &pairs);
    let answer = headline::answer(run, &standings, &findings);
    let adopt = learnings::adopt(run, &standings, &checks);
    let learnings = learnings::learnings(&standings, adopt.as_ref());
    let mut verdict = RunVerdict {
        headline: answer.headline,
        decided: answer.decided,
        needs: answer.needs,
        learnings,
        arms: rows,
        pairs,
        checks,
        findings,
        adopt,
        factors: Vec::new(),
        predictions: Vec::new(),
        own: own_cost(run),
    };
    if let Some(stopping) = stopped::stopping(run) {
        stopped::apply(&mut verdict, &stopping, run.end.is_some());
    }
    verdict
}

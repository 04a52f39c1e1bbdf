//! What `stalls` and `doctor` print.

pub mod arms;
pub mod doctor;
pub mod json;
pub mod pictures;
pub mod requests;
pub mod text;

use stalls::cause::Cause;

/// A finding with its numbers turned into names. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub cause: Cause,
    pub count: usize,
    pub threads: usize,
    pub longest_ns: u64,
    pub total_ns: u64,
    pub period_ns: Option<u64>,
    pub episodes: usize,
    pub agreeing: usize,
    pub open: bool,
    pub inferred: bool,
    pub culprit: Culprit,
    pub chain: Vec<Hop>,
    pub ran_instead: Vec<(String, u64)>,
    /// Where the waiters wait, innermost function first, with the time behind each.
    pub waiters: Vec<(Vec<String>, u64)>,
    /// Names of some of the threads that were stalled.
    pub stalled: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Culprit {
    pub thread: String,
    pub tid: Option<u64>,
    pub function: Option<String>,
    pub doing: String,
    /// Innermost first.
    pub stack: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    pub thread: String,
    pub waited_for: String,
    pub ns: u64,
}

/// What the watch says about itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SelfChecks {
    pub watched_ns: u64,
    pub threads: usize,
    pub lost_records: u64,
    pub lost_samples: u64,
    pub missed_switches: u64,
    pub unresolved_stacks: u64,
    pub dropped_segments: u64,
    pub dropped_stalls: u64,
    pub unwatched_threads: u64,
    /// Waits shorter than this were left out while there were too many of them; 0: none.
    pub left_out_below_ns: u64,
    /// Findings too small for a row.
    pub below_the_rule: usize,
    /// The kernel's count of time without a CPU less ours, as a share of the kernel's; `None`
    /// when there was too little to compare.
    pub run_delay_difference: Option<f64>,
    /// Of the CPU time that this machine wanted meanwhile, the share that its host gave to other guests. Threads
    /// look as if they ran then.
    pub stolen_share: Option<f64>,
    pub cpu_ns: u64,
    pub missing: Vec<String>,
}

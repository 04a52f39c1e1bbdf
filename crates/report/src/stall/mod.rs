//! What `stalls` and `doctor` print.

pub mod arms;
pub mod doctor;
pub mod gains;
pub mod json;
pub mod pictures;
pub mod requests;
pub mod text;

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

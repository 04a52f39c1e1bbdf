//! An explanation as a reader gets it: text, JSON, folded stacks, pprof, a flame graph.

mod flame;
mod folded;
mod frame;
mod json;
mod managed;
mod pprof;
mod text;

pub use flame::flame_graph;
pub use folded::folded;
pub use json::{SCHEMA, json};
pub use pprof::pprof;
pub use text::text;

use heap::memory_managers::Allocator;
use memory::rank::Site;
use observe::overhead::Overhead;
use verdict::cause::{Case, CauseVerdict};
use verdict::remedies::{Candidate, Named, candidates};

/// One process, explained.
#[derive(Debug, Clone)]
pub struct Explained {
    pub pid: i32,
    pub command: String,
    pub case: Case,
    pub verdict: CauseVerdict,
    /// With whether the probe sees its calls.
    pub allocators: Vec<(Allocator, bool)>,
    pub probe: Option<ProbeFacts>,
    /// What observing it added.
    pub overhead: Overhead,
    /// Growth between two moments, when asked for.
    pub diff: Option<Diff>,
    /// Live samples: every stack with its outstanding bytes and blocks.
    pub stacks: Vec<StackBytes>,
    /// Other processes of the family.
    pub others: Vec<Other>,
    /// What the reader should know of how it was observed, a sentence each.
    pub notes: Vec<String>,
}

impl Explained {
    /// What could be done about the cause, and the command that would test it.
    pub fn candidates(&self) -> Vec<Candidate> {
        let subject = Named {
            pid: self.pid,
            command: &self.command,
        };
        candidates(&self.case, &self.verdict, subject)
    }
}

/// What the probe says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProbeFacts {
    pub metadata_bytes: u64,
    pub samples: u64,
    pub dropped: u64,
}

/// Between two moments.
#[derive(Debug, Clone)]
pub struct Diff {
    pub from_s: f64,
    pub to_s: f64,
    /// (name, bytes at `from_s`, bytes at `to_s`)
    pub parts: Vec<(&'static str, f64, f64)>,
    pub sites: Vec<Site>,
}

/// A whole stack, wrappers included.
#[derive(Debug, Clone, PartialEq)]
pub struct StackBytes {
    /// Innermost first.
    pub frames: Vec<symbols::frame::Frame>,
    pub addresses: Vec<u64>,
    pub bytes: f64,
    pub blocks: f64,
    pub grown_bytes: f64,
}

/// A further process, in a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    pub pid: i32,
    pub command: String,
    pub rss_bytes: f64,
    pub grown_bytes: f64,
    pub ended: bool,
}

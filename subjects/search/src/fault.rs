//! What can be broken on purpose. Each was found in production once; its fix is to leave it out.

use clap::ValueEnum;

/// One fault of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// Spans are exported under the lock that the end of every span takes; mended: they are drained first
    ExporterLock,
    /// Readers and the writer share one connection; mended: a read-only one for each worker
    SharedConnection,
    /// No index over the publication of a document: a scan for each publication that matches
    MissingIndex,
    /// Answers are written 8 KiB at a time, with no more than that on its way to the client
    SmallBuffer,
    /// The nearest documents by comparing with all of them; mended: with those of the nearest cells
    BruteForceVectors,
    /// SQLite's own 2 MB of cache on the read connections, and no mapped file
    NoCache,
    /// The decoy: a quota of CPU time, too small for the load
    CpuQuota,
}

/// Those that are on.
#[derive(Debug, Clone, Default)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    pub fn has(&self, fault: Fault) -> bool {
        self.0.contains(&fault)
    }
}

//! The heap of a running Node.js (18 to 24), through its inspector.
//!
//! ```text
//! first snapshot   SIGUSR1 --> inspector on 127.0.0.1 --> sizes, start of V8's sampling heap profiler
//! later snapshots                                     --> sizes, sites (one full collection)
//!                                                     --> types, where the pause of a heap snapshot is allowed
//! the end          sampling ends, the inspector is closed if SIGUSR1 had opened it
//! ```
//!
//! Worker threads have heaps of their own; this is the main thread's.

mod inspector;
mod process;
mod sampling;
mod session;
mod signals;
mod size;
mod tokens;
mod wire;

use std::time::{Duration, Instant};

use crate::{Cost, Error, HeapSize, Limits, ManagedHeap, Snapshot, Touch};
use inspector::{Inspector, Way};
use sampling::Profiler;

/// Of the calls that read counters.
const PAUSE_LEAST: Duration = Duration::from_millis(20);
/// Of a full collection. Measured: 165 to 190 ms for 50 MB of small objects on two busy cores.
const COLLECTION_PER_MIB: Duration = Duration::from_millis(4);

/// The heap of one Node.js process.
pub struct Node {
    pid: u32,
    name: String,
    inspector: Option<Inspector>,
    profiler: Option<Profiler>,
}

/// A reader for the process; `None` where it is not Node.js. Opening only reads.
pub fn open(pid: u32) -> Option<Result<Node, Error>> {
    process::is_node(pid).then(|| {
        Ok(Node {
            pid,
            name: "Node.js".into(),
            inspector: None,
            profiler: None,
        })
    })
}

impl Node {
    /// Ends sampling, and closes the inspector if this reader opened it. Dropping does the same, without a report.
    ///
    /// # Errors
    /// The program did not answer: the inspector may still be open.
    pub fn finish(mut self) -> Result<(), Error> {
        self.inspector.as_mut().map_or(Ok(()), Inspector::close)
    }

    fn inspector(&mut self) -> Result<&mut Inspector, Error> {
        if self.inspector.is_none() {
            let inspector = Inspector::open(self.pid)?;
            self.name = format!("Node.js {}", inspector.version);
            self.inspector = Some(inspector);
        }
        self.inspector.as_mut().ok_or(Error::Gone)
    }

    fn read(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let mut snapshot = Snapshot::default();
        let profiler = self.profiler;
        let session = self.inspector()?.session()?;
        let begin = Instant::now();
        let size = size::read(session)?;
        let collection = collection_pause(&size);
        snapshot.heap = Some(size);
        if collection > limits.pause {
            snapshot.missing.push(format!(
                "allocation sites: they need a collection, which stops the program for about {collection:?}"
            ));
        } else if profiler.is_none() {
            let profiler = sampling::start(session, limits.time)?;
            snapshot.missing.push("allocation sites: sampling starts with this snapshot".into());
            self.profiler = Some(profiler);
        } else {
            let (sites, is_cut) = sampling::sites(session, limits.time)?;
            snapshot.sites = sites;
            if is_cut {
                snapshot.missing.push("some allocation sites: there are too many".into());
            }
        }
        // The program runs on while we parse; the calls are nearly all of it.
        snapshot.cost.paused = begin.elapsed();
        Ok(snapshot)
    }
}

fn collection_pause(size: &HeapSize) -> Duration {
    pause_of(size.used_bytes, COLLECTION_PER_MIB)
}

fn pause_of(bytes: u64, per_mib: Duration) -> Duration {
    PAUSE_LEAST + per_mib * u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

impl ManagedHeap for Node {
    fn runtime(&self) -> &str {
        &self.name
    }

    fn touch(&self) -> Touch {
        Touch::Pauses
    }

    fn warning(&self) -> Option<String> {
        None
    }

    fn snapshot(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let begin = Instant::now();
        if limits.pause < PAUSE_LEAST {
            return Err(Error::Pause {
                about: PAUSE_LEAST,
                allowed: limits.pause,
            });
        }
        let mut snapshot = self.read(limits)?;
        snapshot.cost.reading = begin.elapsed();
        Ok(snapshot)
    }
}

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

mod graph;
mod holders;
mod inspector;
mod process;
mod room;
mod sampling;
mod session;
mod signals;
mod size;
mod tokens;
mod types;
mod wire;

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::{Error, HeapSize, Holder, Language, Limits, ManagedHeap, Snapshot, Touch};
use graph::{Graph, Unusable};
use inspector::{Inspector, Way};
use sampling::Profiler;
use session::Session;

/// Of the calls that read counters.
const PAUSE_LEAST: Duration = Duration::from_millis(20);
/// Of a full collection. Measured for small objects: 2 ms for a MiB (50 MB: 100 ms), 7 on two cores with a load of 8
/// (200 MB: 1,350 ms).
const COLLECTION_PER_MIB: Duration = Duration::from_millis(8);
/// Of a heap snapshot. Measured for small objects, on two cores with a load of 8: 26 s for 64 MB.
const SNAPSHOT_PER_MIB: Duration = Duration::from_millis(450);

/// The heap of one Node.js process.
pub struct Node {
    pid: u32,
    name: String,
    inspector: Option<Inspector>,
    profiler: Option<Profiler>,
    /// Of the last heap snapshot.
    graph: Option<Graph>,
}

/// A reader for the process; `None` where it is not Node.js. Opening only reads.
///
/// # Errors
/// None yet: whether the inspector can be opened is decided by the first snapshot.
pub fn open(pid: u32) -> Option<Result<Node, Error>> {
    process::is_node(pid).then(|| {
        Ok(Node {
            pid,
            name: "Node.js".into(),
            inspector: None,
            profiler: None,
            graph: None,
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

    fn session(&mut self) -> Result<&mut Session, Error> {
        if self.inspector.is_none() {
            let inspector = Inspector::open(self.pid)?;
            self.name = format!("Node.js {}", inspector.version);
            self.inspector = Some(inspector);
        }
        self.inspector.as_mut().ok_or(Error::Gone)?.session()
    }

    fn read(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let size = size::read(self.session()?)?;
        let mut snapshot = Snapshot::default();
        self.read_sites(&mut snapshot, &size, limits)?;
        self.read_types(&mut snapshot, &size, limits)?;
        snapshot.heap = Some(size);
        Ok(snapshot)
    }

    fn read_sites(
        &mut self,
        snapshot: &mut Snapshot,
        size: &HeapSize,
        limits: &Limits,
    ) -> Result<(), Error> {
        let pause = pause_of(size.used_bytes, COLLECTION_PER_MIB);
        if pause > limits.pause {
            let why = format!(
                "allocation sites: they need a collection, which stops the program for about {pause:?}"
            );
            snapshot.missing.push(why);
            return Ok(());
        }
        let begin = Instant::now();
        let is_running = self.profiler.is_some();
        let session = self.session()?;
        if is_running {
            let (sites, is_cut) = sampling::sites(session, limits.time)?;
            snapshot.sites = sites;
            snapshot
                .missing
                .extend(is_cut.then(|| "some allocation sites: there are too many".into()));
        } else {
            let profiler = sampling::start(session, limits.time)?;
            snapshot
                .missing
                .push("allocation sites: sampling starts with this snapshot".into());
            self.profiler = Some(profiler);
        }
        snapshot.cost.paused = snapshot.cost.paused.max(begin.elapsed());
        Ok(())
    }

    fn read_types(
        &mut self,
        snapshot: &mut Snapshot,
        size: &HeapSize,
        limits: &Limits,
    ) -> Result<(), Error> {
        if let Some(why) = self.no_heap_snapshot(size, limits) {
            snapshot.missing.push(why);
            return Ok(());
        }
        let begin = Instant::now();
        self.graph = None;
        let graph = take_heap_snapshot(self.session()?, limits)?;
        snapshot.cost.paused = snapshot.cost.paused.max(begin.elapsed());
        match graph {
            Ok(graph) => {
                snapshot.types = types::count(&graph);
                self.graph = Some(graph);
            }
            Err(why) => snapshot
                .missing
                .push(format!("objects by type: {}", unusable(why))),
        }
        Ok(())
    }

    /// Why none is taken.
    fn no_heap_snapshot(&self, size: &HeapSize, limits: &Limits) -> Option<String> {
        let pause = pause_of(size.used_bytes, SNAPSHOT_PER_MIB);
        if pause > limits.pause {
            return Some(format!(
                "objects by type: they need a heap snapshot, which stops the program for up to {pause:?}"
            ));
        }
        let (needed, available) = (room::needed(size.used_bytes), room::available(self.pid));
        (needed > available).then(|| {
            format!(
                "objects by type: a heap snapshot takes up to {} MiB in the process, and {} MiB are left",
                needed >> 20,
                available >> 20
            )
        })
    }
}

fn unusable(why: Unusable) -> &'static str {
    match why {
        Unusable::TooLarge => "the heap snapshot needs more memory than highwater may take",
        Unusable::Broken => "the heap snapshot is not in the format of Node.js 18 to 24",
    }
}

fn pause_of(bytes: u64, per_mib: Duration) -> Duration {
    PAUSE_LEAST + per_mib * u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

/// A snapshot that is not used is received to its end all the same: the program is stopped for it in any case.
fn take_heap_snapshot(
    session: &mut Session,
    limits: &Limits,
) -> Result<Result<Graph, Unusable>, Error> {
    #[derive(Deserialize)]
    struct Event {
        method: String,
        params: Chunk,
    }
    #[derive(Deserialize)]
    struct Chunk {
        #[serde(default)]
        chunk: String,
    }
    let mut parser = Ok(graph::Parser::new(limits.bytes));
    let params = json!({"reportProgress": false});
    session.call_with_events(
        "HeapProfiler.takeHeapSnapshot",
        &params,
        limits.time,
        |event| {
            let Ok(event) = session::parse::<Event>(event) else {
                return Ok(());
            };
            let is_chunk = event.method == "HeapProfiler.addHeapSnapshotChunk";
            if is_chunk
                && let Ok(graph) = &mut parser
                && let Err(why) = graph.push(event.params.chunk.as_bytes())
            {
                parser = Err(why);
            }
            Ok(())
        },
    )?;
    Ok(parser.and_then(graph::Parser::finish))
}

impl ManagedHeap for Node {
    fn runtime(&self) -> &str {
        &self.name
    }

    fn language(&self) -> Language {
        Language::JavaScript
    }

    fn touch(&self) -> Touch {
        Touch::Pauses
    }

    fn warning(&self) -> Option<String> {
        let heap = process::rss_bytes(self.pid).unwrap_or(0);
        let collection = pause_of(heap, COLLECTION_PER_MIB);
        let way = match inspector::way(self.pid) {
            Ok(Way::Listens(port)) => {
                format!("highwater attaches to the inspector of Node.js on port {port}")
            }
            Ok(Way::Signal(port)) => format!(
                "highwater sends SIGUSR1, at which Node.js opens its inspector on {} of 127.0.0.1 until the \
                 observation ends, and prints that to its standard error{}",
                if port == 0 {
                    "a free port".into()
                } else {
                    format!("port {port}")
                },
                if signals::handles_usr1(self.pid).is_none() {
                    " (if it handles SIGUSR1 itself, its handler runs instead: that is not known)"
                } else {
                    ""
                }
            ),
            Err(error) => return Some(format!("Node.js cannot be asked: {error}")),
        };
        Some(format!(
            "{way}; each snapshot stops the program for a full collection, up to about {collection:?} (one with types, \
             where a pause of {} s is allowed, also adds {} times the heap to its memory)",
            pause_of(heap, SNAPSHOT_PER_MIB).as_secs() + 1,
            room::BYTES_PER_HEAP_BYTE,
        ))
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

    /// From the last heap snapshot: no further pause.
    fn holders(&mut self, types: &[String], _: &Limits) -> Vec<Holder> {
        self.graph
            .as_ref()
            .map_or_else(Vec::new, |graph| holders::find(graph, types))
    }
}

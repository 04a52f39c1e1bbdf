//! The heap of a running Node.js (18 to 24): its objects from outside, its allocation sites through its inspector.
//!
//! ```text
//! every snapshot   /proc/PID/mem --> types and holders, while the program goes on ([`outside`])
//! where a pause is allowed:
//! first snapshot   SIGUSR1 --> inspector on 127.0.0.1 --> sizes, start of V8's sampling heap profiler
//! later snapshots                                     --> sizes, sites (one full collection)
//!                                                     --> types by a heap snapshot, only if outside they failed
//! the end          sampling ends, the inspector is closed if SIGUSR1 had opened it
//! ```
//!
//! Without an allowed pause the inspector is not touched, and there are no sites.
//!
//! An inspector that SIGUSR1 opened is closed after failures as well, and closes itself if highwater is killed.
//!
//! Worker threads have heaps of their own; this is the main thread's.

mod closing;
mod code;
mod graph;
mod holders;
mod inspector;
mod options;
mod outside;
mod parser;
mod process;
mod queue;
mod room;
mod sampling;
mod session;
mod signals;
mod size;
mod sockets;
mod source;
mod tokens;
mod types;
mod unpaused;
mod wire;

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::{Error, HeapSize, Holder, Language, Limits, ManagedHeap, Snapshot, Touch};
use code::Code;
use graph::Graph;
use inspector::{Inspector, Way};
use outside::Outside;
use parser::{Parser, Unusable};
use session::Session;

/// Of the calls that read counters.
const PAUSE_LEAST: Duration = Duration::from_millis(20);
/// Of a full collection. Measured for small objects: 2 ms for a MiB (50 MB: 100 ms), 7 on two cores with a load of 8
/// (200 MB: 1,350 ms).
const COLLECTION_PER_MIB: Duration = Duration::from_millis(8);
/// Of a heap snapshot. Measured for small objects, on two cores with a load of 8: 26 s for 64 MB; at rest, 2 s for
/// 35 MB.
const SNAPSHOT_PER_MIB: Duration = Duration::from_millis(450);
const SNAPSHOT_PER_MIB_MIN: Duration = Duration::from_millis(60);
/// Beside a full collection of the same heap at the same load: 64 times as long under load, 30 times at rest.
const SNAPSHOT_PER_COLLECTION: u32 = 64;

const NOT_GROWN: &str = "allocation sites are left out: the heap after a collection did not grow since the first \
    snapshot";

/// The heap of one Node.js process.
pub struct Node {
    pid: u32,
    name: String,
    inspector: Inspector,
    /// Bytes of live objects when sampling began, with their memory outside of the heap; `None`: it does not run.
    sampled_from: Option<u64>,
    /// What a full collection took for each MiB, the longest so far.
    collection_per_mib: Option<Duration>,
    /// Of the last snapshot that had types.
    graph: Option<Graph>,
    /// Opened by the first snapshot.
    outside: Option<Outside>,
}

/// A reader for the process; `None` where it is not Node.js. Opening only reads.
///
/// # Errors
/// Its program file may not be read. Whether the inspector can be opened is decided by the first snapshot.
pub fn open(pid: u32) -> Option<Result<Node, Error>> {
    let inspector = Inspector::new(pid)?;
    Some(inspector.map(|inspector| Node {
        pid,
        name: "Node.js".into(),
        inspector,
        sampled_from: None,
        collection_per_mib: None,
        graph: None,
        outside: None,
    }))
}

impl Node {
    /// How long after the last sign of this reader an inspector that it opened closes itself; 90 s if this is not
    /// called.
    pub fn close_after(&mut self, time: Duration) {
        self.inspector.closes_after = time;
    }

    fn read(&mut self, limits: &Limits, until: Instant) -> Result<Snapshot, Error> {
        let size = size::read(self.inspector.session()?)?;
        self.name = format!("Node.js {}", self.inspector.version);
        self.inspector.renew()?;
        let mut snapshot = Snapshot::default();
        let live = self.read_sites(&mut snapshot, &size, limits, until)?;
        let is_collected = live.is_some();
        let size = HeapSize {
            is_collected,
            ..live.unwrap_or(size)
        };
        self.read_types(&mut snapshot, &size, limits, until)?;
        snapshot.heap = Some(size);
        Ok(snapshot)
    }

    /// The sizes after the collection; `None` where a collection is not allowed.
    fn read_sites(
        &mut self,
        snapshot: &mut Snapshot,
        size: &HeapSize,
        limits: &Limits,
        until: Instant,
    ) -> Result<Option<HeapSize>, Error> {
        let pause = pause_of(size.used_bytes, COLLECTION_PER_MIB);
        if pause > limits.pause.min(left(until)) {
            let why = format!(
                "allocation sites: they need a collection, which stops the program for about {pause:?}"
            );
            snapshot.missing.push(why);
            return Ok(None);
        }
        let begin = Instant::now();
        let session = self.inspector.session()?;
        let live = if let Some(from) = self.sampled_from {
            let (sites, is_cut) = sampling::sites(session, left(until))?;
            let live = size::read(session)?;
            let (used, now) = (live.used_bytes, size::with_external(&live));
            let backed = sampling::backed(sites, used, from, now);
            snapshot.missing.extend(
                (is_cut && backed.is_some())
                    .then(|| "some allocation sites: there are too many".into()),
            );
            snapshot
                .missing
                .extend(backed.is_none().then(|| NOT_GROWN.into()));
            snapshot.sites = backed.unwrap_or_default();
            live
        } else {
            sampling::start(session, left(until))?;
            snapshot.starts_sampling = true;
            snapshot
                .missing
                .push("allocation sites: sampling starts with this snapshot".into());
            let live = size::read(session)?;
            self.sampled_from = Some(size::with_external(&live));
            live
        };
        let took = begin.elapsed();
        snapshot.cost.paused += took;
        // A collection takes as long as what it leaves.
        let mib = u32::try_from(live.used_bytes >> 20).unwrap_or(u32::MAX);
        let per_mib = took / mib.max(1);
        self.collection_per_mib = Some(
            self.collection_per_mib
                .map_or(per_mib, |of| of.max(per_mib)),
        );
        Ok(Some(live))
    }

    fn read_types(
        &mut self,
        snapshot: &mut Snapshot,
        size: &HeapSize,
        limits: &Limits,
        until: Instant,
    ) -> Result<(), Error> {
        match self.read_outside(limits, until) {
            Ok(graph) => {
                snapshot.types = types::count(&graph);
                self.graph = Some(graph);
                return Ok(());
            }
            Err(why) => snapshot
                .missing
                .push(format!("objects by type, from outside: {why}")),
        }
        let allowed = limits.pause.saturating_sub(snapshot.cost.paused);
        if let Some(why) = self.no_heap_snapshot(size, allowed, until) {
            snapshot.missing.push(why);
            return Ok(());
        }
        let begin = Instant::now();
        self.graph = None;
        let graph = take_heap_snapshot(self.inspector.session()?, limits, left(until))?;
        snapshot.cost.paused += begin.elapsed();
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
    fn no_heap_snapshot(
        &self,
        size: &HeapSize,
        allowed: Duration,
        until: Instant,
    ) -> Option<String> {
        let measured = self
            .collection_per_mib
            .map(|of| of * SNAPSHOT_PER_COLLECTION);
        let per_mib = measured.map_or(SNAPSHOT_PER_MIB, |of| {
            of.clamp(SNAPSHOT_PER_MIB_MIN, SNAPSHOT_PER_MIB)
        });
        let pause = pause_of(size.used_bytes, per_mib);
        if pause > allowed {
            return Some(format!(
                "objects by type: they need a heap snapshot, which stops the program for up to {:?}",
                rounded(pause)
            ));
        }
        // One that is given up would stop the program all the same.
        let left = left(until);
        if pause > left {
            return Some(format!(
                "objects by type: a heap snapshot may take {pause:?}, and {left:?} are left for this reading"
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

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Up to one, two or five times a power of ten of milliseconds: what to allow, and the same words for similar heaps.
fn rounded(pause: Duration) -> Duration {
    let mut step = 1;
    loop {
        let ends = [step, 2 * step, 5 * step].map(Duration::from_millis);
        if let Some(end) = ends.into_iter().find(|end| *end >= pause) {
            return end;
        }
        step *= 10;
    }
}

fn pause_of(bytes: u64, per_mib: Duration) -> Duration {
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    PAUSE_LEAST.saturating_add(per_mib.saturating_mul(mib))
}

/// A snapshot that is not used is received to its end all the same: the program is stopped for it in any case.
fn take_heap_snapshot(
    session: &mut Session,
    limits: &Limits,
    within: Duration,
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
    let mut parser = Ok(Parser::new(limits.bytes));
    let params = json!({"reportProgress": false});
    session.call_with_events("HeapProfiler.takeHeapSnapshot", &params, within, |event| {
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
    })?;
    Ok(parser.and_then(Parser::finish))
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
                 observation ends, and prints that to its standard error",
                if port == 0 {
                    "a free port".into()
                } else {
                    format!("port {port}")
                },
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
        let until = begin + limits.time;
        let may_stop = limits.pause >= PAUSE_LEAST;
        let read = match may_stop {
            true => self.read(limits, until),
            false => self.read_only(limits, until),
        };
        if may_stop && read.is_err() {
            self.sampled_from = None;
            // What stays open is reported by `finish`.
            let _ = self.inspector.close();
        }
        let mut snapshot = read?;
        snapshot.cost.reading = begin.elapsed();
        Ok(snapshot)
    }

    /// From the last snapshot: no further pause.
    fn holders(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        let Some(graph) = &self.graph else {
            return Vec::new();
        };
        let functions = self.outside.as_ref().and_then(Outside::functions);
        let code = functions.map_or_else(Code::default, |functions| {
            Code::read(graph, &functions, Instant::now() + limits.time)
        });
        holders::find(graph, &code, types)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.sampled_from = None;
        self.inspector.close()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; who wants to know calls `finish`.
        let _ = self.finish();
    }
}

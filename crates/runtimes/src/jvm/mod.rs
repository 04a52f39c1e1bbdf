//! The heap of a HotSpot JVM (JDK 11 and later), through its counters and its attach listener. Needs no JDK.
//!
//! ```text
//! counters   /tmp/hsperfdata_USER/PID   sizes, collections            only read, always
//! listener   /tmp/.java_pidPID          types, threads, native sizes  stops the program, where a pause is allowed
//! ```
//!
//! Types come from the class histogram, for which the JVM walks its heap at a safepoint. It counts what lies in the
//! heap, so dead objects too that were not collected yet; ZGC and Shenandoah count reachable ones only.

mod attach;
mod counters;
mod exchange;
mod flags;
mod histogram;
mod native;
mod pause;
mod target;
mod threads;

use std::time::{Duration, Instant};

use counters::{Counters, METASPACE_USED, parse_counters};
use exchange::Listener;
use flags::read_version;
use pause::Pauses;
use target::{Mapped, Target};

pub use threads::JAVA_MODULE;

use crate::{Error, HeapSize, Language, Limits, ManagedHeap, Snapshot, Touch};

const NO_COUNTERS: &str = "the JVM publishes no counters (-XX:-UsePerfData or -XX:+PerfDisableSharedMem): \
    its heap can only be read with --allow-pause";

/// A HotSpot JVM.
#[derive(Debug)]
pub struct Jvm {
    target: Target,
    mapped: Mapped,
    runtime: String,
    warning: String,
    pauses: Pauses,
}

/// `None`: the process has no JVM.
pub fn open(pid: u32) -> Option<Result<Jvm, Error>> {
    let (target, mapped) = match Target::open(pid) {
        Ok(found) => found?,
        // Whether it has a JVM is unknown then; the other readers meet the same error.
        Err(_) => return None,
    };
    Some(Jvm::new(target, mapped))
}

impl Jvm {
    fn new(target: Target, mapped: Mapped) -> Result<Jvm, Error> {
        let mut jvm = Jvm {
            target,
            mapped,
            runtime: "HotSpot JVM".to_owned(),
            warning: String::new(),
            pauses: Pauses::of(None),
        };
        let pid = jvm.target.pid;
        let counters = jvm.counters()?;
        if let Some(counters) = &counters {
            let version = counters.version().unwrap_or("of an unknown version");
            let collector = counters
                .collector()
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            jvm.runtime = format!("HotSpot JVM {version}{collector}");
            jvm.pauses = Pauses::of(counters.collector());
        } else if let Some(version) = jvm.mapped.libjvm.and_then(|base| read_version(pid, base)) {
            jvm.runtime = format!("HotSpot JVM {version}");
        }
        jvm.warning = jvm.describe(counters.as_ref())?;
        Ok(jvm)
    }

    fn counters(&self) -> Result<Option<Counters>, Error> {
        let bytes = self.target.read_counters(&self.mapped)?;
        Ok(bytes.as_deref().and_then(parse_counters))
    }

    fn describe(&self, counters: Option<&Counters>) -> Result<String, Error> {
        Ok(format!(
            "each snapshot stops the program at a safepoint for about {:?} while the JVM counts its objects; before \
             the first one a file .attach_pid{} is created in its /tmp and SIGQUIT sent, at which the JVM opens its \
             attach socket",
            self.first_estimate(counters)?,
            self.target.status()?.inner_pid
        ))
    }

    /// Before the JVM has reported how much is in its heap: not more than its limit, nor than the whole process has.
    /// What is committed is only up to date after a collection (ZGC).
    fn first_estimate(&self, counters: Option<&Counters>) -> Result<Duration, Error> {
        let status = self.target.status()?;
        let limit = counters.and_then(|counters| counters.heap().limit_bytes);
        let present = status.rss_bytes.saturating_add(status.swap_bytes);
        let heap_bytes = limit.unwrap_or(u64::MAX).min(present);
        let about = self.pauses.histogram(heap_bytes, status.swap_bytes);
        Ok(pause::rounded(about))
    }

    /// What can be known without touching the process.
    fn read_only(&self, counters: Option<&Counters>) -> Result<Snapshot, Error> {
        let counters = counters.ok_or_else(|| Error::Refused(NO_COUNTERS.into()))?;
        let about = self.first_estimate(Some(counters))?;
        Ok(Snapshot {
            heap: Some(counters.heap()),
            missing: vec![format!(
                "types and threads: the JVM lists them only while the program is stopped, for about {about:?}; \
                 allow it with --allow-pause"
            )],
            ..Snapshot::default()
        })
    }

    /// Asks the JVM, which stops the program.
    fn paused(&mut self, counters: Option<&Counters>, limits: &Limits) -> Result<Snapshot, Error> {
        let heap = counters.map(Counters::heap).unwrap_or_default();
        let swap_bytes = self.target.status()?.swap_bytes;
        // Refused before anything is done, if the last collection already left too much.
        allowed(self.pauses.histogram(heap.used_bytes, swap_bytes), limits)?;
        let listener = Listener {
            target: &self.target,
            deadline: Instant::now() + limits.time,
            bytes_max: limits.bytes,
        };
        let sizes = listener.diagnose("GC.heap_info")?;
        let heap = with_current(heap, &sizes);
        let used_bytes = heap.used_bytes;
        allowed(self.pauses.histogram(used_bytes, swap_bytes), limits)?;

        let (histogram, walk) = self.timed(|| listener.ask("inspectheap", "-all"))?;
        let mut snapshot = Snapshot {
            types: histogram::parse_histogram(&histogram),
            ..Snapshot::default()
        };
        if snapshot.types.is_empty() {
            return Err(Error::Inconsistent(
                "the class histogram has no rows".into(),
            ));
        }
        snapshot.cost.paused =
            walk + self.add_threads(&listener, counters, limits, &mut snapshot)?;
        snapshot.heap = Some(with_native(heap, &listener, &mut snapshot.missing));
        self.pauses.measured(used_bytes, walk);
        Ok(snapshot)
    }

    /// The time that the program was stopped for them.
    fn add_threads(
        &self,
        listener: &Listener,
        counters: Option<&Counters>,
        limits: &Limits,
        snapshot: &mut Snapshot,
    ) -> Result<Duration, Error> {
        let about = pause::thread_dump(counters.and_then(Counters::threads).unwrap_or(1));
        if about > limits.pause {
            let sentence =
                format!("threads: their dump would stop the program for about {about:?}");
            snapshot.missing.push(sentence);
            return Ok(Duration::ZERO);
        }
        let (dump, stop) = match self.timed(|| listener.ask("threaddump", "")) {
            Ok(dumped) => dumped,
            Err(error) => {
                snapshot.missing.push(format!("threads: {error}"));
                return Ok(Duration::ZERO);
            }
        };
        let mut groups = threads::parse_threads(&dump);
        match self.target.smaps() {
            Ok(smaps) => threads::add_stacks(&mut groups, &String::from_utf8_lossy(&smaps)),
            Err(error) => snapshot
                .missing
                .push(format!("bytes of the stacks: {error}")),
        }
        snapshot.tasks = groups.into_iter().map(|group| group.tasks).collect();
        if let Some(virtual_threads) = snapshot
            .types
            .iter()
            .find(|one| one.name == "java.lang.VirtualThread")
        {
            let count = virtual_threads.objects;
            snapshot.missing.push(format!(
                "stacks of {count} virtual threads: the JVM lists platform threads only"
            ));
        }
        Ok(stop)
    }

    /// A command and the time for which it stopped the program: as the JVM counts it, or the whole time if it does not.
    fn timed(
        &self,
        command: impl Fn() -> Result<String, Error>,
    ) -> Result<(String, Duration), Error> {
        let stopped_before = self.stopped_ns()?;
        let start = Instant::now();
        let reply = command()?;
        let elapsed = start.elapsed();
        let counted = stopped_before.zip(self.stopped_ns()?);
        let stopped =
            counted.map(|(before, after)| Duration::from_nanos(after.saturating_sub(before)));
        Ok((reply, stopped.unwrap_or(elapsed).min(elapsed)))
    }

    fn stopped_ns(&self) -> Result<Option<u64>, Error> {
        Ok(self.counters()?.and_then(|counters| counters.stopped_ns()))
    }
}

fn allowed(about: Duration, limits: &Limits) -> Result<(), Error> {
    if about <= limits.pause {
        return Ok(());
    }
    Err(Error::Pause {
        about: pause::rounded(about),
        allowed: limits.pause,
    })
}

/// With sizes as of now, in place of those as of the last collection.
fn with_current(mut heap: HeapSize, heap_info: &str) -> HeapSize {
    let used = native::parse_heap_info(heap_info);
    heap.committed_bytes = native::parse_capacity(heap_info).or(heap.committed_bytes);
    heap.used_bytes = used.unwrap_or(heap.committed_bytes.unwrap_or(heap.used_bytes));
    heap.idle_bytes = heap
        .committed_bytes
        .map(|committed| committed.saturating_sub(heap.used_bytes));
    if let Some(metaspace) = native::parse_metaspace(heap_info) {
        heap.others.retain(|(name, _)| name != METASPACE_USED);
        heap.others.push((METASPACE_USED.to_owned(), metaspace));
    }
    heap
}

/// Adds what the JVM prints of its own memory. A command that it does not know is named in `missing`.
fn with_native(mut heap: HeapSize, listener: &Listener, missing: &mut Vec<String>) -> HeapSize {
    let mut ask = |what: &str, command: &str| match listener.diagnose(command) {
        Ok(text) => text,
        Err(error) => {
            missing.push(format!("{what}: {error}"));
            String::new()
        }
    };
    let code = native::parse_code_cache(&ask("the code cache", "Compiler.codecache"));
    let loaders = ask("class loaders", "VM.classloader_stats");
    let categories = native::parse_native_memory(&ask("native memory", "VM.native_memory summary"));
    let metaspace = heap.others.iter().find(|(name, _)| name == METASPACE_USED);
    let loaders = native::parse_class_loaders(&loaders, metaspace.map_or(0, |(_, bytes)| *bytes));
    if !loaders.is_empty() {
        heap.others.retain(|(name, _)| name != METASPACE_USED);
    }
    heap.others.extend(loaders);
    heap.others
        .extend(code.map(|bytes| ("code cache".to_owned(), bytes)));
    heap.others.extend(categories);
    heap
}

impl ManagedHeap for Jvm {
    fn runtime(&self) -> &str {
        &self.runtime
    }

    fn language(&self) -> Language {
        Language::Java
    }

    fn touch(&self) -> Touch {
        Touch::Pauses
    }

    fn warning(&self) -> Option<String> {
        Some(self.warning.clone())
    }

    fn snapshot(&mut self, limits: &Limits) -> Result<Snapshot, Error> {
        let start = Instant::now();
        let counters = self.counters()?;
        let mut snapshot = if limits.pause.is_zero() {
            self.read_only(counters.as_ref())?
        } else {
            self.paused(counters.as_ref(), limits)?
        };
        snapshot.cost.reading = start.elapsed();
        Ok(snapshot)
    }
}

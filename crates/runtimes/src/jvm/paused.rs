//! A snapshot for which the JVM stops the program.
//!
//! ```text
//! GC.heap_info, Compiler.codecache, VM.native_memory     do not stop it
//! inspectheap, threaddump, VM.classloader_stats          stop it, each at a safepoint of its own; the first of them
//!                                                         where the heap cannot be read from outside
//! ```
//!
//! Each command that stops it runs only if what is left of the allowed pause covers its estimate.

use std::time::{Duration, Instant};

use super::counters::Counters;
use super::exchange::Listener;
use super::outside::Now;
use super::recording::{self, Recording};
use super::target::Status;
use super::unpaused::of_live;
use super::{Jvm, histogram, native, pause, threads};
use crate::{Error, HeapSize, Limits, Snapshot, TypeCount};

const NO_COLLECTION: &str = "types are left out: no collection since the last snapshot, so dead objects cannot be \
    distinguished from live ones";

const NO_KNOWN_COLLECTION: &str = "types are left out: the JVM publishes no counters, and its heap did not become \
    smaller since the last snapshot, so dead objects cannot be distinguished from live ones";

/// What shows whether there was a collection between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    collections: Option<u64>,
    used_bytes: u64,
}

impl Seen {
    /// Why types of now and of an earlier snapshot cannot be compared. Without counters a collection is known only by
    /// what it freed.
    fn why_no_types(self, earlier: Seen) -> Option<&'static str> {
        match (earlier.collections, self.collections) {
            (Some(before), Some(now)) => (now <= before).then_some(NO_COLLECTION),
            _ => (self.used_bytes >= earlier.used_bytes).then_some(NO_KNOWN_COLLECTION),
        }
    }
}

/// For how long the commands of one snapshot have stopped the program.
pub(super) struct Stops<'a> {
    jvm: &'a Jvm,
    start: Instant,
    /// Nanoseconds, as the JVM counts them.
    stopped_before: Option<u64>,
    commands: Duration,
    allowed: Duration,
}

impl Stops<'_> {
    pub(super) fn start(jvm: &Jvm, allowed: Duration) -> Result<Stops<'_>, Error> {
        Ok(Stops {
            jvm,
            stopped_before: jvm.stopped_ns()?,
            start: Instant::now(),
            commands: Duration::ZERO,
            allowed,
        })
    }

    pub(super) fn run<T>(
        &mut self,
        command: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let reply = command();
        self.commands += start.elapsed();
        reply
    }

    /// As the JVM counts it, with its own collections meanwhile. If it does not count: all time of the commands.
    pub(super) fn so_far(&self) -> Result<Duration, Error> {
        let counted = self.stopped_before.zip(self.jvm.stopped_ns()?);
        let stopped = counted.map(|(before, now)| Duration::from_nanos(now.saturating_sub(before)));
        Ok(stopped.map_or(self.commands, |stopped| stopped.min(self.start.elapsed())))
    }

    fn may_take(&self, about: Duration) -> Result<bool, Error> {
        Ok(about <= self.allowed.saturating_sub(self.so_far()?))
    }
}

impl Jvm {
    /// Asks the JVM, which stops the program.
    pub(super) fn paused(
        &mut self,
        counters: Option<&Counters>,
        limits: &Limits,
    ) -> Result<Snapshot, Error> {
        let outside = self.outside_now(limits).ok();
        let (status, cpu) = (self.target.status()?, self.target.cpu().ok());
        let heap = counters.map(Counters::heap).unwrap_or_default();
        let about = |jvm: &Jvm, used: u64| jvm.pause_of_types(outside.is_some(), used, &status);
        // Refused before anything is done, if the last collection already left too much.
        allowed(about(self, heap.used_bytes), limits)?;
        let listener = Listener {
            target: &self.target,
            deadline: Instant::now() + limits.time,
            bytes_max: limits.bytes,
        };
        let heap_info = listener.diagnose("GC.heap_info")?;
        let heap = with_current(heap, &heap_info);
        let used_bytes = walked_bytes(heap.as_ref(), &status);
        allowed(about(self, used_bytes), limits)?;

        let mut stops = Stops::start(self, limits.pause)?;
        let mut snapshot = Snapshot::default();
        let mut seen = self.seen(used_bytes)?;
        let mut walk = None;
        match self.why_no_types(counters, &heap_info, seen) {
            _ if outside.is_some() => {}
            Some(why) => snapshot.missing.push(why.to_owned()),
            None => {
                snapshot.types = types(&listener, &mut stops)?;
                walk = Some(stops.so_far()?);
                // Counted after the walk: the next one needs a collection that came later.
                seen = self.seen(used_bytes)?;
            }
        }
        let running = counters
            .and_then(Counters::threads)
            .unwrap_or(status.threads);
        if outside.is_none() {
            self.add_threads(&listener, &mut stops, running, &mut snapshot)?;
        }
        match heap {
            Some(mut heap) => {
                heap.collections = seen.collections.or(heap.collections);
                let classes = counters.and_then(Counters::classes);
                let has_current = native::parse_metaspace(&heap_info).is_some();
                let missing = &mut snapshot.missing;
                let heap = with_native(heap, has_current, &listener, &mut stops, classes, missing)?;
                snapshot.heap = Some(heap);
            }
            None => snapshot
                .missing
                .push("the size of the heap: the JVM's GC.heap_info has none".to_owned()),
        }
        if let Some(outside) = outside {
            self.add_outside(outside, &mut snapshot);
        }
        let before = self.target.status();
        let recording = self.start_recording(counters, &listener, &mut stops)?;
        snapshot.cost.paused = stops.so_far()?;
        snapshot.cost.cpu = self.cpu_since(cpu);
        if let Some(walk) = walk {
            self.pauses.measured(used_bytes, walk);
        }
        self.seen = Some(seen);
        if let Some(recording) = recording {
            self.keep(recording, before.ok(), used_bytes, &mut snapshot)?;
        }
        Ok(snapshot)
    }

    /// Of a recording that started just now: what it took since `before`, and the collections that came with it.
    fn keep(
        &mut self,
        recording: Result<Recording, Error>,
        before: Option<Status>,
        used_bytes: u64,
        snapshot: &mut Snapshot,
    ) -> Result<(), Error> {
        self.record(recording);
        if let (Some(before), Ok(now)) = (before, self.target.status()) {
            snapshot.cost.memory_bytes = now.rss_bytes.saturating_sub(before.rss_bytes);
        }
        // The start may end with a collection, which is no reason to list types, and none of the program's.
        let seen = self.seen(used_bytes)?;
        self.seen = Some(seen);
        if let Some(heap) = &mut snapshot.heap {
            heap.collections = seen.collections.or(heap.collections);
        }
        Ok(())
    }

    /// CPU time of the process since it had used so much; zero where one of the two is not known.
    fn cpu_since(&self, before: Option<Duration>) -> Duration {
        let used = self.target.cpu().ok().zip(before);
        used.map_or(Duration::ZERO, |(now, before)| now.saturating_sub(before))
    }

    /// `None`: none is due, or what is left of the pause is too short.
    fn start_recording(
        &self,
        counters: Option<&Counters>,
        listener: &Listener,
        stops: &mut Stops,
    ) -> Result<Option<Result<Recording, Error>>, Error> {
        let search = stops.allowed / 2;
        Ok(match self.may_record(counters) {
            Ok(false) => None,
            Ok(true) if !stops.may_take(recording::START)? => None,
            Ok(true) => Some(stops.run(|| Recording::start(listener, search))),
            Err(why) => Some(Err(why)),
        })
    }

    fn seen(&self, used_bytes: u64) -> Result<Seen, Error> {
        Ok(Seen {
            collections: self.counters()?.and_then(|counters| counters.collections()),
            used_bytes,
        })
    }

    /// The class histogram of most collectors counts dead objects that were not collected yet.
    fn why_no_types(
        &self,
        counters: Option<&Counters>,
        heap_info: &str,
        now: Seen,
    ) -> Option<&'static str> {
        let known = counters.and_then(Counters::counts_garbage);
        let counts_garbage = known.unwrap_or_else(|| !native::is_traced_by_reference(heap_info));
        self.seen
            .filter(|_| counts_garbage)
            .and_then(|earlier| now.why_no_types(earlier))
    }

    fn add_threads(
        &self,
        listener: &Listener,
        stops: &mut Stops,
        running: u64,
        snapshot: &mut Snapshot,
    ) -> Result<(), Error> {
        let about = pause::thread_dump(running);
        if !stops.may_take(about)? {
            let sentence =
                format!("threads: their dump would stop the program for about {about:?} more");
            snapshot.missing.push(sentence);
            return Ok(());
        }
        let dump = match stops.run(|| listener.ask("threaddump", "")) {
            Ok(dump) => dump,
            Err(error) => {
                snapshot.missing.push(format!("threads: {error}"));
                return Ok(());
            }
        };
        self.add_groups(threads::parse_threads(&dump), snapshot);
        let mut types = snapshot.types.iter();
        if let Some(virtual_threads) = types.find(|one| one.name == "java.lang.VirtualThread") {
            let count = virtual_threads.objects;
            snapshot.missing.push(format!(
                "stacks of {count} virtual threads: the JVM lists platform threads only"
            ));
        }
        Ok(())
    }

    /// For how long counting the objects by type would stop it.
    fn pause_of_types(&self, is_known: bool, used_bytes: u64, status: &Status) -> Duration {
        match is_known {
            true => Duration::ZERO,
            false => self.pauses.histogram(used_bytes, status.swap_bytes),
        }
    }

    /// What was read from outside, in place of what the JVM would say of it.
    fn add_outside(&self, outside: Now, snapshot: &mut Snapshot) {
        let (types, threads) = outside;
        let heap = snapshot.heap.take();
        snapshot.heap = heap.map(|heap| of_live(heap, &types));
        snapshot.types = types;
        self.add_groups(threads::grouped(threads.into_iter()), snapshot);
    }

    /// Groups of threads with what their stacks have in RAM.
    pub(super) fn add_groups(&self, mut groups: Vec<threads::Group>, snapshot: &mut Snapshot) {
        match self.target.smaps() {
            Ok(smaps) => threads::add_stacks(&mut groups, &String::from_utf8_lossy(&smaps)),
            Err(error) => snapshot
                .missing
                .push(format!("bytes of the stacks: {error}")),
        }
        snapshot.tasks = groups.into_iter().map(|group| group.tasks).collect();
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

/// What a walk of the heap has to read. If the size of the heap is unknown: not more than the process has.
fn walked_bytes(heap: Option<&HeapSize>, status: &Status) -> u64 {
    let present = status.rss_bytes.saturating_add(status.swap_bytes);
    heap.map_or(present, |heap| heap.used_bytes)
}

fn types(listener: &Listener, stops: &mut Stops) -> Result<Vec<TypeCount>, Error> {
    let text = stops.run(|| listener.ask("inspectheap", "-all"))?;
    let types = histogram::parse_histogram(&text);
    if types.is_empty() {
        return Err(Error::Inconsistent(
            "the class histogram has no rows".into(),
        ));
    }
    Ok(types)
}

/// With sizes as of now, in place of those as of the last collection. `None`: how much is used is unknown.
fn with_current(mut heap: HeapSize, heap_info: &str) -> Option<HeapSize> {
    heap.committed_bytes = native::parse_capacity(heap_info).or(heap.committed_bytes);
    heap.used_bytes = native::parse_heap_info(heap_info).or(heap.committed_bytes)?;
    heap.idle_bytes = heap
        .committed_bytes
        .map(|committed| committed.saturating_sub(heap.used_bytes));
    if let Some(metaspace) = native::parse_metaspace(heap_info) {
        heap.others.retain(|(name, _)| name != HeapSize::METASPACE);
        heap.others
            .push((HeapSize::METASPACE.to_owned(), metaspace));
    }
    Some(heap)
}

/// Adds what the JVM prints of its own memory. A command that it does not know is named in `missing`.
/// `has_current_metaspace`: else what is known of it is as of the last collection, and the loaders' sum is better.
fn with_native(
    mut heap: HeapSize,
    has_current_metaspace: bool,
    listener: &Listener,
    stops: &mut Stops,
    classes: Option<u64>,
    missing: &mut Vec<String>,
) -> Result<HeapSize, Error> {
    let mut ask = |what: &str, reply: Result<String, Error>| {
        reply.unwrap_or_else(|error| {
            missing.push(format!("{what}: {error}"));
            String::new()
        })
    };
    let code = ask("the code cache", listener.diagnose("Compiler.codecache"));
    let categories = ask(
        "native memory",
        listener.diagnose("VM.native_memory summary"),
    );
    let about = pause::class_loaders(classes);
    let loaders = if stops.may_take(about)? {
        ask(
            "class loaders",
            stops.run(|| listener.diagnose("VM.classloader_stats")),
        )
    } else {
        missing.push(format!(
            "class loaders: their sizes would stop the program for about {about:?} more"
        ));
        String::new()
    };
    let metaspace = heap
        .others
        .iter()
        .find(|(name, _)| name == HeapSize::METASPACE);
    let mut loaders =
        native::parse_class_loaders(&loaders, metaspace.map_or(0, |(_, bytes)| *bytes));
    if has_current_metaspace {
        loaders.retain(|(name, _)| name != HeapSize::METASPACE);
    } else if !loaders.is_empty() {
        heap.others.retain(|(name, _)| name != HeapSize::METASPACE);
    }
    heap.others.extend(loaders);
    let code = native::parse_code_cache(&code);
    heap.others
        .extend(code.map(|bytes| ("code cache".to_owned(), bytes)));
    heap.others.extend(native::parse_native_memory(&categories));
    Ok(heap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_across_a_collection_only() {
        let seen = |collections, used_bytes| Seen {
            collections,
            used_bytes,
        };
        for (earlier, now, expected) in [
            (seen(Some(3), 100), seen(Some(4), 900), None),
            (seen(Some(3), 100), seen(Some(3), 900), Some(NO_COLLECTION)),
            (seen(Some(3), 100), seen(Some(3), 90), Some(NO_COLLECTION)),
            (seen(None, 100), seen(None, 99), None),
            (seen(None, 100), seen(None, 100), Some(NO_KNOWN_COLLECTION)),
            (
                seen(Some(3), 100),
                seen(None, 101),
                Some(NO_KNOWN_COLLECTION),
            ),
        ] {
            assert_eq!(now.why_no_types(earlier), expected, "{earlier:?} {now:?}");
        }
    }

    /// A heap of unknown size is not taken for an empty one.
    #[test]
    fn an_unknown_heap_has_the_size_of_the_process() {
        let status = Status {
            rss_bytes: 8 << 30,
            swap_bytes: 1 << 30,
            ..Status::default()
        };
        assert_eq!(
            with_current(HeapSize::default(), "a wording of a later JDK"),
            None
        );
        assert_eq!(walked_bytes(None, &status), 9 << 30);
        let about = pause::Pauses::of(None).histogram(walked_bytes(None, &status), 0);
        assert!(about > Duration::from_secs(100));

        let counted = HeapSize {
            used_bytes: 1,
            committed_bytes: Some(4 << 20),
            ..HeapSize::default()
        };
        let heap = with_current(counted.clone(), "a wording of a later JDK").unwrap();
        assert_eq!(walked_bytes(Some(&heap), &status), 4 << 20);
        let heap = with_current(
            counted,
            " garbage-first heap   total 262144K, used 4511K [0x0)\n",
        )
        .unwrap();
        assert_eq!(walked_bytes(Some(&heap), &status), 4511 << 10);
    }
}

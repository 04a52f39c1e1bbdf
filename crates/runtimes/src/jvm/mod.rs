//! The heap of a HotSpot JVM (JDK 11 and later), through its counters and its attach listener. Needs no JDK.
//!
//! ```text
//! counters   /tmp/hsperfdata_USER/PID   sizes, collections            only read, always
//! outside    the heap itself            types, holders                only read, always
//! listener   /tmp/.java_pidPID          types, threads, native sizes  stops the program, where a pause is allowed
//! recording  of JDK Flight Recorder     allocations, ways from roots  started by the listener; stops it at the end
//! ```
//!
//! Where the heap cannot be read from outside, types come from the class histogram, for which the JVM walks its heap
//! at a safepoint. It counts what lies in the heap, so dead objects too that were not collected yet; ZGC and
//! Shenandoah count reachable ones only. With the other collectors types are listed only if there was a collection
//! since the last snapshot: otherwise every program that allocates would seem to grow.

mod attach;
mod counters;
mod exchange;
mod flags;
mod held;
mod histogram;
mod jfr;
mod native;
mod outside;
mod pause;
mod paused;
mod recording;
mod sample;
mod searched;
mod target;
mod text;
mod threads;
mod trigger;
mod unpaused;

use std::time::{Duration, Instant};

use counters::{Counters, parse_counters};
use flags::read_version;
use outside::Outside;
use pause::Pauses;
use paused::Seen;
use searched::Searched;
use target::{Mapped, Target};

pub use threads::JAVA_MODULE;

use crate::{Error, Holder, Language, Limits, ManagedHeap, Search, Snapshot, Touch};

/// A HotSpot JVM.
#[derive(Debug)]
pub struct Jvm {
    target: Target,
    mapped: Mapped,
    runtime: String,
    warning: String,
    pauses: Pauses,
    /// At the last snapshot that stopped the program.
    seen: Option<Seen>,
    searched: Searched,
    /// `None`: not tried yet. An error says in words why the heap cannot be read from outside.
    outside: Option<Result<Outside, String>>,
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
            seen: None,
            searched: Searched::default(),
            outside: None,
        };
        let counters = jvm.counters()?;
        if let Some(counters) = &counters {
            let version = counters.version().unwrap_or("of an unknown version");
            let collector = counters
                .collector()
                .map(|name| format!(" ({name})"))
                .unwrap_or_default();
            jvm.runtime = format!("HotSpot JVM {version}{collector}");
            jvm.pauses = Pauses::of(counters.collector());
        } else if let (Ok(memory), Some(base)) = (jvm.target.memory(), jvm.mapped.libjvm)
            && let Some(version) = read_version(&memory, base)
        {
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
             attach socket; JDK Flight Recorder samples allocations meanwhile, and at the end the JVM searches what \
             holds them, for half of the allowed pause at most",
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
            self.read_only(counters.as_ref(), limits)?
        } else {
            self.paused(counters.as_ref(), limits)?
        };
        snapshot.cost.reading = start.elapsed();
        Ok(snapshot)
    }

    fn holders(&mut self, types: &[String], limits: &Limits) -> Vec<Holder> {
        self.search(types, limits)
    }

    fn last_search(&self) -> Search {
        self.searched.last.clone()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.stop_recording()
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; who wants to know calls `finish`.
        let _ = self.stop_recording();
    }
}

//! The objects of a running HotSpot, read from outside while the program goes on: no listener, no safepoint.
//!
//! ```text
//! gHotSpotVMStructs of libjvm.so          --> Layout
//! class loaders --> Classes: which pointers are one, what their objects are made of
//! static fields, threads, handles, stacks --> Roots
//!                                              |
//!                trace: every object that they hold, once --> Live: objects by class, and ways to samples of them
//!                ways: types and fields on a way             code: functions that fill a field, or make a type
//! ```
//!
//! The program changes what is read meanwhile, and a collection moves it: a reading during which there was one is made
//! again. What is no object when it is read is counted. Serial, Parallel, G1, Shenandoah; functions of
//! threads on x86-64 alone.

mod bytecodes;
mod classes;
mod code;
mod fields;
mod flags;
mod groups;
mod heap;
#[cfg(test)]
mod hostile;
mod layout;
mod live;
mod roots;
mod seen;
mod spaces;
mod stacks;
mod statics;
mod trace;
mod ways;

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use observe::fact::memory::{Memory, ProcessMemory};
use observe::proc::pagemap::Pagemap;

use super::sample::Sample;
use super::threads::Thread;
use crate::memory::areas::Areas;
use crate::memory::pages::Pages;
use crate::memory::source::{PageStates, Source};
use crate::{Holder, TypeCount};
use classes::Classes;
use heap::Heap;
use layout::Layout;
use live::Live;
use spaces::Spaces;
use stacks::Walker;
use trace::Stop;
use ways::Names;

/// Of the memory that may be used, one part in so many is for what was read of the process.
const CACHE_PART: usize = 4;
/// Readings of one snapshot.
const ATTEMPTS: usize = 4;
/// Of objects that were reached, what may be none when it is read: it moved meanwhile.
const LOST_PART: u64 = 100;

/// Objects by type, the most bytes first, and the threads.
pub(super) type Now = (Vec<TypeCount>, Vec<Thread>);

/// Reads the heap of one JVM.
pub(super) struct Outside {
    pid: u32,
    memory: ProcessMemory,
    layout: Layout,
    /// Readings so far, and objects by the hash of their way in the first one, the second, the fourth, and so on.
    readings: usize,
    earlier: Vec<HashMap<u64, u64>>,
    walker: Option<Walker>,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

impl Outside {
    /// An error says in words why its heap cannot be read from outside.
    pub(super) fn open(pid: u32, memory: ProcessMemory, libjvm: u64) -> Result<Outside, String> {
        let layout = Layout::of(pid, &memory, libjvm)?;
        Ok(Outside {
            pid,
            memory,
            layout,
            readings: 0,
            earlier: Vec::new(),
            walker: None,
        })
    }

    pub(super) fn snapshot(&mut self, bytes: usize, deadline: Instant) -> Result<Now, String> {
        let is_kept = (self.readings + 1).is_power_of_two();
        let (types, ways, seen) = self.read(bytes, deadline, |heap, live| {
            let groups = live.groups.all.iter().filter(|_| is_kept);
            let ways: HashMap<u64, u64> = groups.map(|of| (of.hash, of.objects)).collect();
            (types(heap, live), ways, stacks::seen(heap, live))
        })?;
        self.readings += 1;
        if is_kept {
            self.earlier.push(ways);
        }
        let walker = self.walker.get_or_insert_with(|| Walker::new(self.pid));
        Ok((types, walker.threads(&self.memory, &seen, deadline)))
    }

    /// What holds objects of these types, and which code fills it.
    pub(super) fn holders(
        &self,
        types: &[String],
        bytes: usize,
        deadline: Instant,
    ) -> Result<Vec<Holder>, String> {
        let none = HashMap::new();
        let before = self.half_way().unwrap_or(&none);
        self.read(bytes, deadline, |heap, live| {
            let mut names = Names::new(heap, live);
            let samples: Vec<(String, Vec<Sample>)> = types
                .iter()
                .map(|name| (name.clone(), names.samples(name, before)))
                .collect();
            code::holders(self.pid, heap, &live.classes, samples)
        })
    }

    /// Of a reading in the first half: what the start took is not new any more.
    fn half_way(&self) -> Option<&HashMap<u64, u64>> {
        let half = (self.readings / 2).max(1);
        self.earlier.get(half.ilog2() as usize)
    }

    /// Reads everything that is held, and uses it before it can change much.
    fn read<T>(
        &self,
        bytes: usize,
        deadline: Instant,
        mut used: impl FnMut(&Heap, &mut Live) -> T,
    ) -> Result<T, String> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let start = Instant::now();
            let maps = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            let pagemap = Pagemap::open(self.pid);
            let states = pagemap.as_ref().map(|pagemap| pagemap as &dyn PageStates);
            let source = Source::new(&self.memory, Areas::parse(&maps), states);
            let pages = Pages::new(&source, bytes / CACHE_PART, deadline);
            let before = self.collections();
            let spaces = Spaces::read(&self.layout.parts, &self.memory)
                .ok_or("the parts of its heap could not be read")?;
            let heap = Heap {
                pages,
                layout: &self.layout,
                spaces,
            };
            let mut live = match read_once(&heap, self.pid, bytes - bytes / CACHE_PART) {
                Ok(live) => live,
                // What was read before counts.
                Err(why) => return last.ok_or(why),
            };
            let is_quiet = before.is_some() && before == self.collections();
            let found = used(&heap, &mut live);
            let is_whole = live.lost * LOST_PART <= live.len() as u64;
            if is_quiet {
                return Ok(found);
            }
            if is_whole {
                last = Some(found);
            }
            if Instant::now() + start.elapsed() > deadline {
                break;
            }
        }
        last.ok_or_else(|| "its objects moved during every reading".to_owned())
    }

    /// How many there were; `None` while one goes on.
    fn collections(&self) -> Option<u32> {
        let of = self.layout.collections;
        let is_active = of.is_active.and_then(|at| self.memory.bytes(at, 1, 1));
        let count = self.memory.u32(of.count)?;
        (is_active.is_none_or(|byte| byte == [0])).then_some(count)
    }
}

fn read_once(heap: &Heap, pid: u32, bytes: usize) -> Result<Live, String> {
    let late = || reason(Stop::Late).to_owned();
    let classes = Classes::of(heap).ok_or("its classes could not be followed")?;
    let roots = roots::roots(heap, &classes, pid).ok_or_else(late)?;
    trace::trace(heap, classes, &roots, bytes).map_err(|stop| reason(stop).to_owned())
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::TooLarge => "the heap has more objects than highwater may take memory for",
        Stop::Late => "the time for this reading was over before the whole heap was read",
    }
}

fn types(heap: &Heap, live: &mut Live) -> Vec<TypeCount> {
    let counted = live
        .counts
        .iter()
        .enumerate()
        .filter(|(_, count)| count.objects > 0);
    let mut types: HashMap<String, TypeCount> = HashMap::new();
    for (number, count) in counted {
        let Some(name) = live.classes.name(heap, number as u32) else {
            continue;
        };
        // Classes of one name in several loaders, and hidden classes of one lambda, are one type.
        let of = types.entry(name.clone()).or_default();
        of.name = name;
        of.objects = of.objects.saturating_add(count.objects);
        of.bytes = of.bytes.saturating_add(count.bytes);
    }
    let mut types: Vec<TypeCount> = types.into_values().collect();
    types.sort_by(|one, other| {
        let by_bytes = other.bytes.cmp(&one.bytes);
        by_bytes.then_with(|| one.name.cmp(&other.name))
    });
    types
}

//! Interpreters of a process, and the lists of objects that their collectors keep.

use std::collections::HashSet;
use std::time::Duration;

use super::find::Runtime;
use super::heap::Heap;
use super::layout::{
    GC_COLLECTING, GC_ENABLED, GC_GENERATION_BYTES, GC_GENERATION0, GC_GENERATIONS, GC_HEAD_BYTES,
    GC_PERMANENT, GC_STATS, Layout,
};
use super::types::AddressHash;
use observe::fact::memory::Memory;

const INTERPRETERS_MAX: usize = 1_024;
const THREADS_MAX: usize = 16_384;
/// The lowest two bits of a link are flags.
const LINK: u64 = !3;
/// How often a list is tried that changes while it is read; and the pause in between: a collection lasts 0.1 s for each
/// million objects or so.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);
/// Steps that are taken back along a list to find an object that is still in it.
const BACK_MAX: usize = 1 << 16;

/// One interpreter. Processes have one unless they make more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    pub address: u64,
    /// Of its collector's state.
    pub gc: u64,
}

/// Objects of the collector's lists.
#[derive(Debug, Default)]
pub struct Tracked {
    /// In the order of the lists: the oldest first.
    pub objects: Vec<u64>,
    /// Lists that could not be followed to their end.
    pub broken: usize,
    /// There are more than may be kept.
    pub is_cut: bool,
}

pub fn interpreters(memory: &dyn Memory, runtime: &Runtime) -> Vec<Interpreter> {
    let layout = &runtime.layout;
    let mut found: Vec<Interpreter> = Vec::new();
    let mut seen = HashSet::new();
    let mut next = word(memory, runtime.address, layout.interpreters);
    while let Some(address) =
        next.filter(|next| seen.len() < INTERPRETERS_MAX && seen.insert(*next))
    {
        let home = if layout.minor == 8 {
            runtime.address
        } else {
            address
        };
        let gc = collector(memory, layout, home);
        found.extend(gc.map(|gc| Interpreter { address, gc }));
        next = word(memory, address, layout.next_interpreter);
    }
    if layout.minor == 8 {
        // One collector for all of them.
        found.truncate(1);
    }
    found
}

fn word(memory: &dyn Memory, address: u64, offset: u64) -> Option<u64> {
    let word = memory.u64(address.checked_add(offset)?)?;
    (word != 0).then_some(word)
}

/// The collector's state. It has a pointer to its first generation, 72 bytes before: where it is not at the offset that
/// is known, as in a build with other options, it is searched for.
fn collector(memory: &dyn Memory, layout: &Layout, home: u64) -> Option<u64> {
    const SEARCHED_BYTES: u64 = 16_384;
    let is_one =
        |gc: &u64| word(memory, *gc, GC_GENERATION0) == Some(gc.wrapping_add(GC_GENERATIONS));
    let known = home.wrapping_add(layout.gc);
    let mut others = (0..SEARCHED_BYTES)
        .step_by(8)
        .map(|offset| home.wrapping_add(offset));
    Some(known).filter(is_one).or_else(|| others.find(is_one))
}

/// States of all threads of an interpreter.
pub fn threads(memory: &dyn Memory, layout: &Layout, interpreter: u64) -> Vec<u64> {
    let mut threads = Vec::new();
    let mut next = word(memory, interpreter, layout.threads);
    let mut seen = HashSet::new();
    while let Some(thread) =
        next.filter(|thread| threads.len() < THREADS_MAX && seen.insert(*thread))
    {
        threads.push(thread);
        next = word(memory, thread, layout.next_thread);
    }
    threads
}

/// Collections since the start, of all generations.
pub fn collections(memory: &dyn Memory, gc: u64) -> u64 {
    let of = |generation: u64| memory.u64(gc.wrapping_add(GC_STATS + generation * 24));
    (0..3).filter_map(of).sum()
}

pub fn is_enabled(memory: &dyn Memory, gc: u64) -> bool {
    memory.u32(gc.wrapping_add(GC_ENABLED)) != Some(0)
}

fn is_collecting(memory: &dyn Memory, gc: u64) -> bool {
    memory
        .u32(gc.wrapping_add(GC_COLLECTING))
        .is_some_and(|collecting| collecting != 0)
}

/// All objects in the lists of a collector; at most `most`. `live`: memory as it is now, past what was read before.
pub fn tracked(heap: &Heap, live: &dyn Memory, gc: u64, most: usize) -> Tracked {
    let generation = |number: u64| gc.wrapping_add(GC_GENERATIONS + number * GC_GENERATION_BYTES);
    let heads = [
        gc.wrapping_add(GC_PERMANENT),
        generation(2),
        generation(1),
        generation(0),
    ];
    let mut all = Tracked::default();
    let mut seen = HashSet::default();
    for head in heads {
        for try_number in 0..TRIES {
            let walk = Walk {
                heap,
                live,
                head,
                most,
            };
            let is_whole = walk.follow(&mut all, &mut seen);
            if is_whole || heap.pages.is_late() || all.is_cut {
                break;
            }
            if try_number + 1 == TRIES {
                all.broken += 1;
            } else if is_collecting(live, gc) || try_number > 2 {
                std::thread::sleep(PAUSE);
            }
        }
    }
    all
}

struct Walk<'a> {
    heap: &'a Heap<'a>,
    live: &'a dyn Memory,
    head: u64,
    most: usize,
}

impl Walk<'_> {
    /// Adds the objects of a list, but for those that are known. `false`: the list broke off.
    fn follow(&self, all: &mut Tracked, seen: &mut HashSet<u64, AddressHash>) -> bool {
        self.heap.pages.forget(self.head);
        let (first, mut steps) = (all.objects.len(), 0);
        let mut at = self.head;
        // Each step passes an object: in a ring that leaves out the head, all of them are known soon.
        let mut known_in_a_row = 0;
        loop {
            let Some(next) = self.next(at).or_else(|| self.resume(&all.objects[first..])) else {
                return false;
            };
            if next == self.head {
                return true;
            }
            if seen.insert(next) {
                all.objects.push(next + GC_HEAD_BYTES);
                known_in_a_row = 0;
            } else {
                known_in_a_row += 1;
            }
            at = next;
            steps += 1;
            all.is_cut |= all.objects.len() >= self.most;
            let is_ring = known_in_a_row > all.objects.len();
            if all.is_cut || is_ring || steps % 1_024 == 0 && self.heap.pages.is_late() {
                return false;
            }
        }
    }

    /// The next head in a list, when it says that this one is before it. What was read at different times may not fit
    /// together, and is then read anew.
    fn next(&self, at: u64) -> Option<u64> {
        let pages = &self.heap.pages;
        for _ in 0..2 {
            let next = pages.word(at)? & LINK;
            if next != 0
                && next.is_multiple_of(8)
                && pages.word(next.wrapping_add(8)).map(|link| link & LINK) == Some(at)
            {
                return Some(next);
            }
            pages.forget(at);
            pages.forget(next);
        }
        None
    }

    /// After an object that was freed while the list was read: back to one that is still in the list, and on from there.
    fn resume(&self, objects: &[u64]) -> Option<u64> {
        let mut back = 1;
        while back <= objects.len().min(BACK_MAX) {
            let at = objects[objects.len() - back] - GC_HEAD_BYTES;
            let next = word(self.live, at, 0).unwrap_or(0) & LINK;
            let before = word(self.live, next, 8).unwrap_or(0) & LINK;
            if next != 0 && before == at {
                self.heap.pages.forget(at);
                self.heap.pages.forget(next);
                return Some(next);
            }
            back *= 2;
        }
        None
    }
}

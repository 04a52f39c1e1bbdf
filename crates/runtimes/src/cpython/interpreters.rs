//! Interpreters of a process, and the lists of objects that their collectors keep.

use std::collections::HashSet;
use std::time::Duration;

use super::census::{Added, Census};
use super::find::Runtime;
use super::heap::Heap;
use super::layout::{
    GC_ENABLED, GC_GENERATION_BYTES, GC_GENERATION0, GC_GENERATIONS, GC_HEAD_BYTES, Layout,
};
use observe::fact::memory::Memory;

const INTERPRETERS_MAX: usize = 1_024;
const THREADS_MAX: usize = 16_384;
/// The lowest two bits of a link are flags.
const LINK: u64 = !3;
/// How often a list is tried that changes while it is read; and the pause in between: a collection lasts 0.1 s for each
/// million objects or so.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);
/// Steps backwards along a list to find an object that is still in it.
const BACK_MAX: usize = 1 << 16;
/// Fewer steps past known objects are no sign of a ring.
const KNOWN_MIN: usize = 1 << 16;

/// One interpreter. Processes have one unless they make more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interpreter {
    pub address: u64,
    /// Of its collector's state.
    pub gc: u64,
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

/// The collector's state. Up to 3.13 it has a pointer to its first generation, 72 bytes before; later it is known by
/// its lists. Where it is not at the offset that is known, as in a build with other options, it is searched for.
fn collector(memory: &dyn Memory, layout: &Layout, home: u64) -> Option<u64> {
    const SEARCHED_BYTES: u64 = 16_384;
    let is_one = |gc: &u64| match layout.minor {
        ..=13 => word(memory, *gc, GC_GENERATION0) == Some(gc.wrapping_add(GC_GENERATIONS)),
        _ => are_lists(memory, lists(layout, *gc)),
    };
    let known = home.wrapping_add(layout.gc);
    let mut others = (0..SEARCHED_BYTES)
        .step_by(8)
        .map(|offset| home.wrapping_add(offset));
    Some(known).filter(is_one).or_else(|| others.find(is_one))
}

/// Heads of the lists of a collector, that of the oldest objects first.
fn lists(layout: &Layout, gc: u64) -> [u64; 4] {
    let generation = |number: u64| gc.wrapping_add(GC_GENERATIONS + number * GC_GENERATION_BYTES);
    [
        gc.wrapping_add(layout.gc_permanent),
        generation(2),
        generation(1),
        generation(0),
    ]
}

/// Whether these are heads of lists. Only the first, whose objects are never collected, does not change: there what
/// follows the head must lead back to it.
fn are_lists(memory: &dyn Memory, heads: [u64; 4]) -> bool {
    let link = |at: u64, offset: u64| word(memory, at, offset).map(|link| link & LINK);
    let is_link = |link: Option<u64>| link.is_some_and(|to| to != 0 && to.is_multiple_of(8));
    let are_links = |head: &u64| is_link(link(*head, 0)) && is_link(link(*head, 8));
    let back = link(heads[0], 0).and_then(|next| link(next, 8));
    heads.iter().all(are_links) && back == Some(heads[0])
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
pub fn collections(memory: &dyn Memory, layout: &Layout, gc: u64) -> u64 {
    let of = |generation: u64| memory.u64(gc.wrapping_add(layout.gc_stats + generation * 24));
    (0..3).filter_map(of).fold(0, u64::saturating_add)
}

pub fn is_enabled(memory: &dyn Memory, gc: u64) -> bool {
    memory.u32(gc.wrapping_add(GC_ENABLED)) != Some(0)
}

fn is_collecting(memory: &dyn Memory, layout: &Layout, gc: u64) -> bool {
    memory
        .u32(gc.wrapping_add(layout.gc_collecting))
        .is_some_and(|collecting| collecting != 0)
}

/// Adds all objects in the lists of a collector, the oldest of each list first. The number of lists that could not be
/// followed to their end. `live`: memory as it is now, past what was read before.
pub fn tracked(heap: &Heap, live: &dyn Memory, gc: u64, census: &mut Census) -> usize {
    let mut broken = 0;
    for head in lists(heap.layout(), gc) {
        for try_number in 0..TRIES {
            let swapped = heap.pages.swapped();
            let is_whole = Walk { heap, live, head }.follow(census);
            // No other try brings back what is swapped out.
            let is_last = is_whole || census.objects.is_full() || heap.pages.swapped() > swapped;
            if is_last || heap.pages.is_late() {
                break;
            }
            if try_number + 1 == TRIES {
                broken += 1;
            } else if is_collecting(live, heap.layout(), gc) || try_number > 2 {
                std::thread::sleep(PAUSE);
            }
        }
    }
    broken
}

struct Walk<'a> {
    heap: &'a Heap<'a>,
    live: &'a dyn Memory,
    head: u64,
}

impl Walk<'_> {
    /// Adds the objects of a list, but for those that are known. `false`: the list broke off, or a limit is met.
    fn follow(&self, census: &mut Census) -> bool {
        self.heap.pages.forget(self.head);
        let (first, mut steps) = (census.objects.len(), 0);
        let mut at = self.head;
        // Each step passes an object: in a ring that leaves out the head, all of them are known soon.
        let mut known_in_a_row = 0;
        loop {
            let Some(next) = self.next(at).or_else(|| self.resume(census, first)) else {
                return false;
            };
            if next == self.head {
                return true;
            }
            match census.add(self.heap, next.wrapping_add(GC_HEAD_BYTES)) {
                Added::New => known_in_a_row = 0,
                Added::Full => return false,
                Added::Known | Added::NoObject => known_in_a_row += 1,
            }
            at = next;
            steps += 1;
            let is_ring = known_in_a_row > census.objects.len().max(KNOWN_MIN);
            if is_ring || steps % 1_024 == 0 && self.heap.pages.is_late() {
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

    /// After an object that was freed while the list was read: back to one that is still in the list, and on from
    /// there.
    fn resume(&self, census: &Census, first: usize) -> Option<u64> {
        let count = census.objects.len();
        let mut back = 1;
        while back <= (count - first).min(BACK_MAX) {
            let object = census.objects.get((count - back) as u32).address;
            let at = object.checked_sub(GC_HEAD_BYTES)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    #[test]
    fn counts_that_lie_do_not_overflow() {
        let made = Made {
            at: 0x1000,
            bytes: vec![0xff; 4_096],
        };
        let layout = Layout::of(13).unwrap();
        assert_eq!(collections(&made, &layout, 0x1000), u64::MAX);
        assert_eq!(collections(&made, &layout, u64::MAX - 8), 0);
    }
}

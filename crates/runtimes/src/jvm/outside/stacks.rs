//! Which threads of Java there are, and the functions that those wait in which are outside of Java.

use std::time::Instant;

use observe::fact::memory::Memory;
use symbols::hotspot::{HotSpot, JavaMethods, State};

use super::super::threads::{Thread, without_numbers};
use super::heap::Heap;
use super::live::Live;
use super::roots;
use super::ways::Names;
use crate::jvm::text::bounded;

const FRAMES_MAX: usize = 64;
/// Read of a stack, bytes.
const STACK_BYTES: u64 = 64 << 10;
/// Threads whose functions are read in one snapshot.
const WALKED_MAX: usize = 2_000;

/// A thread as it was when the heap was read.
pub struct Seen {
    /// Name and state.
    described: (String, Option<String>),
    base: u64,
    /// Stack pointer, pc and frame pointer of the innermost frame of Java; zero: not known.
    last_java: [u64; 3],
}

pub fn seen(heap: &Heap, live: &mut Live) -> Vec<Seen> {
    let mut names = Names::new(heap, live);
    let mut left = WALKED_MAX;
    let mut described = |thread: u64| {
        if left == 0 || heap.pages.is_late() {
            return (String::from("?"), None);
        }
        left -= 1;
        let name = bounded(without_numbers(&names.thread_name(thread)));
        (name, names.thread_state(thread))
    };
    let thread = |thread: roots::Thread| Seen {
        described: described(thread.object),
        base: thread.base,
        last_java: heap
            .layout
            .threads
            .last_java
            .map(|at| heap.word(thread.address, at).unwrap_or(0)),
    };
    roots::threads(heap).into_iter().map(thread).collect()
}

/// Names functions on the stacks of one process.
pub struct Walker {
    pid: u32,
    /// `None`: its frames cannot be read.
    hotspot: Option<HotSpot>,
    methods: JavaMethods,
}

impl Walker {
    pub fn new(pid: u32) -> Walker {
        Walker {
            pid,
            hotspot: HotSpot::of(pid),
            methods: JavaMethods::default(),
        }
    }

    pub fn threads(
        &mut self,
        memory: &dyn Memory,
        seen: &[Seen],
        deadline: Instant,
    ) -> Vec<Thread> {
        let mut threads = Vec::with_capacity(seen.len());
        for (at, thread) in seen.iter().enumerate() {
            let mut addresses = Vec::new();
            if at < WALKED_MAX && Instant::now() < deadline {
                self.walk(memory, thread, &mut addresses);
            }
            let frames = addresses
                .iter()
                .filter_map(|address| self.methods.at(self.pid, *address));
            threads.push(Thread {
                name: thread.described.0.clone(),
                stack: thread.base.saturating_sub(8),
                state: thread.described.1.clone(),
                frames: frames.take(FRAMES_MAX).collect(),
            });
        }
        threads
    }

    fn walk(&mut self, memory: &dyn Memory, thread: &Seen, frames: &mut Vec<u64>) -> Option<()> {
        let hotspot = self.hotspot.as_mut()?;
        let [sp, pc, fp] = thread.last_java;
        // The return address lies below the frame.
        let begin = sp.checked_sub(8).filter(|_| sp < thread.base)?;
        let length = (thread.base - begin).min(STACK_BYTES);
        let bytes = memory.bytes(begin, length, STACK_BYTES)?;
        let mut word = |address: u64| {
            let at = usize::try_from(address.checked_sub(begin)?).ok()?;
            let word = bytes.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*word))
        };
        let pc = match pc {
            0 => word(begin)?,
            pc => pc,
        };
        let mut state = State {
            pc,
            sp,
            fp,
            returns: true,
        };
        while hotspot.is_code(state.pc) && frames.len() < FRAMES_MAX {
            state = hotspot.step(state, &mut word, frames)?;
        }
        Some(())
    }
}

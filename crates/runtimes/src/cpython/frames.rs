//! Functions that run: frames of all threads.

use std::collections::HashSet;

use observe::fact::memory::Memory;

use super::heap::Heap;
use super::interpreters::{Interpreter, threads};
use super::types::Kind;

/// Frames of one thread that are gone through.
const DEPTH_MAX: usize = 4_096;
/// And of all threads.
const FRAMES_MAX: usize = 1 << 18;

/// A function that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    pub frame: u64,
    pub code: u64,
}

/// Frames of all threads, the innermost of each thread first; ends at the deadline.
pub fn running(heap: &Heap, live: &dyn Memory, interpreters: &[Interpreter]) -> Vec<Running> {
    // Frames are next to each other: they are read from the cache, which has nothing older than this.
    heap.pages.forget_all();
    let mut frames = Vec::new();
    for interpreter in interpreters {
        for thread in threads(live, heap.layout(), interpreter.address) {
            if heap.pages.is_late() || frames.len() >= FRAMES_MAX {
                return frames;
            }
            each_of_thread(heap, thread, &mut frames);
        }
    }
    frames
}

fn each_of_thread(heap: &Heap, thread: u64, frames: &mut Vec<Running>) {
    let layout = heap.layout();
    let pointer = |at: u64, offset: u64| heap.pages.pointer(at, offset);
    let first = pointer(thread, layout.thread_frame);
    let mut next = match layout.current_frame {
        Some(offset) => first.and_then(|cframe| pointer(cframe, offset)),
        None => first,
    };
    let mut seen = HashSet::new();
    while let Some(frame) = next.filter(|frame| seen.len() < DEPTH_MAX && seen.insert(*frame)) {
        if seen.len() % 256 == 0 && heap.pages.is_late() {
            return;
        }
        if let Some(code) = heap.code_of_frame(frame)
            && heap
                .info_of(code)
                .is_some_and(|info| info.kind == Kind::Code)
        {
            frames.push(Running { frame, code });
        }
        next = pointer(frame, layout.frame.previous);
    }
}

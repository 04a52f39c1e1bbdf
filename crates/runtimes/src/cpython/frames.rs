//! Functions that run: frames of all threads.

use std::collections::HashSet;

use observe::fact::memory::Memory;

use super::heap::Heap;
use super::interpreters::{Interpreter, threads};
use super::types::Kind;

/// Frames of one thread that are gone through.
const DEPTH_MAX: usize = 4_096;

/// A function that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    pub frame: u64,
    pub code: u64,
}

/// Frames of all threads, the innermost of each thread first.
pub fn running(heap: &Heap, live: &dyn Memory, interpreters: &[Interpreter]) -> Vec<Running> {
    let mut frames = Vec::new();
    for interpreter in interpreters {
        for thread in threads(live, heap.layout(), interpreter.address) {
            each_of_thread(heap, live, thread, &mut frames);
        }
    }
    frames
}

fn each_of_thread(heap: &Heap, live: &dyn Memory, thread: u64, frames: &mut Vec<Running>) {
    let layout = heap.layout();
    let pointer = |at: u64, offset: u64| live.u64(at.checked_add(offset)?).filter(|to| *to != 0);
    let first = pointer(thread, layout.thread_frame);
    let mut next = match layout.current_frame {
        Some(offset) => first.and_then(|cframe| pointer(cframe, offset)),
        None => first,
    };
    let mut seen = HashSet::new();
    while let Some(frame) = next.filter(|frame| seen.len() < DEPTH_MAX && seen.insert(*frame)) {
        if let Some(code) = pointer(frame, layout.frame.code)
            && heap
                .info_of(code)
                .is_some_and(|info| info.kind == Kind::Code)
        {
            frames.push(Running { frame, code });
        }
        next = pointer(frame, layout.frame.previous);
    }
}

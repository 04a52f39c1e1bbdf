//! `libhighwater_probe.so`: the malloc family, every operator new and delete, and direct mappings,
//! each forwarded to the next library in line and counted by the `heap` crate.
//!
//! With `HIGHWATER_PROBE_RECORD` in the environment it records every call instead (`record`).
//!
//! What a call costs stands in `calls`: one load of the thread's row, a subtraction, an increment,
//! and a jump to the allocator. Everything else is in `slow`, which no call enters but one in some
//! thousands.

mod anchor;
mod c;
mod calls;
mod cpp;
mod early;
mod forms;
mod large;
mod learning;
mod life;
mod locked;
mod mappings;
mod measure;
mod next;
mod objects;
mod own_unwind;
mod record;
mod recorder;
mod seccomp;
mod slow;
mod symbols;
mod thread;
mod usable;

use std::alloc::{GlobalAlloc, Layout};

/// Memory of Rust code inside this library: the unwinder's lists. Part of the probe's mapping,
/// never the subject's heap.
static ARENA: heap::Arena = heap::Arena::new();

/// Every free looks into the 512 bytes of its coarse bits.
static FILTER: heap::Filter = heap::Filter::new();

struct OwnMemory;

// SAFETY: the arena hands out disjoint blocks of at least the layout's size and alignment, or null.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ARENA.take(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's: the block came from [`Self::alloc`] with this layout.
        unsafe { ARENA.put(block, layout) }
    }
}

#[global_allocator]
static OWN_MEMORY: OwnMemory = OwnMemory;

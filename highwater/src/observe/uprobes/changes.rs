//! How long the kernel took to put breakpoints into other processes and to take them out.
//!
//! It holds the process's memory map for a part of that time, and an mmap, a page fault or a fork of the process may
//! wait. How large the part is it does not tell: the time of the whole call is the most that it can be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::observe::overhead::Times;

static COUNT: AtomicU64 = AtomicU64::new(0);
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
static LONGEST_NS: AtomicU64 = AtomicU64::new(0);

/// Does it, and takes its time unless it is done to highwater itself.
pub fn time<T>(is_own: bool, change: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = change();
    if !is_own {
        let ns = begin.elapsed().as_nanos() as u64;
        COUNT.fetch_add(1, Ordering::Relaxed);
        TOTAL_NS.fetch_add(ns, Ordering::Relaxed);
        LONGEST_NS.fetch_max(ns, Ordering::Relaxed);
    }
    done
}

/// Of all processes that this highwater changed so far.
pub fn so_far() -> Times {
    Times {
        count: COUNT.load(Ordering::Relaxed),
        total_ns: TOTAL_NS.load(Ordering::Relaxed),
        longest_ns: LONGEST_NS.load(Ordering::Relaxed),
    }
}

//! How long the kernel took to put breakpoints into a process and to take them out.
//!
//! It holds the process's memory map for a part of that time, and an mmap, a page fault or a fork of the process may
//! wait. How large the part is it does not tell: the time of the whole call is the most that it can be.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use observe::overhead::Times;

static OF_PROCESSES: Mutex<BTreeMap<u32, Times>> = Mutex::new(BTreeMap::new());

/// Adds to those of a process.
pub fn add(pid: u32, times: Times) {
    let mut all = OF_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    *all.entry(pid).or_default() += times;
}

/// So far, of a process.
pub fn of(pid: u32) -> Times {
    let all = OF_PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&pid).copied().unwrap_or_default()
}

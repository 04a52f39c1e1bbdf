//! `highwater-replayer PLAN OUTCOME`: makes the allocations of a recorded program, in its threads and their order, on
//! the allocator that it was started with, and samples its own memory on the trace's clock.
//!
//! All that it needs itself lies in mappings of files and in shared memory, so that its anonymous resident memory is
//! the allocator's alone. It never allocates for itself after the start.
#![no_main]

mod clock;
mod epochs;
mod memory;
mod operate;
mod threads;

use std::ffi::{CStr, c_char, c_int};

use replayer::{refused, stage};

use memory::Files;

/// Exit codes; the outcome says more.
const USAGE: c_int = 2;
const REFUSED: c_int = 4;

/// More than this before the first operation is no longer small. Allocators bring metadata of their own (tcmalloc 4
/// MiB), which is theirs in the recorded program too.
const BASE_BYTES_MAX: u64 = 64 << 20;

/// # Safety
/// Called by the C library with the program's arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    if count != 3 {
        return USAGE;
    }
    // SAFETY: three arguments, each a C string.
    let (plan, outcome) = unsafe {
        (
            CStr::from_ptr(*arguments.add(1)),
            CStr::from_ptr(*arguments.add(2)),
        )
    };
    // A highwater that is killed does not leave a replay behind.
    // SAFETY: asks for a signal.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let Some(files) = Files::map(plan, outcome) else {
        return REFUSED;
    };
    memory::write_malloc_path(&files);
    clock::start();
    let base = memory::anonymous_bytes();
    files.write(|outcome| {
        outcome.base_bytes = base;
        outcome.stage = stage::STARTED;
    });
    if base > BASE_BYTES_MAX {
        return refuse(&files, refused::BASE);
    }
    let Some(run) = epochs::Run::new(files) else {
        return refuse(&files, refused::MEMORY);
    };
    run.replay()
}

fn refuse(files: &Files, why: u32) -> c_int {
    files.write(|outcome| {
        outcome.stage = stage::REFUSED;
        outcome.error = why;
    });
    REFUSED
}

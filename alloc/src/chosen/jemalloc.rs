//! jemalloc, under its prefixed names: the C parts of the program keep their malloc.

use core::ffi::CStr;
use core::ptr::{from_mut, null_mut};

use tikv_jemalloc_sys as sys;

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "jemalloc";
pub(crate) const VERSION: &str = "5.3.1";

pub(crate) type Inner = tikv_jemallocator::Jemalloc;
pub(crate) const INNER: Inner = tikv_jemallocator::Jemalloc;

/// Returns every arena's dirty and muzzy pages (arena 4096 is jemalloc's name for all of them).
pub(crate) fn purge() -> Purged {
    let name = c"arena.4096.purge";
    // SAFETY: a name without values, NUL-terminated.
    let code = unsafe { sys::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    if code == 0 {
        Purged::Done
    } else {
        Purged::Unsupported
    }
}

/// Since a call of its own to `epoch`: the numbers are of now.
pub(crate) fn statistics() -> Statistics {
    let mut epoch = 1u64;
    // SAFETY: `epoch` takes a u64; nothing is read back.
    unsafe {
        sys::mallctl(
            c"epoch".as_ptr(),
            null_mut(),
            null_mut(),
            from_mut(&mut epoch).cast(),
            size_of::<u64>(),
        )
    };
    Statistics {
        allocated_bytes: number(c"stats.allocated"),
        active_bytes: number(c"stats.active"),
        metadata_bytes: number(c"stats.metadata"),
        resident_bytes_bound: number(c"stats.resident"),
        mapped_bytes: number(c"stats.mapped"),
        ..Statistics::default()
    }
}

fn number(name: &CStr) -> Option<u64> {
    let mut value = 0usize;
    let mut bytes = size_of::<usize>();
    // SAFETY: these statistics are of type size_t; mallctl checks the length.
    let code = unsafe {
        sys::mallctl(
            name.as_ptr(),
            from_mut(&mut value).cast(),
            from_mut(&mut bytes),
            null_mut(),
            0,
        )
    };
    (code == 0).then_some(value as u64)
}

//! The C library's malloc.

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "system";
#[cfg(target_env = "gnu")]
pub(crate) const VERSION: &str = "glibc";
#[cfg(not(target_env = "gnu"))]
pub(crate) const VERSION: &str = "libc";

pub(crate) type Inner = std::alloc::System;
pub(crate) const INNER: Inner = std::alloc::System;

extern crate std;

#[cfg(target_env = "gnu")]
pub(crate) fn purge() -> Purged {
    // SAFETY: malloc_trim may be called at any time, from any thread.
    unsafe { libc::malloc_trim(0) };
    Purged::Done
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn purge() -> Purged {
    Purged::Unsupported
}

/// Sums over all arenas; blocks in a thread's cache count as allocated. Takes every arena's lock: milliseconds on a
/// large heap.
#[cfg(target_env = "gnu")]
pub(crate) fn statistics() -> Statistics {
    // SAFETY: mallinfo2 may be called at any time, from any thread.
    let info = unsafe { libc::mallinfo2() };
    let (heap, mapped) = (info.arena as u64, info.hblkhd as u64);
    Statistics {
        allocated_bytes: Some(info.uordblks as u64 + mapped),
        held_bytes: Some(info.fordblks as u64),
        mapped_bytes: Some(heap + mapped),
        ..Statistics::default()
    }
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn statistics() -> Statistics {
    Statistics::default()
}

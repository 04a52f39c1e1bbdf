//! rpmalloc.

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "rpmalloc";
pub(crate) const VERSION: &str = "1.4.3";

pub(crate) type Inner = rpmalloc::RpMalloc;
pub(crate) const INNER: Inner = rpmalloc::RpMalloc;

/// Frees what other threads gave back to the calling thread's heap; the others' stay.
pub(crate) fn purge() -> Purged {
    // SAFETY: may be called from any thread that has allocated, and this one has: it runs Rust.
    unsafe { rpmalloc_sys::rpmalloc_thread_collect() };
    Purged::Done
}

/// What it mapped; live bytes are not counted. Nothing where it was built without its counters.
pub(crate) fn statistics() -> Statistics {
    let figures = rpmalloc::RpMalloc::global_stats();
    Statistics {
        mapped_bytes: Some(figures.mapped as u64).filter(|bytes| *bytes > 0),
        ..Statistics::default()
    }
}

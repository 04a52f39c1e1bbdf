//! mimalloc, of the line 2 or 3.

use core::ptr::from_mut;

use libmimalloc_sys as sys;

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "mimalloc";
#[cfg(feature = "mimalloc2")]
pub(crate) const VERSION: &str = "2.3.2";
#[cfg(not(feature = "mimalloc2"))]
pub(crate) const VERSION: &str = "3.3.2";

pub(crate) type Inner = mimalloc::MiMalloc;
pub(crate) const INNER: Inner = mimalloc::MiMalloc;

/// The calling thread's heap and what exited threads left; other threads' free pages stay theirs.
pub(crate) fn purge() -> Purged {
    // SAFETY: may be called at any time, from any thread.
    unsafe { sys::mi_collect(true) };
    Purged::Done
}

/// What mimalloc has committed; it counts no live bytes in a release build.
pub(crate) fn statistics() -> Statistics {
    let mut values = [0usize; 8];
    let [
        elapsed,
        user,
        system,
        rss,
        rss_peak,
        commit,
        commit_peak,
        faults,
    ] = &mut values;
    // SAFETY: eight valid places to write to.
    unsafe {
        sys::mi_process_info(
            from_mut(elapsed),
            from_mut(user),
            from_mut(system),
            from_mut(rss),
            from_mut(rss_peak),
            from_mut(commit),
            from_mut(commit_peak),
            from_mut(faults),
        )
    };
    Statistics {
        mapped_bytes: Some(values[5] as u64),
        ..Statistics::default()
    }
}

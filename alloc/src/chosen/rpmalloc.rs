//! rpmalloc.

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "rpmalloc";
pub(crate) const VERSION: &str = "1.4.3";

pub(crate) type Inner = rpmalloc::RpMalloc;
pub(crate) const INNER: Inner = rpmalloc::RpMalloc;

/// It has no such call: `rpmalloc_thread_collect` is empty in this version.
pub(crate) fn purge() -> Purged {
    Purged::Unsupported
}

/// What it mapped; live bytes are not counted. Nothing where it was built without its counters.
pub(crate) fn statistics() -> Statistics {
    let figures = rpmalloc::RpMalloc::global_stats();
    Statistics {
        mapped_bytes: Some(figures.mapped as u64).filter(|bytes| *bytes > 0),
        ..Statistics::default()
    }
}

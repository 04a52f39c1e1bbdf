//! snmalloc.

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "snmalloc";
pub(crate) const VERSION: &str = "0.7.5+";

pub(crate) type Inner = snmalloc_rs::SnMalloc;
pub(crate) const INNER: Inner = snmalloc_rs::SnMalloc;

/// It has no such call: it returns memory on its own.
pub(crate) fn purge() -> Purged {
    Purged::Unsupported
}

/// Chunks in use; live bytes are not counted.
pub(crate) fn statistics() -> Statistics {
    let memory = snmalloc_rs::SnMalloc::memory_stats();
    Statistics {
        mapped_bytes: Some(memory.current_memory_usage as u64).filter(|bytes| *bytes > 0),
        ..Statistics::default()
    }
}

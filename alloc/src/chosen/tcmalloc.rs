//! Google's tcmalloc, of the crate's date: it has no version numbers.

use crate::statistics::{Purged, Statistics};

pub(crate) const NAME: &str = "tcmalloc";
pub(crate) const VERSION: &str = "2025-06";

pub(crate) type Inner = tcmalloc_better::TCMalloc;
pub(crate) const INNER: Inner = tcmalloc_better::TCMalloc;

/// The crate exports no such call.
pub(crate) fn purge() -> Purged {
    Purged::Unsupported
}

/// Nor this.
pub(crate) fn statistics() -> Statistics {
    Statistics::default()
}

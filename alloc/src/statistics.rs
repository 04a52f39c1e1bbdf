//! What every allocator is asked the same way, and answers as far as it can.

use crate::chosen;

/// What became of a request to give memory back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    /// The allocator was told to. How much it returned, the resident set says.
    Done,
    /// The allocator has no such call.
    Unsupported,
}

/// The allocator's own account, bytes; `None` where it keeps none. None of it is the resident set: that is the
/// kernel's to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// In live blocks: jemalloc's `stats.allocated` (usable bytes, thread caches included), glibc's `uordblks` and
    /// `hblkhd` (with headers; thread caches included).
    pub allocated_bytes: Option<u64>,
    /// In pages with at least one live block: jemalloc's `stats.active`.
    pub active_bytes: Option<u64>,
    /// Free and kept, resident or not: glibc's `fordblks`.
    pub held_bytes: Option<u64>,
    /// For its own tables: jemalloc's `stats.metadata`.
    pub metadata_bytes: Option<u64>,
    /// At most this much is resident: jemalloc's `stats.resident`.
    pub resident_bytes_bound: Option<u64>,
    /// Mapped or committed from the kernel: jemalloc's `stats.mapped`, glibc's arenas and mapped blocks, mimalloc's
    /// committed bytes, snmalloc's chunks, rpmalloc's spans.
    pub mapped_bytes: Option<u64>,
}

impl Statistics {
    /// Name, unit and value of those that are known.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("allocated", self.allocated_bytes),
            ("active", self.active_bytes),
            ("held", self.held_bytes),
            ("metadata", self.metadata_bytes),
            ("resident_bound", self.resident_bytes_bound),
            ("mapped", self.mapped_bytes),
        ]
        .into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)))
    }
}

/// Asks the allocator to return free memory to the kernel. Seconds on a heap of gigabytes: not for a request's path.
pub fn purge() -> Purged {
    chosen::purge()
}

/// The allocator's own account of now. Milliseconds on a large heap under glibc.
pub fn statistics() -> Statistics {
    chosen::statistics()
}

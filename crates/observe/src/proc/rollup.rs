//! `/proc/PID/smaps_rollup`: what RSS alone does not tell. The kernel walks the page tables of
//! the whole process for it, so it is read at a slower rate (see [`super::pace`]).

use super::fields::{kib_in_bytes, lines};

/// Sums over all mappings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollup {
    pub pss_bytes: Option<u64>,
    pub private_dirty_bytes: Option<u64>,
    /// MADV_FREE pages that the kernel has not taken back yet; they still count in RSS.
    pub lazy_free_bytes: Option<u64>,
    pub huge_pages_bytes: Option<u64>,
}

pub fn parse_rollup(text: &[u8]) -> Rollup {
    let mut rollup = Rollup::default();
    for (key, value) in lines(text) {
        match key {
            b"Pss" => rollup.pss_bytes = kib_in_bytes(value),
            b"Private_Dirty" => rollup.private_dirty_bytes = kib_in_bytes(value),
            b"LazyFree" => rollup.lazy_free_bytes = kib_in_bytes(value),
            b"AnonHugePages" => rollup.huge_pages_bytes = kib_in_bytes(value),
            _ => {}
        }
    }
    rollup
}

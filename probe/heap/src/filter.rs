//! A filter in front of the sample table: one bit tells almost every free that it is not sampled.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU64};

/// With so many, a hundred samples send one free in 650 the slow way.
const CELLS: usize = 1 << 16;
const WORD_BITS: usize = u64::BITS as usize;

/// A cell that reaches this count stays there.
const FULL: u8 = u8::MAX;
/// The last address of the cell is being taken out.
const LEAVING: u8 = u8::MAX - 1;

/// Counts of sampled addresses by hash, and a bit for each count that is not 0. A free looks at the bits only: 8 KiB,
/// which stay in L1. When it looked at the 64 KiB of counts, waiting for one was nine tenths of its time under redis.
#[repr(C, align(64))]
pub struct Filter {
    bits: [AtomicU64; CELLS / WORD_BITS],
    counts: [AtomicU8; CELLS],
}

impl Filter {
    /// Nothing sampled.
    pub const fn new() -> Filter {
        Filter {
            bits: [const { AtomicU64::new(0) }; CELLS / WORD_BITS],
            counts: [const { AtomicU8::new(0) }; CELLS],
        }
    }

    /// False: the address is certainly not sampled.
    #[inline(always)]
    pub fn may_hold(&self, address: u64) -> bool {
        let cell = cell(address);
        self.bits[cell / WORD_BITS].load(Relaxed) >> (cell % WORD_BITS) & 1 != 0
    }

    /// An address is about to be put into the table. False: it must not be, for another thread is taking the last one
    /// out of its cell (in a forked child perhaps for ever).
    #[must_use]
    pub fn add(&self, address: u64) -> bool {
        let cell = cell(address);
        let more = |count: u8| match count {
            LEAVING => None,
            FULL => Some(FULL),
            _ if count + 1 == LEAVING => Some(FULL),
            _ => Some(count + 1),
        };
        let added = self.counts[cell]
            .fetch_update(AcqRel, Acquire, more)
            .is_ok();
        if added {
            self.set(cell);
        }
        added
    }

    /// An address was taken out.
    pub fn remove(&self, address: u64) {
        let cell = cell(address);
        let less = |count: u8| match count {
            0 | LEAVING | FULL => None,
            1 => Some(LEAVING),
            _ => Some(count - 1),
        };
        if self.counts[cell].fetch_update(AcqRel, Acquire, less) != Ok(1) {
            return;
        }
        self.bits[cell / WORD_BITS].fetch_and(!bit(cell), AcqRel);
        let left = self.counts[cell].compare_exchange(LEAVING, 0, AcqRel, Acquire);
        // Pinned meanwhile.
        if left.is_err() {
            self.set(cell);
        }
    }

    /// Makes an address answer yes for ever, past [`Self::clear`].
    pub fn pin(&self, address: u64) {
        let cell = cell(address);
        self.counts[cell].store(FULL, Relaxed);
        self.set(cell);
    }

    /// Forgets all but what is pinned: no other free takes the slow path any more.
    pub fn clear(&self) {
        for (word, counts) in self.bits.iter().zip(self.counts.chunks(WORD_BITS)) {
            let mut full = 0;
            for (at, count) in counts.iter().enumerate() {
                match count.load(Relaxed) {
                    FULL => full |= bit(at),
                    _ => count.store(0, Relaxed),
                }
            }
            word.store(full, Relaxed);
        }
    }

    /// Memory of the filter, bytes.
    pub const fn bytes() -> usize {
        size_of::<Filter>()
    }

    fn set(&self, cell: usize) {
        self.bits[cell / WORD_BITS].fetch_or(bit(cell), AcqRel);
    }
}

/// The top 16 bits of a multiplicative hash: always an index.
#[inline(always)]
fn cell(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize & (CELLS - 1)
}

fn bit(cell: usize) -> u64 {
    1 << (cell % WORD_BITS)
}

impl Default for Filter {
    fn default() -> Self {
        Filter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_until_it_is_removed() {
        let filter = Box::new(Filter::new());
        assert!(!filter.may_hold(0x1000));
        assert!(filter.add(0x1000) && filter.add(0x1000));
        filter.remove(0x1000);
        assert!(filter.may_hold(0x1000));
        filter.remove(0x1000);
        filter.remove(0x1000);
        assert!(!filter.may_hold(0x1000), "an extra remove must not wrap");
    }

    #[test]
    fn a_full_cell_never_says_no() {
        let filter = Box::new(Filter::new());
        for _ in 0..300 {
            assert!(filter.add(64));
        }
        for _ in 0..300 {
            filter.remove(64);
        }
        assert!(filter.may_hold(64));
    }

    #[test]
    fn clearing_keeps_what_is_pinned() {
        let filter = Box::new(Filter::new());
        assert!(filter.add(64));
        filter.pin(128);
        filter.clear();
        assert!(!filter.may_hold(64) && filter.may_hold(128));
    }

    /// Every thread finds what it has added itself, whatever the others take out of the same cell.
    #[test]
    fn what_was_added_is_found_while_others_leave() {
        let filter = Box::new(Filter::new());
        let churn = || {
            for _ in 0..100_000 {
                if filter.add(64) {
                    assert!(filter.may_hold(64));
                    filter.remove(64);
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(churn))));
        assert!(!filter.may_hold(64), "all have left");
    }

    #[test]
    fn neighbouring_blocks_spread() {
        let filter = Box::new(Filter::new());
        (0..1000u64).for_each(|block| assert!(filter.add(0x7f00_0000_0000 + block * 32)));
        let hit = (1000..65_536u64).filter(|block| filter.may_hold(0x7f00_0000_0000 + block * 32));
        let share = hit.count() as f64 / 64_536.0;
        assert!(share < 0.03, "{share} of the others would be slow");
    }
}

//! A filter in front of the sample table: a bit or two tell almost every free that it is not sampled.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::word::{AtomicU8, AtomicU64};

const WORD_BITS: usize = u64::BITS as usize;

/// Words of bits of the two levels. Miri takes minutes to make the larger one; models are of one cell or two.
const IS_SMALL: bool = cfg!(any(miri, loom));
const COARSE: usize = if IS_SMALL { 1 } else { 64 };
const FINE: usize = if IS_SMALL { 2 } else { 1_024 };

/// A cell that reaches this count stays there.
const FULL: u8 = u8::MAX;
/// The last address of the cell is being taken out.
const LEAVING: u8 = u8::MAX - 1;

/// Two levels, each by itself never wrong about what it holds. A free looks at the coarse one, whose 512 bytes stay in
/// L1 beside what the program has there: a pair in random order missed L1 0.54 times more than without the probe
/// where 8 KiB of bits were alone, and 0.03 times since (cachegrind). Where the coarse one says yes (a hundred samples:
/// one free in 40), the fine one leaves one in 650.
#[repr(C, align(64))]
pub struct Filter {
    coarse: Level<COARSE, { COARSE * WORD_BITS }>,
    fine: Level<FINE, { FINE * WORD_BITS }>,
}

impl Filter {
    /// Nothing sampled.
    #[cfg(not(loom))]
    pub const fn new() -> Filter {
        Filter {
            coarse: Level::new(),
            fine: Level::new(),
        }
    }

    /// loom's atomics are no constants.
    #[cfg(loom)]
    pub fn new() -> Filter {
        Filter {
            coarse: Level::new(),
            fine: Level::new(),
        }
    }

    /// False: the address is certainly not sampled.
    #[inline(always)]
    pub fn may_hold(&self, address: u64) -> bool {
        let hash = hash(address);
        self.coarse.may_hold(hash) && self.fine.may_hold(hash)
    }

    /// An address is about to be put into the table. False: it must not be, for another thread is taking the last one
    /// out of its cell (in a forked child perhaps for ever).
    #[must_use]
    pub fn add(&self, address: u64) -> bool {
        let hash = hash(address);
        if !self.fine.add(hash) {
            return false;
        }
        let added = self.coarse.add(hash);
        if !added {
            self.fine.remove(hash);
        }
        added
    }

    /// An address was taken out.
    pub fn remove(&self, address: u64) {
        let hash = hash(address);
        self.coarse.remove(hash);
        self.fine.remove(hash);
    }

    /// Makes an address answer yes for ever, past [`Self::clear`].
    pub fn pin(&self, address: u64) {
        let hash = hash(address);
        self.fine.pin(hash);
        self.coarse.pin(hash);
    }

    /// Forgets all but what is pinned: no other free takes the slow path any more.
    pub fn clear(&self) {
        self.coarse.clear();
        self.fine.clear();
    }

    /// Memory of the filter, bytes.
    pub const fn bytes() -> usize {
        size_of::<Filter>()
    }
}

/// Counts of sampled addresses by hash, and a bit for each count that is not 0: a free looks at the bits only.
#[repr(C, align(64))]
pub(crate) struct Level<const WORDS: usize, const CELLS: usize> {
    bits: [AtomicU64; WORDS],
    counts: [AtomicU8; CELLS],
}

impl<const WORDS: usize, const CELLS: usize> Level<WORDS, CELLS> {
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Level {
            bits: std::array::from_fn(|_| AtomicU64::new(0)),
            counts: std::array::from_fn(|_| AtomicU8::new(0)),
        }
    }

    #[cfg(not(loom))]
    const fn new() -> Self {
        const { assert!(CELLS == WORDS * WORD_BITS && CELLS.is_power_of_two()) };
        Level {
            bits: [const { AtomicU64::new(0) }; WORDS],
            counts: [const { AtomicU8::new(0) }; CELLS],
        }
    }

    /// The top bits of the hash: always an index.
    #[inline(always)]
    fn cell(hash: u64) -> usize {
        (hash >> (u64::BITS - CELLS.ilog2())) as usize & (CELLS - 1)
    }

    #[inline(always)]
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let cell = Self::cell(hash);
        self.bits[cell / WORD_BITS].load(Relaxed) >> (cell % WORD_BITS) & 1 != 0
    }

    pub(crate) fn add(&self, hash: u64) -> bool {
        let cell = Self::cell(hash);
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

    pub(crate) fn remove(&self, hash: u64) {
        let cell = Self::cell(hash);
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

    pub(crate) fn pin(&self, hash: u64) {
        let cell = Self::cell(hash);
        // In the order of the counts: one that leaves meanwhile finds it, and sets the bit again.
        self.counts[cell].swap(FULL, AcqRel);
        self.set(cell);
    }

    fn clear(&self) {
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

    fn set(&self, cell: usize) {
        self.bits[cell / WORD_BITS].fetch_or(bit(cell), AcqRel);
    }
}

#[inline(always)]
fn hash(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn bit(cell: usize) -> u64 {
    1 << (cell % WORD_BITS)
}

impl Default for Filter {
    fn default() -> Self {
        Filter::new()
    }
}

#[cfg(all(test, not(loom)))]
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

    /// In a forked child a cell may be left by a thread that is not there, on one level only.
    #[test]
    fn what_one_level_refuses_the_other_forgets() {
        let filter = Box::new(Filter::new());
        let cell = Level::<COARSE, { COARSE * WORD_BITS }>::cell(hash(64));
        filter.coarse.counts[cell].store(LEAVING, Relaxed);
        assert!(!filter.add(64));
        assert!(!filter.fine.may_hold(hash(64)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn most_frees_look_at_one_level() {
        let filter = Box::new(Filter::new());
        (0..100u64).for_each(|block| assert!(filter.add(0x7f00_0000_0000 + block * 4_096)));
        let others = (0..65_536u64).map(|block| hash(0x5600_0000_0000 + block * 48));
        let coarse = others.filter(|hash| filter.coarse.may_hold(*hash)).count();
        assert!((600..3_300).contains(&coarse), "{coarse} of 65,536");
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
            for _ in 0..if cfg!(miri) { 100 } else { 100_000 } {
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
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn neighbouring_blocks_spread() {
        let filter = Box::new(Filter::new());
        (0..1000u64).for_each(|block| assert!(filter.add(0x7f00_0000_0000 + block * 32)));
        let hit = (1000..65_536u64).filter(|block| filter.may_hold(0x7f00_0000_0000 + block * 32));
        let share = hit.count() as f64 / 64_536.0;
        assert!(share < 0.03, "{share} of the others would be slow");
    }
}

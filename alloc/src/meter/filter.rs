//! Which blocks may be sampled: a byte per hash of an address, so that nearly every free needs no more than one load.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 2^16 bytes: with 4,000 live samples one free in 16 looks in vain; larger would leave the second-level cache.
const BITS: u32 = 16;

static COUNTS: [AtomicU8; 1 << BITS] = [const { AtomicU8::new(0) }; 1 << BITS];

#[inline(always)]
fn slot(block: *mut u8) -> &'static AtomicU8 {
    let mixed = (block as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &COUNTS[(mixed >> (64 - BITS)) as usize]
}

/// False when `block` is certainly not sampled.
#[inline(always)]
pub(crate) fn may_hold(block: *mut u8) -> bool {
    slot(block).load(Relaxed) != 0
}

/// Before the block is handed out. A count that reaches 255 stays there.
pub(crate) fn add(block: *mut u8) {
    let _ = slot(block).fetch_update(Relaxed, Relaxed, |count| count.checked_add(1));
}

/// After the sample is gone.
pub(crate) fn remove(block: *mut u8) {
    let less = |count: u8| (count != u8::MAX && count != 0).then(|| count - 1);
    let _ = slot(block).fetch_update(Relaxed, Relaxed, less);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_added_until_it_is_removed_as_often() {
        let block = 0x7f00_dead_bee8 as *mut u8;
        assert!(!may_hold(block));
        add(block);
        add(block);
        remove(block);
        assert!(may_hold(block));
        remove(block);
        assert!(!may_hold(block));
    }

    #[test]
    fn a_full_count_stays() {
        let block = 0x7f00_0bad_0008 as *mut u8;
        (0..300).for_each(|_| add(block));
        (0..300).for_each(|_| remove(block));
        assert!(may_hold(block));
    }
}

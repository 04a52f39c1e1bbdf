//! What counting costs on this machine: a few microseconds at the start, so that the account can
//! say it.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use abi::Thread;
use heap::{Errno, Probe, clock, count};

use crate::next::Ptr;
use crate::{FILTER, life, usable};

const ROUNDS: u64 = 400;
const BATCHES: u64 = 6;
/// A block that is not in the cache costs more than the one measured.
const COLD_FACTOR: u64 = 2;

/// The cost of exact bytes is still to be measured, on the program's first block.
static LACKS_EXACT: AtomicBool = AtomicBool::new(false);

/// Measures and notes the cost of a pair, and soon that of exact bytes on top (not where they are wanted at any
/// price).
pub unsafe fn pairs(probe: &Probe, exact_at_any_price: bool) {
    // SAFETY: a row of our own; blocks of the next malloc go to the next free.
    unsafe {
        let mut row: Thread = std::mem::zeroed();
        row.countdown_bytes = u64::MAX;
        let row = &raw mut row;
        let pair_ps = picoseconds(|round| {
            let full = count::alloc(black_box(row), 1);
            black_box(full | FILTER.may_hold(black_box(round << 4)));
            count::free(black_box(row));
        });
        probe.set_pair_cost(pair_ps, 0);
        LACKS_EXACT.store(!exact_at_any_price && usable::is_exact(), Relaxed);
    }
}

/// Measures what the size of a block costs, once. The program's own: a block of ours would have the allocator set
/// itself up earlier than without the probe (mimalloc's first one sets errno).
///
/// # Safety
/// A live block of the allocator's; this thread is inside the probe.
pub unsafe fn exact_pair(block: Ptr) {
    if !LACKS_EXACT.load(Relaxed) || !life::is_constructed() {
        return;
    }
    if let Some(probe) = life::probe()
        && LACKS_EXACT.swap(false, Relaxed)
    {
        let _errno = Errno::save();
        // SAFETY: as the caller says.
        let ps = picoseconds(|_| unsafe {
            black_box(usable::of(black_box(block)));
            black_box(usable::of(black_box(block)));
        });
        probe.set_pair_cost(0, ps * COLD_FACTOR);
    }
}

/// Of the quickest of some batches: an interrupt must not be taken for the cost.
fn picoseconds(mut round: impl FnMut(u64)) -> u64 {
    let batch = |_| {
        let begun = clock::monotonic_ns();
        (0..ROUNDS).for_each(&mut round);
        clock::monotonic_ns().saturating_sub(begun) * 1000 / ROUNDS
    };
    (0..BATCHES).map(batch).min().unwrap_or(0)
}

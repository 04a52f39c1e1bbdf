//! What counting costs on this machine: a few microseconds at the start, so that the account can
//! say it.

use std::hint::black_box;

use abi::Thread;
use heap::{Probe, clock, count};

use crate::{FILTER, usable};

const ROUNDS: u64 = 400;
const BATCHES: u64 = 6;
/// A block that is not in the cache costs more than the one measured.
const COLD_FACTOR: u64 = 2;

/// Measures and notes the cost of a pair, and of exact bytes on top (0: wanted at any price).
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
        let exact_pair_ps = if exact_at_any_price { 0 } else { exact_pair() };
        probe.set_pair_cost(pair_ps, exact_pair_ps);
    }
}

fn exact_pair() -> u64 {
    if !usable::is_exact() {
        return 0;
    }
    let ps = usable::measured(|read| {
        picoseconds(|_| {
            read();
            read();
        })
    });
    ps * COLD_FACTOR
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

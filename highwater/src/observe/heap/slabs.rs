//! Blocks of heaps that nobody can list from outside, as far as the probe's samples tell them.
//!
//! Allocators with size classes keep blocks of one size on a page (jemalloc, mimalloc, tcmalloc, snmalloc,
//! rpmalloc, scudo): one sampled block says where all others of its page begin. That this is so in a process is
//! not assumed: the samples that share a page must prove it. Pages without a sample stay unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Held;
use super::probe::Block;

const PAGE_BYTES: u64 = 4096;
/// Larger blocks share no page with another whole one.
const BLOCK_BYTES_MAX: u64 = 2048;
const BLOCK_BYTES_MIN: u64 = 8;
/// Bytes from one block to the next beyond what is usable: headers (scudo), canaries (hardened_malloc).
const EXTRA_BYTES: [u64; 3] = [0, 16, 8];
/// Pairs of samples on one page that must agree, and the share of pairs that may not.
const PAIRS_MIN: usize = 16;
const PAIRS_BAD_MAX: f64 = 0.01;

/// The blocks on the pages of live samples, ordered; empty where the samples do not prove that pages hold blocks
/// of one size. `skip`: whether an address lies in a heap that can be listed better.
pub fn blocks(samples: &[Block], skip: impl Fn(u64) -> bool) -> Vec<Held> {
    let is_small = |block: &&Block| {
        (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block.usable_bytes) && !skip(block.address)
    };
    let mut pages: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for block in samples.iter().filter(is_small) {
        let on_page = pages.entry(block.address / PAGE_BYTES).or_default();
        on_page.push((block.address, block.usable_bytes));
    }
    let Some(extra) = EXTRA_BYTES.into_iter().find(|&extra| holds(&pages, extra)) else {
        return Vec::new();
    };
    let mut starts: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (page, on_page) in pages.iter().filter(|(_, on_page)| agree(on_page, extra)) {
        let (anchor, usable) = on_page[0];
        starts.extend(row(*page, anchor, usable, usable + extra));
    }
    without_overlaps(starts)
}

/// Whether pages hold blocks of one size, `extra` bytes apart, by all pairs that share one.
fn holds(pages: &BTreeMap<u64, Vec<(u64, u64)>>, extra: u64) -> bool {
    let pairs = pages.values().flat_map(|on_page| on_page.windows(2));
    let (mut all, mut bad) = (0, 0);
    for pair in pairs {
        all += 1;
        bad += usize::from(!agree(pair, extra));
    }
    all >= PAIRS_MIN && bad as f64 <= PAIRS_BAD_MAX * all as f64
}

fn agree(on_page: &[(u64, u64)], extra: u64) -> bool {
    let (anchor, usable) = on_page[0];
    let is_in_row = |&(address, bytes): &(u64, u64)| {
        bytes == usable && address.abs_diff(anchor) % (usable + extra) == 0
    };
    on_page.iter().all(is_in_row)
}

/// (start, end of what is usable) of each block that touches a page, one of which begins at `anchor`.
fn row(page: u64, anchor: u64, usable: u64, stride: u64) -> impl Iterator<Item = (u64, u64)> {
    let (from, to) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
    let before = (anchor - from).div_ceil(stride);
    let first = anchor.saturating_sub(before * stride);
    let starts = (0..).map(move |index| first + index * stride);
    let touching = starts.take_while(move |&start| start < to);
    touching
        .map(move |start| (start, start + usable))
        .filter(move |&(_, end)| end > from)
}

/// Two rows that meet on the border of a page contradict each other there: neither is believed.
fn without_overlaps(starts: BTreeSet<(u64, u64)>) -> Vec<Held> {
    let all: Vec<(u64, u64)> = starts.into_iter().collect();
    let is_free = |index: usize| {
        let (start, end) = all[index];
        let below = index == 0 || all[index - 1].1 <= start;
        below && all.get(index + 1).is_none_or(|above| above.0 >= end)
    };
    let free = (0..all.len()).filter(|&index| is_free(index));
    free.map(|index| Held::whole(all[index].0, all[index].1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(address: u64, usable_bytes: u64) -> Block {
        Block {
            address,
            requested_bytes: usable_bytes,
            usable_bytes,
            weight: 1.0,
            time_ns: 0,
            stack: 1,
            role: 0,
        }
    }

    /// Twenty pages with two samples each, of 448 bytes in slabs of 28 KiB.
    fn slabs(extra: u64) -> Vec<Block> {
        let at = |index: u64| block(0x10_0000 + index * (448 + extra), 448);
        let mut samples: Vec<Block> = (0..20).map(|page| at(page * 9 + 1)).collect();
        samples.extend((0..20).map(|page| at(page * 9 + 2)));
        samples
    }

    #[test]
    fn a_sample_tells_its_neighbours() {
        for extra in EXTRA_BYTES {
            let found = blocks(&slabs(extra), |_| false);
            let third = 0x10_0000 + 3 * (448 + extra);
            assert!(found.contains(&Held::whole(third, third + 448)), "{extra}");
            assert!(found.len() > 100, "{}", found.len());
        }
    }

    #[test]
    fn where_pages_hold_many_sizes_nothing_is_told() {
        let mut samples = slabs(0);
        samples.extend((0..20).map(|page| block(0x10_0000 + page * 9 * 448 + 16, 96)));
        assert_eq!(blocks(&samples, |_| false), []);
    }

    #[test]
    fn few_samples_prove_nothing_and_listed_heaps_are_left_out() {
        assert_eq!(blocks(&slabs(0)[..6], |_| false), []);
        assert_eq!(blocks(&slabs(0), |_| true), []);
    }

    #[test]
    fn rows_that_contradict_each_other_on_a_border_are_not_believed() {
        // 0x1fc0..0x2180 by the first page, 0x2000 by the second one.
        let mut samples = slabs(0);
        samples.extend([block(0x1fc0, 448), block(0x2000, 64)]);
        let found = blocks(&samples, |_| false);
        assert!(!found.contains(&Held::whole(0x1fc0, 0x2180)));
        assert!(!found.contains(&Held::whole(0x2000, 0x2040)));
        assert!(found.contains(&Held::whole(0x1e00, 0x1fc0)));
        assert!(found.contains(&Held::whole(0x2180, 0x21c0)));
    }
}

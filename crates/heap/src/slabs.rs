//! Blocks of heaps that nobody can list from outside, as far as the probe's samples tell them.
//!
//! Allocators with size classes keep blocks of one size on a page (jemalloc, mimalloc, tcmalloc, snmalloc,
//! rpmalloc, scudo): one sampled block says where all others of its page begin. That this is so in a process is
//! not assumed: the samples that share a page must prove it, and for each size how many pages in a row they do so
//! (tcmalloc's pages are of 8 KiB, mimalloc's of 64). What lies where there is no sample stays unknown.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::Held;
use super::probe::Block;

const PAGE_BYTES: u64 = 4096;
/// The most that one sample tells of.
const SPAN_BYTES_MAX: u64 = 256 << 10;
/// Beyond so many blocks a sample tells of its page alone.
const BLOCKS_MAX: u64 = 4 << 20;
/// Larger blocks share no page with another whole one.
const BLOCK_BYTES_MAX: u64 = 2048;
const BLOCK_BYTES_MIN: u64 = 8;
/// Bytes from one block to the next beyond what is usable: headers (scudo), canaries (hardened_malloc).
const EXTRA_BYTES: [u64; 3] = [0, 16, 8];
/// Pairs of samples on one page that must agree, and the share of pairs that may not.
const PAIRS_MIN: usize = 16;
const PAIRS_BAD_MAX: f64 = 0.01;

/// (address, usable bytes) of the samples on each page, ordered.
type Pages = BTreeMap<u64, Vec<(u64, u64)>>;

/// The blocks on the pages of live samples, ordered; empty where the samples do not prove that pages hold blocks
/// of one size. `skip`: whether an address lies in a heap that can be listed better.
pub fn blocks(samples: &[Block], skip: impl Fn(u64) -> bool) -> Vec<Held> {
    let is_small = |block: &&Block| {
        (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block.usable_bytes) && !skip(block.address)
    };
    let mut small: Vec<(u64, u64)> = samples
        .iter()
        .filter(is_small)
        .map(|block| (block.address, block.usable_bytes))
        .collect();
    small.sort_unstable();
    let pages = pages_of(&small, PAGE_BYTES);
    let Some(extra) = EXTRA_BYTES.into_iter().find(|&extra| holds(&pages, extra)) else {
        return Vec::new();
    };
    let alike: Vec<(u64, u64)> = pages
        .values()
        .filter(|on_page| agree(on_page, extra))
        .map(|on_page| on_page[0])
        .collect();
    let spans = spans(&small, extra);
    let rows = rows_of(&alike, &spans, extra);
    without_overlaps(
        rows.unwrap_or_else(|| rows_of(&alike, &BTreeMap::new(), extra).unwrap_or_default()),
    )
}

/// The blocks around a sample of each page; `None` when they are too many.
fn rows_of(
    alike: &[(u64, u64)],
    spans: &BTreeMap<u64, u64>,
    extra: u64,
) -> Option<BTreeSet<(u64, u64)>> {
    let span = |usable: u64| spans.get(&usable).copied().unwrap_or(PAGE_BYTES);
    // One sample of each row: which stretch, which size, how far from the row's zero.
    let key = |&(at, usable): &(u64, u64)| (at / span(usable), usable, at % (usable + extra));
    let anchors: BTreeMap<(u64, u64, u64), u64> = alike.iter().map(|at| (key(at), at.0)).collect();
    let count = |usable: u64| span(usable) / (usable + extra);
    let all: u64 = anchors.keys().map(|&(_, usable, _)| count(usable)).sum();
    if all > BLOCKS_MAX && !spans.is_empty() {
        return None;
    }
    let mut starts = BTreeSet::new();
    for (&(at, usable, _), &anchor) in &anchors {
        let within = (at * span(usable), (at + 1) * span(usable));
        starts.extend(row(within, anchor, usable, usable + extra));
    }
    Some(starts)
}

fn pages_of(small: &[(u64, u64)], page_bytes: u64) -> Pages {
    let mut pages = Pages::new();
    for &(address, usable) in small {
        let on_page = pages.entry(address / page_bytes).or_default();
        on_page.push((address, usable));
    }
    pages
}

/// For each size that is alone on more than a page, on how many bytes: twice as many as long as in all that have such a
/// sample in one half, whatever was sampled in the other half is of its row.
fn spans(small: &[(u64, u64)], extra: u64) -> BTreeMap<u64, u64> {
    let mut spans = BTreeMap::new();
    let mut span = PAGE_BYTES;
    while span < SPAN_BYTES_MAX {
        // By size: pairs across the middle, and those that do not agree.
        let mut pairs: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (page, on_page) in pages_of(small, 2 * span) {
            let middle = page * 2 * span + span;
            let above = on_page.partition_point(|&(address, _)| address < middle);
            if above == 0 || above == on_page.len() {
                continue;
            }
            let pair = &on_page[above - 1..=above];
            for size in BTreeSet::from([pair[0].1, pair[1].1]) {
                let (all, bad) = pairs.entry(size).or_default();
                *all += 1;
                *bad += usize::from(!agree(pair, extra));
            }
        }
        let is_alone = |size: u64| {
            let half = spans.get(&size).copied().unwrap_or(PAGE_BYTES);
            let (all, bad) = pairs[&size];
            half == span && is_proved(all, bad)
        };
        let alone: Vec<u64> = pairs
            .keys()
            .copied()
            .filter(|&size| is_alone(size))
            .collect();
        if alone.is_empty() {
            return spans;
        }
        spans.extend(alone.into_iter().map(|size| (size, 2 * span)));
        span *= 2;
    }
    spans
}

fn is_proved(all: usize, bad: usize) -> bool {
    all >= PAIRS_MIN && bad as f64 <= PAIRS_BAD_MAX * all as f64
}

/// Whether pages hold blocks of one size, `extra` bytes apart, by all pairs that share one.
fn holds(pages: &Pages, extra: u64) -> bool {
    let pairs = pages.values().flat_map(|on_page| on_page.windows(2));
    let (mut all, mut bad) = (0, 0);
    for pair in pairs {
        all += 1;
        bad += usize::from(!agree(pair, extra));
    }
    is_proved(all, bad)
}

fn agree(on_page: &[(u64, u64)], extra: u64) -> bool {
    let (anchor, usable) = on_page[0];
    let is_in_row = |&(address, bytes): &(u64, u64)| {
        bytes == usable && address.abs_diff(anchor) % (usable + extra) == 0
    };
    on_page.iter().all(is_in_row)
}

/// (start, end of what is usable) of each block that touches a stretch, one of which begins at `anchor`.
fn row(
    (from, to): (u64, u64),
    anchor: u64,
    usable: u64,
    stride: u64,
) -> impl Iterator<Item = (u64, u64)> {
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

    /// Forty pages of 8 KiB for one size each, 448 and 512 in turns, with samples in each half; one more of 448 has
    /// one in its lower half only.
    #[test]
    fn a_sample_tells_of_as_many_pages_as_hold_its_size() {
        let from = |page: u64| 0x10_0000 + page * 8192;
        let both = |page: u64| {
            let size = [448, 512][page as usize % 2];
            [3, 5, 12].map(|at| block(from(page) + at * size, size))
        };
        let mut samples: Vec<Block> = (0..40).flat_map(both).collect();
        samples.push(block(from(40) + 448, 448));
        let found = blocks(&samples, |_| false);
        let last = from(40) + 17 * 448;
        assert!(found.contains(&Held::whole(last, last + 448)));
        let beyond = |block: &Held| block.from >= from(41);
        assert!(!found.iter().any(beyond), "the next page is another's");
    }

    #[test]
    fn pages_of_two_sizes_side_by_side_tell_of_themselves_alone() {
        let size = |page: u64| [512, 512, 256][page as usize % 3];
        let sample =
            |page: u64, at: u64| block(0x10_0000 + page * 4096 + at * size(page), size(page));
        let pages = (0..60).flat_map(|page| [sample(page, 2), sample(page, 5)]);
        let samples: Vec<Block> = pages.chain([sample(72, 1)]).collect();
        let found = blocks(&samples, |_| false);
        let last = 0x10_0000 + 73 * 4096;
        assert!(found.iter().any(|block| block.to == last));
        assert!(!found.iter().any(|block| block.from >= last));
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

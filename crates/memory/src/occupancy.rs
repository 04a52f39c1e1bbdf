//! Which resident pages of the heap hold a live block, and which hold none: fragmentation and
//! allocator-held memory, told apart.
//!
//! Where glibc's headers could be walked, pages are counted. Elsewhere the sampled live blocks must
//! do: in windows of [`WINDOW_BYTES`] or more, large blocks occupy their own pages, and small ones are taken
//! to be strewn over the window's resident pages at random, so that of `p` pages `n` blocks leave
//! `p exp(-n/p)` empty. Regular patterns occupy more than that: one block on each page counts as 63 %.

use super::areas::{Class, Range};
use super::sites::Outstanding;
use heap::HeapSnapshot;
use heap::linked::traps::Traps;
use heap::pages::{PAGE_BYTES, PageBits};
use heap::probe::Block;

/// Stretch of addresses over which small blocks count as evenly strewn.
const WINDOW_BYTES: u64 = 1 << 20;
/// Samples that a window holds at least, unless the range ends first.
const SAMPLES_PER_WINDOW: usize = 32;

/// Heap pages by what they hold, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Occupancy {
    /// Resident pages of the heap.
    pub resident_bytes: f64,
    /// Of those, pages with a part of a live block.
    pub occupied_bytes: f64,
    /// Of the occupied ones, those that were counted and not estimated.
    pub counted_bytes: f64,
    /// Of the resident pages, those whose occupation is estimated.
    pub estimated_of_bytes: f64,
    /// Bytes of blocks in use by glibc's own headers, on resident pages.
    pub in_use_bytes: f64,
    /// Resident bytes of heap about which nothing is known: neither headers nor samples.
    pub unknown_bytes: f64,
}

/// Standard errors of the samples' sum that doubtful blocks must come to before the sum tells of them.
const ERRORS_MIN: f64 = 3.0;

/// Counts, or estimates, the occupied pages of all heap ranges. `scale` makes the samples add up to
/// the exact counter: exact live bytes over the samples' estimate.
pub fn occupancy(snapshot: &HeapSnapshot, ranges: &[Range], scale: f64) -> Occupancy {
    let mut blocks: Vec<Block> = snapshot
        .probe
        .iter()
        .flat_map(|p| p.blocks.clone())
        .collect();
    blocks.sort_by_key(|block| block.address);
    let with_doubtful = doubtful_are_in_use(snapshot);
    // Samples of what was allocated since uprobes were put on say nothing of the pages of older blocks.
    let is_part = |traps: Traps| traps.has_headers() && !traps.at_start;
    let probe = snapshot.probe.as_ref();
    let tells_of_all = probe.is_some_and(|probe| !probe.traps.is_some_and(is_part));
    let mut sum = Occupancy::default();
    for range in ranges.iter().filter(|range| range.class == Class::Heap) {
        let walked = walked_span(snapshot, range);
        let bits = snapshot.present.get(&range.area);
        // Of the same moment as the occupied pages: what smaps said before differs by what grew.
        let resident = bits.map_or(range.rss_bytes, |bits| {
            bits.bytes_in(range.start, range.end)
        });
        sum.resident_bytes += resident as f64;
        match (walked, bits) {
            (Some(span), Some(bits)) => {
                let mut occupied = both_in(bits, &span.occupied, range);
                if with_doubtful && span.doubtful_bytes > 0 {
                    occupied = both_in(bits, &span.occupied.with(&span.doubtful), range);
                    sum.in_use_bytes += span.doubtful_bytes as f64;
                }
                sum.occupied_bytes += occupied;
                sum.counted_bytes += occupied;
                sum.in_use_bytes += span.in_use_bytes as f64;
            }
            (None, Some(bits)) if tells_of_all => {
                sum.estimated_of_bytes += resident as f64;
                sum.occupied_bytes += estimate(bits, range, within(&blocks, range), scale);
            }
            _ => sum.unknown_bytes += resident as f64,
        }
    }
    sum
}

/// Whether blocks that may be free or in use are in use: the exact counter tells, or else the samples do where they
/// can.
fn doubtful_are_in_use(snapshot: &HeapSnapshot) -> bool {
    let Some(probe) = &snapshot.probe else {
        return false;
    };
    let spans = || snapshot.walk.iter().flat_map(|walk| &walk.spans);
    let sure: u64 = spans().map(|span| span.in_use_bytes).sum();
    let doubtful: u64 = spans().map(|span| span.doubtful_bytes).sum();
    let least = sure as f64 + 0.5 * doubtful as f64;
    match probe.live_bytes_exact {
        Some(live) => live as f64 > least,
        None => {
            let walked = |block: &&Block| {
                spans().any(|span| (span.start..span.end).contains(&block.address))
            };
            let live = Outstanding::of(probe.blocks.iter().filter(walked));
            live.bytes > least && doubtful as f64 > ERRORS_MIN * live.variance.sqrt()
        }
    }
}

/// The walked span that covers this range to its end.
fn walked_span<'a>(snapshot: &'a HeapSnapshot, range: &Range) -> Option<&'a heap::glibc::Walked> {
    let spans = snapshot.walk.iter().flat_map(|walk| &walk.spans);
    let mut complete = spans.filter(|span| span.complete);
    complete.find(|span| span.start <= range.start && range.end <= span.end)
}

fn both_in(present: &PageBits, occupied: &PageBits, range: &Range) -> f64 {
    let runs = occupied.runs().into_iter();
    let inside = runs.map(|(from, to)| present.bytes_in(from.max(range.start), to.min(range.end)));
    inside.sum::<u64>() as f64
}

/// Blocks, ordered by address, that begin inside a range.
fn within<'a>(blocks: &'a [Block], range: &Range) -> &'a [Block] {
    let first = blocks.partition_point(|block| block.address < range.start);
    let last = blocks.partition_point(|block| block.address < range.end);
    &blocks[first..last.max(first)]
}

fn estimate(present: &PageBits, range: &Range, blocks: &[Block], scale: f64) -> f64 {
    let mut occupied = 0.0;
    let mut rest = blocks;
    let mut from = range.start;
    while from < range.end {
        // As small as the samples allow: with a few, a window is wrong by more than it tells.
        let nth = rest
            .get(SAMPLES_PER_WINDOW)
            .map_or(range.end, |block| block.address);
        let to = nth
            .max(from + WINDOW_BYTES)
            .next_multiple_of(WINDOW_BYTES)
            .min(range.end);
        let resident = present.bytes_in(from, to) as f64;
        let (here, later) = rest.split_at(rest.partition_point(|block| block.address < to));
        rest = later;
        occupied += window_occupied(present, resident, here, scale);
        from = to;
    }
    occupied
}

/// Occupied bytes of a window: at least the live bytes themselves, at most what is resident. What a
/// large block has beyond the window is added.
fn window_occupied(present: &PageBits, resident: f64, blocks: &[Block], scale: f64) -> f64 {
    let page = PAGE_BYTES as f64;
    let (mut large, mut small, mut small_bytes) = (0.0, 0.0, 0.0);
    for block in blocks {
        let weight = block.weight * scale;
        if block.usable_bytes >= PAGE_BYTES {
            let end = block.address + block.usable_bytes;
            large += weight * present.bytes_in(block.address, end) as f64;
        } else {
            small += weight;
            small_bytes += weight * block.usable_bytes as f64;
        }
    }
    let left = (resident - large).max(0.0);
    if left <= 0.0 {
        return large;
    }
    let strewn = left * (1.0 - (-small * page / left).exp());
    large + strewn.max(small_bytes.min(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heap::glibc::{Walk, Walked};
    use heap::probe::ProbeSnapshot;

    fn block(address: u64, bytes: u64, weight: f64) -> Block {
        Block {
            address,
            requested_bytes: bytes,
            usable_bytes: bytes,
            weight,
            time_ns: 0,
            stack: 0,
            role: 0,
        }
    }

    #[test]
    fn a_dense_window_is_occupied_and_an_empty_one_is_not() {
        let mut present = PageBits::new(0, 4 << 20);
        present.set(0, 4 << 20);
        let range = Range {
            start: 0,
            end: 4 << 20,
            class: Class::Heap,
            rss_bytes: 4 << 20,
            area: 0,
            covered: true,
            mapped_by: 0,
        };
        // 2,000 blocks of 512 bytes in the first window (0.98 MiB), nothing in the others.
        let dense: Vec<Block> = (0..100).map(|at| block(at * 9000, 512, 20.0)).collect();
        let occupied = estimate(&present, &range, &dense, 1.0);
        assert!(
            (0.97..=1.0).contains(&(occupied / f64::from(1 << 20))),
            "{occupied}"
        );
        // One survivor of 64 bytes on every tenth page.
        let sparse: Vec<Block> = (0..102).map(|at| block(at * 40960, 64, 1.0)).collect();
        let occupied = estimate(&present, &range, &sparse, 1.0);
        assert!((94.0..102.0).contains(&(occupied / 4096.0)), "{occupied}");
        // A block of 2 MiB, half of it beyond its window.
        let occupied = estimate(&present, &range, &[block(512 << 10, 2 << 20, 1.0)], 1.0);
        assert_eq!(occupied, f64::from(2 << 20));
    }

    /// A leak of blocks that nobody wrote to: in the heap itself they look like those of a thread's list.
    #[test]
    fn samples_tell_of_blocks_that_the_heap_itself_does_not() {
        let span = Walked {
            end: 64 << 20,
            in_use_bytes: 1 << 20,
            doubtful_bytes: 8 << 20,
            ..Walked::default()
        };
        let snapshot = |live: u64, weight: f64| HeapSnapshot {
            walk: Some(Walk {
                spans: vec![span.clone()],
                ..Walk::default()
            }),
            probe: Some(ProbeSnapshot {
                blocks: (0..(live / 4096) / weight as u64)
                    .map(|at| block(at * 4096, 4096, weight))
                    .collect(),
                ..ProbeSnapshot::default()
            }),
            ..HeapSnapshot::default()
        };
        assert!(doubtful_are_in_use(&snapshot(9 << 20, 16.0)));
        assert!(!doubtful_are_in_use(&snapshot(1 << 20, 16.0)));
        let sparse = snapshot(9 << 20, 1024.0);
        assert!(!doubtful_are_in_use(&sparse), "two samples tell nothing");
    }
}

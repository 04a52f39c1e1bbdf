//! Which of the blocks that were sampled are free by now, by the headers of the heap.

use std::collections::BTreeMap;

use super::{BLOCK_BYTES_MIN, Chunk, Walk};
use crate::pages::PAGE_BYTES;
use crate::probe::Block;
use crate::smaps::Area;

/// Of a size that is asked for, what its block has beside it: the header, less the word that the next block lends it.
const COST_BYTES: u64 = 8;
const STEP_BYTES: u64 = 16;

/// Blocks that are looked for during a walk.
pub struct Sampled<'a> {
    /// Ordered by address.
    blocks: Vec<&'a Block>,
    is_in_use: Vec<bool>,
}

impl<'a> Sampled<'a> {
    /// Of blocks from before `until_ns`, when the process's areas were read: a younger one may lie in none of them.
    pub fn new(blocks: &'a [Block], until_ns: u64) -> Sampled<'a> {
        let is_known = |block: &&Block| block.time_ns < until_ns;
        let mut blocks: Vec<&Block> = blocks.iter().filter(is_known).collect();
        blocks.sort_unstable_by_key(|block| block.address);
        Sampled {
            is_in_use: vec![false; blocks.len()],
            blocks,
        }
    }

    /// A block in use. Where it is of another size than the one that was sampled at its address, it is another one.
    pub fn note(&mut self, chunk: Chunk) {
        let found = self
            .blocks
            .binary_search_by_key(&chunk.address(), |block| block.address);
        if let Ok(index) = found {
            self.is_in_use[index] = is_of(chunk, self.blocks[index].requested_bytes);
        }
    }

    /// Those that are free: the walk came past them, or nothing is mapped there. Address, and when it was sampled.
    pub fn freed(&self, walk: &Walk, areas: &[Area]) -> BTreeMap<u64, u64> {
        let is_walked = |address: u64| {
            let mut spans = walk.spans.iter();
            spans.any(|span| (span.start..span.walked_to).contains(&address))
        };
        let is_mapped = |address: u64| {
            let next = areas.partition_point(|area| area.end <= address);
            areas.get(next).is_some_and(|area| area.holds(address))
        };
        let blocks = self.blocks.iter().zip(&self.is_in_use);
        let freed = blocks.filter(|(block, is_in_use)| {
            !**is_in_use && (is_walked(block.address) || !is_mapped(block.address))
        });
        freed
            .map(|(block, _)| (block.address, block.time_ns))
            .collect()
    }
}

/// Whether a block may be the answer to a request of so many bytes: a rest too small for a block of its own
/// stays with it. A large one is mapped in whole pages.
fn is_of(chunk: Chunk, requested_bytes: u64) -> bool {
    let least = (requested_bytes + COST_BYTES)
        .next_multiple_of(STEP_BYTES)
        .max(BLOCK_BYTES_MIN);
    let in_pages = |number: u64| number.is_multiple_of(PAGE_BYTES);
    let is_mapped = in_pages(chunk.start) && in_pages(chunk.bytes);
    let rest = if is_mapped { PAGE_BYTES } else { STEP_BYTES };
    (least..=least + rest).contains(&chunk.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glibc::Walked;

    fn block(address: u64, requested_bytes: u64) -> Block {
        Block {
            address,
            requested_bytes,
            usable_bytes: requested_bytes,
            weight: 1.0,
            time_ns: address + 1,
            stack: 0,
            role: 0,
        }
    }

    fn chunk(address: u64, bytes: u64) -> Chunk {
        Chunk {
            start: address - 16,
            bytes,
        }
    }

    #[test]
    fn what_the_walk_came_past_and_did_not_find_is_free() {
        let blocks = [
            block(0x1010, 24),
            block(0x1050, 40),
            block(0x1100, 100),
            block(0x9010, 1),
            block(0xf010, 1),
            block(0xff010, 1),
        ];
        let mut sampled = Sampled::new(&blocks, 0xff000);
        sampled.note(chunk(0x1010, 32));
        // A block of another size at a sampled address.
        sampled.note(chunk(0x1100, 0x410));
        sampled.note(chunk(0x7010, 32));
        let walk = Walk {
            spans: vec![Walked {
                start: 0x1000,
                walked_to: 0x8000,
                end: 0xa000,
                ..Walked::default()
            }],
            ..Walk::default()
        };
        let heap = Area {
            start: 0x1000,
            end: 0xa000,
            ..Area::default()
        };
        let freed = sampled.freed(&walk, &[heap]);
        let expected = [(0x1050, 0x1051), (0x1100, 0x1101), (0xf010, 0xf011)];
        assert_eq!(
            freed,
            expected.into(),
            "behind the end of the walk nothing is known, nor of what is younger than the areas"
        );
    }

    #[test]
    fn sizes_are_those_that_glibc_gives() {
        for (requested, bytes) in [
            (1, 32),
            (24, 32),
            (25, 48),
            (40, 48),
            (1_000, 1_008),
            (1_000, 1_024),
        ] {
            assert!(
                is_of(chunk(0x1010, bytes), requested),
                "{requested} in {bytes}"
            );
        }
        assert!(!is_of(chunk(0x1010, 32), 25) && !is_of(chunk(0x1010, 64), 24));
        assert!(is_of(
            Chunk {
                start: 0x7000,
                bytes: 0x22000
            },
            0x21000 + 8
        ));
    }
}

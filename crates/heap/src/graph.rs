//! Which blocks the program can still reach: from its stacks, its data and all other memory, through blocks
//! that are reached themselves. Blocks are those of glibc's heap, which can be listed, and what samples tell of
//! other heaps ([`super::slabs`]); what lies in no known block leads to whatever it points to.
//!
//! A block that only lost blocks point to is as lost as they are: the text of a string whose owner
//! was forgotten, a list without its head, a ring. Registers cannot be read without stopping the
//! program, and what hangs on one of them must not be called lost: so a block that is young, or was
//! written since an earlier survey, counts as reached. Lost blocks are neither.
//!
//! The program runs on meanwhile, and a pointer may move from what was not read yet to what was. So
//! two passes are made, and a block is lost that both miss.

use super::glibc::{Chunk, Walk};
use super::kernel::BEHIND;
use super::reach::{ScanTime, address_of};
use observe::fact::memory::Memory;

/// Bytes that are read in one pass, and pointers that are kept; beyond it nothing is said.
const SCANNED_BYTES_MAX: u64 = 2 << 30;
const EDGES_MAX: usize = 32 << 20;

const READ_BYTES: u64 = 1 << 20;

/// What the program holds of glibc's block beyond its end.
const OVERHANG_BYTES: u64 = 8;

/// A block as the program holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    pub from: u64,
    /// End of what a pointer to it may point to.
    pub to: u64,
    /// End of its words.
    pub until: u64,
}

impl Held {
    pub fn whole(from: u64, to: u64) -> Held {
        Held {
            from,
            to,
            until: to,
        }
    }
}

/// The last word of glibc's block is the next one's header, to which lists of free blocks point: nothing that
/// points there points to this block.
impl From<Chunk> for Held {
    fn from(chunk: Chunk) -> Held {
        let to = chunk.start + chunk.bytes;
        Held {
            from: chunk.address(),
            to,
            until: to + OVERHANG_BYTES,
        }
    }
}

/// The blocks of one moment with what they contained.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Ordered by address.
    blocks: Vec<Held>,
    hashes: Vec<u64>,
}

/// What one pass found.
struct Pass {
    survey: Survey,
    /// Address of a word outside of the listed blocks that points to the block, with [`PASSING`]; 0: none does.
    roots: Vec<u64>,
    /// Pointers from block to block: of block `i`, `edges[first[i]..first[i + 1]]`.
    first: Vec<u32>,
    edges: Vec<u32>,
}

/// With the address of a word: it is on a stack or in a register. No address of a program has that bit.
const PASSING: u64 = 1 << 63;

/// Where to search.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Present pages of writable areas, ordered.
    pub runs: Vec<(u64, u64)>,
    /// Every known block, ordered.
    pub blocks: Vec<Held>,
    /// Ranges in which what is not a listed block is free: what it still contains points no more.
    pub heaps: Vec<(u64, u64)>,
    /// Stacks and registers, ordered: what is held by them alone is so in passing, and what else holds it says more.
    pub passing: Vec<(u64, u64)>,
}

impl Scope {
    /// In front of a heap's first block may lie a program's own data; behind the last one of a walk that
    /// stopped, anything.
    /// `others`: blocks of other heaps, in none of the walk's.
    pub fn new(runs: Vec<(u64, u64)>, walk: &Walk, chunks: Vec<Chunk>, others: Vec<Held>) -> Scope {
        let heap = |span: &super::glibc::Walked| {
            let from = chunks.partition_point(|chunk| chunk.start < span.start);
            let to = chunks.partition_point(|chunk| chunk.start < span.end);
            let last = chunks[from..to].last()?;
            let end = if span.complete {
                span.end
            } else {
                last.start + last.bytes
            };
            Some((chunks[from].start, end))
        };
        let mut heaps: Vec<(u64, u64)> = walk.spans.iter().filter_map(heap).collect();
        heaps.sort_unstable();
        let mut blocks: Vec<Held> = chunks.into_iter().map(Held::from).collect();
        blocks.extend(others);
        blocks.sort_unstable();
        Scope {
            runs,
            blocks,
            heaps,
            passing: Vec::new(),
        }
    }
}

/// A survey to compare a later one with.
pub fn survey(memory: &dyn Memory, scope: Scope, time: &ScanTime) -> Option<Survey> {
    pass(memory, scope, time, true).map(|pass| pass.survey)
}

/// For each listed block: whether it is reached. `before`: a survey some seconds ago.
pub fn reached(
    memory: &dyn Memory,
    scope: Scope,
    before: &Survey,
    time: &ScanTime,
) -> Option<Reached> {
    let pass = pass(memory, scope, time, true)?;
    let moved = pass.survey.differs(before);
    Some(pass.reached(|index| moved[index]))
}

/// The same of a memory that no longer changes.
pub fn reached_at_rest(memory: &dyn Memory, scope: Scope, time: &ScanTime) -> Option<Reached> {
    Some(pass(memory, scope, time, false)?.reached(|_| false))
}

impl Pass {
    /// Breadth first: what several hold is with the nearest of them, and with data before stacks. First of all with
    /// what holds a block to which no other block points: where a list begins, and not somewhere in it.
    fn reached(self, is_moved: impl Fn(usize) -> bool) -> Reached {
        let count = self.roots.len();
        let mut by = vec![0; count];
        let mut is_inner = vec![false; count];
        for &edge in &self.edges {
            is_inner[edge as usize] = true;
        }
        let is_in_data = |index: &usize| (1..PASSING).contains(&self.roots[*index]);
        let others = |index: &usize| self.roots[*index] >= PASSING || is_moved(*index);
        let of_all = |may_be_inner: bool, is_wanted: &dyn Fn(&usize) -> bool| {
            let blocks = (0..count).filter(|&index| may_be_inner || !is_inner[index]);
            blocks.filter(is_wanted).collect()
        };
        for (may_be_inner, is_wanted) in [
            (false, &is_in_data as &dyn Fn(&usize) -> bool),
            (true, &is_in_data),
            (false, &others),
            (true, &others),
        ] {
            self.spread(of_all(may_be_inner, is_wanted), &mut by);
        }
        Reached {
            blocks: self.survey.blocks,
            roots: self.roots,
            by,
        }
    }

    /// From some blocks to all that they lead to.
    fn spread(&self, mut open: Vec<usize>, by: &mut [u32]) {
        open.retain(|&index| by[index] == 0);
        for &index in &open {
            by[index] = index as u32 + 1;
        }
        let mut next = 0;
        while let Some(&index) = open.get(next) {
            next += 1;
            let (from, to) = (self.first[index] as usize, self.first[index + 1] as usize);
            for &edge in &self.edges[from..to] {
                if by[edge as usize] == 0 {
                    by[edge as usize] = by[index];
                    open.push(edge as usize);
                }
            }
        }
    }
}

/// The answer of one pass.
#[derive(Debug, Clone, Default)]
pub struct Reached {
    blocks: Vec<Held>,
    roots: Vec<u64>,
    /// One more than the index of the block through which it is reached; 0: it is not.
    by: Vec<u32>,
}

impl Reached {
    /// Whether the block of an address is reached; `None`: it is not listed.
    pub fn of(&self, address: u64) -> Option<bool> {
        find(&self.blocks, address).map(|index| self.by[index] != 0)
    }

    /// Address of the word, outside of all blocks, that holds the block by way of others or itself.
    pub fn root(&self, address: u64) -> Option<u64> {
        let by = self.by[find(&self.blocks, address)?] as usize;
        Some(self.roots[by.checked_sub(1)?] & !PASSING).filter(|root| *root != 0)
    }
}

impl Survey {
    /// Whether the block that was handed out at an address is listed.
    pub fn has(&self, address: u64) -> bool {
        find(&self.blocks, address).is_some()
    }

    /// Whether the block was listed by a walk through its heap, and not by what samples tell.
    pub fn walked(&self, address: u64) -> bool {
        let block = find(&self.blocks, address).map(|index| self.blocks[index]);
        block.is_some_and(|block| block.until > block.to)
    }

    /// Blocks that an earlier survey does not have, or has with other contents.
    fn differs(&self, before: &Survey) -> Vec<bool> {
        let mut at = 0;
        let own = self.blocks.iter().zip(&self.hashes);
        own.map(|(block, hash)| {
            let earlier = |old: &Held| old.from < block.from;
            while before.blocks.get(at).is_some_and(earlier) {
                at += 1;
            }
            before.blocks.get(at) != Some(block) || before.hashes[at] != *hash
        })
        .collect()
    }
}

/// The block that an address points into.
fn find(blocks: &[Held], address: u64) -> Option<usize> {
    let after = blocks.partition_point(|block| block.from <= address);
    let index = after.checked_sub(1)?;
    (address < blocks[index].to).then_some(index)
}

/// `compares`: what the blocks contain is to be compared.
fn pass(memory: &dyn Memory, scope: Scope, time: &ScanTime, compares: bool) -> Option<Pass> {
    let total: u64 = scope.runs.iter().map(|(from, to)| to - from).sum();
    let (first, last) = (scope.blocks.first()?.from, scope.blocks.last()?.to);
    if total > time.bytes_max(SCANNED_BYTES_MAX) {
        return None;
    }
    let count = scope.blocks.len();
    let mut reader = Reader {
        roots: vec![0; count],
        passing: scope.passing,
        hashes: vec![0; if compares { count } else { 0 }],
        first: Vec::with_capacity(count + 1),
        edges: Vec::new(),
        least: first,
        most: last,
        blocks: scope.blocks,
        heaps: scope.heaps,
        at: 0,
        heap: 0,
    };
    let mut bytes = vec![0; READ_BYTES as usize];
    for &(from, to) in &scope.runs {
        for at in (from..to).step_by(READ_BYTES as usize) {
            if time.is_over() || reader.edges.len() > EDGES_MAX {
                return None;
            }
            let part = &mut bytes[..(to - at).min(READ_BYTES) as usize];
            // A page that went away in between holds no pointer any more.
            if memory.read(at, part).is_some() {
                reader.words(at, part);
            }
        }
    }
    while reader.first.len() <= count {
        reader.first.push(reader.edges.len() as u32);
    }
    Some(Pass {
        survey: Survey {
            blocks: reader.blocks,
            hashes: reader.hashes,
        },
        roots: reader.roots,
        first: reader.first,
        edges: reader.edges,
    })
}

struct Reader {
    blocks: Vec<Held>,
    roots: Vec<u64>,
    passing: Vec<(u64, u64)>,
    hashes: Vec<u64>,
    first: Vec<u32>,
    edges: Vec<u32>,
    least: u64,
    most: u64,
    heaps: Vec<(u64, u64)>,
    /// The first block, and the first heap, that end behind the present address.
    at: usize,
    heap: usize,
}

impl Reader {
    /// Words of ascending addresses.
    fn words(&mut self, start: u64, bytes: &[u8]) {
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let address = start + index as u64 * 8;
            let is_over = |block: &Held| block.until <= address;
            while self.blocks.get(self.at).is_some_and(is_over) {
                self.at += 1;
            }
            let holder = self.blocks.get(self.at);
            let inside = holder.is_some_and(|block| address >= block.from);
            if inside && let Some(hash) = self.hashes.get_mut(self.at) {
                let word = u64::from_le_bytes(*word);
                *hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            let word = address_of(*word);
            if word >= self.least && word < self.most && (inside || !self.is_free(address)) {
                self.pointer(word, address, inside);
            }
        }
    }

    /// Whether an address that lies in no listed block lies in a heap.
    fn is_free(&mut self, address: u64) -> bool {
        while self
            .heaps
            .get(self.heap)
            .is_some_and(|heap| heap.1 <= address)
        {
            self.heap += 1;
        }
        self.heaps
            .get(self.heap)
            .is_some_and(|heap| heap.0 <= address)
    }

    /// Whether an address is on a stack or in a register.
    fn is_passing(&self, address: u64) -> bool {
        let next = self.passing.partition_point(|(_, end)| *end <= address);
        let range = self.passing.get(next);
        range.is_some_and(|(start, _)| *start <= address)
    }

    fn pointer(&mut self, word: u64, address: u64, inside: bool) {
        let Some(to) = find(&self.blocks, word) else {
            return;
        };
        if !inside {
            let is_passing = self.is_passing(address);
            let root = &mut self.roots[to];
            // Of a stack the upper end is the older: below its pointer are remains of calls that are over.
            if *root == 0 || (*root >= PASSING && address < BEHIND) {
                *root = if is_passing {
                    address | PASSING
                } else {
                    address
                };
            }
        } else if to != self.at {
            while self.first.len() <= self.at {
                self.first.push(self.edges.len() as u32);
            }
            self.edges.push(to as u32);
        }
    }
}

#[cfg(test)]
mod tests;

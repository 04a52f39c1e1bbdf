//! glibc's heap, read from outside: every block has its size in front of it, so a heap is walked
//! from block to block, free or in use.
//!
//! This is the second witness beside the probe (and the only one without it). It needs the right to
//! read the subject's memory and reads only pages that are present. The subject runs on: a walk that
//! meets a size that cannot be ends there and says so. Layout since glibc 2.26, pointers of free
//! lists mangled since 2.32; older lists look like blocks in use.

pub mod sampled;
mod window;

use std::collections::{BTreeMap, HashMap};

use super::pages::{PAGE_BYTES, PageBits};
use super::smaps::Area;
use observe::fact::memory::Memory;
use window::{Use, Window};

/// Bytes of a running process that one walk may read.
pub const WALK_BYTES_MAX: u64 = 2 << 30;

/// An arena lies at a multiple of this; its header points to its own arena.
const ARENA_BYTES: u64 = 64 << 20;

/// Thread-local data of a static program's main thread, in front of its heap.
const STATIC_DATA_BYTES_MAX: u64 = 1 << 20;

/// In front of what the program got; the first half belongs to the block before where that is in use.
pub const HEADER_BYTES: u64 = 16;

/// Smallest block with its header.
const BLOCK_BYTES_MIN: u64 = 32;

const MAPPED: u64 = 2;
const FLAGS: u64 = 7;

/// What one walked range of addresses holds. Sizes include the 8 bytes that each block costs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Walked {
    pub start: u64,
    pub end: u64,
    pub kind: Kind,
    /// Pages that hold a part of a block in use.
    pub occupied: PageBits,
    /// Bytes of blocks in use that lie on present pages.
    pub in_use_bytes: u64,
    /// Bytes, and pages, of blocks that look like free ones of a thread's list, or like blocks that were
    /// handed out from there and never written: nothing in the heap itself tells.
    pub doubtful_bytes: u64,
    pub doubtful: PageBits,
    /// Blocks in use, by size, as (size, count).
    pub classes: BTreeMap<u64, u64>,
    /// Where the walk ended, and whether that is the end of the range.
    pub walked_to: u64,
    pub complete: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Grown by brk.
    #[default]
    Main,
    Arena,
    /// A large block that was mapped by itself.
    Mapped,
}

/// Blocks that are listed one by one; a larger heap is only walked.
pub const BLOCKS_MAX: usize = 4_000_000;

/// A block in use: where its header begins, and its size with the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk {
    pub start: u64,
    pub bytes: u64,
}

impl Chunk {
    /// What the program got.
    pub fn address(self) -> u64 {
        self.start + HEADER_BYTES
    }
}

/// All that glibc was found to hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Walk {
    pub spans: Vec<Walked>,
    /// Every heap of this process was walked to its end.
    pub complete: bool,
    /// Bytes left unread, for there were more than the walk might read.
    pub unread_bytes: u64,
}

/// Walks every heap among the areas.
pub fn walk(memory: &dyn Memory, areas: &[Area], present: &HashMap<u64, PageBits>) -> Walk {
    walk_with(memory, areas, present, WALK_BYTES_MAX, &mut |_, _| {})
}

/// Every block in use, ordered by address, with the walk. `None`: too many, or none.
pub fn list(
    memory: &dyn Memory,
    areas: &[Area],
    present: &HashMap<u64, PageBits>,
) -> Option<(Walk, Vec<Chunk>)> {
    let mut chunks = Vec::new();
    let mut note = |chunk, _| {
        if chunks.len() <= BLOCKS_MAX {
            chunks.push(chunk);
        }
    };
    let walk = walk_with(memory, areas, present, WALK_BYTES_MAX, &mut note);
    chunks.sort_unstable();
    (!chunks.is_empty() && chunks.len() <= BLOCKS_MAX).then_some((walk, chunks))
}

/// What is told of each block in use: where it is, and its first word; of one that may be free ([`Walked::doubtful`])
/// no word.
pub type Note<'a> = &'a mut dyn FnMut(Chunk, Option<u64>);

/// Walks every heap among the areas, of so many bytes at most, and notes every block in use.
pub fn walk_with(
    memory: &dyn Memory,
    areas: &[Area],
    present: &HashMap<u64, PageBits>,
    bytes_max: u64,
    note: Note<'_>,
) -> Walk {
    let mut walk = Walk {
        complete: true,
        ..Walk::default()
    };
    let mut budget = bytes_max;
    for area in areas
        .iter()
        .filter(|area| area.writable && area.rss_bytes > 0)
    {
        let Some(bits) = present.get(&area.start) else {
            continue;
        };
        let is_main = area.name == "[heap]";
        if !is_main && !area.is_anonymous() {
            continue;
        }
        if area.rss_bytes > budget {
            walk.unread_bytes += area.rss_bytes;
            walk.complete &= !is_main;
            continue;
        }
        let spans = Walker {
            memory,
            area,
            present: bits,
        }
        .walk(is_main, note);
        budget -= spans
            .iter()
            .map(|span| span.occupied.bytes())
            .sum::<u64>()
            .min(budget);
        walk.complete &= spans.iter().all(|span| span.complete);
        walk.spans.extend(spans);
    }
    walk
}

struct Walker<'a> {
    memory: &'a dyn Memory,
    area: &'a Area,
    present: &'a PageBits,
}

impl Walker<'_> {
    fn walk(&self, is_main: bool, note: Note<'_>) -> Vec<Walked> {
        if is_main {
            return vec![self.walk_main(note)];
        }
        let mut spans = Vec::new();
        let mut at = self.area.start;
        while at < self.area.end {
            let found = self.walk_arena(at, note);
            let found = found.or_else(|| self.walk_mapped(at, note));
            let Some(span) = found else { break };
            at = span.end;
            spans.push(span);
        }
        spans
    }

    /// The heap that brk grows. A static program has its thread-local data in front of the blocks.
    fn walk_main(&self, note: Note<'_>) -> Walked {
        let (start, end) = (self.area.start, self.area.end);
        let most = end.min(start + STATIC_DATA_BYTES_MAX);
        let first = self.first_block(start, most, end).unwrap_or(start);
        let mut span = self.walk_blocks(first, end, Kind::Main, note);
        span.start = start;
        span.occupied = widened(&span.occupied, start, first, end);
        span
    }

    /// An arena's heap begins with {arena, previous heap, size, size with rights, ...}; the first
    /// heap of an arena has the arena itself behind that header.
    fn walk_arena(&self, at: u64, note: Note<'_>) -> Option<Walked> {
        if !at.is_multiple_of(ARENA_BYTES) || !self.present.has(at) {
            return None;
        }
        let arena = self.memory.u64(at)?;
        let previous = self.memory.u64(at + 8)?;
        let bytes = self.memory.u64(at + 16)?;
        let plausible = bytes.is_multiple_of(PAGE_BYTES)
            && (PAGE_BYTES..=ARENA_BYTES).contains(&bytes)
            && (previous == 0 || previous.is_multiple_of(ARENA_BYTES))
            && arena.wrapping_sub(arena & !(ARENA_BYTES - 1)) < PAGE_BYTES
            && arena != 0;
        if !plausible {
            return None;
        }
        let end = (at + bytes).min(self.area.end);
        let first = self.first_of_arena(at, arena)?;
        let mut span = self.walk_blocks(first, end, Kind::Arena, note);
        span.start = at;
        span.occupied = widened(&span.occupied, at, first, end);
        Some(span)
    }

    /// The header is 32 bytes before glibc 2.35 and 48 since; the arena itself about 2200. The first
    /// block is the first 16-byte step from which a whole chain of sizes leads on.
    fn first_of_arena(&self, at: u64, arena: u64) -> Option<u64> {
        let from = if arena & !(ARENA_BYTES - 1) == at {
            at + 0x800
        } else {
            at + 0x20
        };
        self.first_block(from, at + 0x1000, at + ARENA_BYTES)
    }

    /// The first 16-byte step from which a chain of six sizes leads on, or to the end.
    fn first_block(&self, from: u64, to: u64, end: u64) -> Option<u64> {
        (from..to).step_by(16).find(|&first| {
            let mut block = first;
            (0..6).all(|_| {
                let size = if block == end {
                    Some(0)
                } else {
                    self.block(block, end)
                };
                block += size.unwrap_or(0);
                size.is_some()
            })
        })
    }

    /// Size of the block at an address, header included, if it can be one.
    fn block(&self, at: u64, end: u64) -> Option<u64> {
        if !self.present.has(at + 8) {
            return None;
        }
        let word = self.memory.u64(at + 8)?;
        let size = word & !FLAGS;
        let fits =
            size >= BLOCK_BYTES_MIN && size.is_multiple_of(16) && at.checked_add(size)? <= end;
        (fits && word & MAPPED == 0).then_some(size)
    }

    /// A large block mapped by itself: {0 or the padding in front, size | 2}.
    fn walk_mapped(&self, at: u64, note: Note<'_>) -> Option<Walked> {
        if !self.present.has(at) {
            return None;
        }
        let (padding, word) = (self.memory.u64(at)?, self.memory.u64(at + 8)?);
        let size = word & !FLAGS;
        let end = at.checked_add(size)?;
        let plausible = word & FLAGS == MAPPED
            && padding == 0
            && size.is_multiple_of(PAGE_BYTES)
            && size > 0
            && end <= self.area.end;
        plausible.then(|| {
            let chunk = Chunk {
                start: at,
                bytes: size,
            };
            note(chunk, Some(self.memory.u64(chunk.address()).unwrap_or(0)));
            let mut occupied = PageBits::new(at, end);
            occupied.set(at, end);
            Walked {
                start: at,
                end,
                kind: Kind::Mapped,
                occupied,
                in_use_bytes: self.present.bytes_in(at, end),
                classes: BTreeMap::from([(size, 1)]),
                walked_to: end,
                complete: true,
                ..Walked::default()
            }
        })
    }

    fn walk_blocks(&self, start: u64, end: u64, kind: Kind, note: Note<'_>) -> Walked {
        let mut span = Walked {
            start,
            end,
            kind,
            occupied: PageBits::new(start & !(PAGE_BYTES - 1), end),
            ..Walked::default()
        };
        let mut window = Window::new(self.memory, self.present, end, self.mark(start, end));
        let mut at = start;
        while let Some((size, use_of)) = window.block(at, start) {
            let chunk = Chunk {
                start: at,
                bytes: size,
            };
            if use_of == Use::Doubtful {
                if span.doubtful_bytes == 0 {
                    span.doubtful = PageBits::new(start & !(PAGE_BYTES - 1), end);
                }
                note(chunk, None);
                span.doubtful.set(at, at + size);
                span.doubtful_bytes += size;
            }
            if use_of == Use::Taken {
                note(chunk, Some(window.word(chunk.address()).unwrap_or(0)));
                span.occupied.set(at, at + size);
                span.in_use_bytes += self.present_bytes(at, size);
                *span.classes.entry(size).or_default() += 1;
            }
            at += size;
            if at >= end {
                break;
            }
        }
        // A heap that grows goes on behind the last page that was present when they were counted.
        let rest = (at + 8) & !(PAGE_BYTES - 1);
        span.walked_to = at;
        span.complete = at >= end || self.present.bytes_in(rest, end) == 0;
        span
    }

    /// The mark of blocks in the lists of threads (`tcache_key` since glibc 2.34): the heap begins with the first
    /// thread's lists, 64 counts and 64 pointers to their first blocks.
    fn mark(&self, start: u64, end: u64) -> Option<u64> {
        const LISTS: u64 = 64;
        const LISTS_BYTES: u64 = 0x290;
        let lists = start + HEADER_BYTES + 2 * LISTS;
        if self.block(start, end)? != LISTS_BYTES {
            return None;
        }
        let first = |list: u64| self.memory.u64(lists + 8 * list);
        let blocks = (0..LISTS).filter_map(first);
        let mut inside =
            blocks.filter(|block| (start..end).contains(block) && self.present.has(*block));
        let mark = self.memory.u64(inside.next()?.checked_add(8)?)?;
        (mark != 0).then_some(mark)
    }

    fn present_bytes(&self, at: u64, size: u64) -> u64 {
        if size <= PAGE_BYTES {
            size
        } else {
            self.present.bytes_in(at, at + size)
        }
    }
}

/// The pages of `bits`, over a range that begins earlier: the header in front counts as occupied.
fn widened(bits: &PageBits, start: u64, first: u64, end: u64) -> PageBits {
    let mut wide = PageBits::new(start, end);
    for (from, to) in bits.runs() {
        wide.set(from, to);
    }
    wide.set(start, first);
    wide
}

#[cfg(test)]
mod tests;

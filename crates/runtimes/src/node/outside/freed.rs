//! What malloc (glibc's) has of freed memory: the words that are left there point to objects that may be dead.
//!
//! A chunk starts with the size of the one before and its own, whose lowest bit says that the one before is in use.
//! Small chunks keep that bit when they are freed; they are linked in a list, by addresses that are mixed with where
//! they stand (`PROTECT_PTR`, since glibc 2.32).

use super::heap::Heap;

const HEADER_BYTES: u64 = 16;
const CHUNK_BYTES_MIN: u64 = 32;
const FLAGS: u64 = 7;
const PREVIOUS_IN_USE: u64 = 1;
/// Larger ones are not in lists of one link (`MAX_TCACHE_SIZE`).
const LINKED_BYTES_MAX: u64 = 0x410;
/// Where the first chunk of an arena may start, behind what describes the arena.
const FIRST_MAX: u64 = 4_096;
/// 32 MiB of ours; what is behind counts as in use.
const CHUNKS_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
struct Chunk {
    start: u64,
    /// With the flags of the chunk behind it in the lowest bits.
    bytes: u64,
    link: u64,
}

impl Chunk {
    fn bytes(&self) -> u64 {
        self.bytes & !FLAGS
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes())
    }
}

/// Ranges that are free in these areas, sorted.
pub fn ranges(heap: &Heap, areas: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut chunks, mut free) = (Vec::new(), Vec::new());
    for (start, end) in areas {
        let (from, used) = (chunks.len(), used_end(heap, *start, *end));
        walk(heap, *start, used, &mut chunks);
        for pair in chunks[from..].windows(2) {
            if pair[1].bytes & PREVIOUS_IN_USE == 0 {
                free.push((pair[0].start, pair[0].end()));
            }
        }
        // The rest of an area was never used, or was given back.
        let last = chunks[from..].last().filter(|chunk| chunk.end() == used);
        free.extend(last.map(|chunk| (chunk.start, *end)));
    }
    chunks.sort_unstable_by_key(|chunk| chunk.start);
    let linked = chunks.iter().filter(|chunk| is_linked(&chunks, chunk));
    free.extend(linked.map(|chunk| (chunk.start, chunk.end())));
    free.sort_unstable();
    free
}

/// An arena may have shrunk, and says where it ends (`heap_info.size`).
fn used_end(heap: &Heap, start: u64, end: u64) -> u64 {
    let bytes = heap
        .word(start, 16)
        .filter(|bytes| *bytes > 0 && bytes.is_multiple_of(4_096));
    let is_arena = heap.word(start, 0).is_some_and(|arena| arena > start);
    let used = bytes
        .filter(|_| is_arena)
        .and_then(|bytes| start.checked_add(bytes));
    used.map_or(end, |used| used.min(end))
}

/// The chunks of an area, from the first offset that leads to its end; of the main heap it is zero.
fn walk(heap: &Heap, start: u64, end: u64, chunks: &mut Vec<Chunk>) {
    let from = chunks.len();
    for offset in (0..FIRST_MAX).step_by(HEADER_BYTES as usize) {
        chunks.truncate(from);
        let mut at = start.saturating_add(offset);
        while let Some(chunk) = read(heap, at).filter(|chunk| chunk.end() <= end) {
            chunks.push(chunk);
            at = chunk.end();
            let is_late = chunks.len().is_multiple_of(4_096) && heap.pages.is_late();
            if at >= end || chunks.len() >= CHUNKS_MAX || is_late {
                return;
            }
        }
        // The main heap changed meanwhile: what was found before is right.
        if chunks.len() - from > 64 {
            return;
        }
    }
    chunks.truncate(from);
}

fn read(heap: &Heap, start: u64) -> Option<Chunk> {
    let bytes = heap.word(start, 8)?;
    let size = bytes & !FLAGS;
    let is_chunk = size >= CHUNK_BYTES_MIN && size.is_multiple_of(HEADER_BYTES);
    let link = heap.word(start, HEADER_BYTES).unwrap_or(0);
    is_chunk.then_some(Chunk { start, bytes, link })
}

/// Whether a chunk leads to another one of the same size, or ends such a list.
fn is_linked(chunks: &[Chunk], chunk: &Chunk) -> bool {
    let next = chunk.link ^ (chunk.start + HEADER_BYTES) >> 12;
    // Lists for threads lead to what is behind the header, the others to the header.
    let is_chunk = |start: u64| {
        let found = chunks.binary_search_by_key(&start, |chunk| chunk.start);
        found.is_ok_and(|at| chunks[at].bytes() == chunk.bytes())
    };
    chunk.bytes() <= LINKED_BYTES_MAX
        && (next == 0 || is_chunk(next) || is_chunk(next.wrapping_sub(HEADER_BYTES)))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use observe::fact::memory::Made;

    use super::*;
    use crate::memory::areas::Areas;
    use crate::memory::pages::Pages;
    use crate::memory::source::Source;

    #[test]
    fn freed_chunks_are_told_from_those_in_use() {
        const START: u64 = 0x10_0000;
        let mut bytes = vec![0; 0x10000];
        let mut put =
            |at: u64, word: u64| bytes[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
        // Sizes with their flags: in use, in a bin, and three in lists of one link.
        for (at, size) in [
            (0, 0x101),
            (0x100, 0x201),
            (0x300, 0x100),
            (0x400, 0x41),
            (0x440, 0x41),
            (0x480, 0x41),
        ] {
            put(at + 8, size);
        }
        put(0x4c8, 0x51);
        put(0x518, 0xfaf1);
        put(0x410, (START + 0x450) ^ (START + 0x410) >> 12);
        put(0x450, (START + 0x480) ^ (START + 0x450) >> 12);
        put(0x490, (START + 0x490) >> 12);
        put(0x4d0, START + 0x410);
        let memory = Made { at: START, bytes };
        let areas = Areas::parse(b"100000-110000 rw-p 00000000 00:00 0 [heap]\n");
        let source = Source::new(&memory, areas, None);
        let pages = Pages::new(&source, 0, Instant::now() + Duration::from_secs(60));
        let layout = super::super::hostile::layout();
        let found = ranges(
            &Heap {
                pages,
                layout: &layout,
            },
            &[(START, START + 0x10000)],
        );
        let found: Vec<_> = found
            .into_iter()
            .map(|(start, end)| (start - START, end - START))
            .collect();
        let free = [
            (0x100, 0x300),
            (0x400, 0x440),
            (0x440, 0x480),
            (0x480, 0x4c0),
            (0x510, 0x10000),
        ];
        assert_eq!(found, free);
    }
}

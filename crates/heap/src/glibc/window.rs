//! A heap read a few MiB at a time: its words, and what the block at an address is.

use super::{BLOCK_BYTES_MIN, FLAGS, MAPPED};
use crate::pages::{PAGE_BYTES, PageBits};
use observe::fact::memory::Memory;

/// How much a heap may have grown between the reading of its areas and its walk.
const GROWN_BYTES_MAX: u64 = 256 << 20;

/// Bytes of the subject that are held at a time.
const WINDOW_BYTES: u64 = 4 << 20;

/// Largest block, with its header, of the lists of one thread.
const CACHED_BYTES_MAX: u64 = 0x410;

const IN_USE_BEFORE: u64 = 1;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Taken,
    Free,
    /// See [`super::Walked::doubtful`].
    Doubtful,
}

/// A window over a heap that moves forward.
pub struct Window<'a> {
    memory: &'a dyn Memory,
    present: &'a PageBits,
    end: u64,
    /// What all blocks in the lists of threads have as their second word.
    mark: Option<u64>,
    start: u64,
    /// As long as the window may be, zeroed by the allocator, that is lazily: a process may have hundreds of arenas.
    bytes: Vec<u8>,
    /// Of them, what was read.
    filled: usize,
}

impl<'a> Window<'a> {
    pub fn new(
        memory: &'a dyn Memory,
        present: &'a PageBits,
        end: u64,
        mark: Option<u64>,
    ) -> Window<'a> {
        Window {
            memory,
            present,
            end,
            mark,
            start: 0,
            bytes: vec![0; WINDOW_BYTES as usize],
            filled: 0,
        }
    }

    /// A word of a present page.
    pub fn word(&mut self, at: u64) -> Option<u64> {
        if at < self.start || at + 8 > self.start + self.filled as u64 {
            self.fill(at)?;
        }
        let offset = (at - self.start) as usize;
        Some(u64::from_le_bytes(
            self.bytes[offset..offset + 8].try_into().ok()?,
        ))
    }

    /// Moves the window to the page of `at` and over the present pages behind it. A page may have come since they were
    /// counted: the last block of a heap that grows begins on pages that were never written to, and others behind them
    /// may have been.
    fn fill(&mut self, at: u64) -> Option<()> {
        let start = at & !(PAGE_BYTES - 1);
        let most = (start + WINDOW_BYTES).min(self.end);
        let mut end = start;
        let is_present = |page| self.present.has(page) || self.memory.is_present(page);
        while end < most && is_present(end) {
            end += PAGE_BYTES;
        }
        if end == start {
            return None;
        }
        self.start = start;
        self.filled = 0;
        let length = (end - start) as usize;
        self.memory.read(start, &mut self.bytes[..length])?;
        self.filled = length;
        Some(())
    }

    /// Size and use of the block at an address.
    pub fn block(&mut self, at: u64, start: u64) -> Option<(u64, Use)> {
        if at + 16 > self.end {
            return None;
        }
        let word = self.word(at + 8)?;
        let size = word & !FLAGS;
        let next = at.checked_add(size)?;
        // A fence of 16 bytes stands where somebody else called brk in between.
        // A heap may have grown since its end was read: its last block then lies across that end.
        let possible = size >= 16
            && size.is_multiple_of(16)
            && next <= self.end.saturating_add(GROWN_BYTES_MAX)
            && word & MAPPED == 0;
        if !possible {
            return None;
        }
        if next >= self.end || size < BLOCK_BYTES_MIN {
            return Some((size, Use::Free));
        }
        // The last word of the heap may lie on a page that is not there: then nothing is behind.
        let in_use = self
            .word(next + 8)
            .is_some_and(|word| word & IN_USE_BEFORE != 0);
        let cached = in_use && self.is_cached(at, size, start);
        // What a thread's list hands out has its second word cleared, and its first left as it was.
        let cleared = cached && self.word(at + 24) == Some(0);
        let use_of = match (in_use, cached, cleared) {
            (false, ..) | (_, true, false) => Use::Free,
            (_, true, true) => Use::Doubtful,
            (true, false, _) => Use::Taken,
        };
        Some((size, use_of))
    }

    /// Whether a block that looks in use lies in a list of free ones: its first word is then a
    /// mangled pointer to another block, or to none.
    fn is_cached(&mut self, at: u64, size: u64, start: u64) -> bool {
        if size > CACHED_BYTES_MAX {
            return false;
        }
        let Some(first) = self.word(at + 16) else {
            return false;
        };
        let next = first ^ ((at + 16) >> 12);
        let last = self.end.saturating_sub(16);
        let may_be_block =
            |address: u64| (start..last).contains(&address) && address.is_multiple_of(16);
        // Of a program at a fixed address few bits are mangled: a pointer to the next of its kind may look like one
        // that is. What it is as it stands comes first, but for the mark.
        let is_marked = self.mark.is_some() && self.word(at + 24) == self.mark;
        let inside = may_be_block(next) && (is_marked || !may_be_block(first));
        next == 0
            || (inside && next != at && next != at + 16 && self.leads_to_same_size(next, size))
    }

    /// A thread's list points behind the header, a fast list to it. Outside of the window only the
    /// address could be checked, and a block of text must not be taken for free: not cached then.
    fn leads_to_same_size(&self, next: u64, size: u64) -> bool {
        [next + 8, next.wrapping_sub(8)].into_iter().any(|header| {
            let offset = header.wrapping_sub(self.start);
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            let word = at
                .checked_add(8)
                .and_then(|to| self.bytes[..self.filled].get(at..to));
            match word {
                Some(word) => word
                    .try_into()
                    .is_ok_and(|w| u64::from_le_bytes(w) & !FLAGS == size),
                // Mangled bits match by chance once in 2^36: the address alone is proof enough.
                None => true,
            }
        })
    }
}

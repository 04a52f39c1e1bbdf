//! Memory for the unwinder's lists of modules, out of the mapping: bounded, never the subject's
//! heap.

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Powers of two from 16 bytes to 1 MiB.
const SIZES: usize = 17;
const SMALLEST: usize = 16;
/// Tries for the lock: its holder needs tens of nanoseconds.
const TRIES: usize = 10_000;

/// A bump allocator with one free list per power of two. Null when full or not yet given memory.
pub struct Arena {
    start: AtomicUsize,
    end: AtomicUsize,
    next: AtomicUsize,
    free: [AtomicUsize; SIZES],
    locked: AtomicBool,
    refused: AtomicU64,
}

impl Arena {
    /// Without memory: refuses everything.
    pub const fn new() -> Arena {
        Arena {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            free: [const { AtomicUsize::new(0) }; SIZES],
            locked: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        }
    }

    /// Gives it `bytes` of memory from `start` on. Only once.
    ///
    /// # Safety
    /// The memory is writable, zero, aligned to 64 and nobody else's for ever.
    pub unsafe fn give(&self, start: *mut u8, bytes: usize) {
        self.start.store(start as usize, Ordering::Relaxed);
        self.next.store(start as usize, Ordering::Relaxed);
        self.end.store(start as usize + bytes, Ordering::Release);
    }

    /// A block, or null.
    pub fn take(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class_of(layout) else {
            return self.refuse();
        };
        if !self.lock() {
            return self.refuse();
        }
        let block = self.pop(class).or_else(|| self.bump(SMALLEST << class));
        self.locked.store(false, Ordering::Release);
        block.map_or_else(|| self.refuse(), |address| address as *mut u8)
    }

    /// Takes a block back. One that meets a busy lock is lost, which the bound covers.
    ///
    /// # Safety
    /// `block` came from [`Self::take`] with the same layout.
    pub unsafe fn put(&self, block: *mut u8, layout: Layout) {
        if let Some(class) = class_of(layout)
            && self.lock()
        {
            let first = self.free[class].load(Ordering::Relaxed);
            // SAFETY: by the caller a block of this arena that nobody uses any more; the smallest has room for a word.
            unsafe { (block as *mut usize).write(first) };
            self.free[class].store(block as usize, Ordering::Relaxed);
            self.locked.store(false, Ordering::Release);
        }
    }

    /// Bytes never handed out yet.
    pub fn untouched_bytes(&self) -> usize {
        self.end
            .load(Ordering::Relaxed)
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Bytes handed out at least once.
    pub fn touched_bytes(&self) -> usize {
        self.next.load(Ordering::Relaxed) - self.start.load(Ordering::Relaxed)
    }

    /// Times that it said no.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// In a forked child: a lock that another thread held at the fork would stay held.
    pub fn unlock_after_fork(&self) {
        self.locked.store(false, Ordering::Release);
    }

    fn pop(&self, class: usize) -> Option<usize> {
        let first = self.free[class].load(Ordering::Relaxed);
        if first == 0 {
            return None;
        }
        // SAFETY: a block in the list holds the next one's address in its first word.
        self.free[class].store(unsafe { *(first as *const usize) }, Ordering::Relaxed);
        Some(first)
    }

    fn bump(&self, bytes: usize) -> Option<usize> {
        let start = self
            .next
            .load(Ordering::Relaxed)
            .next_multiple_of(bytes.min(64));
        let next = start.checked_add(bytes)?;
        if next > self.end.load(Ordering::Acquire) {
            return None;
        }
        self.next.store(next, Ordering::Relaxed);
        Some(start)
    }

    fn lock(&self) -> bool {
        (0..TRIES).any(|_| {
            std::hint::spin_loop();
            !self.locked.swap(true, Ordering::Acquire)
        })
    }

    fn refuse(&self) -> *mut u8 {
        self.refused.fetch_add(1, Ordering::Relaxed);
        std::ptr::null_mut()
    }
}

impl Default for Arena {
    fn default() -> Self {
        Arena::new()
    }
}

fn class_of(layout: Layout) -> Option<usize> {
    let bytes = layout
        .size()
        .max(layout.align())
        .max(SMALLEST)
        .checked_next_power_of_two()?;
    let class = (bytes / SMALLEST).ilog2() as usize;
    (class < SIZES && layout.align() <= 64).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Memory([u8; 4096]);

    #[test]
    fn hands_out_reuses_and_refuses() {
        let mut memory = Box::new(Memory([0; 4096]));
        let arena = Arena::new();
        let layout = Layout::from_size_align(100, 8).unwrap();
        assert!(arena.take(layout).is_null(), "no memory yet");
        // SAFETY: memory of the test's own, which outlives the arena's use.
        unsafe { arena.give(memory.0.as_mut_ptr(), 4096) };
        let blocks: Vec<_> = (0..32).map(|_| arena.take(layout)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        assert!(
            arena.take(layout).is_null(),
            "4,096 bytes hold 32 blocks of 128"
        );
        // SAFETY: as it came from this arena.
        unsafe { arena.put(blocks[3], layout) };
        assert_eq!(arena.take(layout), blocks[3]);
        assert_eq!((arena.refused(), arena.untouched_bytes()), (2, 0));
    }

    #[test]
    fn a_block_too_large_is_refused() {
        let arena = Arena::new();
        assert!(
            arena
                .take(Layout::from_size_align(usize::MAX / 4, 8).unwrap())
                .is_null()
        );
    }
}

//! Sizes of the live large blocks, while calls are recorded: a block's own allocator is never asked, for it may read a
//! header that the program has damaged. The table lies in the trace's file.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Bytes of the table's chunk: sizes of some 8,000 blocks.
pub const TABLE_BYTES: u32 = 128 << 10;

/// Places that are tried for an address.
const TRIES: u64 = 8;

#[repr(C)]
pub struct Entry {
    /// 0: free.
    address: AtomicU64,
    bytes: AtomicU64,
}

/// The table. A block that finds no place is not in it.
pub struct Large {
    entries: *const Entry,
    count: u64,
}

impl Large {
    /// Over zeroed memory.
    ///
    /// # Safety
    /// `room` bytes at `start`, aligned to 8, which stay mapped and are used by this table alone.
    pub unsafe fn new(start: *mut u8, room: usize) -> Large {
        Large {
            entries: start.cast(),
            count: (room / size_of::<Entry>()) as u64,
        }
    }

    fn places(&self, address: u64) -> impl Iterator<Item = &Entry> {
        // Fibonacci hashing; blocks of this size start at multiples of 16.
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let at = move |step: u64| (hash + step) % self.count.max(1);
        let tries = TRIES.min(self.count);
        // SAFETY: below the count.
        (0..tries).map(move |step| unsafe { &*self.entries.add(at(step) as usize) })
    }

    /// A block was allocated. False: there is no place for it.
    pub fn add(&self, address: u64, bytes: u64) -> bool {
        self.places(address).any(|entry| {
            let is_taken = entry
                .address
                .compare_exchange(0, address, AcqRel, Relaxed)
                .is_ok();
            if is_taken {
                entry.bytes.store(bytes, Release);
            }
            is_taken
        })
    }

    /// It is about to be freed: its size. `None`: it is not in the table.
    pub fn take(&self, address: u64) -> Option<u64> {
        let entry = self
            .places(address)
            .find(|entry| entry.address.load(Acquire) == address)?;
        let bytes = entry.bytes.load(Acquire);
        entry.address.store(0, Release);
        Some(bytes)
    }
}

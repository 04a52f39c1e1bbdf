//! Distinct stacks: an open-addressed table of rows, their frames one after another in a section of
//! their own.

use core::mem::offset_of;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::{Header, SectionKind, Stack, lifetime_of, stack_flag};

use crate::flows::Weight;
use crate::word::{AtomicU64, add, atomic, atomic32, raise};

const FREE: u64 = 0;
const BUSY: u64 = 1;
/// Rows looked at for a place.
const PROBES: usize = 32;

/// The table.
pub struct Stacks {
    header: *mut Header,
    rows: *mut Stack,
    capacity: usize,
    frames: *mut u64,
    frames_capacity: usize,
}

impl Stacks {
    /// # Safety
    /// The zeroed sections of the header's mapping, with their capacities.
    pub unsafe fn new(
        header: *mut Header,
        (rows, capacity): (*mut Stack, usize),
        (frames, frames_capacity): (*mut u64, usize),
    ) -> Stacks {
        Stacks {
            header,
            rows,
            capacity,
            frames,
            frames_capacity,
        }
    }

    /// Row of a stack, entered now if it is new. `None` when there is no room.
    pub fn find(&self, frames: &[u64], flags: u16, now_ns: u64) -> Option<u32> {
        let hash = hash_of(frames, flags);
        let start = (hash >> 32) as usize % self.capacity;
        for step in 0..PROBES {
            let at = (start + step) % self.capacity;
            let key = self.key(at);
            let found = key.load(Acquire);
            if found == hash {
                return Some(at as u32);
            }
            if found == FREE && key.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok() {
                return self.enter(at, hash, frames, flags, now_ns);
            }
        }
        None
    }

    /// No sample was taken at the stack so far.
    pub fn is_new(&self, row: u32) -> bool {
        // SAFETY: a counter of a row of the table.
        let samples = |row: *mut Stack| unsafe { atomic(&raw mut (*row).samples) }.load(Relaxed);
        self.row(row).is_some_and(|row| samples(row) == 0)
    }

    /// The row stands for stacks that could not be had.
    pub fn is_none(&self, row: u32) -> bool {
        self.row(row).is_none_or(|_| {
            let (_, _, flags) = place_of(self.place(row as usize).load(Relaxed));
            flags & stack_flag::NOT_A_STACK != 0
        })
    }

    /// A sample was taken at a stack.
    pub fn allocated(&self, row: u32, weight: Weight, now_ns: u64) {
        let Some(row) = self.row(row) else { return };
        // SAFETY: counters of a row of the table.
        unsafe {
            add(&raw mut (*row).samples, 1);
            add(&raw mut (*row).allocated_bytes, weight.bytes);
            add(&raw mut (*row).allocated_blocks, weight.blocks);
            raise(&raw mut (*row).last_ns, now_ns);
        }
    }

    /// A sample of a stack was freed after so long.
    pub fn freed(&self, row: u32, weight: Weight, lifetime_ns: u64) {
        let Some(row) = self.row(row) else { return };
        // SAFETY: counters of a row of the table; lifetime_of is below their number.
        unsafe {
            add(&raw mut (*row).freed_samples, 1);
            add(&raw mut (*row).freed_bytes, weight.bytes);
            raise(&raw mut (*row).lifetime_ns_max, lifetime_ns);
            let lifetimes = (&raw mut (*row).lifetimes).cast::<u32>();
            atomic32(lifetimes.add(lifetime_of(lifetime_ns))).fetch_add(1, Relaxed);
        }
    }

    /// A sample's block was resized and another takes its place: nothing was given back. Taken off what
    /// was allocated, so that growing step by step does not look like turnover.
    pub fn moved(&self, row: u32, weight: Weight) {
        let Some(row) = self.row(row) else { return };
        // SAFETY: counters of a row of the table.
        unsafe {
            add(&raw mut (*row).allocated_bytes, weight.bytes.wrapping_neg());
            add(
                &raw mut (*row).allocated_blocks,
                weight.blocks.wrapping_neg(),
            );
        }
    }

    /// A sample that stands for itself alone was resized: what it grew by was allocated here, what it
    /// shrank by freed.
    pub fn resized(&self, row: u32, from_bytes: u64, to_bytes: u64) {
        let Some(row) = self.row(row) else { return };
        // SAFETY: counters of a row of the table.
        unsafe {
            add(
                &raw mut (*row).allocated_bytes,
                to_bytes.saturating_sub(from_bytes),
            );
            add(
                &raw mut (*row).freed_bytes,
                from_bytes.saturating_sub(to_bytes),
            );
        }
    }

    fn enter(&self, at: usize, hash: u64, frames: &[u64], flags: u16, now_ns: u64) -> Option<u32> {
        let Some(first) = self.reserve_frames(frames.len()) else {
            self.key(at).store(FREE, Release);
            return None;
        };
        // SAFETY: the row is ours while its hash is busy, the frames since they were reserved.
        unsafe {
            for (offset, frame) in frames.iter().enumerate() {
                atomic(self.frames.add(first as usize + offset)).store(*frame, Relaxed);
            }
            atomic(&raw mut (*self.rows.add(at)).first_ns).store(now_ns, Relaxed);
        }
        self.place(at)
            .store(word_of(first, frames.len() as u16, flags), Relaxed);
        self.key(at).store(hash, Release);
        Some(at as u32)
    }

    fn reserve_frames(&self, count: usize) -> Option<u32> {
        // SAFETY: a word of the header.
        let used = unsafe {
            atomic32(&raw mut (*self.header).sections[SectionKind::Frames as usize].used)
        };
        let room = |used: u32| {
            let next = used as usize + count;
            (next <= self.frames_capacity).then_some(next as u32)
        };
        used.fetch_update(Relaxed, Relaxed, room).ok()
    }

    fn key(&self, at: usize) -> &AtomicU64 {
        // SAFETY: below the capacity.
        unsafe { atomic(&raw mut (*self.rows.add(at)).hash) }
    }

    /// The word of a row that says where its frames are, how many, and its flags.
    fn place(&self, at: usize) -> &AtomicU64 {
        // SAFETY: below the capacity; aligned, as the constant below says.
        unsafe { atomic((&raw mut (*self.rows.add(at)).frames_at).cast()) }
    }

    fn row(&self, row: u32) -> Option<*mut Stack> {
        // SAFETY: below the capacity.
        ((row as usize) < self.capacity).then(|| unsafe { self.rows.add(row as usize) })
    }
}

const _: () = assert!(
    offset_of!(Stack, frames_at) == 8
        && offset_of!(Stack, depth) == 12
        && offset_of!(Stack, flags) == 14
);

/// The fields of a row in their order in memory, little-endian as the layout is.
fn word_of(frames_at: u32, depth: u16, flags: u16) -> u64 {
    u64::from(frames_at) | u64::from(depth) << 32 | u64::from(flags) << 48
}

/// (frames_at, depth, flags).
fn place_of(word: u64) -> (u32, u16, u16) {
    (word as u32, (word >> 32) as u16, (word >> 48) as u16)
}

/// Never 0 or 1. A stack that is none is told from a frame at that address by its flag.
fn hash_of(frames: &[u64], flags: u16) -> u64 {
    let none = u64::from(flags & stack_flag::NOT_A_STACK);
    let mix = |hash: u64, frame: &u64| {
        (hash ^ frame)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    };
    let hash = frames.iter().fold(frames.len() as u64 ^ none << 32, mix);
    if hash > BUSY { hash } else { hash + 2 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Table {
        stacks: Stacks,
        header: *mut Header,
        rows: Vec<Stack>,
        frames: Vec<u64>,
    }

    fn table(capacity: usize, frames_capacity: usize) -> Table {
        // SAFETY: all zeros are integers.
        let header: *mut Header = Box::into_raw(Box::new(unsafe { std::mem::zeroed() }));
        let (mut rows, mut frames) = (vec![Stack::default(); capacity], vec![0; frames_capacity]);
        // SAFETY: the memory lives as long as the table.
        let stacks = unsafe {
            Stacks::new(
                header,
                (rows.as_mut_ptr(), capacity),
                (frames.as_mut_ptr(), frames_capacity),
            )
        };
        Table {
            stacks,
            header,
            rows,
            frames,
        }
    }

    #[test]
    fn one_row_per_distinct_stack() {
        let table = table(64, 64);
        let first = table.stacks.find(&[1, 2, 3], 0, 5).unwrap();
        assert_eq!(table.stacks.find(&[1, 2, 3], 0, 6), Some(first));
        assert_ne!(table.stacks.find(&[1, 2, 4], 0, 6), Some(first));
        assert_ne!(table.stacks.find(&[1, 2], 0, 6), Some(first));
        let row = table.rows[first as usize];
        assert_eq!((row.depth, row.first_ns), (3, 5));
        assert_eq!(table.frames[row.frames_at as usize..][..3], [1, 2, 3]);
        // SAFETY: the header is never freed.
        let used = unsafe { (*table.header).sections[SectionKind::Frames as usize].used };
        assert_eq!(used, 8);
    }

    #[test]
    fn a_full_table_says_so() {
        let rows_full = table(32, 1024);
        let entered =
            (0..64u64).filter(|frame| rows_full.stacks.find(&[*frame + 1], 0, 0).is_some());
        assert_eq!(entered.count(), 32);
        let frames_full = table(1024, 10);
        let entered =
            (0..64u64).filter(|frame| frames_full.stacks.find(&[*frame, 1, 2], 0, 0).is_some());
        assert_eq!(entered.count(), 3);
    }

    #[test]
    fn sums_and_lifetimes() {
        let table = table(64, 64);
        let row = table.stacks.find(&[7], 0, 0).unwrap();
        let weight = Weight {
            blocks: 10,
            bytes: 1000,
        };
        table.stacks.allocated(row, weight, 50);
        table.stacks.allocated(row, weight, 40);
        table.stacks.freed(row, weight, 9_000);
        let stack = table.rows[row as usize];
        assert_eq!(
            (stack.samples, stack.allocated_bytes, stack.allocated_blocks),
            (2, 2000, 20)
        );
        assert_eq!(
            (stack.last_ns, stack.freed_samples, stack.freed_bytes),
            (50, 1, 1000)
        );
        assert_eq!((stack.lifetime_ns_max, stack.lifetimes[2]), (9_000, 1));
        table.stacks.freed(abi::STACK_NONE, weight, 1);
    }
}

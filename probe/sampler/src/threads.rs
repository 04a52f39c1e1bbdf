//! Rows of threads: how a thread comes by one and leaves it.
//!
//! A row belongs to the thread that wins it by a compare-and-swap of its thread id to [`BUSY`]; its own id comes when
//! the row is its own in all else. The thread that had it before either gave it back ([`Threads::give_back`]), or is
//! gone as the caller says. A fork amid this costs the child the row.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use abi::{Header, OVERFLOW_THREAD, ROLE_NONE, SectionKind, Thread, thread_state};

use crate::draw;
use crate::word::{AtomicU32, add, atomic, atomic32};

/// A thread has won the row and is making it its own: nobody else may judge by what stands in it.
const BUSY: u32 = u32::MAX;

/// Rows tried for one whose thread is gone, per new thread.
const TRIES: usize = 8;

/// The rows.
pub struct Threads {
    header: *mut Header,
    rows: *mut Thread,
    capacity: u32,
    /// Where the last search for a free row ended.
    hand: AtomicU32,
}

impl Threads {
    /// # Safety
    /// `header` and `rows` are the header and the zeroed section of `capacity` rows, which live for ever.
    pub unsafe fn new(header: *mut Header, rows: *mut Thread, capacity: u32) -> Threads {
        // SAFETY: by the caller a mapping that nobody else knows yet; the section has more than one row.
        unsafe {
            let overflow = rows.add(OVERFLOW_THREAD);
            atomic(&raw mut (*overflow).random).store((*header).seed, Relaxed);
            (*overflow).role = ROLE_NONE;
            used_of(header).store(1, Relaxed);
        }
        Threads {
            header,
            rows,
            capacity,
            hand: AtomicU32::new(1),
        }
    }

    /// A row for thread `tid`, or `None` when all are taken. `is_gone` says of a row and its thread id whether the
    /// thread has ended without giving the row back.
    pub fn take(
        &self,
        tid: u32,
        is_gone: impl Fn(*mut Thread, u32) -> bool,
    ) -> Option<*mut Thread> {
        let row = self
            .take_over(tid, is_gone)
            .or_else(|| self.take_fresh(tid))
            .or_else(|| self.take_given_back(tid));
        // SAFETY: the counters of the header.
        unsafe {
            let counters = &raw mut (*self.header).counters;
            match row {
                Some(_) => add(&raw mut (*counters).threads_seen, 1),
                None => add(&raw mut (*counters).threads_overflowed, 1),
            }
        }
        row
    }

    /// The thread of a row writes it no more: the next one goes on from its counts.
    ///
    /// # Safety
    /// `row` is the calling thread's.
    pub unsafe fn give_back(&self, row: *mut Thread) {
        // SAFETY: by the caller a row of the section.
        unsafe { atomic32(&raw mut (*row).tid) }.store(0, Release);
    }

    /// The row that threads without one share. It is written through [`crate::shared`] only.
    pub fn overflow(&self) -> *mut Thread {
        // SAFETY: the first row.
        unsafe { self.rows.add(OVERFLOW_THREAD) }
    }

    /// Number of a row.
    pub fn index(&self, row: *mut Thread) -> u32 {
        let bytes = (row as usize).wrapping_sub(self.rows as usize);
        (bytes / size_of::<Thread>()) as u32
    }

    /// The rows that have ever been used; never more than there are, whatever the program wrote over the header.
    pub fn rows(&self) -> impl Iterator<Item = *mut Thread> {
        let used = self.used().load(Relaxed).min(self.capacity) as usize;
        // SAFETY: below the capacity.
        (0..used).map(|at| unsafe { self.rows.add(at) })
    }

    /// Blocks freed by all threads so far.
    pub fn frees(&self) -> u64 {
        // SAFETY: a word of a row; a counter that moves meanwhile is a little old.
        let frees = |row: *mut Thread| unsafe { atomic(&raw mut (*row).frees) }.load(Relaxed);
        self.rows().map(frees).fold(0, u64::wrapping_add)
    }

    fn used(&self) -> &AtomicU32 {
        // SAFETY: the header lives as long as this.
        unsafe { used_of(self.header) }
    }

    fn take_fresh(&self, tid: u32) -> Option<*mut Thread> {
        let next = |used: u32| (used < self.capacity).then_some(used + 1);
        loop {
            let at = self.used().fetch_update(Relaxed, Relaxed, next).ok()?;
            // SAFETY: below the capacity.
            let row = unsafe { self.rows.add(at as usize) };
            // A thread that searches for a free row may be faster.
            if self.claim(row, 0, tid) {
                return Some(row);
            }
        }
    }

    /// Tries a few rows, and takes the first that is free.
    fn take_over(
        &self,
        tid: u32,
        is_gone: impl Fn(*mut Thread, u32) -> bool,
    ) -> Option<*mut Thread> {
        let used = self.used().load(Relaxed).min(self.capacity);
        let tries = (used as usize).saturating_sub(1).min(TRIES);
        for _ in 0..tries {
            let at = 1 + self.hand.fetch_add(1, Relaxed) % (used - 1);
            // SAFETY: below the capacity.
            let row = unsafe { self.rows.add(at as usize) };
            // With what its thread wrote before its id.
            // SAFETY: a word of the row.
            let old = unsafe { atomic32(&raw mut (*row).tid) }.load(Acquire);
            let is_free = old == 0 || old != tid && old != BUSY && is_gone(row, old);
            if is_free && self.claim(row, old, tid) {
                return Some(row);
            }
        }
        None
    }

    /// Looks at all rows: none was never used.
    fn take_given_back(&self, tid: u32) -> Option<*mut Thread> {
        // SAFETY: a word of the row.
        let is_free =
            |row: *mut Thread| unsafe { atomic32(&raw mut (*row).tid) }.load(Relaxed) == 0;
        let mut own = self.rows().skip(OVERFLOW_THREAD + 1);
        own.find(|row| is_free(*row) && self.claim(*row, 0, tid))
    }

    /// True: the row is this thread's from now on. Acquires what its last thread counted.
    fn claim(&self, row: *mut Thread, old: u32, tid: u32) -> bool {
        // SAFETY: by the callers a row of the section.
        let owner = unsafe { atomic32(&raw mut (*row).tid) };
        let won = owner.compare_exchange(old, BUSY, Acquire, Relaxed).is_ok();
        if won {
            // SAFETY: as above, and now this thread's.
            unsafe { self.occupy(row) };
            owner.store(tid, Release);
        }
        won
    }

    unsafe fn occupy(&self, row: *mut Thread) {
        let number = u64::from(self.index(row));
        // SAFETY: by the caller a row that this thread has just claimed.
        unsafe {
            let random = atomic(&raw mut (*row).random);
            let mut state = random.load(Relaxed);
            if (*row).generation == 0 {
                state = (*self.header).seed ^ number << 32;
                atomic(&raw mut (*row).cut).store(1, Relaxed);
            }
            (*row).generation += 1;
            (*row).role = ROLE_NONE;
            (*row).state = thread_state::TAKEN;
            let forks = atomic32(&raw mut (*self.header).forks).load(Relaxed);
            atomic32(&raw mut (*row).forks).store(forks, Relaxed);
            if (*row).generation > 1 {
                add(&raw mut (*self.header).counters.threads_recycled, 1);
            }
            // A seed of its own: threads of one second must not sample in step.
            state ^= draw::random(&mut u64::from((*row).generation));
            random.store(state, Relaxed);
        }
    }
}

/// # Safety
/// `header` lives as long as the result is used.
unsafe fn used_of<'a>(header: *mut Header) -> &'a AtomicU32 {
    // SAFETY: a word of the header.
    unsafe { atomic32(&raw mut (*header).sections[SectionKind::Threads as usize].used) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::count;

    struct Shared(Threads);
    // SAFETY: the rows are made for it.
    unsafe impl Sync for Shared {}

    fn threads(capacity: u32) -> Shared {
        // SAFETY: all zeros are integers; the rows are never freed.
        unsafe {
            let header: *mut Header = Box::into_raw(Box::new(std::mem::zeroed()));
            let rows = vec![Thread::default(); capacity as usize].leak();
            Shared(Threads::new(header, rows.as_mut_ptr(), capacity))
        }
    }

    fn never(_: *mut Thread, _: u32) -> bool {
        false
    }

    /// For Miri, and for what is not of the order of atomics: two threads in one row are the models' to find.
    #[test]
    fn threads_that_come_and_go_count_exactly() {
        const WORKERS: u32 = 4;
        let rounds = if cfg!(miri) { 20 } else { 20_000u64 };
        let all = &threads(64);
        let work = |worker: u32| {
            for round in 0..rounds {
                let tid = 1 + worker + WORKERS * round as u32;
                let row = all.0.take(tid, never).expect("64 rows for four");
                // SAFETY: the row is this thread's until it is given back.
                unsafe {
                    (0..3).for_each(|_| count::free(row));
                    all.0.give_back(row);
                }
            }
        };
        std::thread::scope(|scope| (0..WORKERS).for_each(|at| drop(scope.spawn(move || work(at)))));
        assert_eq!(all.0.frees(), u64::from(WORKERS) * rounds * 3);
    }

    #[test]
    fn rows_are_used_again_when_given_back_or_gone() {
        let all = threads(3).0;
        let (first, second) = (all.take(7, never).unwrap(), all.take(8, never).unwrap());
        assert_eq!((all.index(first), all.index(second)), (1, 2));
        assert_eq!(all.take(9, never), None);
        assert_eq!(all.take(9, |_, tid| tid == 8), Some(second));
        // SAFETY: this test's own row.
        unsafe { all.give_back(first) };
        assert_eq!(all.take(10, never), Some(first));
        // SAFETY: the header is never freed.
        let counters = unsafe { (*all.header).counters };
        let (seen, lost) = (counters.threads_seen, counters.threads_overflowed);
        assert_eq!((seen, lost, counters.threads_recycled), (4, 1, 2));
    }
}

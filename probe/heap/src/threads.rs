//! Rows of threads: taken at a thread's first call, taken over when it has exited. No exit hook:
//! whether a thread is still there is asked of the kernel when its row is wanted, so destructors
//! that run late may allocate as they like.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use abi::{Header, OVERFLOW_THREAD, ROLE_NONE, SectionKind, Thread, thread_state};

use sampler::draw;
use sampler::word::{add, atomic32};

/// Rows looked at for one whose thread is gone, per new thread.
const LOOKS: usize = 8;

/// The rows.
pub struct Threads {
    header: *mut Header,
    rows: *mut Thread,
    capacity: u32,
    /// Where the last look for an exited thread ended.
    hand: AtomicU32,
}

impl Threads {
    /// # Safety
    /// `header` and `rows` are the header and the zeroed section of `capacity` rows.
    pub unsafe fn new(header: *mut Header, rows: *mut Thread, capacity: u32) -> Threads {
        unsafe {
            (*rows.add(OVERFLOW_THREAD)).random = (*header).seed;
            (*rows.add(OVERFLOW_THREAD)).role = ROLE_NONE;
            (*header).sections[SectionKind::Threads as usize].used = 1;
        }
        Threads {
            header,
            rows,
            capacity,
            hand: AtomicU32::new(1),
        }
    }

    /// A row for thread `tid`, or `None` when all are taken by living threads.
    pub fn take(&self, tid: u32) -> Option<*mut Thread> {
        let row = self.take_over(tid).or_else(|| self.take_fresh(tid));
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

    /// The row that threads without one share. Its counters are written with atomics.
    pub fn overflow(&self) -> *mut Thread {
        // SAFETY: the first row.
        unsafe { self.rows.add(OVERFLOW_THREAD) }
    }

    /// Number of a row.
    pub fn index(&self, row: *mut Thread) -> u32 {
        let bytes = (row as usize).wrapping_sub(self.rows as usize);
        (bytes / size_of::<Thread>()) as u32
    }

    /// Blocks taken back by all threads so far.
    pub fn frees(&self) -> u64 {
        let used = self.used_rows() as usize;
        // SAFETY: rows below `used`; a counter that moves meanwhile is a little old.
        (0..used)
            .map(|at| unsafe { (&raw const (*self.rows.add(at)).frees).read_volatile() })
            .sum()
    }

    fn used(&self) -> &AtomicU32 {
        // SAFETY: a word of the header.
        unsafe { atomic32(&raw mut (*self.header).sections[SectionKind::Threads as usize].used) }
    }

    /// Rows in use; never more than there are, whatever the program wrote over the header.
    fn used_rows(&self) -> u32 {
        self.used().load(Relaxed).min(self.capacity)
    }

    fn take_fresh(&self, tid: u32) -> Option<*mut Thread> {
        let taken = |used: u32| (used < self.capacity).then_some(used + 1);
        let at = self.used().fetch_update(Relaxed, Relaxed, taken).ok()?;
        // SAFETY: below the capacity, and now this thread's alone.
        unsafe {
            let row = self.rows.add(at as usize);
            (*row).random = (*self.header).seed ^ (u64::from(at) << 32);
            (*row).cut = 1;
            atomic32(&raw mut (*row).tid).store(tid, Relaxed);
            self.occupy(row);
            Some(row)
        }
    }

    /// Looks at a few rows, and takes the first whose thread is gone.
    fn take_over(&self, tid: u32) -> Option<*mut Thread> {
        let used = self.used_rows();
        let looks = (used as usize).saturating_sub(1).min(LOOKS);
        for _ in 0..looks {
            let at = 1 + self.hand.fetch_add(1, Relaxed) % (used - 1);
            // SAFETY: below the capacity; the swap of the thread id makes the row this thread's
            // alone.
            unsafe {
                let row = self.rows.add(at as usize);
                let owner = atomic32(&raw mut (*row).tid);
                let old = owner.load(Relaxed);
                let gone = old != 0 && old != tid && !self.is_there(row, old);
                if gone && owner.compare_exchange(old, tid, Relaxed, Relaxed).is_ok() {
                    add(&raw mut (*self.header).counters.threads_recycled, 1);
                    self.occupy(row);
                    return Some(row);
                }
            }
        }
        None
    }

    unsafe fn is_there(&self, row: *mut Thread, tid: u32) -> bool {
        unsafe {
            if (*row).forks != (*self.header).forks {
                return false;
            }
            let failed = libc::syscall(
                libc::SYS_tgkill,
                libc::syscall(libc::SYS_getpid),
                tid as libc::pid_t,
                0,
            );
            failed == 0 || *libc::__errno_location() != libc::ESRCH
        }
    }

    unsafe fn occupy(&self, row: *mut Thread) {
        unsafe {
            (*row).generation += 1;
            (*row).role = ROLE_NONE;
            (*row).forks = (*self.header).forks;
            (*row).state = thread_state::TAKEN;
            // A seed of its own: threads of one second must not sample in step.
            (*row).random ^= draw::random(&mut u64::from((*row).generation));
        }
    }
}

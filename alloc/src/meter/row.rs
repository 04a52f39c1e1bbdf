//! A thread's row of counters: the fast path, and how a thread comes by a row and leaves it.

use core::cell::{Cell, UnsafeCell};
use core::ptr::{addr_of_mut, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use abi::{OVERFLOW_THREAD, ROLE_NONE, SectionKind, Thread, thread_state};

use super::{map, roles, sampler};
use ::sampler::shared;
use ::sampler::word::{add_own, atomic};

/// One call in 1,024 of a thread is timed: two clock readings are then 0.05 ns a call.
pub(crate) const TIMED_EVERY: u64 = 1024;
/// Of a row that nothing is sampled in.
const NEVER: u64 = i64::MAX as u64;

std::thread_local! {
    /// Null before the first call of a thread, and after its row was given back.
    static ROW: Cell<*mut Thread> = const { Cell::new(null_mut()) };
    /// The thread shares the overflow row: its own stays null, and each of its calls goes the slow way.
    static IS_SHARED: Cell<bool> = const { Cell::new(false) };
}

struct Idle(UnsafeCell<Thread>);
// SAFETY: written through atomics. Its counters mean nothing; threads may overwrite one another's.
unsafe impl Sync for Idle {}

/// Where threads count while there is no mapping.
static IDLE: Idle = Idle(UnsafeCell::new(Thread {
    countdown_bytes: NEVER,
    allocs: 0,
    frees: 0,
    usable_allocated_bytes: 0,
    usable_freed_bytes: 0,
    drawn_bytes: NEVER,
    mean_bytes: 0,
    random: 0,
    samples: 0,
    tid: 0,
    generation: 0,
    role: ROLE_NONE,
    state: thread_state::FREE,
    forks: 0,
    cut: 0,
    reserved: [0; 4],
}));

/// Counts a block that is about to be handed out; true when the call goes the slow way: no row yet, a sample due, or
/// its turn to be timed.
#[inline(always)]
pub(crate) fn count_alloc(bytes: usize) -> bool {
    let row = ROW.get();
    if row.is_null() {
        return true;
    }
    // SAFETY: a row is valid for ever and written by its thread alone; readers outside copy it.
    unsafe { add_alloc(row, bytes) }
}

/// # Safety
/// `row` is this thread's.
#[inline(always)]
pub(crate) unsafe fn add_alloc(row: *mut Thread, bytes: usize) -> bool {
    // SAFETY: words of the caller's own row. Loaded once each: the compiler forwards no atomic store to a load.
    unsafe {
        let countdown = atomic(&raw mut (*row).countdown_bytes);
        let left = countdown.load(Relaxed).wrapping_sub(bytes as u64);
        countdown.store(left, Relaxed);
        let calls = atomic(&raw mut (*row).allocs);
        let allocs = calls.load(Relaxed).wrapping_add(1);
        calls.store(allocs, Relaxed);
        add_own(&raw mut (*row).usable_allocated_bytes, bytes as u64);
        (left as i64) < 0 || allocs.is_multiple_of(TIMED_EVERY)
    }
}

/// Counts a block that is about to be taken back; true as for [`count_alloc`].
#[inline(always)]
pub(crate) fn count_free(bytes: usize) -> bool {
    let row = ROW.get();
    if row.is_null() {
        return true;
    }
    // SAFETY: as above.
    unsafe { add_free(row, bytes) }
}

/// # Safety
/// `row` is this thread's.
#[inline(always)]
pub(crate) unsafe fn add_free(row: *mut Thread, bytes: usize) -> bool {
    // SAFETY: words of the caller's own row.
    unsafe {
        let calls = atomic(&raw mut (*row).frees);
        let frees = calls.load(Relaxed).wrapping_add(1);
        calls.store(frees, Relaxed);
        add_own(&raw mut (*row).usable_freed_bytes, bytes as u64);
        frees.is_multiple_of(TIMED_EVERY)
    }
}

/// Takes calls back that failed: an allocation of so many bytes, and a free of so many where it was a realloc.
#[cold]
#[inline(never)]
pub(crate) fn failed(bytes: usize, freed_bytes: Option<usize>) {
    let row = ROW.get();
    if !row.is_null() {
        // SAFETY: this thread's row.
        unsafe {
            undo_alloc(row, bytes);
            freed_bytes.inspect(|bytes| undo_free(row, *bytes));
        }
    }
}

/// Takes a call back that failed.
///
/// # Safety
/// `row` is this thread's.
pub(crate) unsafe fn undo_alloc(row: *mut Thread, bytes: usize) {
    if is_shared(row) {
        // SAFETY: the shared row lives and is written through atomics.
        return unsafe { shared::undo_alloc(row, bytes as u64) };
    }
    // SAFETY: words of the caller's own row.
    unsafe {
        add_own(&raw mut (*row).allocs, 1u64.wrapping_neg());
        add_own(
            &raw mut (*row).usable_allocated_bytes,
            (bytes as u64).wrapping_neg(),
        );
        add_own(&raw mut (*row).countdown_bytes, bytes as u64);
    }
}

/// The same for a realloc that failed: the block is still there.
///
/// # Safety
/// `row` is this thread's.
pub(crate) unsafe fn undo_free(row: *mut Thread, bytes: usize) {
    if is_shared(row) {
        // SAFETY: the shared row lives and is written through atomics.
        return unsafe { shared::undo_free(row, bytes as u64) };
    }
    // SAFETY: words of the caller's own row.
    unsafe {
        add_own(&raw mut (*row).frees, 1u64.wrapping_neg());
        add_own(
            &raw mut (*row).usable_freed_bytes,
            (bytes as u64).wrapping_neg(),
        );
    }
}

/// The row of the calling thread, or null.
pub(crate) fn of_thread() -> *mut Thread {
    ROW.get()
}

/// The calling thread's row; at its first call it gets one.
pub(crate) fn take() -> *mut Thread {
    let row = ROW.get();
    if !row.is_null() {
        return row;
    }
    if IS_SHARED.get() {
        return overflow();
    }
    let row = if map::start() { claim() } else { IDLE.0.get() };
    if is_shared(row) {
        IS_SHARED.set(true);
    } else {
        ROW.set(row);
    }
    row
}

fn overflow() -> *mut Thread {
    map::row_at(SectionKind::Threads, OVERFLOW_THREAD)
}

/// The row is the one that threads without their own share: to be written by [`shared`] only.
pub(crate) fn is_shared(row: *mut Thread) -> bool {
    map::is_on() && row == overflow()
}

/// At the start of the mapping, before any thread has a row.
pub(crate) fn set_up_overflow() {
    let row = overflow();
    set_up(row);
    // SAFETY: no other thread knows of the row yet.
    unsafe { (*row).role = roles::OTHER };
}

/// Number of a row; the idle row's is that of the overflow.
pub(crate) fn number(row: *mut Thread) -> u32 {
    let first = map::first::<Thread>(SectionKind::Threads) as usize;
    let at = (row as usize).wrapping_sub(first) / size_of::<Thread>();
    if at < map::THREADS {
        at as u32
    } else {
        OVERFLOW_THREAD as u32
    }
}

/// In a forked child: the one thread that is left has the row of its parent's, in a copy. The rows of the others are
/// free: their threads are not there to give them back.
pub(crate) fn forked(forks: u32) {
    let own = ROW.get();
    let first = map::first::<Thread>(SectionKind::Threads);
    let used = (USED.load(Relaxed) as usize).min(map::THREADS);
    for at in OVERFLOW_THREAD + 1..used {
        // SAFETY: inside the section, which this thread has for itself now.
        let row = unsafe { first.add(at) };
        // SAFETY: as above.
        let tid = tid_of(unsafe { addr_of_mut!((*row).tid) });
        if row == own {
            tid.store(thread_id(), Release);
        } else if tid.swap(0, AcqRel) != 0 {
            GIVEN_BACK.fetch_add(1, Relaxed);
        }
    }
    if !own.is_null() {
        // SAFETY: this thread's row.
        unsafe { (*own).forks = forks };
    }
}

static USED: AtomicU32 = AtomicU32::new(OVERFLOW_THREAD as u32 + 1);
static GIVEN_BACK: AtomicU32 = AtomicU32::new(0);

fn claim() -> *mut Thread {
    let first = map::first::<Thread>(SectionKind::Threads);
    map::counters().threads_seen.fetch_add(1, Relaxed);
    let at = recycled(first).unwrap_or_else(|| {
        let fresh = USED.fetch_add(1, Relaxed) as usize;
        if fresh < map::THREADS {
            fresh
        } else {
            USED.store(map::THREADS as u32, Relaxed);
            OVERFLOW_THREAD
        }
    });
    map::used(SectionKind::Threads, at as u32 + 1);
    // SAFETY: `at` is inside the section.
    let row = unsafe { first.add(at) };
    if at == OVERFLOW_THREAD {
        map::counters().threads_overflowed.fetch_add(1, Relaxed);
    } else {
        // SAFETY: the row is this thread's alone now.
        tid_of(unsafe { addr_of_mut!((*row).tid) }).store(thread_id(), Release);
        give_back_at_exit(row);
        set_up(row);
    }
    row
}

fn set_up(row: *mut Thread) {
    // SAFETY: the row is this thread's alone: claimed by its thread id, or before the start has ended.
    unsafe {
        (*row).state = thread_state::TAKEN;
        (*row).generation += 1;
        (*row).role = ROLE_NONE;
        (*row).forks = map::forks();
        if (*row).random == 0 {
            (*row).random = sampler::seed_of(row as u64);
            sampler::draw(row);
        }
    }
}

/// A row whose thread has exited, if there is one. Its counts go on: sums over rows stay the process's.
fn recycled(first: *mut Thread) -> Option<usize> {
    if GIVEN_BACK.load(Relaxed) == 0 {
        return None;
    }
    let used = (USED.load(Relaxed) as usize).min(map::THREADS);
    (OVERFLOW_THREAD + 1..used).find(|at| {
        // SAFETY: inside the section.
        let tid = tid_of(unsafe { addr_of_mut!((*first.add(*at)).tid) });
        let free =
            tid.load(Relaxed) == 0 && tid.compare_exchange(0, u32::MAX, AcqRel, Relaxed).is_ok();
        if free {
            GIVEN_BACK.fetch_sub(1, Relaxed);
            map::counters().threads_recycled.fetch_add(1, Relaxed);
        }
        free
    })
}

fn tid_of(tid: *mut u32) -> &'static AtomicU32 {
    // SAFETY: aligned, and valid for ever like the mapping.
    unsafe { AtomicU32::from_ptr(tid) }
}

fn thread_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Key of the C library whose destructor gives rows back, plus one; 0 when there is none (rows are then not
/// recycled). Unlike a Rust
/// thread-local with a destructor it allocates nothing through this allocator.
static KEY: AtomicU64 = AtomicU64::new(0);

pub(crate) fn make_key() {
    let mut key = 0;
    // SAFETY: a valid place; the destructor has the right signature.
    if unsafe { libc::pthread_key_create(&mut key, Some(give_back)) } == 0 {
        KEY.store(u64::from(key) + 1, Release);
    }
}

fn give_back_at_exit(row: *mut Thread) {
    let key = KEY.load(Acquire);
    if key > 0 {
        // SAFETY: the key exists. Failing, the row is not recycled.
        unsafe { libc::pthread_setspecific((key - 1) as libc::pthread_key_t, row.cast()) };
    }
}

/// The thread exits. What it still allocates in later destructors gets it a row anew.
unsafe extern "C" fn give_back(row: *mut libc::c_void) {
    ROW.set(null_mut());
    // SAFETY: the value of the key is a row of the mapping.
    tid_of(unsafe { addr_of_mut!((*row.cast::<Thread>()).tid) }).store(0, Release);
    GIVEN_BACK.fetch_add(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_failed_leaves_its_row_as_it_was() {
        let before = Thread {
            countdown_bytes: 1 << 20,
            allocs: 7,
            frees: 3,
            ..Thread::default()
        };
        let mut row = before;
        // SAFETY: this test's own row.
        unsafe {
            add_alloc(&mut row, 4096);
            add_free(&mut row, 100);
            undo_alloc(&mut row, 4096);
            undo_free(&mut row, 100);
        }
        assert_eq!(format!("{row:?}"), format!("{before:?}"));
    }
}

//! A thread's row of counters, and how the thread comes by it and leaves it.

use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicU64, Ordering::*};

use abi::{ROLE_NONE, Thread};
use sampler::count::{self, TIMED_EVERY};
use sampler::word::{add_own, atomic, atomic32};

use super::map;

std::thread_local! {
    /// [`NONE`] before the first call of a thread, and after its row was given back.
    static ROW: Cell<*mut Thread> = const { Cell::new(NONE.0.get()) };
    /// The thread shares the overflow row: it keeps [`NONE`], and each of its calls goes the slow way.
    static IS_SHARED: Cell<bool> = const { Cell::new(false) };
}

struct Static(UnsafeCell<Thread>);
// SAFETY: read and written through atomics.
unsafe impl Sync for Static {}

/// The row of a thread without one. Every call goes the slow way, so that nothing is written here: the hot path needs
/// no test whether there is a row.
static NONE: Static = constant(0, TIMED_EVERY - 1);
/// Where threads count while there is no mapping. Its counters mean nothing; threads may overwrite one another's.
static IDLE: Static = constant(u64::MAX, 0);

const fn constant(countdown_bytes: u64, frees: u64) -> Static {
    Static(UnsafeCell::new(Thread {
        countdown_bytes,
        frees,
        role: ROLE_NONE,
        ..Thread::EMPTY
    }))
}

/// The calling thread's row as it is: to be counted in by the functions of [`count`] that say when to go the slow way.
#[inline(always)]
pub(crate) fn of_thread() -> *mut Thread {
    ROW.get()
}

/// Takes calls back that failed: an allocation of so many bytes, and a free of so many where it was a realloc.
#[cold]
#[inline(never)]
pub(crate) fn failed(bytes: usize, freed_bytes: Option<usize>) {
    let row = ROW.get();
    // SAFETY: this thread's row, in which it has just counted the call.
    unsafe {
        count::undo_alloc_exactly(row, bytes as u64);
        freed_bytes.inspect(|bytes| count::undo_free_exactly(row, *bytes as u64));
    }
}

/// The row to count in: at its first call a thread gets one, or shares the overflow row.
pub(crate) fn take() -> *mut Thread {
    let row = ROW.get();
    if row != NONE.0.get() {
        return row;
    }
    let Some(meter) = map::start() else {
        ROW.set(IDLE.0.get());
        return IDLE.0.get();
    };
    if IS_SHARED.get() {
        return meter.threads.overflow();
    }
    let forks = map::forks();
    // SAFETY: a word of a row. One from before a fork is a thread's of the parent.
    let is_gone =
        |row: *mut Thread, _| unsafe { atomic32(&raw mut (*row).forks) }.load(Relaxed) != forks;
    let Some(row) = meter.threads.take(thread_id(), is_gone) else {
        IS_SHARED.set(true);
        return meter.threads.overflow();
    };
    give_back_at_exit(row);
    ROW.set(row);
    row
}

/// Counts an allocation while there is no mapping.
pub(crate) fn count_idle(row: *mut Thread) {
    // SAFETY: the idle row, written through atomics.
    unsafe {
        add_own(&raw mut (*row).allocs, 1);
        atomic(&raw mut (*row).countdown_bytes).store(u64::MAX, Relaxed);
    }
}

/// In a forked child: the one thread that is left has the row of its parent's, in a copy.
pub(crate) fn forked(forks: u32) {
    let row = ROW.get();
    if row != NONE.0.get() {
        // SAFETY: this thread's row, and it is the only thread.
        unsafe {
            atomic32(&raw mut (*row).forks).store(forks, Relaxed);
            atomic32(&raw mut (*row).tid).store(thread_id(), Relaxed);
        }
    }
}

pub(crate) fn thread_id() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Key of the C library whose destructor gives rows back, plus one; 0 when there is none (rows are then not
/// recycled). Unlike a Rust thread-local with a destructor it allocates nothing through this allocator.
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
    ROW.set(NONE.0.get());
    if let Some(meter) = map::meter() {
        // SAFETY: the value of the key is this thread's row.
        unsafe { meter.threads.give_back(row.cast()) };
    }
}

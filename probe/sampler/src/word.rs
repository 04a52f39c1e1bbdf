//! Counters in the mapping: plain integers in the layout, atomics to write them.

use core::sync::atomic::Ordering::Relaxed;

#[cfg(not(loom))]
pub(crate) use core::hint::spin_loop as pause;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};
#[cfg(loom)]
pub(crate) use loom::hint::spin_loop as pause;
#[cfg(loom)]
pub use shadow::{AtomicU8, AtomicU32, AtomicU64, atomic, atomic32, forget};

/// The integer at `place` as an atomic.
///
/// # Safety
/// `place` is aligned and lives as long as the result is used; nobody writes it but through
/// atomics or as its only writer.
#[cfg(not(loom))]
#[inline(always)]
pub unsafe fn atomic<'a>(place: *mut u64) -> &'a AtomicU64 {
    // SAFETY: by the caller.
    unsafe { AtomicU64::from_ptr(place) }
}

/// Likewise for 32 bits.
///
/// # Safety
/// As for [`atomic`].
#[cfg(not(loom))]
#[inline(always)]
pub unsafe fn atomic32<'a>(place: *mut u32) -> &'a AtomicU32 {
    // SAFETY: by the caller.
    unsafe { AtomicU32::from_ptr(place) }
}

/// Adds to a counter that several threads write.
///
/// # Safety
/// As for [`atomic`].
pub unsafe fn add(place: *mut u64, amount: u64) {
    // SAFETY: by the caller.
    unsafe { atomic(place) }.fetch_add(amount, Relaxed);
}

/// Adds to a counter that one thread writes and others may read: a load and a store, no locked instruction.
///
/// # Safety
/// As for [`atomic`], and no other thread writes `place` at the same time.
#[inline(always)]
pub unsafe fn add_own(place: *mut u64, amount: u64) {
    // SAFETY: by the caller.
    let word = unsafe { atomic(place) };
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
}

/// Raises a value to at least `to`.
///
/// # Safety
/// As for [`atomic`].
pub unsafe fn raise(place: *mut u64, to: u64) {
    // SAFETY: by the caller.
    unsafe { atomic(place) }.fetch_max(to, Relaxed);
}

/// loom's atomics are no integers in memory: each word of the mapping gets one at its first use in a run of a model.
#[cfg(loom)]
mod shadow {
    use std::cell::RefCell;
    use std::collections::HashMap;

    pub use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

    // A model's threads all run on one thread of the system, and each test has its own.
    std::thread_local! {
        static WORDS: RefCell<HashMap<usize, &'static AtomicU64>> = RefCell::default();
        static HALVES: RefCell<HashMap<usize, &'static AtomicU32>> = RefCell::default();
    }

    /// A run of a model starts: its words are zero.
    pub fn forget() {
        WORDS.with_borrow_mut(HashMap::clear);
        HALVES.with_borrow_mut(HashMap::clear);
    }

    /// # Safety
    /// None is needed: the place is a name only.
    pub unsafe fn atomic<'a>(place: *mut u64) -> &'a AtomicU64 {
        let new = || &*Box::leak(Box::new(AtomicU64::new(0)));
        WORDS.with_borrow_mut(|words| *words.entry(place as usize).or_insert_with(new))
    }

    /// # Safety
    /// As above.
    pub unsafe fn atomic32<'a>(place: *mut u32) -> &'a AtomicU32 {
        let new = || &*Box::leak(Box::new(AtomicU32::new(0)));
        HALVES.with_borrow_mut(|halves| *halves.entry(place as usize).or_insert_with(new))
    }
}

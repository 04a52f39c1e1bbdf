//! Counters in the mapping: plain integers in the layout, atomics to write them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The integer at `place` as an atomic.
///
/// # Safety
/// `place` is aligned and lives as long as the result is used; nobody writes it but through
/// atomics or as its only writer.
pub unsafe fn atomic<'a>(place: *mut u64) -> &'a AtomicU64 {
    unsafe { AtomicU64::from_ptr(place) }
}

/// Likewise for 32 bits.
///
/// # Safety
/// As for [`atomic`].
pub unsafe fn atomic32<'a>(place: *mut u32) -> &'a AtomicU32 {
    unsafe { AtomicU32::from_ptr(place) }
}

/// Adds to a counter that several threads write.
///
/// # Safety
/// As for [`atomic`].
pub unsafe fn add(place: *mut u64, amount: u64) {
    unsafe { atomic(place) }.fetch_add(amount, Relaxed);
}

/// Raises a value to at least `to`.
///
/// # Safety
/// As for [`atomic`].
pub unsafe fn raise(place: *mut u64, to: u64) {
    unsafe { atomic(place) }.fetch_max(to, Relaxed);
}

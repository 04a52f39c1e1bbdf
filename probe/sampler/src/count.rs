//! The hot paths: what every call of the subject pays. Nothing here branches on anything but the
//! thread's own row, which that thread alone writes: relaxed loads and stores, the same instructions as plain ones.

use core::sync::atomic::Ordering::Relaxed;

use abi::Thread;

use crate::word::{add_own, atomic};

/// Counts a block of `bytes` that is about to be handed out. True: take the slow path for this call
/// instead, nothing was counted.
///
/// # Safety
/// `row` is this thread's own row.
#[inline(always)]
pub unsafe fn alloc(row: *mut Thread, bytes: u64) -> bool {
    // SAFETY: words of the caller's own row.
    unsafe {
        let countdown = atomic(&raw mut (*row).countdown_bytes);
        let left = countdown.load(Relaxed);
        if left <= bytes {
            return true;
        }
        countdown.store(left - bytes, Relaxed);
        add_own(&raw mut (*row).allocs, 1);
        false
    }
}

/// Counts a block that is about to be taken back.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn free(row: *mut Thread) {
    // SAFETY: a word of the caller's own row.
    unsafe { add_own(&raw mut (*row).frees, 1) };
}

/// Adds to the exact bytes handed out.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn usable_allocated(row: *mut Thread, bytes: u64) {
    // SAFETY: a word of the caller's own row.
    unsafe { add_own(&raw mut (*row).usable_allocated_bytes, bytes) };
}

/// Adds to the exact bytes taken back.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn usable_freed(row: *mut Thread, bytes: u64) {
    // SAFETY: a word of the caller's own row.
    unsafe { add_own(&raw mut (*row).usable_freed_bytes, bytes) };
}

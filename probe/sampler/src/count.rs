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

/// Every so many calls of a kind that are counted exactly take the slow path, to be timed: two clock readings are then
/// 0.05 ns a call.
pub const TIMED_EVERY: u64 = 1024;

/// Counts a block and its exact bytes. True: take the slow path instead, nothing was counted; a sample may be due, or
/// it is the call's turn to be timed. All that is read is read before the first store: 8 instructions on x86_64.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn alloc_exactly(row: *mut Thread, bytes: u64) -> bool {
    // SAFETY: words of the caller's own row.
    unsafe {
        let countdown = atomic(&raw mut (*row).countdown_bytes);
        let calls = atomic(&raw mut (*row).allocs);
        let left = countdown.load(Relaxed);
        if left <= bytes {
            return true;
        }
        let allocs = calls.load(Relaxed).wrapping_add(1);
        if allocs.is_multiple_of(TIMED_EVERY) {
            return true;
        }
        countdown.store(left - bytes, Relaxed);
        calls.store(allocs, Relaxed);
        usable_allocated(row, bytes);
        false
    }
}

/// The next free of a row is to be timed.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn is_turn_of_free(row: *mut Thread) -> bool {
    // SAFETY: a word of the caller's own row.
    let frees = unsafe { atomic(&raw mut (*row).frees) }.load(Relaxed);
    frees.wrapping_add(1).is_multiple_of(TIMED_EVERY)
}

/// Counts a freed block and its exact bytes.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn free_exactly(row: *mut Thread, bytes: u64) {
    // SAFETY: words of the caller's own row.
    unsafe {
        free(row);
        usable_freed(row, bytes);
    }
}

/// Takes back what [`alloc_exactly`] counted: the allocator refused.
///
/// # Safety
/// As for [`alloc`].
pub unsafe fn undo_alloc_exactly(row: *mut Thread, bytes: u64) {
    // SAFETY: words of the caller's own row.
    unsafe {
        add_own(&raw mut (*row).allocs, 1u64.wrapping_neg());
        usable_allocated(row, bytes.wrapping_neg());
        add_own(&raw mut (*row).countdown_bytes, bytes);
    }
}

/// Takes back what [`free_exactly`] counted: the block is still there.
///
/// # Safety
/// As for [`alloc`].
pub unsafe fn undo_free_exactly(row: *mut Thread, bytes: u64) {
    // SAFETY: words of the caller's own row.
    unsafe {
        add_own(&raw mut (*row).frees, 1u64.wrapping_neg());
        usable_freed(row, bytes.wrapping_neg());
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

#[cfg(all(test, not(loom)))]
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
            assert!(!alloc_exactly(&mut row, 4096));
            free_exactly(&mut row, 100);
            undo_alloc_exactly(&mut row, 4096);
            undo_free_exactly(&mut row, 100);
        }
        assert_eq!(format!("{row:?}"), format!("{before:?}"));
    }

    #[test]
    fn what_goes_the_slow_way_is_not_counted() {
        let turn = TIMED_EVERY - 1;
        for (countdown_bytes, allocs, bytes) in [(64, 0, 64), (64, 0, 65), (1 << 20, turn, 1)] {
            let before = Thread {
                countdown_bytes,
                allocs,
                frees: turn,
                ..Thread::default()
            };
            let mut row = before;
            // SAFETY: this test's own row.
            unsafe { assert!(alloc_exactly(&mut row, bytes) && is_turn_of_free(&mut row)) };
            assert_eq!(format!("{row:?}"), format!("{before:?}"));
        }
    }
}

//! The hot paths: what every call of the subject pays. Nothing here branches on anything but the
//! thread's own row.

use abi::Thread;

/// Counts a block of `bytes` that is about to be handed out. True: take the slow path for this call
/// instead, nothing was counted.
///
/// # Safety
/// `row` is this thread's own row.
#[inline(always)]
pub unsafe fn alloc(row: *mut Thread, bytes: u64) -> bool {
    unsafe {
        let left = (*row).countdown_bytes;
        if left <= bytes {
            return true;
        }
        (*row).countdown_bytes = left - bytes;
        (*row).allocs += 1;
        false
    }
}

/// Counts a block that is about to be taken back.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn free(row: *mut Thread) {
    unsafe { (*row).frees += 1 };
}

/// Adds to the exact bytes handed out.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn usable_allocated(row: *mut Thread, bytes: u64) {
    unsafe { (*row).usable_allocated_bytes += bytes };
}

/// Adds to the exact bytes taken back.
///
/// # Safety
/// As for [`alloc`].
#[inline(always)]
pub unsafe fn usable_freed(row: *mut Thread, bytes: u64) {
    unsafe { (*row).usable_freed_bytes += bytes };
}

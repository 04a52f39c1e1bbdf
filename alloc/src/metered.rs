//! The hot path with `meter`: counts in the thread's own row, and a look at whether this call is one of the few that
//! go the slow way.

use core::alloc::{GlobalAlloc, Layout};

use crate::chosen::INNER;
use crate::meter::{filter, row, slow};

pub(crate) struct Metered;
pub(crate) const METERED: Metered = Metered;

// SAFETY: blocks come from and go to INNER with the caller's own layout; the meter only counts.
unsafe impl GlobalAlloc for Metered {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if row::count_alloc(layout.size()) {
            // SAFETY: the caller's promise is passed on.
            return unsafe { slow::alloc(layout) };
        }
        // SAFETY: as above.
        let block = unsafe { INNER.alloc(layout) };
        if block.is_null() {
            row::failed(layout.size(), None);
        }
        block
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if row::count_alloc(layout.size()) {
            // SAFETY: as above.
            return unsafe { slow::alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        let block = unsafe { INNER.alloc_zeroed(layout) };
        if block.is_null() {
            row::failed(layout.size(), None);
        }
        block
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if row::count_free(layout.size()) | filter::may_hold(block) {
            // SAFETY: as above.
            return unsafe { slow::dealloc(block, layout) };
        }
        // SAFETY: as above.
        unsafe { INNER.dealloc(block, layout) }
    }

    /// One taken back and one handed out, whether it moves or not.
    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let look = row::count_free(layout.size()) | filter::may_hold(block);
        if row::count_alloc(bytes) | look {
            // SAFETY: as above.
            return unsafe { slow::realloc(block, layout, bytes) };
        }
        // SAFETY: as above.
        let moved = unsafe { INNER.realloc(block, layout, bytes) };
        if moved.is_null() {
            row::failed(bytes, Some(layout.size()));
        }
        moved
    }
}

//! The hot path with `meter`: counts in the thread's own row, and a look at whether this call is one of the few that
//! go the slow way.

use core::alloc::{GlobalAlloc, Layout};

use crate::chosen::INNER;
use crate::meter::map::FILTER;
use crate::meter::{row, slow};
use sampler::count;

pub(crate) struct Metered;
pub(crate) const METERED: Metered = Metered;

// SAFETY: blocks come from and go to INNER with the caller's own layout; the meter only counts.
unsafe impl GlobalAlloc for Metered {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: this thread's row; the caller's promise is passed on.
        unsafe {
            if count::alloc_exactly(row::of_thread(), layout.size() as u64) {
                return slow::alloc(layout);
            }
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
        // SAFETY: as above.
        unsafe {
            if count::alloc_exactly(row::of_thread(), layout.size() as u64) {
                return slow::alloc_zeroed(layout);
            }
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
        let row = row::of_thread();
        // SAFETY: as above.
        unsafe {
            if count::is_turn_of_free(row) || FILTER.may_hold(block as u64) {
                return slow::dealloc(block, layout);
            }
            count::free_exactly(row, layout.size() as u64);
            INNER.dealloc(block, layout)
        }
    }

    /// One taken back and one handed out, whether it moves or not.
    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let row = row::of_thread();
        // SAFETY: as above.
        unsafe {
            if count::is_turn_of_free(row)
                || FILTER.may_hold(block as u64)
                || count::alloc_exactly(row, bytes as u64)
            {
                return slow::realloc(block, layout, bytes);
            }
            count::free_exactly(row, layout.size() as u64);
        }
        // SAFETY: as above.
        let moved = unsafe { INNER.realloc(block, layout, bytes) };
        if moved.is_null() {
            row::failed(bytes, Some(layout.size()));
        }
        moved
    }
}

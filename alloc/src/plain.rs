//! The type that a program names; without `meter` nothing but the allocator's own.

use core::alloc::{GlobalAlloc, Layout};

#[cfg(not(feature = "meter"))]
use crate::chosen::INNER as TARGET;
#[cfg(feature = "meter")]
use crate::metered::METERED as TARGET;

/// The allocator that the features chose, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

impl Allocator {
    /// The one value there is.
    pub const fn new() -> Allocator {
        Allocator
    }
}

// SAFETY: every call is passed on unchanged to an allocator that keeps the contract.
unsafe impl GlobalAlloc for Allocator {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { TARGET.alloc(layout) }
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { TARGET.alloc_zeroed(layout) }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { TARGET.dealloc(block, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { TARGET.realloc(block, layout, bytes) }
    }
}

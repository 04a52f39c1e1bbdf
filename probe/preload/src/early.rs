//! Memory for the few allocations that dlsym itself makes while the next malloc is being looked
//! for, and for those of the start: the subject's heap must be as without the probe.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::FILTER;

/// glibc's dlsym takes 32 bytes or nothing, and a hundred for each symbol that is missing.
const BYTES: usize = 64 << 10;
/// In front of each block: its size.
const HEADER_BYTES: usize = 16;

#[repr(align(16))]
struct Buffer(#[allow(dead_code, reason = "used by its address only")] [u8; BYTES]);

static mut BUFFER: Buffer = Buffer([0; BYTES]);
static USED: AtomicUsize = AtomicUsize::new(0);

fn start() -> usize {
    (&raw const BUFFER) as usize
}

/// A zeroed block, aligned to `align` (a power of two); null when the buffer is used up.
pub fn alloc(bytes: usize, align: usize) -> *mut c_void {
    let align = align.max(16);
    let Some(needed) = bytes.checked_add(HEADER_BYTES + align + 15) else {
        return std::ptr::null_mut();
    };
    let room = |used: usize| Some((used + needed) & !15).filter(|next| *next <= BYTES);
    let Ok(used) = USED.fetch_update(Relaxed, Relaxed, room) else {
        return std::ptr::null_mut();
    };
    let block = (start() + used + HEADER_BYTES).next_multiple_of(align);
    // SAFETY: inside the part of the buffer that was just reserved.
    unsafe { *((block - HEADER_BYTES) as *mut usize) = bytes };
    // Its free must not reach the allocator.
    FILTER.pin(block as u64);
    block as *mut c_void
}

/// True for a block of this buffer.
pub fn owns(block: *mut c_void) -> bool {
    (start()..start() + BYTES).contains(&(block as usize))
}

/// Bytes asked for.
///
/// # Safety
/// [`owns`] said yes.
pub unsafe fn size(block: *mut c_void) -> usize {
    // SAFETY: a block of the early buffer has its size in the word in front.
    unsafe { *((block as usize - HEADER_BYTES) as *const usize) }
}

/// Bytes of the buffer that are in use for good.
pub fn used_bytes() -> usize {
    USED.load(Relaxed)
}

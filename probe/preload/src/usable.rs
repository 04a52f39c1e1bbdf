//! Usable size of a block, the cheap way where it is known to be right.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use abi::bytes_mode;

use crate::next::{Ptr, next};

/// One of [`bytes_mode`], as the hot path reads it.
static MODE: AtomicU32 = AtomicU32::new(bytes_mode::SAMPLED);

/// glibc: the word before a block holds the chunk's size and three flags.
const FLAGS: u64 = 7;
const MMAPPED: u64 = 2;
const WORD_BYTES: u64 = 8;

/// True while every block's usable bytes are counted.
#[inline(always)]
pub fn is_exact() -> bool {
    MODE.load(Relaxed) != bytes_mode::SAMPLED
}

/// How bytes are counted from now on.
pub fn set_mode(mode: u32) {
    MODE.store(mode, Relaxed);
}

/// Usable bytes of a block that the allocator behind the probe handed out.
#[inline(always)]
pub unsafe fn of(block: Ptr) -> u64 {
    // SAFETY: the caller's: the block is live.
    unsafe {
        if MODE.load(Relaxed) == bytes_mode::EXACT_BY_HEADER {
            by_header(block)
        } else {
            by_call(block)
        }
    }
}

/// By the allocator itself; 0 when it offers no such call.
pub unsafe fn by_call(block: Ptr) -> u64 {
    // SAFETY: the caller's: the block is live.
    unsafe { (next().usable)(block) as u64 }
}

/// From glibc's chunk header.
#[inline(always)]
unsafe fn by_header(block: Ptr) -> u64 {
    // SAFETY: glibc keeps a chunk's size in the word in front of its block.
    let word = unsafe { *block.cast::<u64>().sub(1) };
    // A chunk that was mapped alone has no neighbour whose first word it may use.
    let overhead = WORD_BYTES + ((word & MMAPPED) << 2);
    (word & !FLAGS).wrapping_sub(overhead)
}

/// The best mode for the allocator behind the probe: the header only if it agrees with
/// malloc_usable_size on blocks of many sizes, and the allocator is the C
/// library's.
///
/// # Safety
/// [`crate::next::find`] has succeeded.
pub unsafe fn best_mode() -> u32 {
    // None of those that glibc maps alone: freeing one raises its mmap and trim thresholds for good (mallopt(3)).
    const SIZES: [usize; 9] = [0, 1, 24, 25, 100, 1000, 1032, 5000, 70_000];
    let next = next();
    if !next.tells_usable() {
        return bytes_mode::SAMPLED;
    }
    // SAFETY: a block of the next malloc, read where its header is and freed once.
    let agrees = |size: usize| unsafe {
        let block = (next.malloc)(size);
        if block.is_null() {
            return false;
        }
        let same = by_header(block) == by_call(block);
        (next.free)(block);
        same
    };
    if is_in_c_library(next.malloc as usize) && SIZES.into_iter().all(agrees) {
        return bytes_mode::EXACT_BY_HEADER;
    }
    bytes_mode::EXACT_BY_CALL
}

/// By the object's name, `libc.so.6` or `libc-2.31.so`.
fn is_in_c_library(address: usize) -> bool {
    // SAFETY: fills one record.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as Ptr, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        let path = std::ffi::CStr::from_ptr(info.dli_fname).to_bytes();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        name.starts_with(b"libc.so") || name.starts_with(b"libc-2.")
    }
}

//! Usable size of a block, the cheap way where it is known to be right.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use abi::bytes_mode;

use crate::measure;
use crate::next::{Ptr, next};

/// One of [`bytes_mode`], as the hot path reads it.
static MODE: AtomicU32 = AtomicU32::new(bytes_mode::SAMPLED);

/// A block's header differed from what the allocator says of it.
static HAS_OTHER_HEADERS: AtomicBool = AtomicBool::new(false);

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
    let mode = match mode {
        bytes_mode::EXACT_BY_HEADER if HAS_OTHER_HEADERS.load(Relaxed) => bytes_mode::EXACT_BY_CALL,
        _ => mode,
    };
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

/// By the allocator itself, which the header is checked against: from the first block on which they differ, it alone is
/// asked.
pub unsafe fn checked(block: Ptr) -> u64 {
    // SAFETY: the caller's: the block is live.
    unsafe {
        let bytes = by_call(block);
        if MODE.load(Relaxed) == bytes_mode::EXACT_BY_HEADER && by_header(block) != bytes {
            HAS_OTHER_HEADERS.store(true, Relaxed);
            set_mode(bytes_mode::EXACT_BY_CALL);
        }
        measure::exact_pair(block);
        bytes
    }
}

/// The best mode for the allocator behind the probe: the header for the C library's, until a block shows otherwise.
/// Nothing is allocated to try it: the subject's heap must be as without the probe.
pub fn best_mode() -> u32 {
    let next = next();
    if !next.tells_usable() {
        return bytes_mode::SAMPLED;
    }
    if is_in(next.malloc as usize, &["libc.so", "libc-2."]) {
        return bytes_mode::EXACT_BY_HEADER;
    }
    bytes_mode::EXACT_BY_CALL
}

/// By the object's name, `libc.so.6` or `libc-2.31.so`: whether it begins with one of these.
pub fn is_in(address: usize, names: &[&str]) -> bool {
    // SAFETY: fills one record.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as Ptr, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        let path = std::ffi::CStr::from_ptr(info.dli_fname).to_bytes();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        names.iter().any(|name| file.starts_with(name.as_bytes()))
    }
}

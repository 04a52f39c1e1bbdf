//! mmap, munmap, mremap, brk and sbrk when they are called directly. What the C library's own
//! malloc does inside itself does not come through here.

use std::ffi::c_int;

use abi::region_flag;
use heap::{Errno, Probe, clock};

use crate::life;
use crate::next::{Ptr, next};
use crate::thread::{self, Inside};

const FAILED: Ptr = libc::MAP_FAILED;
const PAGE: u64 = abi::PAGE_BYTES as u64;

/// # Safety
/// C's contract of mmap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap(
    at: Ptr,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        let start = (next().mmap)(at, bytes, access, flags, file, offset);
        if start != FAILED
            && let Some(probe) = life::probe()
        {
            note_map(probe, start as u64, bytes, access, flags);
        }
        start
    }
}

/// # Safety
/// C's contract of mmap64.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mmap64(
    at: Ptr,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { mmap(at, bytes, access, flags, file, offset) }
}

/// # Safety
/// C's contract of munmap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn munmap(at: Ptr, bytes: usize) -> c_int {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        // Before the range can be mapped anew by another thread.
        noting(|probe| probe.regions().unmapping(at as u64, pages(bytes)));
        (next().munmap)(at, bytes)
    }
}

/// # Safety
/// C's contract of mremap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mremap(
    at: Ptr,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_at: Ptr,
) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        let moved = (next().mremap)(at, bytes, new_bytes, flags, new_at);
        if moved != FAILED {
            let (old, new) = ((at as u64, pages(bytes)), (moved as u64, pages(new_bytes)));
            noting(|probe| probe.regions().remapped(old, new, clock::monotonic_ns()));
        }
        moved
    }
}

/// # Safety
/// C's contract of brk.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn brk(to: Ptr) -> c_int {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        let before = (next().sbrk)(0);
        let result = (next().brk)(to);
        if result == 0 {
            note_break(before as u64, (to as i64).wrapping_sub(before as i64));
        }
        result
    }
}

/// # Safety
/// C's contract of sbrk.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sbrk(by: isize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        let before = (next().sbrk)(by);
        if before != FAILED && by != 0 {
            note_break(before as u64, by as i64);
        }
        before
    }
}

#[inline(never)]
unsafe fn note_map(probe: &Probe, start: u64, bytes: usize, access: c_int, flags: c_int) {
    let _errno = Errno::save();
    let Some(_inside) = Inside::enter() else {
        return;
    };
    let bits = [
        (flags & libc::MAP_ANONYMOUS != 0, region_flag::ANONYMOUS),
        (flags & libc::MAP_SHARED != 0, region_flag::SHARED),
        (access == libc::PROT_NONE, region_flag::NO_ACCESS),
    ];
    let flags = bits
        .iter()
        .filter(|(set, _)| *set)
        .fold(0, |flags, (_, bit)| flags | bit);
    probe.mapped(start, pages(bytes), flags, thread::registers());
}

/// The break was moved by hand. What it gained is memory that this caller mapped, in the midst of
/// the heap that glibc grows by the same break.
#[inline(never)]
unsafe fn note_break(before: u64, by: i64) {
    noting(|probe| {
        probe.regions().break_moved(before, by);
        if by > 0 {
            let flags = region_flag::ANONYMOUS | region_flag::BREAK;
            probe.mapped(before, by as u64, flags, thread::registers());
        }
    });
}

fn noting(note: impl FnOnce(&Probe)) {
    if let Some(probe) = life::probe() {
        let _errno = Errno::save();
        if let Some(_inside) = Inside::enter() {
            note(probe);
        }
    }
}

fn pages(bytes: usize) -> u64 {
    (bytes as u64)
        .checked_next_multiple_of(PAGE)
        .unwrap_or(bytes as u64)
}

//! The malloc family.

use std::cell::Cell;
use std::ffi::c_int;

use heap::{Errno, Freed, Probe, clock, count};

use crate::calls::{hand_out, hand_out_or_refuse, take_back};
use crate::life::{self, Stage};
use crate::next::{Ptr, next};
use crate::record::How;
use crate::{FILTER, early, record, slow, usable};

const NULL: Ptr = std::ptr::null_mut();

/// # Safety
/// C's contract of malloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn malloc(bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { hand_out(How::Malloc, bytes, move || (next().malloc)(bytes)) }
}

/// # Safety
/// C's contract of calloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn calloc(count: usize, bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        hand_out(How::Calloc, count.saturating_mul(bytes), move || {
            (next().calloc)(count, bytes)
        })
    }
}

/// # Safety
/// C's contract of free.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn free(block: Ptr) {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { take_back(block, move || (next().free)(block)) }
}

/// # Safety
/// C's contract of memalign.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn memalign(align: usize, bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        hand_out_or_refuse(How::aligned(align), bytes, move || {
            (next().memalign)(align, bytes)
        })
    }
}

/// # Safety
/// C's contract of aligned_alloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn aligned_alloc(align: usize, bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        hand_out_or_refuse(How::aligned(align), bytes, move || {
            (next().aligned_alloc)(align, bytes)
        })
    }
}

/// # Safety
/// C's contract of valloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn valloc(bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { hand_out(How::PAGE, bytes, move || (next().valloc)(bytes)) }
}

/// # Safety
/// C's contract of pvalloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pvalloc(bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe { hand_out(How::PAGE, bytes, move || (next().pvalloc)(bytes)) }
}

/// # Safety
/// C's contract of posix_memalign.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_memalign(out: *mut Ptr, align: usize, bytes: usize) -> c_int {
    let error = Cell::new(libc::ENOMEM);
    // SAFETY: the next library's function has the type of its name; it writes one pointer of ours.
    let call = || unsafe {
        let mut block = NULL;
        error.set((next().posix_memalign)(&mut block, align, bytes));
        if error.get() == 0 { block } else { NULL }
    };
    // SAFETY: C's contract: `out` can be written.
    unsafe {
        let block = hand_out_or_refuse(How::aligned(align), bytes, call);
        if block.is_null() {
            // A null for zero bytes is a success; the early buffer used up is not.
            if error.get() == 0 {
                *out = NULL;
            }
            return error.get();
        }
        *out = block;
        0
    }
}

/// # Safety
/// C's contract of reallocarray.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn reallocarray(block: Ptr, count: usize, bytes: usize) -> Ptr {
    match count.checked_mul(bytes) {
        // SAFETY: the caller's contract, which is C's; the next library's function has the same.
        Some(total) => unsafe { realloc(block, total) },
        // Refused, in the allocator's own words: mimalloc says EOVERFLOW.
        // SAFETY: the caller's contract, which is C's; the next library's function has the same.
        None => unsafe { (next().reallocarray)(block, count, bytes) },
    }
}

/// A block taken back and another handed out, even where it stays in place.
///
/// # Safety
/// C's contract of realloc.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn realloc(block: Ptr, bytes: usize) -> Ptr {
    // SAFETY: the caller's contract, which is C's; the next library's function has the same.
    unsafe {
        let call = move || (next().realloc)(block, bytes);
        if block.is_null() {
            return hand_out(How::Malloc, bytes, call);
        }
        if early::owns(block) {
            return move_early(block, bytes);
        }
        match life::stage() {
            Stage::On(probe) => resize(probe, block, bytes, call),
            Stage::Resolving => NULL,
            Stage::Off => call(),
            Stage::Recording => record::resize(block, bytes as u64, call),
            Stage::Early => {
                life::count_early_free(block);
                let moved = call();
                life::count_early(moved, bytes as u64);
                moved
            }
        }
    }
}

unsafe fn resize(probe: &Probe, block: Ptr, bytes: usize, call: impl FnOnce() -> Ptr) -> Ptr {
    // SAFETY: the caller's: `block` is live and came from the next library; `call` resizes it.
    unsafe {
        let held = if usable::is_exact() {
            usable::of(block)
        } else {
            0
        };
        let sampled = FILTER
            .may_hold(block as u64)
            .then(|| probe.take_out(block as u64))
            .flatten();
        let begun = sampled.map(|_| clock::monotonic_ns());
        let moved = call();
        if moved.is_null() && bytes != 0 {
            sampled
                .into_iter()
                .for_each(|removed| probe.put_back(removed));
            return moved;
        }
        // A realloc that succeeds leaves errno alone; a stack's reads set it.
        let _errno = Errno::save();
        let row = match slow::join(probe) {
            slow::Row::Own(row) => row,
            slow::Row::Shared => probe.overflow(),
            slow::Row::None => return moved,
        };
        if let (Some(removed), Some(begun)) = (sampled, begun) {
            let own = row != probe.overflow() && !moved.is_null();
            if own && stays_sampled(probe, row, removed, moved, bytes as u64) {
                count::free(row);
                count::usable_freed(row, held);
                return moved;
            }
            let took_ns = clock::monotonic_ns().saturating_sub(begun);
            let how = if moved.is_null() {
                Freed::Back
            } else {
                Freed::Resized
            };
            slow::freed(probe, removed, how, took_ns);
        }
        if row == probe.overflow() {
            return slow::resized_shared(probe, moved, bytes as u64, held);
        }
        count::free(row);
        count::usable_freed(row, held);
        if !moved.is_null() {
            slow::counted_in(probe, row, moved, bytes as u64);
        }
        moved
    }
}

/// A large block stays a sample however often it is resized. True: counted in; false: not a large one.
unsafe fn stays_sampled(
    probe: &Probe,
    row: *mut abi::Thread,
    removed: heap::Removed,
    block: Ptr,
    bytes: u64,
) -> bool {
    // SAFETY: the caller's: `row` is this thread's own, `block` was just allocated.
    unsafe {
        let usable_bytes = slow::usable_carefully(block).max(bytes);
        let sizes = (bytes, usable_bytes);
        if !probe.resized(removed, block as u64, sizes, crate::thread::registers()) {
            return false;
        }
        (*row).allocs += 1;
        if usable::is_exact() {
            count::usable_allocated(row, usable_bytes);
        }
        true
    }
}

/// A block of the early buffer moves to the allocator.
unsafe fn move_early(block: Ptr, bytes: usize) -> Ptr {
    // SAFETY: a block of the early buffer knows its size, and as many bytes are copied as both blocks have.
    unsafe {
        let moved = malloc(bytes);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(
                block.cast::<u8>(),
                moved.cast(),
                bytes.min(early::size(block)),
            );
        }
        moved
    }
}

//! The calls that are not just counted: the first of a thread, a sampled one, one whose block may
//! be sampled.
//!
//! Nothing is held while the next library's function runs: operator new may throw through here, and
//! a new_handler may leave by longjmp. What drops a value lies in functions of its own, so that the frames that an
//! exception passes have nothing to clean up: their personality routine works with the unwinder in this library, and
//! the program's exception may come from another one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use abi::Thread;
use heap::{Block, Calls, Errno, Freed, Probe, Removed, clock, count};

use crate::life::{self, Stage};
use crate::next::Ptr;
use crate::record::How;
use crate::thread::{self, Inside, flag};
use crate::{FILTER, early, record, usable};

/// A call that hands out a block. What the three kinds of it need lies in functions of their own: a probe that is
/// off saves no register (3 ns per pair) and jumps on.
#[cold]
#[inline(never)]
pub unsafe fn hand_out(how: How, bytes: u64, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: the caller's: `call` is the next library's function, to be made once.
    unsafe {
        if life::is_off() {
            return call();
        }
        if life::is_recording() {
            return record::allocate(how, bytes, call);
        }
        if usable::is_exact() {
            return hand_out_exactly(bytes, call);
        }
        hand_out_slowly(bytes, call)
    }
}

#[inline(never)]
unsafe fn hand_out_exactly(bytes: u64, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: a row in the thread's own storage is its own.
    unsafe {
        let row = (*thread::local()).own;
        if row.is_null() || count::alloc(row, bytes) {
            return hand_out_slowly(bytes, call);
        }
        let block = call();
        if block.is_null() {
            (*row).allocs -= 1;
        } else {
            count::usable_allocated(row, usable::of(block));
        }
        block
    }
}

#[inline(never)]
unsafe fn hand_out_slowly(bytes: u64, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: the stages before the probe is on have one thread; `call` is made once.
    unsafe {
        match life::stage() {
            Stage::Resolving => early::alloc(bytes as usize, 16),
            Stage::Off | Stage::Recording => call(),
            Stage::Early => {
                if thread::is_starting() {
                    let block = early::alloc(bytes as usize, 16);
                    if !block.is_null() {
                        return block;
                    }
                }
                let block = call();
                life::count_early(block, bytes);
                block
            }
            Stage::On(probe) => match join(probe) {
                Row::Own(row) => own(probe, row, bytes, call),
                Row::Shared => shared(probe, bytes, call),
                Row::None => call(),
            },
        }
    }
}

/// A thread with a row of its own.
unsafe fn own(
    probe: &Probe,
    row: *mut Thread,
    bytes: u64,
    call: impl FnOnce() -> Ptr + Copy,
) -> Ptr {
    // SAFETY: the caller's: `row` is this thread's own.
    unsafe {
        // After joining, the row may have a distance left from the thread before.
        let mean = if count::alloc(row, bytes) {
            due(probe, row, bytes)
        } else {
            None
        };
        let Some(mean) = mean else {
            let block = call();
            after(row, block);
            return block;
        };
        let begun = clock::monotonic_ns();
        let block = call();
        let took_ns = clock::monotonic_ns().saturating_sub(begun);
        sampled(probe, row, block, bytes, mean, took_ns);
        block
    }
}

/// What is left to do for a block that is counted already.
unsafe fn after(row: *mut Thread, block: Ptr) {
    // SAFETY: the caller's: `row` is this thread's own.
    unsafe {
        if block.is_null() {
            (*row).allocs -= 1;
        } else if usable::is_exact() {
            count::usable_allocated(row, usable_carefully(block));
        }
    }
}

/// Usable bytes of a new block. Asking may allocate in turn (gperftools before its constructors,
/// each time): only one deep.
#[inline(never)]
pub unsafe fn usable_carefully(block: Ptr) -> u64 {
    // SAFETY: the caller's: the block is live.
    Inside::enter().map_or(0, |_inside| unsafe { usable::checked(block) })
}

/// The mean to sample with, or `None`: counted, and not sampled.
#[inline(never)]
unsafe fn due(probe: &Probe, row: *mut Thread, bytes: u64) -> Option<u64> {
    // SAFETY: the caller's: `row` is this thread's own.
    unsafe {
        let _errno = Errno::save();
        let mean = probe.due(row, bytes);
        if mean.is_none() {
            (*row).allocs += 1;
        }
        mean
    }
}

/// Enters a block that was handed out and is to be a sample.
#[inline(never)]
pub unsafe fn sampled(
    probe: &Probe,
    row: *mut Thread,
    block: Ptr,
    bytes: u64,
    mean_bytes: u64,
    took_ns: u64,
) {
    // SAFETY: the caller's: `row` is this thread's own, `block` was just allocated.
    unsafe {
        let _errno = Errno::save();
        if block.is_null() {
            return probe.begin_distance(row, 0);
        }
        (*row).allocs += 1;
        probe.begin_distance(row, bytes);
        let usable_bytes = usable_carefully(block);
        if usable::is_exact() {
            count::usable_allocated(row, usable_bytes);
        }
        let Some(_inside) = Inside::enter() else {
            return probe.nested();
        };
        let block = Block {
            address: block as u64,
            requested_bytes: bytes,
            usable_bytes: usable_bytes.max(bytes),
            took_ns,
            mean_bytes,
        };
        enter(probe, row, block);
    }
}

/// With the stack of the call.
#[inline(always)]
unsafe fn enter(probe: &Probe, row: *mut Thread, block: Block) {
    // SAFETY: the caller's: `row` is this thread's own or the shared one; this thread is inside the probe.
    unsafe { probe.allocated(row, block, thread::registers()) };
    life::follow(probe);
}

/// Counts a block that is there already, and enters it if it is to be a sample.
pub unsafe fn counted_in(probe: &Probe, row: *mut Thread, block: Ptr, bytes: u64) {
    // SAFETY: the caller's: `row` is this thread's own, `block` was just allocated.
    unsafe {
        if !count::alloc(row, bytes) {
            if usable::is_exact() {
                count::usable_allocated(row, usable_carefully(block));
            }
            return;
        }
        let _errno = Errno::save();
        match probe.due(row, bytes) {
            Some(mean) => sampled(probe, row, block, bytes, mean, 0),
            None => {
                (*row).allocs += 1;
                if usable::is_exact() {
                    count::usable_allocated(row, usable_carefully(block));
                }
            }
        }
    }
}

/// Threads beyond the rows: the same with atomics, in one row.
unsafe fn shared(probe: &Probe, bytes: u64, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: the shared row lives, and is written through atomics; `call` is made once.
    unsafe {
        let begun = clock::monotonic_ns();
        let block = call();
        let took_ns = clock::monotonic_ns().saturating_sub(begun);
        if !block.is_null() {
            sampled_shared(probe, block, bytes, took_ns);
        }
        block
    }
}

/// Counts a block of a thread without a row, and enters it if it is to be a sample.
#[inline(never)]
unsafe fn sampled_shared(probe: &Probe, block: Ptr, bytes: u64, took_ns: u64) {
    // SAFETY: the shared row lives, and is written through atomics; the block was just allocated.
    unsafe {
        let row = probe.overflow();
        atomic(&raw mut (*row).allocs).fetch_add(1, Relaxed);
        let usable_bytes = usable_carefully(block);
        if usable::is_exact() {
            atomic(&raw mut (*row).usable_allocated_bytes).fetch_add(usable_bytes, Relaxed);
        }
        let _errno = Errno::save();
        if let Some(mean_bytes) = probe.due_shared(bytes)
            && let Some(_inside) = Inside::enter()
        {
            let block = Block {
                address: block as u64,
                requested_bytes: bytes,
                usable_bytes: usable_bytes.max(bytes),
                took_ns,
                mean_bytes,
            };
            enter(probe, row, block);
        }
    }
}

/// The block of a resize by a thread without a row.
pub unsafe fn resized_shared(probe: &Probe, block: Ptr, bytes: u64, held_bytes: u64) -> Ptr {
    // SAFETY: as above.
    unsafe {
        let row = probe.overflow();
        atomic(&raw mut (*row).frees).fetch_add(1, Relaxed);
        atomic(&raw mut (*row).usable_freed_bytes).fetch_add(held_bytes, Relaxed);
        if block.is_null() {
            block
        } else {
            shared(probe, bytes, || block)
        }
    }
}

/// A call that takes a block back.
#[cold]
#[inline(never)]
pub unsafe fn take_back(block: Ptr, call: impl FnOnce() + Copy) {
    if block.is_null() {
        return;
    }
    // SAFETY: the caller's: the block is live, and `call` frees it, once.
    unsafe {
        if life::is_off() && !early::owns(block) {
            return call();
        }
        if life::is_recording() {
            return record::free(block, call);
        }
        if usable::is_exact() {
            return take_back_exactly(block, call);
        }
        take_back_slowly(block, call)
    }
}

#[inline(never)]
unsafe fn take_back_exactly(block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: a row in the thread's own storage is its own; the block is live.
    unsafe {
        let row = (*thread::local()).own;
        if row.is_null() || FILTER.may_hold(block as u64) {
            return take_back_slowly(block, call);
        }
        count::free(row);
        count::usable_freed(row, usable::of(block));
        call()
    }
}

#[inline(never)]
unsafe fn take_back_slowly(block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: the block is live until `call`, which is made once.
    unsafe {
        if early::owns(block) {
            return;
        }
        match life::stage() {
            Stage::Resolving => {}
            Stage::Off | Stage::Recording => call(),
            Stage::Early => {
                life::count_early_free(block);
                call();
            }
            Stage::On(probe) => {
                let removed = leave(probe, block);
                let begun = removed.map(|_| clock::monotonic_ns());
                call();
                if let (Some(removed), Some(begun)) = (removed, begun) {
                    let took_ns = clock::monotonic_ns().saturating_sub(begun);
                    freed(probe, removed, Freed::Back, took_ns);
                }
            }
        }
    }
}

/// Counts a block out, and takes it out of the samples if it is one.
unsafe fn leave(probe: &Probe, block: Ptr) -> Option<Removed> {
    // SAFETY: the caller's: the block is live.
    unsafe {
        count_out(probe, block);
        FILTER
            .may_hold(block as u64)
            .then(|| probe.take_out(block as u64))
            .flatten()
    }
}

/// Counts a block out.
pub unsafe fn count_out(probe: &Probe, block: Ptr) {
    // SAFETY: the caller's: the block is live. An own row is written by its thread alone, the shared one through
    // atomics.
    unsafe {
        let bytes = if usable::is_exact() {
            usable::of(block)
        } else {
            0
        };
        match join(probe) {
            Row::Own(row) => {
                count::free(row);
                count::usable_freed(row, bytes);
            }
            Row::Shared => {
                let row = probe.overflow();
                atomic(&raw mut (*row).frees).fetch_add(1, Relaxed);
                atomic(&raw mut (*row).usable_freed_bytes).fetch_add(bytes, Relaxed);
            }
            Row::None => {}
        }
    }
}

/// A sampled block is gone.
#[inline(never)]
pub unsafe fn freed(probe: &Probe, removed: Removed, how: Freed, took_ns: u64) {
    // SAFETY: a row is this thread's own, or the shared one, which is written through atomics.
    unsafe {
        let _errno = Errno::save();
        let row = match join(probe) {
            Row::Own(row) => row,
            _ => probe.overflow(),
        };
        let Some(_inside) = Inside::enter() else {
            return probe.nested();
        };
        probe.freed(row, removed, how, took_ns, thread::registers());
    }
}

/// Whose row this thread writes.
pub enum Row {
    /// Its own.
    Own(*mut Thread),
    /// The one of threads beyond the capacity.
    Shared,
    /// None: the probe has gone off.
    None,
}

/// This thread's row, taken now if it is new.
#[inline(never)]
pub unsafe fn join(probe: &Probe) -> Row {
    // SAFETY: this thread's own record.
    unsafe {
        let local = thread::local();
        if !probe.is_on() {
            ((*local).row, (*local).own) = (std::ptr::null_mut(), std::ptr::null_mut());
            life::went_off(probe);
            return Row::None;
        }
        if !(*local).own.is_null() {
            return Row::Own(take_row((*local).own));
        }
        if !life::is_constructed() {
            return life::row_before_construction().map_or(Row::Shared, Row::Own);
        }
        if (*local).flags & flag::OVERFLOW != 0 {
            return Row::Shared;
        }
        let _errno = Errno::save();
        let Some(_calls) = Calls::begin() else {
            return Row::None;
        };
        match probe.join(thread::tid()) {
            Some(row) => Row::Own(take_row(row)),
            None => {
                (*local).flags |= flag::OVERFLOW;
                Row::Shared
            }
        }
    }
}

/// Makes a row this thread's. The hot path has it once bytes are not exact, or no longer.
pub unsafe fn take_row(row: *mut Thread) -> *mut Thread {
    // SAFETY: this thread's own record; the caller gives it a row that no other thread has.
    unsafe {
        let local = thread::local();
        (*local).own = row;
        if !usable::is_exact() {
            (*local).row = row;
        }
        row
    }
}

unsafe fn atomic<'a>(place: *mut u64) -> &'a AtomicU64 {
    // SAFETY: by the caller a word that lives, and is written through atomics from now on.
    unsafe { AtomicU64::from_ptr(place) }
}

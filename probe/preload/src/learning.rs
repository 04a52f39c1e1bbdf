//! Calls of an operator of which it is not known whether it calls our malloc or free: the program's own show it.

use abi::Thread;
use heap::{Freed, Probe, Removed, clock, count};

use crate::forms::Form;
use crate::life::{self, Stage};
use crate::next::Ptr;
use crate::record::How;
use crate::{FILTER, record, slow, usable};

/// A form of new of which it is not known where it goes: the program's call shows.
#[cold]
#[inline(never)]
pub unsafe fn new_by(
    form: &Form,
    how: How,
    bytes: usize,
    call: impl FnOnce() -> Ptr + Copy,
) -> Ptr {
    // SAFETY: the caller's: `call` is the next library's function, to be made once.
    unsafe {
        if life::is_recording() {
            let events = record::own_events();
            let block = call();
            let came_back = record::own_events() != events;
            form.learn(came_back);
            if !came_back {
                record::allocated(how, bytes as u64, block);
            }
            return block;
        }
        let Some((allocs, _)) = own_calls() else {
            return call();
        };
        let block = call();
        if !block.is_null()
            && let Some((now, _)) = own_calls()
        {
            form.learn(now != allocs);
            if now == allocs {
                is_there(block, bytes as u64);
            }
        }
        block
    }
}

/// Likewise of delete.
#[cold]
#[inline(never)]
pub unsafe fn delete_by(form: &Form, block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: the caller's: the block is live, and `call` frees it, once.
    unsafe {
        if life::is_recording() {
            // Stamped before the call, as every free: another thread may have the address before it returns.
            let events = record::own_events();
            let ticks = record::ticks_now();
            call();
            let came_back = record::own_events() != events;
            form.learn(came_back);
            if !came_back {
                record::freed_at(ticks, block);
            }
            return;
        }
        let Some(leaving) = Leaving::begin(block) else {
            return call();
        };
        call();
        if let Some(came_back) = leaving.end() {
            form.learn(came_back);
        }
    }
}

/// Calls of this thread that were counted, allocations and frees; `None`: it has no row of its own.
unsafe fn own_calls() -> Option<(u64, u64)> {
    // SAFETY: an own row is this thread's.
    unsafe { own_row().map(|(_, row)| ((*row).allocs, (*row).frees)) }
}

unsafe fn own_row() -> Option<(&'static Probe, *mut Thread)> {
    let Stage::On(probe) = life::stage() else {
        return None;
    };
    // SAFETY: this thread's own record.
    match unsafe { slow::join(probe) } {
        slow::Row::Own(row) => Some((probe, row)),
        _ => None,
    }
}

/// Counts a block that was allocated past the counting functions.
unsafe fn is_there(block: Ptr, bytes: u64) {
    // SAFETY: the caller's: the block was just allocated; an own row is this thread's.
    unsafe {
        if let Some((probe, row)) = own_row() {
            slow::counted_in(probe, row, block, bytes);
        }
    }
}

/// A block that is being freed, perhaps past the counting functions.
struct Leaving {
    frees: u64,
    bytes: u64,
    removed: Option<Removed>,
    begun_ns: u64,
}

impl Leaving {
    /// Before the free. `None`: it is null, or this thread has no row of its own.
    unsafe fn begin(block: Ptr) -> Option<Leaving> {
        if block.is_null() {
            return None;
        }
        // SAFETY: the caller's: the block is live; an own row is this thread's.
        unsafe {
            let (probe, row) = own_row()?;
            let may_be_sample = FILTER.may_hold(block as u64);
            Some(Leaving {
                frees: (*row).frees,
                bytes: if usable::is_exact() {
                    usable::of(block)
                } else {
                    0
                },
                removed: may_be_sample
                    .then(|| probe.take_out(block as u64))
                    .flatten(),
                begun_ns: clock::monotonic_ns(),
            })
        }
    }

    /// After it: whether it came to a function that counts. `None`: the probe has gone off.
    unsafe fn end(self) -> Option<bool> {
        let took_ns = clock::monotonic_ns().saturating_sub(self.begun_ns);
        // SAFETY: an own row is this thread's.
        unsafe {
            let (probe, row) = own_row()?;
            let came_back = (*row).frees != self.frees;
            if !came_back {
                count::free(row);
                count::usable_freed(row, self.bytes);
            }
            if let Some(removed) = self.removed {
                slow::freed(probe, removed, Freed::Back, took_ns);
            }
            Some(came_back)
        }
    }
}

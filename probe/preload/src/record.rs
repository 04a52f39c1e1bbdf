//! What a call does while every call is recorded: forward it, and write an event into the thread's chunk.
//!
//! [`crate::life::is_recording`] has said yes before any of these is called.
//!
//! Frees, and the start of a realloc, are stamped before the call, allocations after it: see [`trace_abi::event`].
//! Nothing is held while the next library's function runs. A handler of a signal that interrupts the writing of an
//! event has its own events dropped and counted.

use std::sync::atomic::{Ordering::SeqCst, compiler_fence};

use heap::Errno;
use trace_abi::{Event, TOUCH_BYTES_MIN, TouchOf, chunk};

use crate::next::Ptr;
use crate::recorder::{self, Recorder};
use crate::thread::{self, Local, flag};
use crate::{FILTER, early};

/// By which kind of call a block was asked for.
#[derive(Clone, Copy)]
pub enum How {
    Malloc,
    Calloc,
    /// With an alignment, as the caller gave it.
    Aligned(usize),
}

impl How {
    /// Of valloc and pvalloc.
    pub const PAGE: How = How::Aligned(4096);

    /// Of an alignment; every block has 16.
    #[inline(always)]
    pub fn aligned(align: usize) -> How {
        if align > 16 {
            How::Aligned(align)
        } else {
            How::Malloc
        }
    }

    #[inline(always)]
    fn event(self, bytes: u64, address: u64) -> Event {
        match self {
            How::Malloc => Event::Malloc { bytes, address },
            How::Calloc => Event::Calloc { bytes, address },
            How::Aligned(align) => {
                let align_log2 = align.trailing_zeros().min(63) as u8;
                Event::Aligned {
                    bytes,
                    address,
                    align_log2,
                }
            }
        }
    }
}

/// A call that allocates a block of `bytes`.
#[inline(always)]
pub unsafe fn allocate(how: How, bytes: u64, call: impl FnOnce() -> Ptr + Copy) -> Ptr {
    // SAFETY: the caller's: `call` is the next library's function, to be made once.
    unsafe {
        let block = call();
        allocated(how, bytes, block);
        block
    }
}

/// A block was just allocated; null: the call failed.
#[inline(always)]
pub unsafe fn allocated(how: How, bytes: u64, block: Ptr) {
    if block.is_null() {
        return;
    }
    // SAFETY: this thread's words.
    unsafe {
        let Some(writer) = Writer::enter() else {
            return;
        };
        let ticks = writer.recorder.ticks();
        writer.put(ticks, how.event(bytes, block as u64));
        if bytes >= TOUCH_BYTES_MIN {
            large_is_new(&writer, block as u64, bytes);
        }
    }
}

/// A call that frees a block, which is not null.
#[inline(always)]
pub unsafe fn free(block: Ptr, call: impl FnOnce() + Copy) {
    // SAFETY: the caller's: the block is live, and `call` frees it, once.
    unsafe {
        if FILTER.may_hold(block as u64) && !may_leave(block) {
            return;
        }
        if let Some(writer) = Writer::enter() {
            writer.put(
                writer.recorder.ticks(),
                Event::Free {
                    address: block as u64,
                },
            );
        }
        call()
    }
}

/// A free that was made past the recording functions, stamped before it.
pub unsafe fn freed_at(ticks: u64, block: Ptr) {
    if block.is_null() {
        return;
    }
    let address = block as u64;
    // SAFETY: this thread's words and chunk.
    unsafe {
        if let Some(writer) = Writer::enter() {
            writer.put(ticks, Event::Free { address });
        }
    }
}

/// realloc of a block of the allocator's.
#[inline(never)]
pub unsafe fn resize(block: Ptr, bytes: u64, call: impl FnOnce() -> Ptr) -> Ptr {
    // SAFETY: the caller's: `block` is live; `call` resizes it, once.
    unsafe {
        if FILTER.may_hold(block as u64) {
            may_leave(block);
        }
        if let Some(writer) = Writer::enter() {
            writer.put(
                writer.recorder.ticks(),
                Event::ReallocStart {
                    address: block as u64,
                },
            );
        }
        let moved = call();
        let Some(writer) = Writer::enter() else {
            return moved;
        };
        let address = moved as u64;
        let event = match moved.is_null() && bytes != 0 {
            true => Event::ReallocFailed,
            // Null of zero bytes: it was freed.
            false => Event::ReallocEnd { bytes, address },
        };
        writer.put(writer.recorder.ticks(), event);
        if bytes >= TOUCH_BYTES_MIN && address != 0 {
            is_entered(writer.recorder, address, bytes);
        }
        moved
    }
}

/// Events that this thread has written: how it is seen whether an operator called malloc or free.
pub fn own_events() -> (usize, u32) {
    // SAFETY: this thread's words; its chunk stays mapped.
    unsafe {
        let chunk = (*thread::local()).chunk;
        if chunk.is_null() {
            (0, 0)
        } else {
            (chunk as usize, (*chunk).events)
        }
    }
}

/// Ticks of now; 0 when nothing is recorded.
pub fn ticks_now() -> u64 {
    recorder::get().map_or(0, Recorder::ticks)
}

/// A block that the filter knows: of the early buffer (false: it stays), or large: its resident pages are noted.
#[cold]
#[inline(never)]
unsafe fn may_leave(block: Ptr) -> bool {
    if early::owns(block) {
        return false;
    }
    let Some(bytes) = recorder::get().and_then(|recorder| recorder.large.take(block as u64)) else {
        return true;
    };
    let _errno = Errno::save();
    FILTER.remove(block as u64);
    // SAFETY: this thread's words and chunk.
    if let Some(writer) = unsafe { Writer::enter() }
        && let Some((resident, pages)) = recorder::resident(writer.recorder, block as u64, bytes)
    {
        let event = Event::Touched {
            of: TouchOf::Old,
            resident,
            pages,
        };
        // SAFETY: as above.
        unsafe { writer.put(0, event) };
    }
    true
}

#[cold]
#[inline(never)]
unsafe fn large_is_new(writer: &Writer, address: u64, bytes: u64) {
    let _errno = Errno::save();
    if is_entered(writer.recorder, address, bytes)
        && let Some((resident, pages)) = recorder::resident(writer.recorder, address, bytes)
    {
        let event = Event::Touched {
            of: TouchOf::New,
            resident,
            pages,
        };
        // SAFETY: this thread's chunk.
        unsafe { writer.put(0, event) };
    }
}

/// Notes a large block, so that its free finds it. False: there is no room for it.
fn is_entered(recorder: &Recorder, address: u64, bytes: u64) -> bool {
    if !recorder.large.add(address, bytes) {
        return false;
    }
    let is_known = FILTER.add(address);
    if !is_known {
        recorder.large.take(address);
    }
    is_known
}

/// The right to write into this thread's chunk, until it is dropped.
struct Writer {
    local: *mut Local,
    recorder: &'static Recorder,
}

impl Writer {
    /// `None`: this is a handler in the middle of another event.
    #[inline(always)]
    unsafe fn enter() -> Option<Writer> {
        let recorder = recorder::get()?;
        let local = thread::local();
        // SAFETY: this thread's words.
        unsafe {
            if (*local).flags & flag::INSIDE != 0 {
                recorder.count_nested();
                return None;
            }
            (*local).flags |= flag::INSIDE;
        }
        compiler_fence(SeqCst);
        Some(Writer { local, recorder })
    }

    /// Writes one event; where no room is left in the trace, recording has ended.
    #[inline(always)]
    unsafe fn put(&self, ticks: u64, event: Event) {
        // SAFETY: this thread's chunk, or null.
        unsafe {
            let chunk = (*self.local).chunk;
            if chunk.is_null() || !chunk::append(chunk, ticks, event) {
                self.put_in_next(ticks, event);
            }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_in_next(&self, ticks: u64, event: Event) {
        let _errno = Errno::save();
        // SAFETY: this thread's words and chunk; a fresh chunk has room.
        unsafe {
            let Some(next) = self.recorder.take_chunk((*self.local).chunk, ticks) else {
                return;
            };
            (*self.local).chunk = next;
            chunk::append(next, ticks, event);
        }
    }
}

impl Drop for Writer {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        // SAFETY: this thread's words.
        unsafe { (*self.local).flags &= !flag::INSIDE };
    }
}

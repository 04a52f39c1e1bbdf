//! One operation: the call of the allocator, and the writes to the block's pages that the recorded program made.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use replayer::{Record, Slot, TOUCH_ALL, op};

use crate::clock::real_monotonic_ns;

/// Tries before a thread that waits for another one lets it run.
const SPINS: u32 = 200;
/// A processor that is given up for so long went to other programs: each of them runs for its slice of milliseconds,
/// and a replay has millions of turns.
const CROWDED_NS: u64 = 500_000;
/// Then a thread sleeps for so long instead: the kernel runs one that wakes before those that never slept.
const SLEEP_NS: libc::c_long = 20_000;
/// For so many waits, before one gives the processor up again.
const CROWDED_WAITS: u32 = 1_000;
const PAGE_BYTES: usize = 4096;

/// Does it, once it is its turn. False: the allocator returned null.
pub fn operate(record: &Record, slot: &Slot) -> bool {
    if record.op == op::END {
        return true;
    }
    wait(slot, record.turn);
    let before = slot.block.load(Relaxed);
    let bytes = record.bytes();
    // SAFETY: a block of this allocator's, or null; each slot has one operation at a time.
    let block = unsafe {
        match record.op {
            op::FREE => {
                libc::free(before.cast());
                std::ptr::null_mut()
            }
            op::CALLOC => libc::calloc(1, bytes),
            op::ALIGNED => aligned(record.align_log2, bytes),
            op::RESIZE => libc::realloc(before.cast(), bytes),
            _ => libc::malloc(bytes),
        }
    };
    let has_failed = block.is_null() && record.op != op::FREE && bytes > 0;
    if !block.is_null() {
        // SAFETY: the block that was just returned, of so many bytes.
        unsafe { touch(block.cast(), bytes, record.touch) };
    }
    // A realloc that failed leaves the block as it was.
    let now = if has_failed && record.op == op::RESIZE {
        before
    } else {
        block.cast()
    };
    slot.block.store(now, Relaxed);
    slot.turn.store(record.turn.wrapping_add(1), Release);
    !has_failed
}

unsafe fn aligned(log2: u8, bytes: usize) -> *mut libc::c_void {
    let mut block = std::ptr::null_mut();
    let align = 1usize << log2.clamp(3, 40);
    // SAFETY: one pointer of ours is written.
    match unsafe { libc::posix_memalign(&mut block, align, bytes) } {
        0 => block,
        _ => std::ptr::null_mut(),
    }
}

/// Waits that are left to be slept through.
static CROWDED: AtomicU32 = AtomicU32::new(0);

#[inline]
fn wait(slot: &Slot, turn: u32) {
    let mut tries = 0;
    while slot.turn.load(Acquire) != turn {
        tries += 1;
        if tries < SPINS {
            std::hint::spin_loop();
        } else {
            let_others();
        }
    }
}

/// Lets another thread run: the one that has the turn, on an idle machine; on a busy one that would be anybody.
#[cold]
fn let_others() {
    let left = CROWDED.load(Relaxed);
    if left > 0 {
        CROWDED.store(left - 1, Relaxed);
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: SLEEP_NS,
        };
        // SAFETY: reads one timespec, and writes nothing.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, 0) };
        return;
    }
    let before = real_monotonic_ns();
    // SAFETY: no memory is involved.
    unsafe { libc::sched_yield() };
    if real_monotonic_ns().saturating_sub(before) > CROWDED_NS {
        CROWDED.store(CROWDED_WAITS, Relaxed);
    }
}

/// Writes to the first so many pages of a block.
unsafe fn touch(block: *mut u8, bytes: usize, share: u8) {
    let length = match share {
        TOUCH_ALL => bytes,
        _ => (bytes as u64 * u64::from(share) / u64::from(TOUCH_ALL)) as usize,
    };
    if length == 0 {
        return;
    }
    let end = block as usize + length;
    let mut at = block as usize;
    // SAFETY: inside the block by the length.
    unsafe {
        while at < end {
            (at as *mut u8).write_volatile(1);
            at = (at & !(PAGE_BYTES - 1)) + PAGE_BYTES;
        }
        ((end - 1) as *mut u8).write_volatile(1);
    }
}

//! The few calls that are looked at: a thread's first, every 1,024th (timed), those that end a distance, and frees of
//! blocks that may be sampled. The hot path has counted nothing of them.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::Ordering::Relaxed;

use abi::Thread;
use sampler::count::{self, TIMED_EVERY};
use sampler::flows::Flows;
use sampler::shared;
use sampler::word::atomic;

use super::sampling::Freed;
use super::{map, row};
use crate::chosen::INNER;

/// # Safety
/// As of `GlobalAlloc::alloc`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn alloc(layout: Layout) -> *mut u8 {
    // SAFETY: the caller's promise is passed on.
    hand_out(layout.size(), || unsafe { INNER.alloc(layout) })
}

/// # Safety
/// As of `GlobalAlloc::alloc_zeroed`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    // SAFETY: as above.
    hand_out(layout.size(), || unsafe { INNER.alloc_zeroed(layout) })
}

/// # Safety
/// As of `GlobalAlloc::dealloc`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn dealloc(block: *mut u8, layout: Layout) {
    let thread = row::take();
    let meter = map::meter();
    // Before its address can be another's.
    if let Some(meter) = meter
        && let Some(sample) = meter.take_out(block)
    {
        meter.freed(thread, block, sample, Freed::Back);
    }
    // SAFETY: a word of the row.
    let calls = unsafe { &raw mut (*thread).frees };
    // SAFETY: the caller's promise is passed on.
    timed(calls, Flows::free_took, || unsafe {
        INNER.dealloc(block, layout)
    });
    count_free(thread, layout.size() as u64);
}

/// One freed and one allocated, whether it moves or not.
///
/// # Safety
/// As of `GlobalAlloc::realloc`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn realloc(block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
    let mark = 0u8;
    let thread = row::take();
    let meter = map::meter();
    let sample = meter.and_then(|meter| meter.take_out(block));
    // SAFETY: the caller's promise is passed on.
    let moved = allocate(thread, || unsafe { INNER.realloc(block, layout, bytes) });
    if let (Some(meter), Some(sample)) = (meter, sample) {
        match moved.is_null() {
            true => meter.live.put_back(block as u64, sample),
            false => meter.freed(thread, block, sample, Freed::Resized),
        }
    }
    if !moved.is_null() {
        count_free(thread, layout.size() as u64);
        count_alloc(thread, moved, bytes as u64, &mark);
    }
    moved
}

#[inline(always)]
fn hand_out(bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    // Frames below this one are the meter's own.
    let mark = 0u8;
    let thread = row::take();
    let block = allocate(thread, call);
    if !block.is_null() {
        count_alloc(thread, block, bytes as u64, &mark);
    }
    block
}

#[inline(always)]
fn allocate(thread: *mut Thread, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    // SAFETY: a word of the row.
    let calls = unsafe { &raw mut (*thread).allocs };
    timed(calls, Flows::alloc_took, call)
}

/// Makes the call, and measures it when it is its turn among the row's calls of its kind.
#[inline(always)]
fn timed<T>(calls: *mut u64, took: fn(&Flows, u64), call: impl FnOnce() -> T) -> T {
    // SAFETY: a word of a row, which lives and is written through atomics.
    let number = unsafe { atomic(calls) }.load(Relaxed).wrapping_add(1);
    let Some(meter) = map::meter().filter(|_| number.is_multiple_of(TIMED_EVERY)) else {
        return call();
    };
    let begun = map::now_ns();
    let result = call();
    took(&meter.flows, map::now_ns().saturating_sub(begun));
    result
}

fn count_free(thread: *mut Thread, bytes: u64) {
    // SAFETY: it is this thread's row, the idle one, or the shared one, which lives.
    unsafe {
        match map::meter() {
            Some(meter) if meter.is_shared(thread) => shared::free(thread, bytes),
            _ => count::free_exactly(thread, bytes),
        }
    }
}

fn count_alloc(thread: *mut Thread, block: *mut u8, bytes: u64, mark: &u8) {
    let Some(meter) = map::meter() else {
        return row::count_idle(thread);
    };
    if let Some(mean) = meter.allocated(thread, bytes) {
        meter.sample(thread, block, (bytes, mean), (&raw const *mark) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::figures;

    /// More threads than there are rows (four here). With plain additions on the row that they share, counts were lost.
    #[test]
    fn threads_that_share_a_row_count_exactly() {
        const THREADS: u64 = 16;
        const PAIRS: u64 = 50_000;
        let layout = Layout::from_size_align(64, 8).unwrap();
        let gate = std::sync::Barrier::new(THREADS as usize);
        let work = || {
            gate.wait();
            for _ in 0..PAIRS {
                // SAFETY: a layout of a size; the block is given back with it.
                unsafe {
                    let block = GlobalAlloc::alloc(&crate::metered::METERED, layout);
                    GlobalAlloc::dealloc(&crate::metered::METERED, block, layout);
                }
            }
            gate.wait();
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
        let sums = figures().expect("on");
        assert_eq!(
            sums.lost.threads,
            THREADS - 3,
            "three rows beside the shared one"
        );
        assert_eq!(
            (sums.allocations, sums.frees),
            (THREADS * PAIRS, THREADS * PAIRS)
        );
        assert_eq!(
            (sums.allocated_bytes, sums.live_bytes()),
            (THREADS * PAIRS * 64, 0)
        );
    }
}

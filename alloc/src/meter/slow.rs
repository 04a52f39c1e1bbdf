//! The few calls that are looked at: a thread's first, every 1,024th (timed), and the sampled ones.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU64, Ordering::*};

use abi::{Class, Latency, Sample, SectionKind, Thread, class_of, latency_of};

use super::sampler::{self, Weight};
use super::{filter, map, roles, row, samples, stacks, unwind};
use crate::chosen::INNER;
use ::sampler::shared;
use ::sampler::word::{add, atomic};

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
    let (thread, _) = counted(None, Some(layout.size()));
    take_back(thread, block);
    // SAFETY: the caller's promise is passed on.
    let call = || unsafe { INNER.dealloc(block, layout) };
    // SAFETY: a field of the row.
    if is_turn(unsafe { &raw mut (*thread).frees }) {
        timed(call, |bucket| unsafe { addr_of_mut!((*bucket).frees) });
    } else {
        call();
    }
}

/// # Safety
/// As of `GlobalAlloc::realloc`.
#[cold]
#[inline(never)]
pub(crate) unsafe fn realloc(block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
    let (thread, is_due) = counted(Some(bytes), Some(layout.size()));
    let sample = if map::is_on() {
        samples::remove(block)
    } else {
        None
    };
    // SAFETY: the caller's promise is passed on.
    let moved = look_at(thread, is_due, bytes, || unsafe {
        INNER.realloc(block, layout, bytes)
    });
    match sample {
        Some(sample) if moved.is_null() => {
            samples::insert(block, sample);
        }
        Some(sample) => account_for_free(thread, &sample),
        None => {}
    }
    if moved.is_null() {
        // SAFETY: it is this thread's row.
        unsafe { row::undo_free(thread, layout.size()) };
    }
    moved
}

#[inline(always)]
fn hand_out(bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    let (thread, is_due) = counted(Some(bytes), None);
    look_at(thread, is_due, bytes, call)
}

/// The thread's row, and whether this allocation is to be sampled. A thread's first call and all calls of a thread
/// that shares a row were not counted yet: this does it.
fn counted(allocated: Option<usize>, freed: Option<usize>) -> (*mut Thread, bool) {
    let known = row::of_thread();
    let thread = if known.is_null() { row::take() } else { known };
    if row::is_shared(thread) {
        // SAFETY: the shared row lives and is written through atomics.
        unsafe {
            freed.inspect(|bytes| shared::free(thread, *bytes as u64));
            return (
                thread,
                allocated.is_some_and(|bytes| shared::alloc(thread, bytes as u64)),
            );
        }
    }
    // SAFETY: it is this thread's row.
    unsafe {
        if known.is_null() {
            freed.inspect(|bytes| _ = row::add_free(thread, *bytes));
            allocated.inspect(|bytes| _ = row::add_alloc(thread, *bytes));
        }
        let left = atomic(&raw mut (*thread).countdown_bytes).load(Relaxed);
        (thread, allocated.is_some() && (left as i64) < 0)
    }
}

/// A call to be timed, by the count of the row's calls of its kind.
fn is_turn(count: *mut u64) -> bool {
    // SAFETY: a word of a row, which lives and is written through atomics.
    map::is_on()
        && unsafe { atomic(count) }
            .load(Relaxed)
            .is_multiple_of(row::TIMED_EVERY)
}

fn look_at(
    thread: *mut Thread,
    is_due: bool,
    bytes: usize,
    call: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let mark = 0u8;
    // SAFETY: a field of the row.
    let block = if is_turn(unsafe { &raw mut (*thread).allocs }) {
        timed(call, |bucket| unsafe { addr_of_mut!((*bucket).allocs) })
    } else {
        call()
    };
    if block.is_null() {
        // SAFETY: it is this thread's row, or the shared one.
        unsafe { row::undo_alloc(thread, bytes) };
        if is_due && row::is_shared(thread) {
            begin_distance(thread);
        }
    } else if is_due {
        sample(thread, block, bytes as u64, (&raw const mark) as usize);
    }
    block
}

/// Begins a row's next distance; the mean of the one that ended.
fn begin_distance(thread: *mut Thread) -> u64 {
    // SAFETY: it is this thread's row; or the shared one, whose distance ended in this thread.
    unsafe {
        if row::is_shared(thread) {
            shared::begin_distance(thread, map::mean_bytes().load(Relaxed))
        } else {
            sampler::draw(thread)
        }
    }
}

/// Calls, and counts how long it took in the bucket's `field`.
fn timed<T>(call: impl FnOnce() -> T, field: impl FnOnce(*mut Latency) -> *mut u64) -> T {
    let begun = map::now_ns();
    let result = call();
    let bucket = latency_of(map::now_ns() - begun);
    let row = map::row_at::<Latency>(SectionKind::Latencies, bucket);
    // SAFETY: aligned, in a row of the mapping.
    unsafe { AtomicU64::from_ptr(field(row)) }.fetch_add(1, Relaxed);
    result
}

fn sample(thread: *mut Thread, block: *mut u8, bytes: u64, mark: usize) {
    if !map::is_on() {
        // SAFETY: the idle row, written through atomics only.
        unsafe { atomic(&raw mut (*thread).countdown_bytes) }.store(i64::MAX as u64, Relaxed);
        return;
    }
    let mean = begin_distance(thread);
    let now = map::now_ns();
    let role = roles::of(thread);
    let weight = sampler::weight(bytes, mean);
    let stack = stacks::find(&unwind::frames(mark), now);
    let sample = Sample {
        requested_bytes: bytes,
        usable_bytes: bytes,
        mean_bytes: mean,
        time_ns: now,
        stack,
        role,
        reserved: 0,
        thread: row::number(thread),
        check: 0,
    };
    // What is not in the table cannot be seen freed: it would count as outstanding for ever.
    if samples::insert(block, sample) {
        // SAFETY: a word of the row.
        unsafe { add(&raw mut (*thread).samples, 1) };
        stacks::allocated(stack, weight, now);
        roles::allocated(role, weight);
        class(
            bytes,
            |row| unsafe {
                (
                    addr_of_mut!((*row).allocated_blocks),
                    addr_of_mut!((*row).allocated_bytes),
                )
            },
            weight,
        );
    }
    sampler::pace(now);
    let counters = map::counters();
    counters.slow_calls.fetch_add(1, Relaxed);
    counters
        .slow_ns
        .fetch_add(map::now_ns().saturating_sub(now), Relaxed);
}

fn take_back(thread: *mut Thread, block: *mut u8) {
    if !map::is_on() || !filter::may_hold(block) {
        return;
    }
    if let Some(sample) = samples::remove(block) {
        account_for_free(thread, &sample);
    }
}

fn account_for_free(thread: *mut Thread, sample: &Sample) {
    let (bytes, now) = (sample.requested_bytes, map::now_ns());
    let weight = sampler::weight(bytes, sample.mean_bytes);
    stacks::freed(sample.stack, weight, now.saturating_sub(sample.time_ns));
    let freed_by = roles::of(thread);
    roles::freed(
        sample.role,
        sample.thread,
        freed_by,
        row::number(thread),
        weight,
    );
    class(
        bytes,
        |row| unsafe {
            (
                addr_of_mut!((*row).freed_blocks),
                addr_of_mut!((*row).freed_bytes),
            )
        },
        weight,
    );
}

/// Adds to two fields, blocks and bytes, of the size class.
fn class(bytes: u64, fields: impl FnOnce(*mut Class) -> (*mut u64, *mut u64), weight: Weight) {
    let (blocks_at, bytes_at) = fields(map::row_at(SectionKind::Classes, class_of(bytes)));
    // SAFETY: aligned, in a row of the mapping.
    unsafe {
        AtomicU64::from_ptr(blocks_at).fetch_add(weight.blocks, Relaxed);
        AtomicU64::from_ptr(bytes_at).fetch_add(weight.bytes, Relaxed);
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

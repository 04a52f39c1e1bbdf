//! The few calls that are looked at: a thread's first, every 1,024th (timed), and the sampled ones.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU64, Ordering::*};

use abi::{Class, Latency, Sample, SectionKind, Thread, class_of, latency_of};

use super::sampler::{self, Weight};
use super::{filter, map, roles, row, samples, stacks, unwind};
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
    let thread = counted(|thread| {
        // SAFETY: it is this thread's row.
        unsafe { row::add_free(thread, layout.size()) };
    });
    take_back(thread, block);
    // SAFETY: the caller's promise is passed on.
    let call = || unsafe { INNER.dealloc(block, layout) };
    // SAFETY: it is this thread's row.
    if map::is_on() && unsafe { (*thread).frees }.is_multiple_of(row::TIMED_EVERY) {
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
    let thread = counted(|thread| {
        // SAFETY: it is this thread's row.
        unsafe {
            row::add_free(thread, layout.size());
            row::add_alloc(thread, bytes);
        }
    });
    let sample = if map::is_on() {
        samples::remove(block)
    } else {
        None
    };
    // SAFETY: the caller's promise is passed on.
    let moved = look_at(thread, bytes, || unsafe {
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
    let thread = counted(|thread| {
        // SAFETY: it is this thread's row.
        unsafe { row::add_alloc(thread, bytes) };
    });
    look_at(thread, bytes, call)
}

/// The thread's row; a thread's first call was not counted yet, and `count` does it.
fn counted(count: impl FnOnce(*mut Thread)) -> *mut Thread {
    let known = row::of_thread();
    if !known.is_null() {
        return known;
    }
    let thread = row::take();
    count(thread);
    thread
}

fn look_at(thread: *mut Thread, bytes: usize, call: impl FnOnce() -> *mut u8) -> *mut u8 {
    let mark = 0u8;
    // SAFETY: it is this thread's row.
    let (is_timed, is_due) = unsafe {
        let row = &*thread;
        (
            row.allocs.is_multiple_of(row::TIMED_EVERY),
            (row.countdown_bytes as i64) < 0,
        )
    };
    let block = if is_timed && map::is_on() {
        timed(call, |bucket| unsafe { addr_of_mut!((*bucket).allocs) })
    } else {
        call()
    };
    // SAFETY: it is this thread's row.
    unsafe {
        if block.is_null() {
            row::undo_alloc(thread, bytes);
        } else if is_due {
            sample(
                &mut *thread,
                block,
                bytes as u64,
                (&raw const mark) as usize,
            );
        }
    }
    block
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

fn sample(thread: &mut Thread, block: *mut u8, bytes: u64, mark: usize) {
    let mean = thread.mean_bytes;
    sampler::draw(thread);
    if !map::is_on() {
        return;
    }
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
        thread.samples += 1;
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
    // SAFETY: it is this thread's row.
    let freed_by = roles::of(unsafe { &mut *thread });
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

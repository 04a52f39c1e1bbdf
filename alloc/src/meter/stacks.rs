//! Distinct stacks and what was allocated and freed at them.

use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use abi::{STACK_NONE, SectionKind, Stack, lifetime_of, stack_flag, stack_why};

use super::sampler::Weight;
use super::unwind::Frames;
use super::{map, modules};

const PROBES: usize = 32;
const FREE: u64 = 0;
const BUSY: u64 = 1;

static FRAMES_USED: AtomicU32 = AtomicU32::new(0);

macro_rules! field {
    ($row:expr, $name:ident) => {
        // SAFETY: aligned, in a row of the mapping, which stays.
        unsafe { AtomicU64::from_ptr(addr_of_mut!((*$row).$name)) }
    };
}

fn row(at: u32) -> *mut Stack {
    map::row_at(SectionKind::Stacks, at as usize)
}

/// Row of the stack, a new one when it is new; [`STACK_NONE`] (and counted) when nothing fits any more.
pub(crate) fn find(frames: &Frames, now_ns: u64) -> u32 {
    if frames.depth == 0 {
        map::counters().stacks_broken.fetch_add(1, Relaxed);
        return not_a_stack(stack_why::UNREADABLE, now_ns);
    }
    let flags = if frames.is_deeper {
        stack_flag::DEEPER
    } else {
        0
    };
    match place(frames.known(), flags, now_ns) {
        STACK_NONE => {
            map::counters().stacks_dropped.fetch_add(1, Relaxed);
            not_a_stack(stack_why::TABLE_FULL, now_ns)
        }
        at => at,
    }
}

/// Bytes without a stack keep a row of their own per reason.
fn not_a_stack(why: u64, now_ns: u64) -> u32 {
    place(&[why], stack_flag::NOT_A_STACK, now_ns)
}

fn place(frames: &[u64], flags: u16, now_ns: u64) -> u32 {
    let hash = hash_of(frames, flags);
    for step in 0..PROBES {
        let at = ((hash >> 32) as usize + step) % map::STACKS;
        let row = row(at as u32);
        let seen = match field!(row, hash).compare_exchange(FREE, BUSY, AcqRel, Acquire) {
            Ok(_) if write(row, frames, flags, hash, now_ns) => hash,
            Ok(_) => return STACK_NONE,
            Err(other) => other,
        };
        if seen == hash {
            return at as u32;
        }
    }
    STACK_NONE
}

/// Fills a row that this thread has made BUSY; false when the frames do not fit.
fn write(row: *mut Stack, frames: &[u64], flags: u16, hash: u64, now_ns: u64) -> bool {
    let first = FRAMES_USED.fetch_add(frames.len() as u32, Relaxed);
    let end = first as usize + frames.len();
    if end > map::FRAMES {
        FRAMES_USED.fetch_sub(frames.len() as u32, Relaxed);
        field!(row, hash).store(FREE, Release);
        return false;
    }
    for (at, address) in (first as usize..).zip(frames) {
        // SAFETY: inside the section, and this row's alone.
        unsafe { map::row_at::<u64>(SectionKind::Frames, at).write(*address) };
    }
    map::used(SectionKind::Frames, end as u32);
    // SAFETY: the row is this thread's while its hash is BUSY.
    unsafe {
        (*row).frames_at = first;
        (*row).depth = frames.len() as u16;
        (*row).flags = flags;
        (*row).first_ns = now_ns;
    }
    if flags & stack_flag::NOT_A_STACK == 0 {
        modules::note(frames, now_ns);
    }
    field!(row, hash).store(hash, Release);
    true
}

fn hash_of(frames: &[u64], flags: u16) -> u64 {
    let mixed = frames.iter().fold(u64::from(flags), |hash, address| {
        (hash ^ address)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    });
    // 0 and 1 mean free and busy.
    mixed.max(BUSY + 1)
}

/// A sample of this weight was taken here.
pub(crate) fn allocated(at: u32, weight: Weight, now_ns: u64) {
    if at == STACK_NONE {
        return;
    }
    let row = row(at);
    field!(row, samples).fetch_add(1, Relaxed);
    field!(row, allocated_bytes).fetch_add(weight.bytes, Relaxed);
    field!(row, allocated_blocks).fetch_add(weight.blocks, Relaxed);
    field!(row, last_ns).fetch_max(now_ns, Relaxed);
}

/// A sample taken here was freed after `lifetime_ns`.
pub(crate) fn freed(at: u32, weight: Weight, lifetime_ns: u64) {
    if at == STACK_NONE {
        return;
    }
    let row = row(at);
    field!(row, freed_samples).fetch_add(1, Relaxed);
    field!(row, freed_bytes).fetch_add(weight.bytes, Relaxed);
    field!(row, lifetime_ns_max).fetch_max(lifetime_ns, Relaxed);
    // SAFETY: the bucket is inside the array; aligned, in a row of the mapping.
    let bucket =
        unsafe { AtomicU32::from_ptr(addr_of_mut!((*row).lifetimes[lifetime_of(lifetime_ns)])) };
    bucket.fetch_add(1, Relaxed);
}

//! What becomes of a block that is sampled: its stack, its thread's role, the sums.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use abi::{Header, ROLE_NONE, STACK_NONE, Sample, Thread, stack_flag, stack_why};
use sampler::count;
use sampler::distance;
use sampler::flows::{Flows, Weight};
use sampler::live::Live;
use sampler::modules::Modules;
use sampler::pace::{CERTAIN_MEAN_BYTES, LARGE_BYTES, Pace};
use sampler::roles::{self, Roles};
use sampler::shared;
use sampler::stacks::Stacks;
use sampler::threads::Threads;
use sampler::word::{add, add_own};

use super::unwind::{self, Frames};
use super::{map, modules, row};

/// Estimates of blocks and bytes that another thread freed than allocated.
static CROSS_BLOCKS: AtomicU64 = AtomicU64::new(0);
static CROSS_BYTES: AtomicU64 = AtomicU64::new(0);

/// See [`CROSS_BLOCKS`].
pub(crate) fn crossed() -> (u64, u64) {
    (CROSS_BLOCKS.load(Relaxed), CROSS_BYTES.load(Relaxed))
}

/// A counter of the header, as an atomic.
macro_rules! counter {
    ($meter:expr, $name:ident) => {
        // SAFETY: a word of the header, which lives as long as the process.
        unsafe { sampler::word::atomic(&raw mut (*$meter.header).counters.$name) }
    };
}

pub(crate) use counter;

/// How a block went.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Given back.
    Back,
    /// Another block holds its contents now.
    Resized,
}

/// The parts of the sampler over the mapping.
pub(crate) struct Meter {
    pub(crate) header: *mut Header,
    pub(crate) live: Live,
    pub(crate) stacks: Stacks,
    pub(crate) roles: Roles,
    pub(crate) flows: Flows,
    pub(crate) threads: Threads,
    pub(crate) modules: Modules,
    pub(crate) pace: Pace,
}

impl Meter {
    /// The row is the one that threads without their own share: to be written by [`shared`] only.
    pub(crate) fn is_shared(&self, thread: *mut Thread) -> bool {
        thread == self.threads.overflow()
    }

    /// Counts a block; the mean to sample it with, if it is to be sampled.
    pub(crate) fn allocated(&self, thread: *mut Thread, bytes: u64) -> Option<u64> {
        let is_large = bytes >= LARGE_BYTES && self.pace.takes_large(bytes, map::now_ns());
        // SAFETY: it is this thread's row; or the shared one, which lives.
        let mean = unsafe {
            match self.is_shared(thread) {
                true => self.allocated_in_shared(thread, bytes),
                false => self.allocated_in_own(thread, bytes),
            }
        };
        match is_large {
            true => Some(CERTAIN_MEAN_BYTES),
            false => mean,
        }
    }

    unsafe fn allocated_in_shared(&self, thread: *mut Thread, bytes: u64) -> Option<u64> {
        // SAFETY: by the caller.
        let mean = unsafe {
            let ended = shared::alloc(thread, bytes);
            ended.then(|| shared::begin_distance(thread, self.pace.mean_bytes()))
        };
        // The first of all is of no length, and of no mean.
        mean.filter(|mean| *mean > 0)
    }

    unsafe fn allocated_in_own(&self, thread: *mut Thread, bytes: u64) -> Option<u64> {
        // SAFETY: by the caller.
        unsafe {
            add_own(&raw mut (*thread).allocs, 1);
            count::usable_allocated(thread, bytes);
            if distance::is_cut_by(thread, bytes) {
                self.live.tick(&self.pace, map::now_ns(), false);
            }
            distance::pass(thread, bytes, &self.pace)
        }
    }

    /// Enters a block that was allocated with so many bytes and is sampled with a mean. `mark`: see [`unwind::frames`].
    pub(crate) fn sample(
        &self,
        thread: *mut Thread,
        block: *mut u8,
        (bytes, mean_bytes): (u64, u64),
        mark: usize,
    ) {
        let now = map::now_ns();
        let stack = self.stack(&unwind::frames(mark), now);
        let role = self.role(thread);
        let sample = Sample {
            requested_bytes: bytes,
            usable_bytes: bytes,
            mean_bytes,
            time_ns: now,
            stack,
            role,
            thread: self.threads.index(thread),
            ..Sample::default()
        };
        // What is not in the table cannot be seen freed: it would count as outstanding for ever.
        if self.live.enter(block as u64, sample) {
            let weight = Weight::of(bytes, mean_bytes, now ^ block as u64);
            // SAFETY: a word of a row, which lives.
            unsafe { add(&raw mut (*thread).samples, 1) };
            self.stacks.allocated(stack, weight, now);
            self.roles.note(role, weight.bytes, 0);
            self.flows.allocated(bytes, weight);
        }
        // SAFETY: a row, which lives.
        unsafe { self.live.thin(&self.pace, thread) };
        self.live.tick(&self.pace, now, true);
        self.close(now);
    }

    /// Takes out a block that is about to be freed or resized, if it is sampled.
    pub(crate) fn take_out(&self, block: *mut u8) -> Option<Sample> {
        let address = block as u64;
        let may_be = map::FILTER.may_hold(address);
        may_be.then(|| self.live.take_out(address)).flatten()
    }

    /// A sampled block was freed or resized by the thread of a row.
    pub(crate) fn freed(&self, thread: *mut Thread, block: *mut u8, sample: Sample, how: Freed) {
        let now = map::now_ns();
        let (bytes, mean) = (sample.requested_bytes, sample.mean_bytes);
        let weight = Weight::of(bytes, mean, now ^ block as u64);
        match how {
            Freed::Resized => self.stacks.moved(sample.stack, weight),
            Freed::Back => {
                let lifetime_ns = now.saturating_sub(sample.time_ns);
                self.stacks.freed(sample.stack, weight, lifetime_ns);
            }
        }
        let role = self.role(thread);
        self.flows.freed(bytes, weight, sample.role, role);
        self.roles.note(role, 0, weight.bytes);
        if sample.thread != self.threads.index(thread) {
            CROSS_BLOCKS.fetch_add(weight.blocks, Relaxed);
            CROSS_BYTES.fetch_add(weight.bytes, Relaxed);
        }
        counter!(self, samples_freed).fetch_add(1, Relaxed);
        self.live.drop_live(1);
        self.close(now);
    }

    fn close(&self, begun_ns: u64) {
        counter!(self, slow_calls).fetch_add(1, Relaxed);
        let took_ns = map::now_ns().saturating_sub(begun_ns);
        counter!(self, slow_ns).fetch_add(took_ns, Relaxed);
    }

    /// Row of a stack; one that cannot be had is a row too, so that its bytes are not lost.
    fn stack(&self, frames: &Frames, now_ns: u64) -> u32 {
        if frames.depth == 0 {
            counter!(self, stacks_broken).fetch_add(1, Relaxed);
            return self.no_stack(stack_why::UNREADABLE, now_ns);
        }
        let flags = match frames.is_deeper {
            true => stack_flag::DEEPER,
            false => 0,
        };
        let Some(stack) = self.stacks.find(frames.known(), flags, now_ns) else {
            counter!(self, stacks_dropped).fetch_add(1, Relaxed);
            return self.no_stack(stack_why::TABLE_FULL, now_ns);
        };
        if self.stacks.is_new(stack) {
            modules::note(self, frames.known(), now_ns);
        }
        stack
    }

    fn no_stack(&self, why: u64, now_ns: u64) -> u32 {
        let row = self.stacks.find(&[why], stack_flag::NOT_A_STACK, now_ns);
        row.unwrap_or(STACK_NONE)
    }

    /// The role of the calling thread, found at its first sample.
    fn role(&self, thread: *mut Thread) -> u16 {
        if self.is_shared(thread) {
            return roles::OTHER;
        }
        // SAFETY: this thread's row; no other thread of the process reads or writes its role.
        unsafe {
            if (*thread).role == ROLE_NONE {
                (*thread).role = match row::thread_id() == std::process::id() {
                    true => self.roles.join(roles::MAIN),
                    false => self.roles.find(name_of_thread(), 0),
                };
            }
            (*thread).role
        }
    }
}

/// Zero-padded.
fn name_of_thread() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

//! The probe as one value: what the slow paths do with a block that is sampled, freed or remembered
//! wrongly.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use abi::{Header, STACK_NONE, Sample, State, Thread, region_flag};

use crate::budget::Budget;
use crate::clock;
use crate::counter::counter;
use crate::guard::Signals;
use crate::interpreter::Interpreter;
use crate::regions::{Call, Mapped, Regions};
use crate::unwind::{Closing, Registers, Unwinder};
use sampler::filter::Filter;
use sampler::flows::{Flows, Weight};
use sampler::live::Live;
use sampler::modules::Modules;
use sampler::pace::Pace;
use sampler::roles::Roles;
use sampler::stacks::Stacks;
use sampler::threads::Threads;
use sampler::word::{atomic, atomic32};

/// Anonymous mappings below this get a stack only at a limited rate: they may come by the thousand.
const REGION_STACK_BYTES_MIN: u64 = 64 << 10;

/// A block that was just handed out.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its address.
    pub address: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes usable.
    pub usable_bytes: u64,
    /// How long the allocator took, ns.
    pub took_ns: u64,
    /// Mean under which it was sampled, from [`Probe::due`].
    pub mean_bytes: u64,
}

/// A sample that was taken out for a free or a realloc.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    pub(crate) address: u64,
    pub(crate) sample: Sample,
}

/// How a block went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// Given back.
    Back,
    /// Another block holds its contents now.
    Resized,
}

/// Everything, over one mapping.
pub struct Probe {
    pub(crate) header: *mut Header,
    pub(crate) filter: &'static Filter,
    pub(crate) live: Live,
    pub(crate) stacks: Stacks,
    pub(crate) roles: Roles,
    pub(crate) flows: Flows,
    pub(crate) threads: Threads,
    pub(crate) regions: Regions,
    pub(crate) modules: Modules,
    pub(crate) pace: Pace,
    pub(crate) budget: Budget,
    /// Lost by a malloc and its free to counting, picoseconds; 0: not known.
    pub(crate) pair_ps: u64,
    pub(crate) unwinder: Unwinder,
    pub(crate) python: Option<Interpreter>,
    /// Code of the allocator behind the probe: (start, end).
    pub(crate) allocator: (u64, u64),
}

// SAFETY: everything behind the pointers is written with atomics or by one owner, as each part
// says.
unsafe impl Sync for Probe {}
// SAFETY: nothing belongs to a thread.
unsafe impl Send for Probe {}

impl Probe {
    /// The header.
    pub fn header(&self) -> *mut Header {
        self.header
    }

    /// Memory that is the probe's and not the program's: its mapping, and the library that it is in.
    pub fn own_ranges(&self) -> [Range<u64>; 2] {
        let start = self.header as u64;
        // SAFETY: written once, at the start.
        let (mapped_bytes, library) = unsafe {
            let Header {
                mapped_bytes,
                own_text_start,
                own_text_end,
                ..
            } = *self.header;
            (mapped_bytes, own_text_start..own_text_end)
        };
        let guard_bytes = abi::PAGE_BYTES as u64;
        [start..start + mapped_bytes + guard_bytes, library]
    }

    /// The filter in front of the sample table.
    pub fn filter(&self) -> &'static Filter {
        self.filter
    }

    /// False once it is off for good.
    pub fn is_on(&self) -> bool {
        // SAFETY: a word of the header.
        unsafe { atomic32(&raw mut (*self.header).state) }.load(Relaxed) == State::On as u32
    }

    /// One of [`bytes_mode`].
    pub fn bytes_mode(&self) -> u32 {
        // SAFETY: a word of the header.
        unsafe { atomic32(&raw mut (*self.header).bytes_mode) }.load(Relaxed)
    }

    /// The row of threads without one.
    pub fn overflow(&self) -> *mut Thread {
        self.threads.overflow()
    }

    /// Enters a sampled block. Before the subject knows its address.
    ///
    /// # Safety
    /// `row` is this thread's own or the overflow row.
    pub unsafe fn allocated(&self, row: *mut Thread, block: Block, registers: Registers) {
        let begun = clock::monotonic_ns();
        let Some(_signals) = Signals::block() else {
            return;
        };
        let (stack, origin) = self.stack(registers, begun);
        // SAFETY: by the caller.
        let role = unsafe { self.role(row, origin) };
        let sample = Sample {
            requested_bytes: block.requested_bytes,
            usable_bytes: block.usable_bytes,
            mean_bytes: block.mean_bytes,
            time_ns: begun,
            stack,
            role,
            thread: self.threads.index(row),
            ..Sample::default()
        };
        // What is not in the table cannot be seen freed: it would count as outstanding for ever.
        if self.live.enter(block.address, sample) {
            let (bytes, mean) = (block.requested_bytes, block.mean_bytes);
            let weight = Weight::of(bytes, mean, begun ^ block.address);
            self.stacks.allocated(stack, weight, begun);
            self.flows.allocated(block.usable_bytes, weight);
            self.roles.note(role, weight.bytes, 0);
        }
        self.flows.alloc_took(block.took_ns);
        // SAFETY: a word of a row, which lives as long as the mapping.
        unsafe {
            atomic(&raw mut (*row).samples).fetch_add(1, Relaxed);
            self.live.thin(&self.pace, row);
        }
        self.tick(begun, true);
        self.close(begun);
    }

    /// Takes a block out that may be sampled and is about to be freed or resized.
    pub fn take_out(&self, address: u64) -> Option<Removed> {
        let sample = self.live.take_out(address)?;
        Some(Removed { address, sample })
    }

    /// Puts a block back whose resizing failed.
    pub fn put_back(&self, removed: Removed) {
        self.live.put_back(removed.address, removed.sample);
    }

    /// A sampled block was freed by the thread of `row`, or moved by a resize; the allocator took so
    /// long.
    ///
    /// # Safety
    /// `row` is this thread's own or the overflow row.
    pub unsafe fn freed(
        &self,
        row: *mut Thread,
        removed: Removed,
        how: Freed,
        took_ns: u64,
        registers: Registers,
    ) {
        let begun = clock::monotonic_ns();
        let sample = removed.sample;
        // SAFETY: by the caller.
        let role = unsafe { self.role_of_freeing(row, registers) };
        let weight = Weight::of(
            sample.requested_bytes,
            sample.mean_bytes,
            begun ^ removed.address,
        );
        match how {
            Freed::Resized => self.stacks.moved(sample.stack, weight),
            Freed::Back => {
                let lifetime_ns = begun.saturating_sub(sample.time_ns);
                self.stacks.freed(sample.stack, weight, lifetime_ns);
            }
        }
        self.flows
            .freed(sample.usable_bytes, weight, sample.role, role);
        self.flows.free_took(took_ns);
        self.roles.note(role, 0, weight.bytes);
        self.count(counter!(self, samples_freed));
        self.live.drop_live(1);
        self.close(begun);
    }

    /// A mapping was made by a direct call.
    pub fn mapped(&self, start: u64, bytes: u64, flags: u32, registers: Registers) {
        let begun = clock::monotonic_ns();
        let mut stack = STACK_NONE;
        let mut by = Call::Program;
        let anonymous = flags & region_flag::ANONYMOUS != 0;
        if anonymous
            && (bytes >= REGION_STACK_BYTES_MIN || self.pace.takes_small_mapping(begun))
            && let Some(_signals) = Signals::block()
        {
            let (row, origin) = self.stack(registers, begun);
            let caller = origin.map_or(0, |origin| origin.caller_object);
            stack = row;
            if caller != 0 && caller == self.allocator.0 {
                by = Call::Allocator;
            }
        }
        let by_allocator = if by == Call::Allocator {
            region_flag::BY_ALLOCATOR
        } else {
            0
        };
        self.regions.mapped(
            Mapped {
                start,
                bytes,
                flags: flags | by_allocator,
                stack,
                time_ns: begun,
            },
            by,
        );
        self.close(begun);
    }

    /// Direct calls that unmap, move or move the break.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Holds unwinding up while an object is closed.
    pub fn closing(&self) -> Closing<'_> {
        self.unwinder.closing()
    }

    /// Counts a sample that was lost because the thread was already inside the probe.
    pub fn nested(&self) {
        self.count(counter!(self, samples_dropped_nested));
    }

    /// A child was forked.
    pub fn forked(&self) {
        self.count(counter!(self, forks_seen));
    }

    /// What counting costs on this machine, measured by the caller: per pair, and extra per pair
    /// for exact bytes.
    pub fn set_pair_cost(&self, pair_ps: u64, exact_pair_ps: u64) {
        self.count_many(counter!(self, pair_ps), pair_ps);
        self.count_many(counter!(self, exact_pair_ps), exact_pair_ps);
    }

    /// In the child of a fork, on its only thread, whose row is `row`. The mapping is already its
    /// own copy. `was_amid`: another thread of the parent was in the middle of a slow path.
    ///
    /// # Safety
    /// Called once per fork, before the child allocates.
    pub unsafe fn after_fork(&self, row: *mut Thread, tid: u32, was_amid: bool) {
        // SAFETY: in a forked child there is one thread; the mapping is its own copy.
        unsafe {
            let header = self.header;
            (*header).forked_from = (*header).pid;
            (*header).pid = u64::from(tid);
            (*header).forks += 1;
            (*header).forked_ns = clock::monotonic_ns();
            if !row.is_null() {
                (*row).forks = (*header).forks;
                (*row).tid = tid;
            }
        }
        self.unwinder.after_fork();
        self.regions.after_fork();
        if was_amid {
            self.live.after_fork();
        }
    }

    /// Switches everything off for good. Threads notice at their next slow path.
    pub fn switch_off(&self, reason: u32) {
        // SAFETY: words of the header.
        unsafe {
            (*self.header).off_reason = reason;
            (*self.header).state_since_ns = clock::monotonic_ns();
            atomic32(&raw mut (*self.header).state).store(State::Off as u32, Relaxed);
        }
        self.filter.clear();
    }
}

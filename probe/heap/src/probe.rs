//! The probe as one value: what the slow paths do with a block that is sampled, freed or remembered wrongly.

use std::sync::atomic::Ordering::Relaxed;

use abi::{
    Header, Module, ROLE_NONE, STACK_NONE, Sample, SectionKind, State, Thread, bytes_mode,
    off_reason,
};
use abi::{region_flag, stack_flag, stack_why};

use crate::budget::{Budget, Reading, Step};
use crate::clock;
use crate::draw;
use crate::filter::Filter;
use crate::flows::{Flows, Weight};
use crate::guard::Signals;
use crate::modules::Object;
use crate::pace::{Change, Pace};
use crate::regions::{Call, Mapped, Regions};
use crate::roles::{self, Roles};
use crate::samples::{Inserted, Samples};
use crate::stacks::Stacks;
use crate::threads::Threads;
use crate::unwind::{Registers, Trace, Unwinder};
use crate::word::{add, atomic, atomic32};

/// The place of a counter of a probe's header.
macro_rules! counter {
    ($probe:expr, $name:ident) => {
        // A field of the header, which lives as long as the probe.
        #[allow(unused_unsafe)]
        unsafe {
            &raw mut (*$probe.header).counters.$name
        }
    };
}

/// Anonymous mappings below this get no stack: thread stacks and the like by the thousand.
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
    address: u64,
    sample: Sample,
}

/// Everything, over one mapping.
pub struct Probe {
    pub(crate) header: *mut Header,
    pub(crate) filter: &'static Filter,
    pub(crate) samples: Samples,
    pub(crate) stacks: Stacks,
    pub(crate) roles: Roles,
    pub(crate) flows: Flows,
    pub(crate) threads: Threads,
    pub(crate) regions: Regions,
    pub(crate) modules: *mut Module,
    pub(crate) modules_capacity: u32,
    pub(crate) pace: Pace,
    pub(crate) budget: Budget,
    pub(crate) unwinder: Unwinder,
    /// Code of the allocator behind the probe: (start, end).
    pub(crate) allocator: (u64, u64),
}

// SAFETY: everything behind the pointers is written with atomics or by one owner, as each part says.
unsafe impl Sync for Probe {}
// SAFETY: nothing belongs to a thread.
unsafe impl Send for Probe {}

impl Probe {
    /// The header.
    pub fn header(&self) -> *mut Header {
        self.header
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

    /// A row for a new thread; `None`: all are taken, it shares [`Self::overflow`].
    pub fn join(&self, tid: u32) -> Option<*mut Thread> {
        self.threads.take(tid)
    }

    /// The row of threads without one.
    pub fn overflow(&self) -> *mut Thread {
        self.threads.overflow()
    }

    /// The distance of a row has ended within an allocation of `bytes`. The mean to sample it with; or `None` when the
    /// distance had only been cut short: the allocation is then counted and another distance under way.
    ///
    /// # Safety
    /// `row` is this thread's own, or the overflow row with `bytes` already off its countdown.
    pub unsafe fn due(&self, row: *mut Thread, bytes: u64) -> Option<u64> {
        unsafe {
            if (*row).cut == 0 {
                return Some((*row).mean_bytes.max(1));
            }
            let left = (*row).countdown_bytes.min(bytes);
            let rest = bytes - left;
            let mean = self.pace.mean_bytes();
            // The tables may be gone over budget or full without any sample for long: look at the pace here too.
            self.tick(clock::monotonic_ns(), false);
            let distance = draw::distance(&mut (*row).random, mean);
            if distance <= rest {
                return Some(mean);
            }
            self.set_distance(row, distance - rest, mean);
            (*row).drawn_bytes = (*row).drawn_bytes.wrapping_add(bytes - left);
            None
        }
    }

    /// Begins a new distance after a sample of `bytes` that were handed out (0 when the allocator refused).
    ///
    /// # Safety
    /// As for [`Self::due`].
    pub unsafe fn begin_distance(&self, row: *mut Thread, bytes: u64) {
        unsafe {
            let left = (*row).countdown_bytes;
            let mean = self.pace.mean_bytes();
            let distance = draw::distance(&mut (*row).random, mean);
            (*row).drawn_bytes = (*row).drawn_bytes.wrapping_add(bytes).wrapping_sub(left);
            (*row).countdown_bytes = 0;
            self.set_distance(row, distance, mean);
        }
    }

    /// Sets a distance, cut short if it is long; keeps `drawn - countdown`.
    unsafe fn set_distance(&self, row: *mut Thread, distance: u64, mean: u64) {
        let cut_at = self.pace.cut_bytes();
        let next = distance.min(cut_at);
        unsafe {
            let old = (*row).countdown_bytes;
            (*row).cut = u64::from(distance > cut_at);
            (*row).mean_bytes = mean;
            (*row).drawn_bytes = (*row).drawn_bytes.wrapping_add(next).wrapping_sub(old);
            (*row).countdown_bytes = next;
        }
    }

    /// Enters a sampled block. Before the subject knows its address.
    ///
    /// # Safety
    /// `row` is this thread's own or the overflow row.
    pub unsafe fn allocated(&self, row: *mut Thread, block: Block, registers: Registers) {
        let begun = clock::monotonic_ns();
        let _signals = Signals::block();
        let (stack, trace) = self.stack(registers, begun);
        let role = unsafe { self.role(row, trace.as_ref()) };
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
        self.enter(block.address, sample);
        let weight = Weight::of(
            block.requested_bytes,
            block.mean_bytes,
            begun ^ block.address,
        );
        self.stacks.allocated(stack, weight, begun);
        self.flows.allocated(block.usable_bytes, weight);
        self.flows.alloc_took(block.took_ns);
        self.roles.note(role, weight.bytes, 0);
        unsafe { atomic(&raw mut (*row).samples) }.fetch_add(1, Relaxed);
        self.thin(row);
        self.tick(begun, true);
        self.close(begun);
    }

    /// Takes a block out that may be sampled and is about to be freed or resized.
    pub fn take_out(&self, address: u64) -> Option<Removed> {
        let sample = self.samples.remove(address)?;
        self.filter.remove(address);
        Some(Removed { address, sample })
    }

    /// Puts a block back whose resizing failed.
    pub fn put_back(&self, removed: Removed) {
        if self.samples.insert(removed.address, removed.sample) == Inserted::Full {
            self.count(counter!(self, samples_dropped_full));
            return;
        }
        self.filter.add(removed.address);
    }

    /// A sampled block was freed by the thread of `row`; the allocator took so long.
    ///
    /// # Safety
    /// `row` is this thread's own or the overflow row.
    pub unsafe fn freed(
        &self,
        row: *mut Thread,
        removed: Removed,
        took_ns: u64,
        registers: Registers,
    ) {
        let begun = clock::monotonic_ns();
        let sample = removed.sample;
        let role = unsafe { self.role_of_freeing(row, registers) };
        let weight = Weight::of(
            sample.requested_bytes,
            sample.mean_bytes,
            begun ^ removed.address,
        );
        self.stacks
            .freed(sample.stack, weight, begun.saturating_sub(sample.time_ns));
        self.flows
            .freed(sample.usable_bytes, weight, sample.role, role);
        self.flows.free_took(took_ns);
        self.roles.note(role, 0, weight.bytes);
        self.count(counter!(self, samples_freed));
        self.drop_live(1);
        self.close(begun);
    }

    /// A mapping was made by a direct call.
    pub fn mapped(&self, start: u64, bytes: u64, flags: u32, registers: Registers) {
        let begun = clock::monotonic_ns();
        let mut stack = STACK_NONE;
        let mut by = Call::Program;
        if bytes >= REGION_STACK_BYTES_MIN && flags & region_flag::ANONYMOUS != 0 {
            let _signals = Signals::block();
            let (row, trace) = self.stack(registers, begun);
            let caller = trace.map_or(0, |trace| trace.caller_object);
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

    /// Counts a sample that was lost because the thread was already inside the probe.
    pub fn nested(&self) {
        self.count(counter!(self, samples_dropped_nested));
    }

    /// A child was forked.
    pub fn forked(&self) {
        self.count(counter!(self, forks_seen));
    }

    /// What counting costs on this machine, measured by the caller: per pair, and extra per pair for exact bytes.
    pub fn set_pair_cost(&self, pair_ps: u64, exact_pair_ps: u64) {
        self.count_many(counter!(self, pair_ps), pair_ps);
        self.count_many(counter!(self, exact_pair_ps), exact_pair_ps);
    }

    /// In the child of a fork, on its only thread, whose row is `row`. The mapping is already its own copy.
    ///
    /// # Safety
    /// Called once per fork, before the child allocates.
    pub unsafe fn after_fork(&self, row: *mut Thread, tid: u32) {
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

    fn enter(&self, address: u64, sample: Sample) {
        match self.samples.insert(address, sample) {
            Inserted::Full => return self.count(counter!(self, samples_dropped_full)),
            Inserted::Replaced(_) => {
                self.filter.remove(address);
                self.count(counter!(self, samples_stale));
                self.drop_live(1);
            }
            Inserted::Done => {}
        }
        self.filter.add(address);
        self.count(counter!(self, samples_taken));
        self.count(counter!(self, samples_live));
    }

    /// The row of the stack from `registers`; a stack that cannot be had is a row too, so that its bytes are not lost.
    fn stack(&self, registers: Registers, now_ns: u64) -> (u32, Option<Trace>) {
        let mut on_object = |object, replaced| self.note_object(object, replaced, now_ns);
        let Some(trace) = self.unwinder.trace(registers, &mut on_object) else {
            self.count(counter!(self, stacks_contended));
            return (self.no_stack(stack_why::CONTENDED, now_ns), None);
        };
        if trace.flags & stack_flag::BROKEN != 0 {
            self.count(counter!(self, stacks_broken));
        }
        if trace.frames().is_empty() {
            return (self.no_stack(stack_why::UNREADABLE, now_ns), None);
        }
        let row = self
            .stacks
            .find(trace.frames(), trace.flags, now_ns)
            .unwrap_or_else(|| {
                self.count(counter!(self, stacks_dropped));
                self.no_stack(stack_why::TABLE_FULL, now_ns)
            });
        (row, Some(trace))
    }

    fn no_stack(&self, why: u64, now_ns: u64) -> u32 {
        self.stacks
            .find(&[why], stack_flag::NOT_A_STACK, now_ns)
            .unwrap_or(STACK_NONE)
    }

    /// The role of a thread, found at its first sample.
    unsafe fn role(&self, row: *mut Thread, trace: Option<&Trace>) -> u16 {
        unsafe {
            if row == self.overflow() {
                return roles::OTHER;
            }
            if (*row).role == ROLE_NONE {
                (*row).role = if u64::from((*row).tid) == (*self.header).pid {
                    self.roles.join(roles::MAIN)
                } else {
                    self.roles
                        .find(thread_name(), trace.map_or(0, |trace| trace.root))
                };
            }
            (*row).role
        }
    }

    /// Likewise for a thread that only frees: its stack is wanted once.
    unsafe fn role_of_freeing(&self, row: *mut Thread, registers: Registers) -> u16 {
        unsafe {
            let known = row == self.overflow() || (*row).role != ROLE_NONE;
            if known {
                return self.role(row, None);
            }
            let _signals = Signals::block();
            let now = clock::monotonic_ns();
            let trace = self.unwinder.trace(registers, &mut |object, replaced| {
                self.note_object(object, replaced, now)
            });
            self.role(row, trace.as_ref())
        }
    }

    /// One more row of the modules section.
    fn note_object(&self, object: Object, replaced: Option<Object>, now_ns: u64) {
        // SAFETY: the unwinder's lock makes this the only writer of the section.
        unsafe {
            let used = &raw mut (*self.header).sections[SectionKind::Modules as usize].used;
            if let Some(old) = replaced.filter(|old| old.start != object.start || *old != object) {
                let rows = std::slice::from_raw_parts_mut(self.modules, *used as usize);
                let gone = rows
                    .iter_mut()
                    .rev()
                    .find(|row| row.start == old.start && row.gone_ns == 0);
                gone.into_iter().for_each(|row| row.gone_ns = now_ns);
            }
            if *used >= self.modules_capacity {
                return self.count(counter!(self, modules_dropped));
            }
            let row = self.modules.add(*used as usize);
            (*row).start = object.start;
            let (bytes, bias) = object.name_and_bias(&mut *(&raw mut (*row).path));
            ((*row).path_bytes, (*row).bias, (*row).first_ns) = (bytes as u32, bias, now_ns);
            atomic(&raw mut (*row).end).store(object.end, std::sync::atomic::Ordering::Release);
            atomic32(used).fetch_add(1, Relaxed);
        }
    }

    fn thin(&self, row: *mut Thread) {
        let Some(sweep) = self.pace.sweep(self.live(), self.samples.capacity() as u64) else {
            return;
        };
        // SAFETY: the row's random state; two threads of the overflow row may draw the same, which does no harm.
        let random = unsafe { &mut (*row).random };
        let dropped = self.samples.thin(
            sweep.from,
            sweep.count,
            sweep.mean_bytes,
            self.filter,
            random,
        );
        if dropped > 0 {
            self.count_many(counter!(self, samples_thinned), dropped);
            self.drop_live(dropped);
        }
    }

    fn tick(&self, now_ns: u64, sampled: bool) {
        match self
            .pace
            .tick(now_ns, sampled, self.live(), self.samples.capacity() as u64)
        {
            Change::None => {}
            Change::Coarser => self.count(counter!(self, coarsened)),
            Change::Finer => self.count(counter!(self, refined)),
        }
        // SAFETY: a word of the header.
        unsafe { atomic(&raw mut (*self.header).mean_bytes) }
            .store(self.pace.mean_bytes(), Relaxed);
        if self.budget.is_due(now_ns) {
            self.account(now_ns);
        }
    }

    fn account(&self, now_ns: u64) {
        let (slow_ns, exact_ns) = (self.read(counter!(self, slow_ns)), self.exact_ns());
        let reading = Reading {
            cpu_ns: clock::process_cpu_ns(),
            slow_ns,
            exact_ns,
        };
        match self.budget.account(reading) {
            Step::None => {}
            Step::SlowDown if self.pace.slow_down() => {
                self.count(counter!(self, coarsened));
            }
            Step::SlowDown => self.switch_off(off_reason::BUDGET),
            Step::GiveUpExactBytes => self.give_up_exact_bytes(now_ns),
        }
    }

    fn give_up_exact_bytes(&self, now_ns: u64) {
        // SAFETY: words of the header.
        unsafe {
            (*self.header).exact_bytes_ended_ns = now_ns;
            atomic32(&raw mut (*self.header).bytes_mode).store(bytes_mode::SAMPLED, Relaxed);
        }
    }

    /// Time spent for exact bytes so far, by the calls of all threads; 0 while they are off or wanted at any price.
    fn exact_ns(&self) -> u64 {
        if self.bytes_mode() == bytes_mode::SAMPLED {
            return 0;
        }
        let pair_ps = self.read(counter!(self, exact_pair_ps));
        (u128::from(self.threads.frees()) * u128::from(pair_ps) / 1000) as u64
    }

    fn close(&self, begun_ns: u64) {
        self.count(counter!(self, slow_calls));
        let took = clock::monotonic_ns().saturating_sub(begun_ns);
        self.count_many(counter!(self, slow_ns), took);
    }

    fn live(&self) -> u64 {
        self.read(counter!(self, samples_live))
    }

    fn drop_live(&self, count: u64) {
        self.count_many(counter!(self, samples_live), count.wrapping_neg());
    }

    fn count(&self, counter: *mut u64) {
        self.count_many(counter, 1);
    }

    fn count_many(&self, counter: *mut u64, amount: u64) {
        // SAFETY: a counter of the header, by `counter!`.
        unsafe { add(counter, amount) };
    }

    fn read(&self, counter: *mut u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic(counter) }.load(Relaxed)
    }
}

/// Name of this thread, zero-padded; zeros when the kernel will not say.
fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

//! The course of a replay: epoch after epoch. The thread that finishes an epoch last opens the next one: it sets the
//! clock, samples memory, and gives each thread its part.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use replayer::{Epoch, Record, Segment, Slot, refused, stage};

use crate::clock;
use crate::memory::{Files, anonymous_bytes, shared};
use crate::operate::operate;
use crate::threads::Threads;

/// The main thread is the first of the plan.
const MAIN: u32 = 0;

/// A replay under way. One per process.
pub struct Run {
    files: Files,
    records: &'static [Record],
    segments: &'static [Segment],
    epochs: &'static [Epoch],
    samples: &'static [u64],
    slots: *const Slot,
    slot_count: u32,
    threads: Threads,
    /// Threads that have not finished the present epoch.
    left: AtomicU32,
    epoch: AtomicU32,
    sampled: AtomicU64,
    failed: AtomicU64,
    /// Of threads that end.
    key: libc::pthread_key_t,
    start: Used,
}

/// What the process has used.
#[derive(Clone, Copy)]
struct Used {
    faults: u64,
    user_ns: u64,
    system_ns: u64,
    at_ns: u64,
}

static RUN: AtomicPtr<Run> = AtomicPtr::new(std::ptr::null_mut());

impl Run {
    /// `None`: no memory, or the plan points outside itself.
    pub fn new(files: Files) -> Option<&'static Run> {
        let plan = files.plan();
        let run = Run {
            files,
            records: files.section(plan.records),
            segments: files.section(plan.segments),
            epochs: files.section(plan.epochs),
            samples: files.section(plan.samples),
            slots: shared(plan.slots as usize * size_of::<Slot>())?.cast(),
            slot_count: plan.slots,
            threads: Threads::new(files.section(plan.threads), plan.lanes)?,
            left: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            sampled: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            key: key()?,
            start: Used::now(),
        };
        if !run.is_whole() {
            return None;
        }
        let place = shared(size_of::<Run>())?.cast::<Run>();
        // SAFETY: fresh memory of that size, aligned to a page.
        unsafe {
            place.write(run);
            RUN.store(place, Ordering::Release);
            Some(&*place)
        }
    }

    fn is_whole(&self) -> bool {
        let records = self.records.len() as u64;
        let has_records = |segment: &Segment| {
            segment.thread < self.threads.count()
                && segment
                    .first
                    .checked_add(u64::from(segment.count))
                    .is_some_and(|end| end <= records)
        };
        let has_segments = |epoch: &Epoch| {
            let end = epoch.first_segment.checked_add(epoch.segments);
            epoch.segments > 0 && end.is_some_and(|end| end as usize <= self.segments.len())
        };
        self.threads.count() > 0
            && self.segments.iter().all(has_records)
            && self.epochs.iter().all(has_segments)
            && self
                .records
                .iter()
                .all(|record| record.slot < self.slot_count)
    }

    /// Replays all of it; the caller is the main thread. Whichever thread finishes the last epoch ends the process.
    pub fn replay(&'static self) -> ! {
        self.threads.set_started(MAIN);
        self.open(0, MAIN);
        self.work(MAIN);
        // The main thread's work may be over before that of others.
        loop {
            // SAFETY: waits for a signal, and none has a handler here.
            unsafe { libc::pause() };
        }
    }

    /// A thread's segments, until its last.
    fn work(&self, thread: u32) {
        let last = self.threads.get(thread).last_epoch;
        loop {
            let segment = &self.segments[self.threads.wait(thread) as usize];
            let epoch = self.epoch.load(Ordering::Acquire);
            let first = segment.first as usize;
            let mut failed = 0;
            for record in &self.records[first..first + segment.count as usize] {
                // SAFETY: a slot for each number of the plan.
                let slot = unsafe { &*self.slots.add(record.slot as usize) };
                failed += u64::from(!operate(record, slot));
            }
            if failed > 0 {
                self.failed.fetch_add(failed, Ordering::Relaxed);
            }
            if epoch == last {
                return;
            }
            self.finish_epoch(epoch, thread);
        }
    }

    /// A thread has done its part of an epoch. One that ends comes here when it has ended: see [`ends`].
    fn finish_epoch(&self, epoch: u32, thread: u32) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.open(epoch + 1, thread);
        }
    }

    /// Opens an epoch; the caller is the only thread under way.
    fn open(&self, index: u32, caller: u32) {
        let Some(epoch) = self.epochs.get(index as usize) else {
            return self.finish();
        };
        self.sample_until(epoch.time_ns);
        clock::set(epoch.time_ns);
        self.files
            .write(|outcome| outcome.epochs = u64::from(index));
        self.epoch.store(index, Ordering::Release);
        self.left.store(epoch.segments, Ordering::Release);
        let first = epoch.first_segment;
        for segment in first..first + epoch.segments {
            let thread = self.segments[segment as usize].thread;
            if !self.threads.set_started(thread) && !self.threads.start(thread, body) {
                return self.give_up();
            }
            self.threads.give(thread, segment, caller);
        }
    }

    fn sample_until(&self, time_ns: u64) {
        let mut index = self.sampled.load(Ordering::Relaxed);
        while self
            .samples
            .get(index as usize)
            .is_some_and(|at| *at <= time_ns)
        {
            clock::set(self.samples[index as usize]);
            self.files.write_sample(index, anonymous_bytes());
            index += 1;
        }
        self.sampled.store(index, Ordering::Relaxed);
    }

    fn finish(&self) {
        let used = Used::now();
        self.sample_until(u64::MAX);
        self.files.write(|outcome| {
            outcome.epochs = self.epochs.len() as u64;
            outcome.samples = self.sampled.load(Ordering::Relaxed);
            outcome.clock_reads = clock::reads();
            outcome.failed = self.failed.load(Ordering::Relaxed);
            outcome.minor_faults = used.faults - self.start.faults;
            outcome.user_ns = used.user_ns - self.start.user_ns;
            outcome.system_ns = used.system_ns - self.start.system_ns;
            outcome.wall_ns = used.at_ns - self.start.at_ns;
            outcome.stage = stage::FINISHED;
        });
        self.end();
    }

    fn give_up(&self) {
        self.files.write(|outcome| {
            outcome.stage = stage::REFUSED;
            outcome.error = refused::THREAD;
        });
        self.end();
    }

    /// Ends the process from whichever thread: allocators' destructors are no part of the replay.
    fn end(&self) -> ! {
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) }
    }
}

fn key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: writes one key.
    let failed = unsafe { libc::pthread_key_create(&mut key, Some(ends)) } != 0;
    (!failed).then_some(key)
}

impl Used {
    fn now() -> Used {
        // SAFETY: fills one record.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        Used {
            faults: usage.ru_minflt as u64,
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            at_ns: clock::real_monotonic_ns(),
        }
    }
}

extern "C" fn body(thread: *mut c_void) -> *mut c_void {
    // SAFETY: published before the first thread was started.
    if let Some(run) = unsafe { RUN.load(Ordering::Acquire).as_ref() } {
        run.work(thread as usize as u32);
        // Null is no value of a key.
        let value = (thread as usize) << ROUND_BITS | ROUNDS;
        // SAFETY: a key of ours; the value is no pointer.
        unsafe { libc::pthread_setspecific(run.key, value as *mut c_void) };
    }
    std::ptr::null_mut()
}

/// How often the destructors of a thread run while they set values again (PTHREAD_DESTRUCTOR_ITERATIONS of limits.h).
const ROUNDS: usize = 4;
/// Of a key's value, the rounds that are left.
const ROUND_BITS: u32 = 8;

/// A thread that ends: the allocator's own destructors run before this one in every round, as their keys are older. In
/// the last round it has given back what it kept for the thread; only then is the thread's epoch finished.
extern "C" fn ends(value: *mut c_void) {
    // SAFETY: published before the first thread was started.
    let Some(run) = (unsafe { RUN.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let (thread, left) = (
        value as usize >> ROUND_BITS,
        value as usize & ((1 << ROUND_BITS) - 1),
    );
    if left > 1 {
        let next = (thread << ROUND_BITS | (left - 1)) as *mut c_void;
        // SAFETY: as in `body`.
        unsafe { libc::pthread_setspecific(run.key, next) };
        return;
    }
    let thread = thread as u32;
    run.finish_epoch(run.threads.get(thread).last_epoch, thread);
}

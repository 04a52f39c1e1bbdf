//! The sampled blocks that are alive: the table, the filter in front of it, and what the header counts of both.

use core::sync::atomic::Ordering::Relaxed;

use abi::{Header, Sample, Thread};

use crate::filter::Filter;
use crate::pace::{Change, Pace};
use crate::samples::{Inserted, Samples};
use crate::word::{add, atomic};

/// The place of a counter of a header.
macro_rules! counter {
    ($header:expr, $name:ident) => {
        // SAFETY: a word of the header, which lives as long as the mapping.
        unsafe { &raw mut (*$header).counters.$name }
    };
}

/// Table, filter and counts.
pub struct Live {
    header: *mut Header,
    filter: &'static Filter,
    samples: Samples,
}

impl Live {
    /// # Safety
    /// `header` is the header of the mapping that the table is in, and lives for ever.
    pub unsafe fn new(header: *mut Header, filter: &'static Filter, samples: Samples) -> Live {
        Live {
            header,
            filter,
            samples,
        }
    }

    /// Puts a new sample in; to be done before the subject can know its address. False, and counted: there is no room.
    pub fn enter(&self, address: u64, sample: Sample) -> bool {
        let entered = self.insert(address, sample);
        if entered {
            self.count(counter!(self.header, samples_taken), 1);
            self.count(counter!(self.header, samples_live), 1);
        }
        entered
    }

    /// Takes a block out that is about to be freed or resized. [`Self::put_back`] or [`Self::drop_live`] comes next.
    pub fn take_out(&self, address: u64) -> Option<Sample> {
        let sample = self.samples.remove(address)?;
        self.filter.remove(address);
        Some(sample)
    }

    /// Puts a block back whose resizing failed.
    pub fn put_back(&self, address: u64, sample: Sample) {
        if !self.insert(address, sample) {
            self.drop_live(1);
        }
    }

    /// So many are no more.
    pub fn drop_live(&self, count: u64) {
        self.count(counter!(self.header, samples_live), count.wrapping_neg());
    }

    /// Rows of the table in use; never more than there are, whatever the program wrote over the header.
    pub fn live(&self) -> u64 {
        let live = counter!(self.header, samples_live);
        // SAFETY: a word of the header.
        let live = unsafe { atomic(live) }.load(Relaxed);
        live.min(self.samples.capacity() as u64)
    }

    /// Thins a part of the table if it is too full, with the random numbers of a row.
    ///
    /// # Safety
    /// `row` is a row that lives.
    pub unsafe fn thin(&self, pace: &Pace, row: *mut Thread) {
        let Some(sweep) = pace.sweep(self.live(), self.samples.capacity() as u64) else {
            return;
        };
        // SAFETY: by the caller. Two threads of a shared row may draw the same, which does no harm.
        let state = unsafe { atomic(&raw mut (*row).random) };
        let mut random = state.load(Relaxed);
        let (from, count, mean) = (sweep.from, sweep.count, sweep.mean_bytes);
        let dropped = self
            .samples
            .thin(from, count, mean, self.filter, &mut random);
        state.store(random, Relaxed);
        if dropped > 0 {
            self.count(counter!(self.header, samples_thinned), dropped);
            self.drop_live(dropped);
        }
    }

    /// A distance ended, with a sample or without: the mean may change.
    pub fn tick(&self, pace: &Pace, now_ns: u64, sampled: bool) {
        match pace.tick(now_ns, sampled, self.live(), self.samples.capacity() as u64) {
            Change::None => {}
            Change::Coarser => self.count(counter!(self.header, coarsened), 1),
            Change::Finer => self.count(counter!(self.header, refined), 1),
        }
        // SAFETY: a word of the header.
        unsafe { atomic(&raw mut (*self.header).mean_bytes) }.store(pace.mean_bytes(), Relaxed);
    }

    /// In a forked child, on its only thread: rows that other threads were writing are free.
    pub fn after_fork(&self) {
        self.samples.after_fork();
    }

    /// False: there was no room for it.
    fn insert(&self, address: u64, sample: Sample) -> bool {
        let mut inserted = Inserted::Full;
        if self.filter.add(address) {
            inserted = self.samples.insert(address, sample);
            if inserted != Inserted::Done {
                self.filter.remove(address);
            }
        }
        match inserted {
            Inserted::Full => self.count(counter!(self.header, samples_dropped_full), 1),
            Inserted::Replaced(_) => {
                self.count(counter!(self.header, samples_stale), 1);
                self.drop_live(1);
            }
            Inserted::Done => {}
        }
        inserted != Inserted::Full
    }

    fn count(&self, counter: *mut u64, amount: u64) {
        // SAFETY: a counter of the header, by `counter!`.
        unsafe { add(counter, amount) };
    }
}

//! The probe's account of itself: counters, the pace of sampling, the budget.

use std::sync::atomic::Ordering::Relaxed;

use abi::{bytes_mode, off_reason};

use crate::budget::{Reading, Step};
use crate::calls::Calls;
use crate::clock;
use crate::counter::counter;
use crate::probe::Probe;
use sampler::word::{add, atomic, atomic32};

/// What takes longer than this was waiting for a CPU: 20 us are a slow unwinding with cold caches. On a
/// machine with four times as many threads to run as CPUs such waits alone would use up the budget.
const SLOW_CALL_NS_MAX: u64 = 200_000;

impl Probe {
    pub(crate) fn tick(&self, now_ns: u64, sampled: bool) {
        self.live.tick(&self.pace, now_ns, sampled);
        if self.budget.is_due(now_ns) {
            self.account(now_ns);
        }
    }

    pub(crate) fn account(&self, now_ns: u64) {
        let Some(_calls) = Calls::begin() else {
            return;
        };
        let (slow_ns, exact_ns) = (self.read(counter!(self, slow_ns)), self.exact_ns());
        let reading = Reading {
            cpu_ns: clock::process_cpu_ns(),
            slow_ns,
            exact_ns,
            counted_ns: self.counted_ns(),
        };
        match self.budget.account(reading) {
            Step::None => {}
            Step::SlowDown(halvings) if self.pace.slow_down(halvings) => {
                self.count(counter!(self, coarsened));
            }
            Step::SlowDown(_) | Step::SwitchOff => self.switch_off(off_reason::BUDGET),
            Step::GiveUpExactBytes => self.give_up_exact_bytes(now_ns),
        }
    }

    pub(crate) fn give_up_exact_bytes(&self, now_ns: u64) {
        // SAFETY: words of the header.
        unsafe {
            (*self.header).exact_bytes_ended_ns = now_ns;
            atomic32(&raw mut (*self.header).bytes_mode).store(bytes_mode::SAMPLED, Relaxed);
        }
    }

    /// Time spent for exact bytes so far, by the calls of all threads; 0 while they are off or
    /// wanted at any price.
    pub(crate) fn exact_ns(&self) -> u64 {
        if self.bytes_mode() == bytes_mode::SAMPLED {
            return 0;
        }
        let pair_ps = self.read(counter!(self, exact_pair_ps));
        (u128::from(self.threads.frees()) * u128::from(pair_ps) / 1000) as u64
    }

    /// Time for counting so far, by the calls of all threads; 0 when what one costs is not known.
    fn counted_ns(&self) -> u64 {
        match self.pair_ps {
            0 => 0,
            pair_ps => (u128::from(self.threads.frees()) * u128::from(pair_ps) / 1000) as u64,
        }
    }

    pub(crate) fn close(&self, begun_ns: u64) {
        self.count(counter!(self, slow_calls));
        let took = clock::monotonic_ns().saturating_sub(begun_ns);
        self.count_many(counter!(self, slow_ns), took.min(SLOW_CALL_NS_MAX));
    }

    pub(crate) fn count(&self, counter: *mut u64) {
        self.count_many(counter, 1);
    }

    pub(crate) fn count_many(&self, counter: *mut u64, amount: u64) {
        // SAFETY: a counter of the header, by `counter!`.
        unsafe { add(counter, amount) };
    }

    pub(crate) fn read(&self, counter: *mut u64) -> u64 {
        // SAFETY: as above.
        unsafe { atomic(counter) }.load(Relaxed)
    }
}

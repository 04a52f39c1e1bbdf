//! When the next sample is due: the distance of a row, in requested bytes.

use abi::Thread;
use sampler::distance;
use sampler::pace::{CERTAIN_MEAN_BYTES, LARGE_BYTES};
use sampler::shared;

use crate::clock;
use crate::probe::Probe;

impl Probe {
    /// The distance of a row has ended within an allocation of `bytes`. The mean to sample it with;
    /// or `None` when the distance had only been cut short: the allocation is then counted and
    /// another distance under way.
    ///
    /// # Safety
    /// `row` is this thread's own.
    pub unsafe fn due(&self, row: *mut Thread, bytes: u64) -> Option<u64> {
        if bytes >= LARGE_BYTES && self.pace.takes_large(bytes, clock::monotonic_ns()) {
            return Some(CERTAIN_MEAN_BYTES);
        }
        // SAFETY: by the caller: own rows are written by their thread alone.
        unsafe {
            // The tables may be gone over budget or full without any sample for long: look at the
            // pace here too.
            if distance::is_cut_by(row, bytes) {
                self.tick(clock::monotonic_ns(), false);
            }
            distance::due(row, bytes, &self.pace)
        }
    }

    /// The same for a block of a thread without a row: [`Self::overflow`] is counted down, and its next distance is
    /// under way already. Never cut short.
    pub fn due_shared(&self, bytes: u64) -> Option<u64> {
        let row = self.overflow();
        // SAFETY: the overflow row lives as long as the mapping, and is written through atomics.
        let ended = unsafe {
            let ends = shared::ends_distance(row, bytes);
            ends.then(|| shared::begin_distance(row, self.pace.mean_bytes()))
        };
        let now_ns = clock::monotonic_ns();
        if bytes >= LARGE_BYTES && self.pace.takes_large(bytes, now_ns) {
            return Some(CERTAIN_MEAN_BYTES);
        }
        if ended.is_some() {
            self.tick(now_ns, false);
        }
        // The first of all is of no length, and of no mean.
        ended.filter(|mean| *mean > 0)
    }

    /// Begins a new distance after a sample of `bytes` that were allocated (0 when the allocator
    /// refused).
    ///
    /// # Safety
    /// As for [`Self::due`].
    pub unsafe fn begin_distance(&self, row: *mut Thread, bytes: u64) {
        // SAFETY: by the caller.
        unsafe { distance::begin(row, bytes, &self.pace) };
    }
}

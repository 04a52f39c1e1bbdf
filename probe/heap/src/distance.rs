//! When the next sample is due: the distance of a row, in requested bytes.

use abi::Thread;
use sampler::draw;
use sampler::pace::LARGE_BYTES;
use sampler::shared;

use crate::clock;
use crate::probe::{CERTAIN_MEAN_BYTES, Probe};

impl Probe {
    /// The distance of a row has ended within an allocation of `bytes`. The mean to sample it with;
    /// or `None` when the distance had only been cut short: the allocation is then counted and
    /// another distance under way.
    ///
    /// # Safety
    /// `row` is this thread's own.
    pub unsafe fn due(&self, row: *mut Thread, bytes: u64) -> Option<u64> {
        // SAFETY: by the caller: own rows are written by their thread alone.
        unsafe {
            if bytes >= LARGE_BYTES && self.pace.takes_large(bytes, clock::monotonic_ns()) {
                return Some(CERTAIN_MEAN_BYTES);
            }
            if (*row).cut == 0 {
                return Some((*row).mean_bytes.max(1));
            }
            let left = (*row).countdown_bytes.min(bytes);
            let rest = bytes - left;
            let mean = self.pace.mean_bytes();
            // The tables may be gone over budget or full without any sample for long: look at the
            // pace here too.
            self.tick(clock::monotonic_ns(), false);
            let distance = draw::distance(&mut (*row).random, mean);
            if distance <= rest {
                return Some(mean);
            }
            self.set_distance(row, distance - rest, mean);
            (*row).drawn_bytes = (*row).drawn_bytes.wrapping_add(bytes);
            None
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

    /// Begins a new distance after a sample of `bytes` that were handed out (0 when the allocator
    /// refused).
    ///
    /// # Safety
    /// As for [`Self::due`].
    pub unsafe fn begin_distance(&self, row: *mut Thread, bytes: u64) {
        // SAFETY: by the caller: own rows are written by their thread alone.
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
        // SAFETY: by the caller: own rows are written by their thread alone.
        unsafe {
            let old = (*row).countdown_bytes;
            (*row).cut = u64::from(distance > cut_at);
            (*row).mean_bytes = mean;
            (*row).drawn_bytes = (*row).drawn_bytes.wrapping_add(next).wrapping_sub(old);
            (*row).countdown_bytes = next;
        }
    }
}

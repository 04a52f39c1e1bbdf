//! The distance of a thread's own row to its next sample, in requested bytes. Of the row that threads share: see
//! [`crate::shared`].
//!
//! `drawn_bytes - countdown_bytes` stays what was requested. A long distance is cut short, so that a thread that drew
//! it under a coarse mean reads the mean again.

use core::sync::atomic::Ordering::Relaxed;

use abi::Thread;

use crate::draw;
use crate::pace::Pace;
use crate::word::{AtomicU64, atomic};

/// The words of a row that a distance is made of.
struct Words<'a> {
    countdown: &'a AtomicU64,
    drawn: &'a AtomicU64,
    mean: &'a AtomicU64,
    random: &'a AtomicU64,
    cut: &'a AtomicU64,
}

impl Words<'_> {
    /// # Safety
    /// `row` lives as long as the result is used.
    unsafe fn of<'a>(row: *mut Thread) -> Words<'a> {
        // SAFETY: by the caller.
        unsafe {
            Words {
                countdown: atomic(&raw mut (*row).countdown_bytes),
                drawn: atomic(&raw mut (*row).drawn_bytes),
                mean: atomic(&raw mut (*row).mean_bytes),
                random: atomic(&raw mut (*row).random),
                cut: atomic(&raw mut (*row).cut),
            }
        }
    }

    fn draw(&self, mean_bytes: u64) -> u64 {
        let mut state = self.random.load(Relaxed);
        let distance = draw::distance(&mut state, mean_bytes);
        self.random.store(state, Relaxed);
        distance
    }

    /// Sets a distance after `bytes` more, cut short if it is long.
    fn set(&self, distance: u64, mean_bytes: u64, bytes: u64, pace: &Pace) {
        let next = distance.min(pace.cut_bytes());
        let requested = self
            .drawn
            .load(Relaxed)
            .wrapping_sub(self.countdown.load(Relaxed));
        self.cut.store(u64::from(distance > next), Relaxed);
        self.mean.store(mean_bytes, Relaxed);
        let drawn = requested.wrapping_add(bytes).wrapping_add(next);
        self.drawn.store(drawn, Relaxed);
        self.countdown.store(next, Relaxed);
    }
}

/// So many bytes end a distance that had been cut short: the moment to check the pace, for there may be no sample.
///
/// # Safety
/// `row` is this thread's own.
pub unsafe fn is_cut_by(row: *mut Thread, bytes: u64) -> bool {
    // SAFETY: by the caller.
    let words = unsafe { Words::of(row) };
    words.countdown.load(Relaxed) <= bytes && words.cut.load(Relaxed) != 0
}

/// The distance of a row has ended within an allocation of `bytes`. The mean to sample it with, [`begin`] being next;
/// or `None` when the distance had only been cut short: the bytes are then counted and another distance under way.
///
/// # Safety
/// `row` is this thread's own.
pub unsafe fn due(row: *mut Thread, bytes: u64, pace: &Pace) -> Option<u64> {
    // SAFETY: by the caller.
    let words = unsafe { Words::of(row) };
    if words.cut.load(Relaxed) == 0 {
        return Some(words.mean.load(Relaxed).max(1));
    }
    let rest = bytes - words.countdown.load(Relaxed).min(bytes);
    let mean = pace.mean_bytes();
    let distance = words.draw(mean);
    if distance <= rest {
        return Some(mean);
    }
    words.set(distance - rest, mean, bytes, pace);
    None
}

/// Begins a new distance after a sample of `bytes` that were allocated (0 when the allocator refused).
///
/// # Safety
/// As for [`due`].
pub unsafe fn begin(row: *mut Thread, bytes: u64, pace: &Pace) {
    // SAFETY: by the caller.
    let words = unsafe { Words::of(row) };
    let mean = pace.mean_bytes();
    words.set(words.draw(mean), mean, bytes, pace);
}

/// Counts bytes that were allocated. The mean to sample them with when they ended the distance; the next is then under
/// way.
///
/// # Safety
/// As for [`due`].
pub unsafe fn pass(row: *mut Thread, bytes: u64, pace: &Pace) -> Option<u64> {
    // SAFETY: by the caller.
    unsafe {
        let countdown = Words::of(row).countdown;
        let left = countdown.load(Relaxed);
        if left > bytes {
            countdown.store(left - bytes, Relaxed);
            return None;
        }
        let mean = due(row, bytes, pace)?;
        begin(row, bytes, pace);
        Some(mean)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "statistics, too slow under Miri")]
    fn samples_stand_for_what_was_requested_and_its_sum_is_exact() {
        let pace = Pace::new(Some(4096), 0);
        let mut row = Thread {
            cut: 1,
            random: 3,
            ..Thread::default()
        };
        let (rounds, bytes) = (400_000, 100);
        // SAFETY: this test's own row.
        let samples = (0..rounds).filter_map(|_| unsafe { pass(&mut row, bytes, &pace) });
        let estimate: f64 = samples.map(|mean| draw::weight(bytes, mean).1).sum();
        assert_eq!(row.drawn_bytes - row.countdown_bytes, rounds * bytes);
        // 9,765 samples: a standard error of 1.0 %, five of them.
        let off = estimate / (rounds * bytes) as f64 - 1.0;
        assert!(off.abs() < 0.05, "{off}");
    }
}

//! The row that all threads without one of their own count in: read-modify-write operations only, so that its counts
//! are exact whatever the threads do at once.

use core::sync::atomic::Ordering::Relaxed;

use abi::Thread;

use crate::draw;
use crate::word::{add, atomic};

/// Counts an allocated block, and its exact bytes. True: it ended the distance to the next sample.
///
/// The countdown goes below zero (as a signed number) until [`begin_distance`] adds to it; of all calls meanwhile
/// only the one that crossed zero returns true.
///
/// # Safety
/// `row` lives, and nobody writes it but through atomics.
pub unsafe fn alloc(row: *mut Thread, bytes: u64) -> bool {
    // SAFETY: by the caller.
    unsafe {
        add(&raw mut (*row).allocs, 1);
        add(&raw mut (*row).usable_allocated_bytes, bytes);
        ends_distance(row, bytes)
    }
}

/// Takes a block off the countdown, and counts nothing else. True: it ended the distance to the next sample.
///
/// # Safety
/// As for [`alloc`].
pub unsafe fn ends_distance(row: *mut Thread, bytes: u64) -> bool {
    // SAFETY: by the caller.
    let before = unsafe { atomic(&raw mut (*row).countdown_bytes) }.fetch_sub(bytes, Relaxed);
    before as i64 >= 0 && (before.wrapping_sub(bytes) as i64) < 0
}

/// Counts a freed block, and its exact bytes.
///
/// # Safety
/// As for [`alloc`].
pub unsafe fn free(row: *mut Thread, bytes: u64) {
    // SAFETY: by the caller.
    unsafe {
        add(&raw mut (*row).frees, 1);
        add(&raw mut (*row).usable_freed_bytes, bytes);
    }
}

/// Begins a new distance, and returns the mean of the one that ended. By the thread whose call ended it, which no
/// other thread is until the new distance is added. `drawn - countdown` stays the bytes that were asked for.
///
/// # Safety
/// As for [`alloc`]; [`alloc`] returned true to this thread.
pub unsafe fn begin_distance(row: *mut Thread, mean_bytes: u64) -> u64 {
    // SAFETY: by the caller.
    unsafe {
        let word = atomic(&raw mut (*row).random);
        let mut random = word.load(Relaxed);
        let mean = atomic(&raw mut (*row).mean_bytes).swap(mean_bytes, Relaxed);
        let countdown = atomic(&raw mut (*row).countdown_bytes);
        loop {
            let distance = draw::distance(&mut random, mean_bytes);
            word.store(random, Relaxed);
            add(&raw mut (*row).drawn_bytes, distance);
            // Other threads may have run past this distance too: it is then over without a sample, for theirs are
            // out already.
            let left = countdown
                .fetch_add(distance, Relaxed)
                .wrapping_add(distance);
            if left as i64 >= 0 {
                return mean;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Plain additions lose some of these: this fails with `count` in the place of `shared`.
    #[test]
    fn a_row_of_many_threads_counts_exactly() {
        const THREADS: u64 = 8;
        let rounds = if cfg!(miri) { 50 } else { 50_000 };
        let place = &Place(Box::into_raw(Box::default()));
        // SAFETY: the row lives until the end of the test, and is written through atomics.
        let work = |seed: u64| unsafe {
            for round in 0..rounds {
                let bytes = 1 + (seed + round) % 100;
                if alloc(place.0, bytes) {
                    begin_distance(place.0, 500);
                    add(&raw mut (*place.0).samples, 1);
                }
                free(place.0, bytes);
            }
        };
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|seed| drop(scope.spawn(move || work(seed))))
        });
        // SAFETY: all threads have ended.
        let row = unsafe { *Box::from_raw(place.0) };
        let sizes = |seed| (0..rounds).map(move |round| 1 + (seed + round) % 100);
        let bytes: u64 = (0..THREADS).flat_map(sizes).sum();
        assert_eq!((row.allocs, row.frees), (THREADS * rounds, row.allocs));
        assert_eq!(
            (row.usable_allocated_bytes, row.usable_freed_bytes),
            (bytes, bytes)
        );
        assert_eq!(row.drawn_bytes.wrapping_sub(row.countdown_bytes), bytes);
        assert!(row.samples > 0);
    }

    struct Place(*mut Thread);
    // SAFETY: the row is written through atomics.
    unsafe impl Sync for Place {}
}

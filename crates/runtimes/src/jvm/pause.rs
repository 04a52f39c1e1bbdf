//! How long a JVM will be stopped while it counts its objects, before that is tried.
//!
//! Measured with JDK 17 and 25, 1.6 GB of small objects, 2 CPUs and 10 runnable threads: Serial and Parallel walk
//! 550 to 1,200 MB/s, G1 190 to 1,700 MB/s, Shenandoah 170 to 300 MB/s, ZGC 90 to 340 MB/s.

use std::time::Duration;

/// Before the first histogram: what a collector that walks the heap region by region does at least, bytes a second.
const BYTES_PER_SECOND: u64 = 150 << 20;

/// ZGC and Shenandoah follow references from the roots instead.
const BYTES_PER_SECOND_BY_REFERENCE: u64 = 60 << 20;

/// To stop and resume all threads, even with an empty heap.
const LEAST: Duration = Duration::from_millis(20);

/// A swapped page is read back one by one.
const SWAP_BYTES_PER_SECOND: u64 = 20 << 20;

/// A thread's stack is printed by frames; for a dump of all threads.
const PER_THREAD: Duration = Duration::from_micros(200);

/// To print the sizes of all class loaders. Measured with 3,000 loaders of 2 classes each: 7 ms with JDK 17, 89 ms with
/// JDK 25.
const PER_CLASS: Duration = Duration::from_micros(15);

/// Of a JVM without counters. A large service loads 20,000.
const CLASSES_ASSUMED: u64 = 20_000;

/// A measured pause is scaled to a grown heap, with this for what the machine does meanwhile.
const MARGIN: f64 = 1.5;

/// What is known of the pauses of one JVM.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pauses {
    bytes_per_second: u64,
    /// Of the last histogram: heap bytes, and how long the program was stopped.
    measured: Option<(u64, Duration)>,
}

impl Pauses {
    /// Of a JVM with that collector (the first word of its name).
    pub(super) fn of(collector: Option<&str>) -> Pauses {
        let bytes_per_second = match collector {
            Some("Serial" | "Parallel" | "G1") => BYTES_PER_SECOND,
            _ => BYTES_PER_SECOND_BY_REFERENCE,
        };
        Pauses {
            bytes_per_second,
            measured: None,
        }
    }

    pub(super) fn histogram(&self, heap_bytes: u64, swap_bytes: u64) -> Duration {
        let swap = at_rate(swap_bytes, SWAP_BYTES_PER_SECOND);
        let walk = match self.measured {
            Some((bytes, pause)) => {
                let grown = (heap_bytes as f64 / bytes.max(1) as f64).clamp(1.0, 1000.0);
                pause.mul_f64(grown * MARGIN)
            }
            None => at_rate(heap_bytes, self.bytes_per_second),
        };
        LEAST.saturating_add(walk).saturating_add(swap)
    }

    pub(super) fn measured(&mut self, heap_bytes: u64, pause: Duration) {
        self.measured = Some((heap_bytes, pause));
    }
}

pub(super) fn thread_dump(threads: u64) -> Duration {
    times(PER_THREAD, threads)
}

pub(super) fn class_loaders(classes: Option<u64>) -> Duration {
    times(PER_CLASS, classes.unwrap_or(CLASSES_ASSUMED))
}

fn times(each: Duration, count: u64) -> Duration {
    each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// For sentences: `430ms`, `2.1s`.
pub(super) fn rounded(pause: Duration) -> Duration {
    let unit = Duration::from_millis(if pause < Duration::from_secs(1) {
        10
    } else {
        100
    });
    let units = pause.as_millis().div_ceil(unit.as_millis());
    unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX))
}

fn at_rate(bytes: u64, per_second: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_estimate_is_by_size_the_next_by_the_last_pause() {
        let mut pauses = Pauses::of(Some("G1"));
        assert_eq!(
            pauses.histogram(BYTES_PER_SECOND, 0),
            LEAST + Duration::from_secs(1)
        );
        assert_eq!(
            pauses.histogram(0, SWAP_BYTES_PER_SECOND),
            LEAST + Duration::from_secs(1)
        );
        pauses.measured(1 << 20, Duration::from_millis(10));
        assert_eq!(
            pauses.histogram(2 << 20, 0),
            LEAST + Duration::from_millis(30)
        );
        assert_eq!(
            pauses.histogram(1 << 10, 0),
            LEAST + Duration::from_millis(15)
        );
        let _ = pauses.histogram(u64::MAX, u64::MAX);
    }

    #[test]
    fn commands_are_estimated_by_what_they_list() {
        assert_eq!(thread_dump(1000), Duration::from_millis(200));
        assert_eq!(class_loaders(Some(6000)), Duration::from_millis(90));
        assert_eq!(class_loaders(None), Duration::from_millis(300));
        let _ = (thread_dump(u64::MAX), class_loaders(Some(u64::MAX)));
    }

    #[test]
    fn durations_in_sentences_are_short() {
        let printed = |nanos| format!("{:?}", rounded(Duration::from_nanos(nanos)));
        assert_eq!(printed(427_617_187), "430ms");
        assert_eq!(printed(2_010_000_000), "2.1s");
        let _ = rounded(Duration::MAX);
    }
}

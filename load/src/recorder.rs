//! Counts and latencies of the interval under way, filled by many threads.

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::interval::{Interval, LATENCY_NS_MAX, SCHEMA, encode_histogram, new_histogram};

/// Filled by the threads that send, emptied once per interval.
#[derive(Debug)]
pub struct Recorder {
    under_way: Mutex<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    start_ns: u64,
    requests: u64,
    errors: u64,
    dropped: u64,
    histogram: Histogram<u64>,
}

impl Recorder {
    /// The first interval begins at `start_ns` (CLOCK_MONOTONIC, as all times here).
    pub fn new(start_ns: u64) -> Recorder {
        let histogram = new_histogram();
        let under_way = UnderWay {
            start_ns,
            requests: 0,
            errors: 0,
            dropped: 0,
            histogram,
        };
        Recorder {
            under_way: Mutex::new(under_way),
        }
    }

    /// A request that was due at `due_ns` was answered at `end_ns`.
    pub fn answered(&self, due_ns: u64, end_ns: u64) {
        self.with(|now| {
            now.requests += 1;
            now.record(due_ns, end_ns);
        });
    }

    /// A request that was due at `due_ns` was given up at `end_ns`: an error, whose latency is at
    /// least this long.
    pub fn timed_out(&self, due_ns: u64, end_ns: u64) {
        self.with(|now| {
            now.errors += 1;
            now.record(due_ns, end_ns);
        });
    }

    /// A request failed otherwise. Its time says nothing about the service and is not recorded:
    /// refused connections would look like the quickest answers of all.
    pub fn failed(&self) {
        self.with(|now| now.errors += 1);
    }

    /// Requests that were due but never sent.
    pub fn dropped(&self, count: u64) {
        self.with(|now| now.dropped += count);
    }

    /// Ends the interval at `end_ns` and begins the next.
    pub fn take(&self, end_ns: u64) -> Interval {
        self.with(|now| {
            let interval = Interval {
                schema: SCHEMA.to_string(),
                start_ns: now.start_ns,
                end_ns,
                requests: now.requests,
                errors: now.errors,
                dropped: now.dropped,
                histogram: encode_histogram(&now.histogram),
            };
            now.histogram.reset();
            (now.start_ns, now.requests, now.errors, now.dropped) = (end_ns, 0, 0, 0);
            interval
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut UnderWay) -> T) -> T {
        // A thread that panicked while counting leaves counts that are still usable.
        let mut guard = self
            .under_way
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        change(&mut guard)
    }
}

impl UnderWay {
    fn record(&mut self, due_ns: u64, end_ns: u64) {
        let latency_ns = end_ns.saturating_sub(due_ns).clamp(1, LATENCY_NS_MAX);
        self.histogram.saturating_record(latency_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_what_happened_in_it() {
        let recorder = Recorder::new(100);
        recorder.answered(1_000, 3_000);
        recorder.answered(1_000, 500); // clocks of two threads may disagree by a little
        recorder.timed_out(0, 2 * LATENCY_NS_MAX);
        recorder.failed();
        recorder.dropped(7);
        let first = recorder.take(200);
        assert_eq!((first.start_ns, first.end_ns), (100, 200));
        assert_eq!((first.requests, first.errors, first.dropped), (2, 2, 7));
        let latencies = first.decode_histogram().unwrap();
        assert_eq!(latencies.len(), 3);
        assert_eq!(latencies.min(), 1);
        assert!(latencies.max() >= LATENCY_NS_MAX);

        let second = recorder.take(300);
        assert_eq!(
            (second.start_ns, second.requests, second.errors),
            (200, 0, 0)
        );
        assert_eq!(second.decode_histogram().unwrap().len(), 0);
    }
}

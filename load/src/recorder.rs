//! Counts and latencies of the interval under way, filled by many threads.

use std::sync::Mutex;

use hdrhistogram::Histogram;

use crate::interval::{
    Interval, LATENCY_NS_MAX, PAUSE_NS, PAUSES_MAX, SCHEMA, encode_histogram, new_histogram,
};

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
    /// The last answer of any session.
    answered_ns: u64,
    pauses: Vec<(u64, u64)>,
}

impl Recorder {
    /// The first interval begins at `start_ns` (CLOCK_MONOTONIC, as all times here).
    pub fn new(start_ns: u64) -> Recorder {
        Recorder {
            under_way: Mutex::new(UnderWay::new(start_ns)),
        }
    }

    /// A request that was due at `due_ns` was answered at `end_ns`.
    pub fn answered(&self, due_ns: u64, end_ns: u64) {
        self.with(|now| {
            now.requests += 1;
            now.record(due_ns, end_ns);
            now.end_pause(due_ns, end_ns);
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
    ///
    /// Only the exchange is done under the lock. Encoding takes milliseconds, for which every thread that has an
    /// answer would stand still: a pause of the load's own in every interval.
    pub fn take(&self, end_ns: u64) -> Interval {
        let next = UnderWay::new(end_ns);
        let done = self.with(|now| {
            let answered_ns = now.answered_ns;
            std::mem::replace(
                now,
                UnderWay {
                    answered_ns,
                    ..next
                },
            )
        });
        Interval {
            schema: SCHEMA.to_string(),
            start_ns: done.start_ns,
            end_ns,
            requests: done.requests,
            errors: done.errors,
            dropped: done.dropped,
            histogram: encode_histogram(&done.histogram),
            pauses: done.pauses,
        }
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
    fn new(start_ns: u64) -> UnderWay {
        UnderWay {
            start_ns,
            requests: 0,
            errors: 0,
            dropped: 0,
            histogram: new_histogram(),
            answered_ns: start_ns,
            pauses: Vec::new(),
        }
    }

    fn record(&mut self, due_ns: u64, end_ns: u64) {
        let latency_ns = end_ns.saturating_sub(due_ns).clamp(1, LATENCY_NS_MAX);
        self.histogram.saturating_record(latency_ns);
    }

    /// This request waited since it was due, and nobody was answered since the last answer: what is common to both
    /// is a pause. With few requests it is found too short, never too long.
    fn end_pause(&mut self, due_ns: u64, end_ns: u64) {
        let start_ns = self.answered_ns.max(due_ns);
        self.answered_ns = self.answered_ns.max(end_ns);
        if end_ns.saturating_sub(start_ns) < PAUSE_NS {
            return;
        }
        self.pauses.push((start_ns, end_ns));
        if self.pauses.len() > PAUSES_MAX {
            let shortest =
                (0..=PAUSES_MAX).min_by_key(|at| self.pauses[*at].1 - self.pauses[*at].0);
            shortest.map(|at| self.pauses.remove(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_pause_is_when_somebody_waits_and_nobody_is_answered() {
        let recorder = Recorder::new(0);
        recorder.answered(9 * MS, 10 * MS); // waited 1 ms since it was due
        recorder.answered(60 * MS, 60 * MS + 1); // nobody waited for 50 ms
        recorder.answered(61 * MS, 67 * MS); // the server stood still, and these came one after the other
        recorder.answered(62 * MS, 67 * MS + 10);
        recorder.answered(63 * MS, 67 * MS + 20);
        recorder.answered(67 * MS, 68 * MS);
        recorder.answered(65 * MS, 68 * MS + 30); // slow, but others were answered meanwhile
        recorder.timed_out(0, 90 * MS); // no answer
        let pauses = recorder.take(100 * MS).pauses;
        assert_eq!(pauses, [(9 * MS, 10 * MS), (61 * MS, 67 * MS)]);
        assert_eq!(recorder.take(200 * MS).pauses, []);
    }

    #[test]
    fn of_many_pauses_the_longest_are_kept() {
        let recorder = Recorder::new(0);
        for round in 1..=50 {
            recorder.answered(100 * MS * round, 100 * MS * round + MS + round);
        }
        let pauses = recorder.take(6_000 * MS).pauses;
        let lengths: Vec<u64> = pauses.iter().map(|(start, end)| end - start - MS).collect();
        assert_eq!(lengths, (43..=50).collect::<Vec<u64>>());
    }

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

//! Latencies of simulated requests, with open arrivals: a request that comes while nothing is answered waits.

use std::time::Duration;

use super::curve::Curve;
use super::reading::{Chance, LATENCY};

const REQUESTS_PER_SECOND: u64 = 100;
/// More than this in one call is cut off: 10 minutes between two snapshots.
const REQUESTS_MAX: u64 = 60_000;
/// Of the logarithm: p99 is twice the median.
const DEVIATION: f64 = 0.3;

/// Nanoseconds, one for each request that arrives at an age in `[from, to)`.
pub fn latencies_ns(curve: &Curve, chance: &Chance, from: Duration, to: Duration) -> Vec<u64> {
    let Some(median) = curve.latency else {
        return Vec::new();
    };
    let (first, end) = (first_request(from), first_request(to));
    (first..end.min(first + REQUESTS_MAX))
        .map(|request| {
            let service =
                median.as_nanos() as f64 * (DEVIATION * chance.normal(LATENCY, request)).exp();
            service as u64 + wait_ns(curve, request)
        })
        .collect()
}

/// Number of the first request that arrives at `time` or later.
fn first_request(time: Duration) -> u64 {
    let requests = time.as_nanos() * u128::from(REQUESTS_PER_SECOND);
    u64::try_from(requests.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
}

/// What is left of the pause in which the request arrives. Pauses begin at multiples of their distance, from the first.
fn wait_ns(curve: &Curve, request: u64) -> u64 {
    let Some((length, every)) = curve.pause else {
        return 0;
    };
    let arrival = u128::from(request) * 1_000_000_000 / u128::from(REQUESTS_PER_SECOND);
    let (since, length) = (arrival % every.as_nanos(), length.as_nanos());
    let before_the_first = arrival < every.as_nanos();
    if before_the_first || since >= length {
        return 0;
    }
    u64::try_from(length - since).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(curve: &str, from: u64, to: u64) -> Vec<u64> {
        let curve = Curve::parse(curve).unwrap();
        let chance = Chance::new(1, "a", 0);
        latencies_ns(
            &curve,
            &chance,
            Duration::from_secs(from),
            Duration::from_secs(to),
        )
    }

    #[test]
    fn the_median_is_the_one_that_was_written() {
        let mut all = seconds("64MiB + latency 2ms", 0, 100);
        assert_eq!(all.len(), 10_000);
        all.sort_unstable();
        let median_ms = all[5000] as f64 / 1e6;
        assert!((median_ms - 2.0).abs() < 0.05, "{median_ms}");
    }

    #[test]
    fn windows_join_without_gap_or_overlap() {
        let whole = seconds("64MiB + latency 2ms", 0, 10);
        let parts = [
            seconds("64MiB + latency 2ms", 0, 3),
            seconds("64MiB + latency 2ms", 3, 10),
        ]
        .concat();
        assert_eq!(whole, parts);
        assert!(seconds("64MiB", 0, 10).is_empty());
    }

    #[test]
    fn requests_wait_for_the_end_of_a_pause() {
        let quiet = seconds("1MiB + latency 1us", 14, 16);
        let paused = seconds("1MiB + latency 1us + pause 40ms every 15s", 14, 16);
        let waits: Vec<u64> = paused
            .iter()
            .zip(&quiet)
            .map(|(a, b)| (a - b) / 1_000_000)
            .filter(|w| *w > 0)
            .collect();
        // Arrivals every 10 ms from 15.00 s on.
        assert_eq!(waits, [40, 30, 20, 10]);
    }
}

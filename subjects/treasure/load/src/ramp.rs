//! Due times of a rate that rises evenly to its full height.

use std::time::Duration;

use highwater_load::{Arrivals, Spacing};

/// Nanoseconds after the start at which each tap is due.
#[derive(Debug, Clone)]
pub struct Ramp {
    arrivals: Arrivals,
    ramp_ns: f64,
}

impl Ramp {
    pub fn new(rate_per_s: f64, ramp: Duration, spacing: Spacing, seed: u64) -> Ramp {
        Ramp {
            arrivals: Arrivals::new(rate_per_s, spacing, seed),
            ramp_ns: ramp.as_nanos() as f64,
        }
    }
}

impl Iterator for Ramp {
    type Item = u64;

    /// In a ramp of length R the rate at t is t/R of the full one, so that t^2/2R of full-rate time has gone by.
    fn next(&mut self) -> Option<u64> {
        let full_ns = self.arrivals.next()? as f64;
        let due_ns = if full_ns < self.ramp_ns / 2.0 {
            (2.0 * self.ramp_ns * full_ns).sqrt()
        } else {
            full_ns + self.ramp_ns / 2.0
        };
        Some(due_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_ramp_s_taps_are_missing_and_the_rate_is_full_after_it() {
        let due: Vec<u64> = Ramp::new(1000.0, Duration::from_secs(10), Spacing::Even, 1)
            .take(10_000)
            .collect();
        let before = |s: u64| due.iter().filter(|due| **due < s * 1_000_000_000).count();
        assert!(before(10).abs_diff(5_000) <= 1, "{}", before(10));
        assert!(before(5).abs_diff(1_250) <= 1, "{}", before(5));
        assert!((before(12) - before(11)).abs_diff(1_000) <= 1);
        assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn without_a_ramp_they_are_the_arrivals() {
        let due: Vec<u64> = Ramp::new(1000.0, Duration::ZERO, Spacing::Even, 1)
            .take(3)
            .collect();
        assert_eq!(due, [1_000_000, 2_000_000, 3_000_000]);
    }
}

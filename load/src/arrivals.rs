//! When requests are due.

/// How arrivals are spread at a given rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spacing {
    /// One after the other at equal distances.
    Even,
    /// Independent of one another, as those of many users are: exponential gaps.
    Poisson,
}

impl Spacing {
    /// What the flag `--even` of a load program chooses.
    pub fn of_flag(even: bool) -> Spacing {
        match even {
            true => Spacing::Even,
            false => Spacing::Poisson,
        }
    }
}

/// Nanoseconds after the start at which each request is due; never ends, never goes back.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap_ns: f64,
    spacing: Spacing,
    random: fastrand::Rng,
    count: u64,
    due_ns: f64,
}

/// Rates outside of this cannot be paced by one thread, or would never send.
pub const RATE_PER_S: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

impl Arrivals {
    /// `rate_per_s` is taken to the nearest bound of [`RATE_PER_S`] when it lies outside.
    pub fn new(rate_per_s: f64, spacing: Spacing, seed: u64) -> Arrivals {
        let rate = rate_per_s.clamp(*RATE_PER_S.start(), *RATE_PER_S.end());
        Arrivals {
            gap_ns: 1e9 / rate,
            spacing,
            random: fastrand::Rng::with_seed(seed),
            count: 0,
            due_ns: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.count += 1;
        self.due_ns = match self.spacing {
            // From the count, so that rounding does not add up over days.
            Spacing::Even => self.count as f64 * self.gap_ns,
            // 1 - f64() lies in (0, 1]: its logarithm is finite.
            Spacing::Poisson => self.due_ns - (1.0 - self.random.f64()).ln() * self.gap_ns,
        };
        Some(self.due_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_arrivals_keep_their_distance() {
        let due: Vec<u64> = Arrivals::new(1000.0, Spacing::Even, 1).take(3).collect();
        assert_eq!(due, [1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_seed_gives_the_same_arrivals_again() {
        let of = |seed| {
            Arrivals::new(50.0, Spacing::Poisson, seed)
                .take(100)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() {
        // 20,000 exponential gaps: mean and standard deviation equal the gap, and 1/e of them
        // exceed it. Five standard errors (0.7 %, 1.4 % and 0.34 percentage points) are allowed.
        let due: Vec<u64> = Arrivals::new(1000.0, Spacing::Poisson, 3)
            .take(20_000)
            .collect();
        let gaps: Vec<f64> = due
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        let above = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.036, "mean gap {mean} ms");
        assert!(
            (variance.sqrt() - 1.0).abs() < 0.07,
            "deviation {} ms",
            variance.sqrt()
        );
        assert!(
            (above - (-1.0f64).exp()).abs() < 0.018,
            "share above the mean {above}"
        );
    }

    #[test]
    fn absurd_rates_stay_within_bounds() {
        for rate in [0.0, -1.0, f64::INFINITY, 1e300] {
            let due: Vec<u64> = Arrivals::new(rate, Spacing::Even, 1).take(2).collect();
            assert!(due[0] < due[1], "rate {rate}: {due:?}");
        }
    }
}

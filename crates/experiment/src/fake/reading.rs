//! What an observer would read of a simulated process.

use std::f64::consts::TAU;
use std::time::Duration;

use super::curve::Curve;
use crate::happening::Ending;
use crate::order::{hash_texts, mix};

const PAGE_BYTES: f64 = 4096.0;
/// Of a simulated process's CPU time.
const USER_SHARE: f64 = 0.8;

/// The values of one snapshot of one process. Counters count from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// A multiple of the page size.
    pub rss_bytes: u64,
    pub cpu_user_ns: u64,
    pub cpu_system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

/// Chance for one process: the same seed, arm, replica and instant always give the same number, in whatever order
/// they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64, arm: &str, replica: u32) -> Self {
        Self(hash_texts(&[&seed.to_string(), arm, &replica.to_string()]))
    }

    /// Normal, mean 0, standard deviation 1, the number `index` of the sequence `topic`.
    pub fn normal(self, topic: u64, index: u64) -> f64 {
        // Box and Muller (1958).
        let first = uniform(mix(self.0 ^ mix(topic) ^ mix(2 * index)));
        let second = uniform(mix(self.0 ^ mix(topic) ^ mix(2 * index + 1)));
        (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
    }
}

/// Sequences of chance that must not repeat one another.
pub(super) const SPREAD: u64 = 1;
pub(super) const NOISE: u64 = 2;
pub(super) const LATENCY: u64 = 3;

/// In (0, 1].
fn uniform(random: u64) -> f64 {
    ((random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64
}

impl Curve {
    /// What is read at age `t`.
    pub fn reading(&self, t: Duration, chance: &Chance) -> Reading {
        let alive = self.hang_at.map_or(t, |hang| t.min(hang));
        let cpu_ns = (alive.as_secs_f64() * self.cpu * 1e9).round() as u64;
        let cpu_user_ns = (cpu_ns as f64 * USER_SHARE).round() as u64;
        // A hung process reads as perfectly flat: its noise stands still as well.
        let nanoseconds = u64::try_from(alive.as_nanos()).unwrap_or(u64::MAX);
        let noise = 1.0 + self.noise * chance.normal(NOISE, nanoseconds);
        let rss = self.rss_of_process(t, chance) * noise;
        Reading {
            rss_bytes: ((rss / PAGE_BYTES).round().max(1.0) * PAGE_BYTES) as u64,
            cpu_user_ns,
            cpu_system_ns: cpu_ns - cpu_user_ns,
            minor_faults: (alive.as_secs_f64() * self.faults_per_s) as u64,
            major_faults: 0,
        }
    }

    /// How this process has ended by age `t`, if it has.
    pub fn ended(
        &self,
        t: Duration,
        memory_limit: Option<u64>,
        chance: &Chance,
    ) -> Option<(Ending, &'static str)> {
        self.end_at(t, self.rss_of_process(t, chance), memory_limit)
    }

    /// With the spread between processes, without the noise of a reading.
    fn rss_of_process(&self, t: Duration, chance: &Chance) -> f64 {
        self.level_at(t) * (1.0 + self.spread * chance.normal(SPREAD, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(curve: &str, seed: u64, replica: u32) -> Vec<u64> {
        let curve = Curve::parse(curve).unwrap();
        let chance = Chance::new(seed, "a", replica);
        (0..2000)
            .map(|t| curve.reading(Duration::from_secs(t), &chance).rss_bytes)
            .collect()
    }

    fn mean_and_deviation(values: &[u64]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|v| *v as f64).sum::<f64>() / n;
        let variance = values
            .iter()
            .map(|v| (*v as f64 - mean).powi(2))
            .sum::<f64>()
            / (n - 1.0);
        (mean, variance.sqrt())
    }

    #[test]
    fn the_same_seed_gives_the_same_readings() {
        let curve = "64MiB + noise 2% + spread 5%";
        assert_eq!(readings(curve, 1, 0), readings(curve, 1, 0));
        assert_ne!(readings(curve, 1, 0), readings(curve, 2, 0));
        assert_ne!(readings(curve, 1, 0), readings(curve, 1, 1));
    }

    #[test]
    fn noise_and_spread_have_their_size() {
        let (mean, deviation) = mean_and_deviation(&readings("64MiB + noise 2%", 3, 0));
        let level = 64.0 * 1_048_576.0;
        // 2000 readings: the mean's standard error is 0.045 % of the level, the deviation's 1.6 % of itself.
        assert!((mean / level - 1.0).abs() < 0.002, "{mean}");
        assert!(
            (deviation / (0.02 * level) - 1.0).abs() < 0.08,
            "{deviation}"
        );
        let levels: Vec<u64> = (0..2000)
            .map(|replica| readings_at_once("64MiB + spread 5%", replica))
            .collect();
        let (_, deviation) = mean_and_deviation(&levels);
        assert!(
            (deviation / (0.05 * level) - 1.0).abs() < 0.08,
            "{deviation}"
        );
    }

    fn readings_at_once(curve: &str, replica: u32) -> u64 {
        let chance = Chance::new(9, "a", replica);
        Curve::parse(curve)
            .unwrap()
            .reading(Duration::ZERO, &chance)
            .rss_bytes
    }

    #[test]
    fn counters_rise_until_it_hangs() {
        let curve =
            Curve::parse("64MiB + noise 1% + cpu 50% + faults 200/s + hang at 10s").unwrap();
        let chance = Chance::new(1, "a", 0);
        let at = |seconds| curve.reading(Duration::from_secs(seconds), &chance);
        assert_eq!(at(4).cpu_user_ns + at(4).cpu_system_ns, 2_000_000_000);
        assert_eq!(at(4).minor_faults, 800);
        assert!(at(9).cpu_user_ns < at(10).cpu_user_ns);
        assert_eq!(at(10), at(1000));
        assert_eq!(at(4).rss_bytes % 4096, 0);
    }
}

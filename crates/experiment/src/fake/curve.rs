//! What a simulated process does over its life, t being the time since its start.
//!
//! A curve is written as terms joined by `+`, in any order:
//!
//! | term | adds to the resident set, or does |
//! |---|---|
//! | `64MiB` | a level |
//! | `80KiB/s` (`290MiB/h`) | growth without end |
//! | `fill 100MiB tau 60s` | 100 MiB x (1 - exp(-t / 60 s)): a cache that fills |
//! | `saw 10MiB period 30s` | rises evenly to 10 MiB, drops to 0, every 30 s |
//! | `step 20MiB at 60s` | 20 MiB from 60 s on |
//! | `noise 1%` | at each reading: normal, this standard deviation of the level |
//! | `spread 5%` | once per process: normal, so that replicas differ |
//! | `cpu 30%` | of one core; four fifths user, one fifth system; 5 % when not given |
//! | `faults 200/s` | minor page faults; 10 per second when not given |
//! | `latency 2ms` | median of the requests; none when not given |
//! | `pause 40ms every 15s` | nothing is answered for 40 ms, every 15 s |
//! | `ready after 3s`, `never ready` | ready at once when not given |
//! | `crash at 90s`, `exit at 90s` | ends by exit code 1, or 0 |
//! | `oom at 1GiB` | is killed when its resident set reaches 1 GiB |
//! | `hang at 50s` | CPU, faults and memory stand still from then on |

use std::time::Duration;

use crate::happening::Ending;

/// A parsed curve. Sizes are bytes, rates per second, shares of 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    pub level: f64,
    pub slope_per_s: f64,
    pub fills: Vec<(f64, Duration)>,
    pub saws: Vec<(f64, Duration)>,
    pub steps: Vec<(f64, Duration)>,
    pub noise: f64,
    pub spread: f64,
    pub cpu: f64,
    pub faults_per_s: f64,
    pub latency: Option<Duration>,
    /// (length, from the start of one to the start of the next)
    pub pause: Option<(Duration, Duration)>,
    /// `None`: never.
    pub ready_after: Option<Duration>,
    pub ends: Vec<End>,
    pub hang_at: Option<Duration>,
}

/// A scripted end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Crash(Duration),
    Exit(Duration),
    /// Bytes.
    Oom(f64),
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            level: 0.0,
            slope_per_s: 0.0,
            fills: Vec::new(),
            saws: Vec::new(),
            steps: Vec::new(),
            noise: 0.0,
            spread: 0.0,
            cpu: 0.05,
            faults_per_s: 10.0,
            latency: None,
            pause: None,
            ready_after: Some(Duration::ZERO),
            ends: Vec::new(),
            hang_at: None,
        }
    }
}

impl Curve {
    /// Resident bytes at age `t` of an average process, without noise.
    pub fn level_at(&self, t: Duration) -> f64 {
        let t = self.hang_at.map_or(t, |hang| t.min(hang));
        let seconds = t.as_secs_f64();
        let fills = self
            .fills
            .iter()
            .map(|(size, tau)| size * (1.0 - (-seconds / tau.as_secs_f64()).exp()));
        let saws = self
            .saws
            .iter()
            .map(|(size, period)| size * (seconds / period.as_secs_f64()).fract());
        let steps = self
            .steps
            .iter()
            .filter(|(_, at)| t >= *at)
            .map(|(size, _)| *size);
        self.level
            + self.slope_per_s * seconds
            + fills.sum::<f64>()
            + saws.sum::<f64>()
            + steps.sum::<f64>()
    }

    /// How it has ended by age `t`, given resident bytes of this process and its limit.
    pub fn end_at(
        &self,
        t: Duration,
        rss_bytes: f64,
        memory_limit: Option<u64>,
    ) -> Option<(Ending, &'static str)> {
        const OOM: (Ending, &str) = (Ending::OomKilled, "SIGKILL (9)");
        let over_limit = memory_limit.is_some_and(|limit| rss_bytes > limit as f64);
        let scripted = self.ends.iter().find_map(|end| match end {
            End::Crash(at) if t >= *at => Some((Ending::Crashed, "exit code 1")),
            End::Exit(at) if t >= *at => Some((Ending::Exited, "exit code 0")),
            End::Oom(at) if rss_bytes >= *at => Some(OOM),
            _ => None,
        });
        scripted.or(over_limit.then_some(OOM))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    fn mib_at(curve: &str, seconds: f64) -> f64 {
        Curve::parse(curve)
            .unwrap()
            .level_at(Duration::from_secs_f64(seconds))
            / MIB
    }

    #[test]
    fn each_term_has_its_shape() {
        let cases = [
            ("64MiB", 0.0, 64.0),
            ("64MiB", 1e6, 64.0),
            ("64MiB + 1MiB/s", 10.0, 74.0),
            ("60MiB/min", 10.0, 10.0),
            ("fill 100MiB tau 60s", 0.0, 0.0),
            ("fill 100MiB tau 60s", 60.0, 63.212),
            ("fill 100MiB tau 60s", 600.0, 99.995),
            ("saw 10MiB period 30s", 15.0, 5.0),
            ("saw 10MiB period 30s", 29.997, 9.999),
            ("saw 10MiB period 30s", 30.0, 0.0),
            ("10MiB + step 20MiB at 60s", 59.9, 10.0),
            ("10MiB + step 20MiB at 60s", 60.0, 30.0),
            ("10MiB + step 20MiB at 60s + step 5MiB at 70s", 80.0, 35.0),
            ("1MiB/s + hang at 50s", 49.0, 49.0),
            ("1MiB/s + hang at 50s", 5000.0, 50.0),
        ];
        for (curve, seconds, mib) in cases {
            let seen = mib_at(curve, seconds);
            assert!(
                (seen - mib).abs() < 0.001,
                "{curve} at {seconds} s: {seen} MiB, not {mib}"
            );
        }
    }

    #[test]
    fn ends_come_when_their_time_or_size_has_come() {
        let end = |curve: &str, seconds: u64, rss: f64, limit: Option<u64>| {
            let curve = Curve::parse(curve).unwrap();
            curve
                .end_at(Duration::from_secs(seconds), rss, limit)
                .map(|(ending, _)| ending)
        };
        assert_eq!(end("crash at 90s", 89, 0.0, None), None);
        assert_eq!(end("crash at 90s", 90, 0.0, None), Some(Ending::Crashed));
        assert_eq!(end("exit at 90s", 91, 0.0, None), Some(Ending::Exited));
        assert_eq!(end("oom at 1GiB", 1, 1023.9 * MIB, None), None);
        assert_eq!(
            end("oom at 1GiB", 1, 1024.0 * MIB, None),
            Some(Ending::OomKilled)
        );
        assert_eq!(
            end("64MiB", 1, 64.0 * MIB, Some(32 << 20)),
            Some(Ending::OomKilled)
        );
    }
}

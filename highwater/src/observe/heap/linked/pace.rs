//! How much of the subject's time the probes take, and when they rest.
//!
//! A trap on every call cannot be sampled away. Where all of them would cost more than the budget, the probes are on for
//! [`ON`] at a time only, and what is allocated in the first half of such a time is followed to its end: what lives
//! shorter is out of the account, what lives longer counts for what was not looked at.

use std::time::Duration;

/// Of the subject's CPU time, and where that is little, of one core.
const SHARE: f64 = 0.05;
const SHARE_OF_CORE: f64 = 0.02;
/// How long the probes are on at a time.
pub const ON: Duration = Duration::from_millis(400);
const OFF_MAX: Duration = Duration::from_secs(20);

/// What was counted over some time with the probes on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub hits: u64,
    /// The subject's, all threads, that of the traps included.
    pub cpu_s: f64,
    pub over_s: f64,
}

/// The share of the time for which the probes may be on, 0 to 1.
pub fn watched_share(counted: Counted, ns_per_hit: f64) -> f64 {
    let traps_s = counted.hits as f64 * ns_per_hit / 1e9;
    let own_s = (counted.cpu_s - traps_s).max(0.0);
    let allowed_s = (SHARE * own_s).max(SHARE_OF_CORE * counted.over_s);
    if traps_s <= allowed_s {
        return 1.0;
    }
    allowed_s / traps_s
}

/// For how long they rest after they were on.
pub fn rest(share: f64) -> Duration {
    ON.mul_f64(1.0 / share.max(1e-3) - 1.0).min(OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_kept() {
        let counted = |hits, cpu_s| Counted {
            hits,
            cpu_s,
            over_s: 1.0,
        };
        assert_eq!(
            watched_share(counted(10_000, 0.1), 1_000.0),
            1.0,
            "1 % of a core"
        );
        assert_eq!(
            watched_share(counted(100_000, 4.0), 1_000.0),
            1.0,
            "2.5 % of its time"
        );
        let share = watched_share(counted(400_000, 1.0), 1_000.0);
        assert!(
            (share * 0.4 - 0.03).abs() < 1e-9,
            "5 % of the 0.6 s that are its own: {share}"
        );
        assert_eq!(rest(1.0), Duration::ZERO);
        assert!(rest(0.1) > ON * 8 && rest(0.0) <= OFF_MAX);
    }
}

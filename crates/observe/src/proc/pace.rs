//! How often a costly reading is made: as often as its own cost allows.

use std::time::Duration;

use crate::snapshot::TimeNs;

/// One costly reading of one process. Its rate follows from what the last ones cost, so that the
/// reading takes no more than its share of one core, whatever the size of the process.
#[derive(Debug, Clone)]
pub struct Pace {
    due: TimeNs,
    cost_ns: f64,
    /// 0..1, from the process: spreads the readings of many processes over the snapshots.
    phase: f64,
    count: u64,
}

impl Pace {
    /// `seed` is any number that differs from process to process.
    pub fn new(seed: i64) -> Pace {
        // Multiples of the golden ratio fill 0..1 evenly for consecutive seeds.
        let phase = (seed as f64 * 0.618_033_988_749_894_9).rem_euclid(1.0);
        Pace {
            due: TimeNs(i64::MIN),
            cost_ns: 0.0,
            phase,
            count: 0,
        }
    }

    pub fn is_due(&self, now: TimeNs) -> bool {
        now >= self.due
    }

    /// Makes it due at once.
    pub fn hurry(&mut self) {
        self.due = TimeNs(i64::MIN);
    }

    /// Books a reading. `share` is this process's part of one core: 0.0001 lets a reading that
    /// costs 1 ms happen every 10 s.
    pub fn book(&mut self, now: TimeNs, cost: Duration, share: f64) {
        let cost_ns = cost.as_nanos() as f64;
        // A rise counts at once, a fall bit by bit: one cheap reading must not speed it all up.
        self.cost_ns = cost_ns.max(self.cost_ns * 0.5 + cost_ns * 0.5);
        let mut wait_ns = self.cost_ns / share.max(1e-9);
        if self.count == 0 {
            // All processes are read at the first snapshot; from here on they go out of step.
            wait_ns *= 1.0 + self.phase;
        }
        self.count += 1;
        self.due = TimeNs(now.0.saturating_add(wait_ns as i64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Runs a reading of fixed cost at each due look for an hour; returns cost over time.
    fn share_used(cost: Duration, share: f64, interval_ns: i64) -> f64 {
        let mut pace = Pace::new(7);
        let (mut spent, hour) = (Duration::ZERO, 3600 * SECOND);
        for now in (0..hour).step_by(interval_ns as usize).map(TimeNs) {
            if pace.is_due(now) {
                spent += cost;
                pace.book(now, cost, share);
            }
        }
        spent.as_nanos() as f64 / hour as f64
    }

    #[test]
    fn the_share_is_kept_whatever_the_cost() {
        for micros in [1, 30, 1_000, 50_000, 1_000_000] {
            let used = share_used(Duration::from_micros(micros), 0.002, SECOND);
            // One reading of slack: the first is free.
            assert!(
                used <= 0.002 + micros as f64 / 3.6e9,
                "{micros} us used {used}"
            );
        }
    }

    #[test]
    fn a_cheap_reading_happens_at_every_snapshot() {
        let used = share_used(Duration::from_micros(10), 0.002, SECOND);
        assert!((used - 10e-6).abs() < 1e-8, "{used}");
    }

    #[test]
    fn processes_go_out_of_step() {
        let dues: std::collections::HashSet<i64> = (0..100)
            .map(|seed| {
                let mut pace = Pace::new(seed);
                pace.book(TimeNs(0), Duration::from_millis(1), 0.0001);
                pace.due.0 / SECOND
            })
            .collect();
        assert!(dues.len() >= 10, "spread over {} seconds of 10", dues.len());
    }
}

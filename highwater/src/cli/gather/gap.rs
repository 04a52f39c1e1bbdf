//! Snapshots that are missing: a store that did not answer is asked again for what it holds, and what it never got is
//! counted. Pure.

use std::collections::VecDeque;

use units::written;

/// Gaps remembered to know how often samples come.
const GAPS_KEPT: usize = 31;
/// Before so many are known nothing is called missing.
const GAPS_LEAST: usize = 3;
/// A gap this many times as long as usual is a hole.
const HOLE: f64 = 2.5;

/// How often snapshots with samples come, and how many did not.
#[derive(Debug, Default)]
pub struct Rhythm {
    last_slot: Option<i64>,
    gaps: VecDeque<i64>,
}

/// Snapshots that are missing between two that are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    pub from: i64,
    pub to: i64,
    pub missing: u64,
}

impl Rhythm {
    /// Slots from one snapshot with samples to the next, usually.
    pub fn usual(&self) -> Option<f64> {
        if self.gaps.len() < GAPS_LEAST {
            return None;
        }
        let mut sorted: Vec<i64> = self.gaps.iter().copied().collect();
        sorted.sort_unstable();
        Some(sorted[sorted.len() / 2] as f64)
    }

    /// A snapshot with samples; the value is the hole before it, if there is one.
    pub fn note(&mut self, slot: i64) -> Option<Hole> {
        let from = self.last_slot.replace(slot)?;
        let gap = slot - from;
        // Written again after a disk was full.
        if gap <= 0 {
            return None;
        }
        if let Some(usual) = self.usual().filter(|usual| gap as f64 > HOLE * usual) {
            let missing = (gap as f64 / usual).round() as u64 - 1;
            return Some(Hole {
                from,
                to: slot,
                missing,
            });
        }
        self.gaps.push_back(gap);
        if self.gaps.len() > GAPS_KEPT {
            self.gaps.pop_front();
        }
        None
    }
}

/// A stretch in which the store did not answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Outage {
    pub since_ns: i64,
    pub why: String,
}

impl Outage {
    pub fn begins(&self) -> String {
        format!(
            "the store does not answer: {}; the run goes on, and what the store gets meanwhile is read when it \
             answers again",
            self.why
        )
    }

    pub fn ends(&self, now_ns: i64, snapshots: usize) -> String {
        let seconds = written::seconds((now_ns - self.since_ns) as f64 / 1e9);
        format!(
            "the store answers again after {seconds}: {snapshots} snapshots of that time were read afterwards"
        )
    }

    pub fn stays(&self, now_ns: i64) -> String {
        let seconds = written::seconds((now_ns - self.since_ns) as f64 / 1e9);
        format!(
            "the store did not answer in the last {seconds} of the run: {}; what it holds of them is not in this \
             record (`highwater verdict --prometheus` reads it)",
            self.why
        )
    }
}

impl Hole {
    /// `interval_s` from slot to slot; slot 0 is the beginning of the run.
    pub fn words(&self, interval_s: f64) -> String {
        format!(
            "{} snapshots are missing, from {} to {} after the beginning: the store holds no samples of that time (was \
             it down, or did nothing scrape the hosts?)",
            self.missing,
            written::seconds(self.from as f64 * interval_s),
            written::seconds(self.to as f64 * interval_s)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_counted_and_a_slow_scrape_is_none() {
        let mut every_third = Rhythm::default();
        assert!((0..40).all(|n| every_third.note(3 * n).is_none()));
        assert_eq!(every_third.usual(), Some(3.0));
        // A scrape that came a little late.
        let last = 3 * 39 + 4;
        assert_eq!(every_third.note(last), None);
        let hole = every_third.note(last + 30).unwrap();
        assert_eq!((hole.from, hole.missing), (last, 9));
        assert!(
            hole.words(1.0)
                .starts_with("9 snapshots are missing, from 2 min 1 s")
        );
    }
}

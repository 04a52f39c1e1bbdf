//! Looks that are missing: a store that did not answer is asked again for what it holds, and what it never got is
//! counted. Pure.

use std::collections::VecDeque;

use crate::units::written;

/// Gaps remembered to know how often samples come.
const GAPS_KEPT: usize = 31;
/// Before so many are known nothing is called missing.
const GAPS_LEAST: usize = 3;
/// A gap this many times as long as usual is a hole.
const HOLE: f64 = 2.5;

/// How often looks with samples come, and how many did not.
#[derive(Debug, Default)]
pub struct Rhythm {
    last_slot: Option<i64>,
    gaps: VecDeque<i64>,
    pub missing: u64,
}

impl Rhythm {
    /// Slots from one look with samples to the next, usually.
    pub fn usual(&self) -> Option<f64> {
        if self.gaps.len() < GAPS_LEAST {
            return None;
        }
        let mut sorted: Vec<i64> = self.gaps.iter().copied().collect();
        sorted.sort_unstable();
        Some(sorted[sorted.len() / 2] as f64)
    }

    /// A look with samples; the value is how many before it are missing.
    pub fn look(&mut self, slot: i64) -> u64 {
        let gap = self.last_slot.map(|last| slot - last);
        self.last_slot = Some(slot);
        let Some(gap) = gap else { return 0 };
        let usual = self.usual();
        if let Some(usual) = usual.filter(|usual| gap as f64 > HOLE * usual) {
            let missing = (gap as f64 / usual).round() as u64 - 1;
            self.missing += missing;
            return missing;
        }
        self.gaps.push_back(gap);
        if self.gaps.len() > GAPS_KEPT {
            self.gaps.pop_front();
        }
        0
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

    pub fn ends(&self, now_ns: i64, looks: usize) -> String {
        let seconds = written::seconds((now_ns - self.since_ns) as f64 / 1e9);
        format!(
            "the store answers again after {seconds}: {looks} looks of that time were read afterwards"
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

/// What is said of looks that no store holds.
pub fn missing_words(missing: u64, from_s: f64, to_s: f64) -> String {
    format!(
        "{missing} looks are missing, from {} to {} after the beginning: the store holds no samples of that time \
         (was it down, or did nothing scrape the hosts?)",
        written::seconds(from_s),
        written::seconds(to_s)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_counted_and_a_slow_scrape_is_none() {
        let mut every_third = Rhythm::default();
        let missing: u64 = (0..40).map(|n| every_third.look(3 * n)).sum();
        assert_eq!((missing, every_third.usual()), (0, Some(3.0)));
        // A scrape that came a little late.
        assert_eq!(every_third.look(3 * 39 + 4), 0);
        assert_eq!(every_third.look(3 * 39 + 4 + 30), 9);
        assert_eq!(every_third.missing, 9);
    }
}

//! The probe's own cost against its budget: slow down first, give up exact bytes, switch off last.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use abi::SAMPLES_NS_MIN;

/// How often the account is made up.
const WINDOW_NS: u64 = 1_000_000_000;
/// Windows over budget, one after another, before the next step.
const STRIKES: u32 = 3;
/// Windows in which counting alone is over budget, one after another, before the probe goes off: calls cannot be
/// counted less, and what was seen in so many seconds is an answer.
const COUNTED_STRIKES: u32 = 10;
/// Most halvings of the rate of samples in one step.
const HALVINGS_MAX: u32 = 8;
/// Less than this in a window is nobody's trouble, whatever the share.
const EXACT_NS_MIN: u64 = 2_000_000;
/// Exact bytes may cost this share of the process's CPU time, parts per million. An eighth of what a server may lose at
/// most: of a server that allocates rarely they were most of the probe's cost (0.9 of 1.75 %, by perf, 2026-11-24), and
/// samples tell the bytes too.
const EXACT_PPM: u64 = 2_500;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    None,
    /// Halve the rate of samples so many times.
    SlowDown(u32),
    /// Count calls only.
    GiveUpExactBytes,
    /// Counting alone costs too much.
    SwitchOff,
}

/// Readings at one instant; all since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// CPU time of the process.
    pub cpu_ns: u64,
    /// Time in slow paths.
    pub slow_ns: u64,
    /// Time for exact bytes, estimated.
    pub exact_ns: u64,
    /// Time for counting, likewise; 0 when its cost is not known.
    pub counted_ns: u64,
}

/// The account.
pub struct Budget {
    ppm: u64,
    next_ns: AtomicU64,
    cpu_ns: AtomicU64,
    slow_ns: AtomicU64,
    exact_ns: AtomicU64,
    counted_ns: AtomicU64,
    strikes: AtomicU32,
    counted_strikes: AtomicU32,
}

impl Budget {
    /// Of `ppm` millionths of the process's CPU time; 0 is no limit.
    pub fn new(ppm: u64, now_ns: u64) -> Budget {
        Budget {
            ppm,
            next_ns: AtomicU64::new(now_ns + WINDOW_NS),
            cpu_ns: AtomicU64::new(0),
            slow_ns: AtomicU64::new(0),
            exact_ns: AtomicU64::new(0),
            counted_ns: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            counted_strikes: AtomicU32::new(0),
        }
    }

    /// True for one thread when a window is over: it has to call [`Self::account`].
    pub fn is_due(&self, now_ns: u64) -> bool {
        let next = self.next_ns.load(Relaxed);
        now_ns >= next
            && self
                .next_ns
                .compare_exchange(next, now_ns + WINDOW_NS, Relaxed, Relaxed)
                .is_ok()
    }

    /// What follows from a window that ends with these readings.
    pub fn account(&self, now: Reading) -> Step {
        let spent = |before: &AtomicU64, now: u64| now.saturating_sub(before.swap(now, Relaxed));
        let cpu = spent(&self.cpu_ns, now.cpu_ns);
        let slow = spent(&self.slow_ns, now.slow_ns);
        let exact = spent(&self.exact_ns, now.exact_ns);
        if exact > EXACT_NS_MIN && exact > share(cpu, EXACT_PPM) {
            return Step::GiveUpExactBytes;
        }
        let least = if self.ppm < 1_000 { 0 } else { SAMPLES_NS_MIN };
        let allowed = share(cpu, self.ppm).max(least);
        let counted = spent(&self.counted_ns, now.counted_ns);
        if self.ppm == 0 || slow + counted <= allowed {
            self.strikes.store(0, Relaxed);
            self.counted_strikes.store(0, Relaxed);
            return Step::None;
        }
        if counted > allowed {
            let strikes = self.counted_strikes.fetch_add(1, Relaxed) + 1;
            return match strikes >= COUNTED_STRIKES {
                true => Step::SwitchOff,
                false => Step::None,
            };
        }
        self.counted_strikes.store(0, Relaxed);
        let strikes = self.strikes.fetch_add(1, Relaxed) + 1;
        if strikes < STRIKES {
            return Step::None;
        }
        self.strikes.store(0, Relaxed);
        let left = allowed.saturating_sub(counted).max(1);
        Step::SlowDown(
            slow.div_ceil(left)
                .next_power_of_two()
                .ilog2()
                .clamp(1, HALVINGS_MAX),
        )
    }
}

fn share(ns: u64, ppm: u64) -> u64 {
    (u128::from(ns) * u128::from(ppm) / 1_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn second(number: u64, slow_ms: u64, exact_ms: u64) -> Reading {
        Reading {
            cpu_ns: number * SECOND,
            slow_ns: number * slow_ms * 1_000_000,
            exact_ns: number * exact_ms * 1_000_000,
            counted_ns: 0,
        }
    }

    #[test]
    fn three_windows_over_budget_slow_it_down_by_as_much_as_is_needed() {
        let steps = |slow_ms: u64| -> Vec<Step> {
            let budget = Budget::new(30_000, 0);
            (1..=6)
                .map(|number| budget.account(second(number, slow_ms, 0)))
                .collect()
        };
        use Step::{None, SlowDown};
        let twice = |by| [None, None, SlowDown(by), None, None, SlowDown(by)];
        assert_eq!(steps(40), twice(1));
        assert_eq!(steps(200), twice(3), "to an eighth");
        assert_eq!(steps(900), twice(5));
    }

    #[test]
    fn within_budget_nothing_happens() {
        let budget = Budget::new(30_000, 0);
        assert!((1..100).all(|number| budget.account(second(number, 29, 2)) == Step::None));
        let unlimited = Budget::new(0, 0);
        assert!((1..100).all(|number| unlimited.account(second(number, 900, 0)) == Step::None));
    }

    #[test]
    fn dear_exact_bytes_are_given_up_at_once() {
        assert_eq!(
            Budget::new(30_000, 0).account(second(1, 1, 3)),
            Step::GiveUpExactBytes
        );
    }

    #[test]
    fn ten_windows_of_dear_counting_switch_it_off() {
        let counted = |number: u64| Reading {
            counted_ns: number * 51_000_000,
            ..second(number, 2, 0)
        };
        let budget = Budget::new(50_000, 0);
        let steps: Vec<Step> = (1..=10)
            .map(|number| budget.account(counted(number)))
            .collect();
        assert!(
            steps[..9].iter().all(|step| *step == Step::None),
            "{steps:?}"
        );
        assert_eq!(steps[9], Step::SwitchOff);
        let within = Budget::new(60_000, 0);
        assert!((1..100).all(|number| within.account(counted(number)) == Step::None));
    }

    /// A program that is mostly idle, with samples that walk an interpreter's stack: it went off after ten seconds.
    #[test]
    fn dear_samples_are_made_fewer_and_never_switch_it_off() {
        let budget = Budget::new(50_000, 0);
        let idle = |number: u64| Reading {
            cpu_ns: number * 31_000_000,
            slow_ns: number * 11_000_000,
            ..Reading::default()
        };
        assert!((1..100).all(|number| budget.account(idle(number)) != Step::SwitchOff));
    }

    #[test]
    fn a_window_is_accounted_once() {
        let budget = Budget::new(1, 0);
        assert!(!budget.is_due(SECOND - 1));
        assert!(budget.is_due(SECOND));
        assert!(!budget.is_due(SECOND + 1));
    }
}

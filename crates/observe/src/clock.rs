//! The run's own clock: never jumps, and goes on where it stopped after a restart.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::snapshot::TimeNs;

/// What the pipeline needs of time. The fake lets a run of days pass in milliseconds.
pub trait Clock {
    /// Now, on the run's clock.
    fn now(&self) -> TimeNs;
    /// Returns at `time` or later; at once when it is past. May return early only after a signal
    /// handler ran, so callers that must not be early look at `now` again.
    fn sleep_until(&self, time: TimeNs);
}

/// Two clocks read together: what a resumed run needs to go on with the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// CLOCK_BOOTTIME at the same instant.
    pub boottime_ns: i64,
    /// /proc/sys/kernel/random/boot_id: boot times of different boots do not compare.
    pub boot_id: String,
}

/// Wall clock at the start of the run plus CLOCK_BOOTTIME elapsed since: steps of the wall clock
/// (NTP, an operator) do not show, and time asleep counts.
#[derive(Debug, Clone)]
pub struct RealClock {
    anchor: Anchor,
}

impl RealClock {
    pub fn start() -> RealClock {
        RealClock {
            anchor: Anchor::read(),
        }
    }

    /// Goes on with a stored anchor. In the same boot the elapsed time is exact; after a reboot
    /// only the wall clock can bridge the gap, and `last` (the last recorded look) keeps time
    /// from running backwards when the wall clock was set back meanwhile.
    pub fn resume(stored: &Anchor, last: TimeNs) -> RealClock {
        RealClock {
            anchor: reanchor(stored, Anchor::read(), last),
        }
    }

    /// To be stored with the run.
    pub fn anchor(&self) -> &Anchor {
        &self.anchor
    }
}

impl Clock for RealClock {
    fn now(&self) -> TimeNs {
        TimeNs(self.anchor.wall_ns + (read_ns(ClockId::Boottime) - self.anchor.boottime_ns))
    }

    fn sleep_until(&self, time: TimeNs) {
        let left = time.0.saturating_sub(self.now().0);
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left as u64));
        }
    }
}

impl Anchor {
    fn read() -> Anchor {
        Anchor {
            wall_ns: read_ns(ClockId::Realtime),
            boottime_ns: read_ns(ClockId::Boottime),
            boot_id: read_boot_id(),
        }
    }
}

/// Nanoseconds of a kernel clock.
pub fn read_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as i64)
}

fn read_boot_id() -> String {
    // A container may hide it: then every restart counts as another boot, which is the safe side.
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// The anchor to go on with, from the stored one and a fresh one.
fn reanchor(stored: &Anchor, fresh: Anchor, last: TimeNs) -> Anchor {
    let same_boot = !fresh.boot_id.is_empty() && stored.boot_id == fresh.boot_id;
    if same_boot && fresh.boottime_ns >= stored.boottime_ns {
        return stored.clone();
    }
    Anchor {
        wall_ns: fresh.wall_ns.max(last.0.saturating_add(1)),
        ..fresh
    }
}

/// A clock for tests: sleeping is what makes time pass.
#[derive(Debug)]
pub struct FakeClock {
    now: Cell<i64>,
}

impl FakeClock {
    pub fn at(time: TimeNs) -> FakeClock {
        FakeClock {
            now: Cell::new(time.0),
        }
    }

    pub fn advance(&self, by: Duration) {
        self.now
            .set(self.now.get().saturating_add(by.as_nanos() as i64));
    }
}

impl Clock for FakeClock {
    fn now(&self) -> TimeNs {
        TimeNs(self.now.get())
    }

    fn sleep_until(&self, time: TimeNs) {
        self.now.set(self.now.get().max(time.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(wall_ns: i64, boottime_ns: i64, boot_id: &str) -> Anchor {
        Anchor {
            wall_ns,
            boottime_ns,
            boot_id: boot_id.to_owned(),
        }
    }

    #[test]
    fn the_same_boot_goes_on_whatever_the_wall_clock_says() {
        let stored = anchor(1_000, 500, "a");
        let fresh = anchor(9_999_999, 700, "a");
        assert_eq!(reanchor(&stored, fresh, TimeNs(1_100)), stored);
    }

    #[test]
    fn after_a_reboot_the_wall_clock_bridges_and_never_runs_backwards() {
        let stored = anchor(1_000, 500, "a");
        let later = reanchor(&stored, anchor(5_000, 20, "b"), TimeNs(1_100));
        assert_eq!(later, anchor(5_000, 20, "b"));
        let set_back = reanchor(&stored, anchor(900, 20, "b"), TimeNs(1_100));
        assert_eq!(set_back, anchor(1_101, 20, "b"));
    }

    #[test]
    fn an_unknown_boot_is_never_taken_for_the_same() {
        let stored = anchor(1_000, 500, "");
        assert_eq!(
            reanchor(&stored, anchor(2_000, 700, ""), TimeNs(1_100)).wall_ns,
            2_000
        );
    }

    #[test]
    fn the_real_clock_follows_the_wall_clock_and_sleeps() {
        let clock = RealClock::start();
        let begin = clock.now();
        assert!((begin.0 - read_ns(ClockId::Realtime)).abs() < 1_000_000_000);
        let until = TimeNs(begin.0 + 2_000_000);
        clock.sleep_until(until);
        assert!(clock.now() >= until);
        clock.sleep_until(begin); // past: returns at once
        let resumed = RealClock::resume(clock.anchor(), clock.now());
        assert_eq!(resumed.anchor(), clock.anchor());
    }

    #[test]
    fn the_fake_clock_advances_by_sleeping() {
        let clock = FakeClock::at(TimeNs(10));
        clock.sleep_until(TimeNs(50));
        clock.sleep_until(TimeNs(20));
        assert_eq!(clock.now(), TimeNs(50));
        clock.advance(Duration::from_nanos(5));
        assert_eq!(clock.now(), TimeNs(55));
    }
}

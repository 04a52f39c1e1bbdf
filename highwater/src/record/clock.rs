//! The run's own clock: wall time at the start plus CLOCK_BOOTTIME since, so that it never jumps.

use rustix::time::{ClockId, clock_gettime};

use crate::observe::look::TimeNs;

/// Where the run's clock is anchored; kept in the record so that every process of the run tells the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Wall time when the run began, nanoseconds since the Unix epoch.
    pub begun: TimeNs,
    /// CLOCK_BOOTTIME at that instant, nanoseconds.
    pub boottime_ns: i64,
    /// /proc/sys/kernel/random/boot_id: after a reboot the anchor means nothing.
    pub boot_id: String,
}

impl Clock {
    /// Anchored now.
    pub fn start() -> Clock {
        Clock {
            begun: TimeNs(read_ns(ClockId::Realtime)),
            boottime_ns: read_ns(ClockId::Boottime),
            boot_id: read_boot_id(),
        }
    }

    pub fn now(&self) -> TimeNs {
        self.at(read_ns(ClockId::Boottime))
    }

    /// The run's time at an instant of CLOCK_BOOTTIME.
    pub fn at(&self, boottime_ns: i64) -> TimeNs {
        TimeNs(self.begun.0 + (boottime_ns - self.boottime_ns))
    }

    /// Whether the machine is still in the boot that the anchor belongs to.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot_id == read_boot_id()
    }
}

fn read_ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64
}

/// Empty where /proc does not tell (some sandboxes): then a reboot goes unnoticed.
fn read_boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_from_the_anchor() {
        let clock = Clock::start();
        assert_eq!(clock.at(clock.boottime_ns), clock.begun);
        assert_eq!(clock.at(clock.boottime_ns + 5), TimeNs(clock.begun.0 + 5));
        assert!(clock.now() >= clock.begun);
        assert!(clock.is_of_this_boot());
    }
}

//! The clock of the events' time stamps, and its scale.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use trace_abi::clock;

/// How long the time stamp counter is compared with the clock before a program starts.
const CALIBRATION: Duration = Duration::from_millis(10);

/// What the recorder reads for a time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time stamp counter, in units of 16: a few ns.
    Tsc,
    /// `CLOCK_MONOTONIC`, ns.
    Monotonic,
}

impl Clock {
    /// The counter where all CPUs share a constant one (the kernel itself keeps time by it), else the clock.
    pub fn best() -> Clock {
        const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = std::fs::read_to_string(CURRENT).unwrap_or_default();
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let is_constant = has("constant_tsc") && has("nonstop_tsc");
        // A paravirtual clock is computed from the counter.
        let by_tsc = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source.trim());
        match cfg!(target_arch = "x86_64") && by_tsc && is_constant {
            true => Clock::Tsc,
            false => Clock::Monotonic,
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Clock::Tsc => clock::TSC,
            Clock::Monotonic => clock::MONOTONIC,
        }
    }

    pub(crate) fn of(number: u32) -> Option<Clock> {
        match number {
            clock::TSC => Some(Clock::Tsc),
            clock::MONOTONIC => Some(Clock::Monotonic),
            _ => None,
        }
    }
}

/// Ticks of a clock, and `CLOCK_MONOTONIC` at that instant, ns.
pub fn now(clock: Clock) -> (u64, u64) {
    let monotonic_ns = read_ns(ClockId::Monotonic);
    match clock {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an instruction that every x86_64 CPU has; this process has not forbidden it to itself.
        Clock::Tsc => (unsafe { std::arch::x86_64::_rdtsc() } >> 4, monotonic_ns),
        _ => (monotonic_ns, monotonic_ns),
    }
}

/// `CLOCK_REALTIME`, ns since 1970.
pub(crate) fn realtime_ns() -> u64 {
    read_ns(ClockId::Realtime)
}

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// Two readings some time apart.
pub(crate) fn calibrate(clock: Clock) -> [(u64, u64); 2] {
    let start = now(clock);
    let begun = Instant::now();
    while begun.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    [start, now(clock)]
}

/// From ticks to ns since the start of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    start_ticks: u64,
    ns_per_tick: f64,
}

impl Scale {
    /// By two readings; `None`: they are not apart.
    pub fn new(start: (u64, u64), end: (u64, u64)) -> Option<Scale> {
        let ticks = end.0.checked_sub(start.0).filter(|ticks| *ticks > 0)?;
        let ns = end.1.checked_sub(start.1).filter(|ns| *ns > 0)?;
        Some(Scale {
            start_ticks: start.0,
            ns_per_tick: ns as f64 / ticks as f64,
        })
    }

    /// Since the start; 0 for what lies before it.
    pub fn ns(&self, ticks: u64) -> u64 {
        (ticks.saturating_sub(self.start_ticks) as f64 * self.ns_per_tick) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_ns() {
        let scale = Scale::new((1000, 50), (3000, 4050)).unwrap();
        assert_eq!((scale.ns(1000), scale.ns(2000), scale.ns(10)), (0, 2000, 0));
        assert!(Scale::new((5, 5), (5, 9)).is_none());
    }

    #[test]
    fn the_counter_of_this_machine_agrees_with_its_clock() {
        let clock = Clock::best();
        let [start, end] = calibrate(clock);
        let scale = Scale::new(start, end).unwrap();
        let (ticks, ns) = now(clock);
        let by_scale = scale.ns(ticks) as f64;
        let by_clock = (ns - start.1) as f64;
        assert!(
            (by_scale / by_clock - 1.0).abs() < 0.05,
            "{by_scale} {by_clock}"
        );
    }
}

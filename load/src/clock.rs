//! The clock of all times here: CLOCK_MONOTONIC, the same for every process of a machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither part is negative on this clock.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until `due_ns`, or not at all when that is past.
pub fn sleep_until(due_ns: u64) {
    let now = now_ns();
    if due_ns > now {
        std::thread::sleep(Duration::from_nanos(due_ns - now));
    }
}

//! The clock of the trace, in place of the C library's: purge and decay times elapse as in the recorded program,
//! however fast the replay is.
//!
//! It starts at the real clock's value: an allocator that has read the time before must not see it go back (jemalloc
//! would never purge again).

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Clocks whose numbers are below this are virtual, but for those of CPU time.
const CLOCKS: usize = 8;

static START_NS: [AtomicU64; CLOCKS] = [const { AtomicU64::new(0) }; CLOCKS];
static NOW_NS: AtomicU64 = AtomicU64::new(0);
static READS: AtomicU64 = AtomicU64::new(0);

/// From now on the clock stands at the start of the trace.
pub fn start() {
    for (number, start) in START_NS.iter().enumerate() {
        if is_virtual(number as c_int) {
            start.store(real_ns(number as c_int), Relaxed);
        }
    }
    READS.store(0, Relaxed);
}

/// Sets the time since the start of the trace. It never goes back.
pub fn set(ns: u64) {
    NOW_NS.fetch_max(ns, Relaxed);
}

/// How often the clock was read.
pub fn reads() -> u64 {
    READS.load(Relaxed)
}

/// The real monotonic clock.
pub fn real_monotonic_ns() -> u64 {
    real_ns(libc::CLOCK_MONOTONIC)
}

fn is_virtual(clock: c_int) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME
            | libc::CLOCK_MONOTONIC
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_REALTIME_COARSE
            | libc::CLOCK_MONOTONIC_COARSE
            | libc::CLOCK_BOOTTIME
    )
}

fn real_ns(clock: c_int) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// clock_gettime(2), as allocators find it.
///
/// # Safety
/// C's contract: `time` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let start = match is_virtual(clock) {
        true => START_NS[clock as usize].load(Relaxed),
        false => 0,
    };
    // SAFETY: the caller's contract.
    unsafe {
        if start == 0 || time.is_null() {
            return libc::syscall(libc::SYS_clock_gettime, clock, time) as c_int;
        }
        READS.fetch_add(1, Relaxed);
        let now = start + NOW_NS.load(Relaxed);
        (*time).tv_sec = (now / 1_000_000_000) as _;
        (*time).tv_nsec = (now % 1_000_000_000) as libc::c_long;
    }
    0
}

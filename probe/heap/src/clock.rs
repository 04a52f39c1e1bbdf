//! Clocks. The monotonic one is read in user space (vDSO): no system call, safe anywhere.

/// `CLOCK_MONOTONIC`, ns.
pub fn monotonic_ns() -> u64 {
    #[cfg(test)]
    if let Some(now_ns) = made_up::NOW_NS.get() {
        return now_ns;
    }
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, ns since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of the whole process, ns. A system call: once a second at most.
pub fn process_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Sleeps for so long or less. Not the C library's nanosleep, at which a thread can be cancelled.
pub fn pause(ns: i64) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: ns,
    };
    let none: *mut libc::timespec = std::ptr::null_mut();
    // SAFETY: reads one timespec.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, none) };
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec; fails only for unknown clocks, and then leaves zero.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// A clock that a simulation moves by itself, for the thread that sets it.
#[cfg(test)]
pub(crate) mod made_up {
    use std::cell::Cell;

    thread_local! {
        pub(crate) static NOW_NS: Cell<Option<u64>> = const { Cell::new(None) };
    }
}

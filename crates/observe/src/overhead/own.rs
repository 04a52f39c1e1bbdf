//! What highwater takes itself.

use rustix::time::ClockId;

use crate::clock::read_ns;

/// CPU time of this process, seconds.
pub fn cpu_s() -> f64 {
    read_ns(ClockId::ProcessCPUTime) as f64 / 1e9
}

/// The most that was resident of this process.
pub fn rss_peak_bytes() -> u64 {
    let status = procfs::process::Process::myself().and_then(|own| own.status());
    status.ok().and_then(|status| status.vmhwm).unwrap_or(0) * 1024
}

/// CPU time of all threads of a process, seconds; 0 when it is gone.
pub fn cpu_s_of(pid: u32) -> f64 {
    let stat = procfs::process::Process::new(pid as i32).and_then(|own| own.stat());
    let ticks = stat.map_or(0, |stat| stat.utime + stat.stime);
    ticks as f64 / procfs::ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own() {
        assert!(rss_peak_bytes() > 1 << 20 && cpu_s() > 0.0);
    }
}

//! What highwater takes itself.

use rustix::time::ClockId;

use super::fdinfo::bpf_memory_bytes;
use crate::observe::clock::read_ns;

/// CPU time of this process, seconds.
pub fn cpu_s() -> f64 {
    read_ns(ClockId::ProcessCPUTime) as f64 / 1e9
}

/// The most that was resident of this process.
pub fn rss_peak_bytes() -> u64 {
    let status = procfs::process::Process::myself().and_then(|own| own.status());
    status.ok().and_then(|status| status.vmhwm).unwrap_or(0) * 1024
}

/// Kernel memory that this process holds: eBPF maps and programs, and the rings of perf events.
pub fn kernel_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    bpf_memory_bytes() + rings_bytes(&maps)
}

fn rings_bytes(maps: &str) -> u64 {
    let rings = maps.lines().filter(|line| line.contains("[perf_event]"));
    let bytes = |line: &str| -> Option<u64> {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        u64::from_str_radix(end, 16)
            .ok()?
            .checked_sub(u64::from_str_radix(start, 16).ok()?)
    };
    rings.filter_map(bytes).sum()
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
    fn rings_are_those_of_events() {
        let maps = "7f00-8f00 rw-s 00000000 00:0f 9 anon_inode:[perf_event]\n10-20 r--p 0 00:00 0 /bin/x\n";
        assert_eq!(rings_bytes(maps), 0x1000);
        assert!(rss_peak_bytes() > 1 << 20 && cpu_s() > 0.0);
    }
}

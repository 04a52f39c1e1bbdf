//! What the kernel says of our own eBPF maps and programs, in /proc/self/fdinfo.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::kernel::bpf;

/// Of one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// Kernel memory that it holds.
    pub memlock_bytes: u64,
    /// Of a program, while statistics are on.
    pub run_time_ns: u64,
    pub run_count: u64,
}

/// Lines of a name, a colon and a number; others are passed over.
pub fn parse_fdinfo(text: &str) -> Info {
    let mut info = Info::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim().parse().unwrap_or(0);
        match name {
            "memlock" => info.memlock_bytes = value,
            "run_time_ns" => info.run_time_ns = value,
            "run_cnt" => info.run_count = value,
            _ => {}
        }
    }
    info
}

pub fn read_fdinfo(fd: &OwnedFd) -> Info {
    let path = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
    std::fs::read_to_string(path).map_or(Info::default(), |text| parse_fdinfo(&text))
}

/// Of all eBPF maps and programs that this process has open.
pub fn bpf_memory_bytes() -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc/self/fdinfo") else {
        return 0;
    };
    let text = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path()).ok();
    let texts = entries.flatten().filter_map(text);
    texts.map(|text| parse_fdinfo(&text).memlock_bytes).sum()
}

/// While it lives, the kernel times every run of every eBPF program. That takes two readings of the clock a run, some
/// tens of nanoseconds: it is on for a part of the time.
pub struct Timed {
    _fd: OwnedFd,
}

#[repr(C)]
struct EnableStats {
    /// BPF_STATS_RUN_TIME.
    kind: u32,
}

impl Timed {
    /// # Errors
    /// No right, or a kernel before 5.8.
    pub fn begin() -> io::Result<Timed> {
        const ENABLE_STATS: u32 = 32;
        let fd = bpf(ENABLE_STATS, &EnableStats { kind: 0 })?;
        Ok(Timed { _fd: fd })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_text_is_read() {
        // Linux 6.18.
        let text = "pos:\t0\nflags:\t02000002\nmnt_id:\t16\nprog_type:\t5\nprog_jited:\t1\n\
            prog_tag:\t3b185187f1855c4c\nmemlock:\t4096\nprog_id:\t7\nrun_time_ns:\t5500\nrun_cnt:\t44\n";
        let info = Info {
            memlock_bytes: 4096,
            run_time_ns: 5500,
            run_count: 44,
        };
        assert_eq!(parse_fdinfo(text), info);
        assert_eq!(parse_fdinfo("memlock: x\n\u{1}"), Info::default());
    }

    #[test]
    fn rings_are_those_of_events() {
        let maps = "7f00-8f00 rw-s 00000000 00:0f 9 anon_inode:[perf_event]\n10-20 r--p 0 00:00 0 /bin/x\n";
        assert_eq!(rings_bytes(maps), 0x1000);
    }
}

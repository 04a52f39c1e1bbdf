//! `/proc/PID/status`: resident memory of the process, switches of its main thread.

use super::fields::{kib_in_bytes, lines, number};

/// What is used of `/proc/PID/status`. Absent for kernel threads, ended processes, old kernels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    pub rss_bytes: Option<u64>,
    pub rss_anon_bytes: Option<u64>,
    pub rss_file_bytes: Option<u64>,
    pub rss_shmem_bytes: Option<u64>,
    pub rss_peak_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    /// Of this thread alone: /proc/PID/status is the main thread's.
    pub switches_voluntary: Option<u64>,
    pub switches_involuntary: Option<u64>,
}

pub fn parse_status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for (key, value) in lines(text) {
        match key {
            b"VmSize" => status.virtual_bytes = kib_in_bytes(value),
            b"VmHWM" => status.rss_peak_bytes = kib_in_bytes(value),
            b"VmRSS" => status.rss_bytes = kib_in_bytes(value),
            b"RssAnon" => status.rss_anon_bytes = kib_in_bytes(value),
            b"RssFile" => status.rss_file_bytes = kib_in_bytes(value),
            b"RssShmem" => status.rss_shmem_bytes = kib_in_bytes(value),
            b"VmSwap" => status.swap_bytes = kib_in_bytes(value),
            b"voluntary_ctxt_switches" => status.switches_voluntary = number(value),
            b"nonvoluntary_ctxt_switches" => status.switches_involuntary = number(value),
            _ => {}
        }
    }
    status
}

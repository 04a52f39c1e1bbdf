//! A process's memory limit: enforced by its cgroup, or by highwater when there is none; and what the kernel's
//! counters say about kills.

use std::fs;
use std::time::Duration;

use super::census::Identity;
use super::cgroup::Cgroup;

/// Without a cgroup: from one reading of the process's memory to the next.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// With a cgroup: from one reading of the kernel's counter to the next.
const COUNTER_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct MemoryWatch {
    /// Bytes.
    limit: Option<u64>,
    next: Duration,
    /// OOM kills in the cgroup that were reported.
    kills: u64,
    /// Resident bytes at which highwater ended the process.
    ended_at: Option<u64>,
}

/// What one reading brought.
#[derive(Debug, Default)]
pub struct Noticed {
    /// The limit is passed and there is no cgroup to enforce it: the process must be killed.
    pub over_limit: bool,
    /// A descendant was killed by the kernel while the process lives.
    pub child_killed: Option<String>,
}

impl MemoryWatch {
    pub fn new(identity: &Identity, limit: Option<u64>) -> Self {
        Self {
            limit,
            next: Duration::ZERO,
            kills: identity.cgroup.as_ref().map_or(0, Cgroup::oom_kills),
            ended_at: None,
        }
    }

    /// Readings while the process lives.
    pub fn poll(&mut self, now: Duration, identity: &Identity) -> Noticed {
        let mut noticed = Noticed::default();
        if now < self.next {
            return noticed;
        }
        if let Some(cgroup) = &identity.cgroup {
            self.next = now + COUNTER_EVERY;
            let kills = cgroup.oom_kills();
            // The process itself may have been killed a moment ago; its own end tells that better.
            if kills > self.kills && cgroup.pids().contains(&identity.pid) {
                self.kills = kills;
                noticed.child_killed = Some(format!(
                    "the kernel killed a process of its cgroup for memory (kill {kills})"
                ));
            }
        } else if let Some(limit) = self.limit {
            self.next = now + WATCH_EVERY;
            let rss_bytes = read_rss_bytes(identity.pid).unwrap_or(0);
            if rss_bytes > limit && self.ended_at.is_none() {
                self.ended_at = Some(rss_bytes);
                noticed.over_limit = true;
            }
        }
        noticed
    }

    /// In words, when highwater itself killed it in the place of a cgroup.
    pub fn killed_by_us(&self) -> Option<String> {
        let (rss, limit) = (self.ended_at?, self.limit?);
        Some(format!(
            "by highwater, since there is no cgroup: {rss} bytes resident, memory_limit {limit}; what its children use \
             is not counted"
        ))
    }

    /// In words, when its cgroup counted an OOM kill that was not reported yet.
    pub fn killed_by_kernel(&self, identity: &Identity) -> Option<String> {
        let kills = identity.cgroup.as_ref()?.oom_kills();
        (kills > self.kills).then(|| match self.limit {
            Some(limit) => format!("by the kernel: its cgroup has a memory_limit of {limit} bytes"),
            None => "by the kernel: the machine, or a cgroup above, is out of memory".into(),
        })
    }
}

fn read_rss_bytes(pid: i32) -> Option<u64> {
    let pages = parse_resident_pages(&fs::read_to_string(format!("/proc/{pid}/statm")).ok()?)?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The second field of /proc/PID/statm.
fn parse_resident_pages(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_pages_are_the_second_field() {
        // /proc/self/statm of cat, Linux 6.18, Debian 12.
        assert_eq!(parse_resident_pages("639 244 227 5 0 88 0\n"), Some(244));
        assert_eq!(parse_resident_pages(""), None);
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(read_rss_bytes(me).unwrap() > 1 << 20);
    }
}

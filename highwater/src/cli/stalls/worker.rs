//! A server of several processes: the first one starts the others, and requests stall in those.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::Duration;

use heap::family::{Member, read_everyone};
use observe::proc::ProcRoot;
use sched::descriptors::Descriptors;

/// For how long it is looked who works.
const TRIED: Duration = Duration::from_millis(300);
/// A process that starts others looks after them: of what they do it does a twentieth at most, or next to nothing.
const SUPERVISES: u64 = 20;
const NOTHING_NS: u64 = 1_000_000;
/// Descriptors that are asked about.
const DESCRIPTORS_MAX: usize = 1_024;

/// The process to watch instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    pub pid: u32,
    /// How many there are.
    pub of: usize,
    /// None of them did anything meanwhile.
    pub is_idle: bool,
}

impl Worker {
    /// Told beside what is missing.
    pub fn words(&self, supervisor: u32) -> String {
        let Worker { pid, of, is_idle } = self;
        let why = match is_idle {
            true => "none of which works now",
            false => "of which it works most",
        };
        format!(
            "process {supervisor} has no clients and starts others: {pid} is watched, one of {of} that run the same \
             program, {why}; another one by its own --pid"
        )
    }
}

/// Of a process that serves nobody itself, has no client and nearly no work, the child that runs the same program and
/// works most; `None`: watch the process itself.
pub fn find(pid: u32) -> Option<Worker> {
    let children = children(pid);
    if children.is_empty() || serves(pid) {
        return None;
    }
    let before: Vec<u64> = children.iter().map(|child| ran_ns(*child)).collect();
    let own = ran_ns(pid);
    sleep(TRIED);
    let own = ran_ns(pid) - own;
    let ran = children.iter().zip(&before);
    let ran = ran.map(|(child, before)| (ran_ns(*child).saturating_sub(*before), *child));
    let ran: Vec<(u64, u32)> = ran.collect();
    if serves(pid) {
        return None;
    }
    busiest(&ran, own)
}

fn busiest(ran: &[(u64, u32)], own: u64) -> Option<Worker> {
    let all: u64 = ran.iter().map(|(ns, _)| ns).sum();
    let (most, pid) = ran
        .iter()
        .max_by_key(|(ns, pid)| (*ns, std::cmp::Reverse(*pid)))?;
    (own <= all / SUPERVISES + NOTHING_NS).then_some(Worker {
        pid: *pid,
        of: ran.len(),
        is_idle: *most == 0,
    })
}

/// Those that run the same program file.
fn children(pid: u32) -> Vec<u32> {
    let program = |pid: i32| {
        let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let everyone = read_everyone(&ProcRoot::default()).unwrap_or_default();
    let Some(own) = program(pid as i32) else {
        return Vec::new();
    };
    let is_one = |member: &&Member| member.parent == pid as i32 && program(member.pid) == Some(own);
    let found = everyone.iter().filter(is_one);
    found.map(|member| member.pid as u32).collect()
}

/// Whether it has a client's connection.
fn serves(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let numbers = entries.flatten().take(DESCRIPTORS_MAX);
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut descriptors = Descriptors::of(pid);
    numbers.any(|number| descriptors.describe(number).one_client)
}

/// Time on a CPU of all its threads, ns.
fn ran_ns(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let of_thread = |entry: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    threads.flatten().filter_map(of_thread).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_is_watched_itself() {
        let idle = busiest(&[(0, 7), (0, 8)], 0);
        let first = Worker {
            pid: 7,
            of: 2,
            is_idle: true,
        };
        assert_eq!(idle, Some(first));
        let works = busiest(&[(10_000_000, 7), (30_000_000, 8)], 2_000_000);
        let second = Worker {
            pid: 8,
            of: 2,
            is_idle: false,
        };
        assert_eq!(works, Some(second));
        assert_eq!(
            busiest(&[(10_000_000, 7), (30_000_000, 8)], 4_000_000),
            None
        );
        assert_eq!(busiest(&[(0, 7)], 1_100_000), None);
    }

    /// The test runner has no children of its own program.
    #[test]
    fn this_process_has_no_workers() {
        assert_eq!(find(std::process::id()), None);
        assert!(ran_ns(std::process::id()) > 0);
    }
}

//! A server of several processes: the first one starts the others, and requests stall in those.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use heap::family::read_everyone;
use observe::proc::ProcRoot;
use sched::descriptors::{Descriptors, Kind};

/// For how long it is looked who works.
const TRIED: Duration = Duration::from_millis(300);
/// A process that starts others looks after them: of what they do it does a twentieth at most, or next to nothing.
const SUPERVISES: u64 = 20;
const NOTHING_NS: u64 = 1_000_000;
/// Children that are asked about, by their descriptors.
const CHILDREN_MAX: usize = 256;
/// Descriptors that are asked about.
const DESCRIPTORS_MAX: usize = 1_024;

/// The process to watch instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worker {
    pub pid: u32,
    /// How many there are.
    pub of: usize,
}

impl Worker {
    /// Told beside what is missing.
    pub fn words(&self, supervisor: u32) -> String {
        let Worker { pid, of } = self;
        format!(
            "process {supervisor} has no clients and starts others: {pid} is watched, of {of} that take its clients \
             the one that works most; another one by its own --pid, and {supervisor} itself with --exact"
        )
    }
}

/// Of a process that serves nobody itself, has no client and nearly no work, the child with sockets of its own that
/// works most; `None`: watch the process itself.
pub fn find(pid: u32) -> Option<Worker> {
    let children = children(pid);
    if children.is_empty() || has(pid, Inbound::Client) {
        return None;
    }
    let before: Vec<u64> = children.iter().map(|child| ran_ns(*child)).collect();
    let own = ran_ns(pid);
    sleep(TRIED);
    let own = ran_ns(pid).saturating_sub(own);
    let ran = children.iter().zip(&before);
    let ran = ran.map(|(child, before)| (ran_ns(*child).saturating_sub(*before), *child));
    let ran: Vec<(u64, u32)> = ran.collect();
    if has(pid, Inbound::Client) {
        return None;
    }
    busiest(&ran, own)
}

fn busiest(ran: &[(u64, u32)], own: u64) -> Option<Worker> {
    let all: u64 = ran.iter().map(|(ns, _)| ns).sum();
    let (most, pid) = ran
        .iter()
        .max_by_key(|(ns, pid)| (*ns, std::cmp::Reverse(*pid)))?;
    (*most > 0 && own <= all / SUPERVISES + NOTHING_NS).then_some(Worker {
        pid: *pid,
        of: ran.len(),
    })
}

/// Those that run the same program file and have a socket of the parent's open, for a server's workers take their
/// clients from where that listens, or have got a client from it (PostgreSQL's close what it listens at). A pool that
/// computes has neither.
fn children(pid: u32) -> Vec<u32> {
    let program = |pid: u32| {
        let file = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((file.dev(), file.ino()))
    };
    let everyone = read_everyone(&ProcRoot::default()).unwrap_or_default();
    let of_it = everyone.iter().filter(|member| member.parent == pid as i32);
    let all: Vec<u32> = of_it.map(|member| member.pid as u32).collect();
    let Some(own) = program(pid).filter(|_| !all.is_empty()) else {
        return Vec::new();
    };
    let sockets = sockets(pid);
    let listens = has(pid, Inbound::Listener);
    let is_worker = |child: &u32| {
        let shares = || !self::sockets(*child).is_disjoint(&sockets);
        program(*child) == Some(own) && (shares() || listens && has(*child, Inbound::Client))
    };
    all.into_iter()
        .take(CHILDREN_MAX)
        .filter(is_worker)
        .collect()
}

/// The sockets that a process has open, `socket:[4711]`.
fn sockets(pid: u32) -> HashSet<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let targets = entries.flatten().take(DESCRIPTORS_MAX);
    let targets = targets.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .collect()
}

/// What a server has of its clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inbound {
    Listener,
    Client,
}

fn has(pid: u32, sought: Inbound) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let numbers = entries.flatten().take(DESCRIPTORS_MAX);
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut descriptors = Descriptors::of(pid);
    numbers.any(|number| match descriptors.takes_requests(number) {
        Some(true) => sought == Inbound::Client,
        Some(false) if sought == Inbound::Listener => {
            descriptors.describe(number).kind == Kind::Inbound
        }
        Some(false) | None => false,
    })
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
        let second = Some(Worker { pid: 8, of: 2 });
        let busy = [(10_000_000, 7), (30_000_000, 8)];
        assert_eq!(busiest(&busy, 2_000_000), second);
        assert_eq!(busiest(&busy, 4_000_000), None);
        assert_eq!(busiest(&[(0, 7), (0, 8)], 0), None, "nobody works");
    }

    /// The test runner has no children of its own program.
    #[test]
    fn this_process_has_no_workers() {
        assert_eq!(find(std::process::id()), None);
        assert!(ran_ns(std::process::id()) > 0);
    }
}

//! `/proc/PID/status`: who a process is, and which signals it catches.
//!
//! Apart from [`super::status`], which is read of every process at every snapshot.

use super::fields::{lines, number};

/// What is used of it. Absent on old kernels, and for a process that is ending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Effective user and group.
    pub user: Option<u32>,
    pub group: Option<u32>,
    /// Of a process its pid, and of a thread its number, in the innermost pid namespace: what it takes its own for.
    pub own_pid: Option<u32>,
    /// `R`, `S`, `T`, ...
    pub state: Option<u8>,
    /// A bit for each signal with a handler, from the first on.
    pub caught: Option<u64>,
    pub threads: Option<u64>,
    /// Seccomp filters; one where there are some and the kernel does not count them (before Linux 5.9).
    pub filters: Option<u64>,
}

impl Identity {
    /// Whether a signal has a handler. `None`: not known.
    pub fn catches(&self, signal: i32) -> Option<bool> {
        Some(self.caught? & (1 << (signal - 1)) != 0)
    }
}

pub fn parse_identity(text: &[u8]) -> Identity {
    let mut identity = Identity::default();
    for (key, value) in lines(text) {
        match key {
            // Real, effective, saved and filesystem id.
            b"Uid" => identity.user = nth(value, 1),
            b"Gid" => identity.group = nth(value, 1),
            // From our namespace inwards.
            b"NSpid" => identity.own_pid = words(value).last().and_then(id),
            b"State" => identity.state = value.first().copied(),
            b"SigCgt" => identity.caught = mask(value),
            b"Threads" => identity.threads = number(value),
            b"Seccomp" => identity.filters = number(value).map(|mode| mode.min(1)),
            b"Seccomp_filters" => identity.filters = number(value).max(identity.filters),
            _ => {}
        }
    }
    identity
}

fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = value.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty())
}

fn nth(value: &[u8], index: usize) -> Option<u32> {
    words(value).nth(index).and_then(id)
}

fn id(word: &[u8]) -> Option<u32> {
    u32::try_from(number(word)?).ok()
}

fn mask(value: &[u8]) -> Option<u64> {
    u64::from_str_radix(str::from_utf8(value).ok()?, 16).ok()
}

/// The variable that tells the probe how many seccomp filters a program may start with, and its value for programs
/// that this process starts: its own, under which it makes the probe's system calls too.
pub fn probe_filters() -> (&'static str, String) {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let filters = parse_identity(&status).filters.unwrap_or(0);
    ("HIGHWATER_PROBE_FILTERS", filters.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_ids_and_the_innermost_pid() {
        let text = b"Name:\tjava\nState:\tS (sleeping)\nUid:\t0\t1000\t0\t0\nGid:\t0\t1001\t0\t0\nNStgid:\t29470\t1\n\
            NSpid:\t29473\t4\nNSpgid:\t1\nThreads:\t21\nSigIgn:\t0000000001001000\nSigCgt:\t2000000181005ccf\n\
            Seccomp:\t2\nSeccomp_filters:\t3\n";
        let found = parse_identity(text);
        let expected = Identity {
            user: Some(1000),
            group: Some(1001),
            own_pid: Some(4),
            state: Some(b'S'),
            caught: Some(0x2000_0001_8100_5ccf),
            threads: Some(21),
            filters: Some(3),
        };
        assert_eq!(found, expected);
        assert_eq!(
            (found.catches(3), found.catches(5)),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        assert_eq!(parse_identity(b""), Identity::default());
        let odd = parse_identity(b"Uid:\t7\nNSpid:\tx\nSigCgt:\tzz\nState:\t\n");
        assert_eq!(odd, Identity::default());
        assert_eq!(odd.catches(10), None);
        assert_eq!(parse_identity(b"Seccomp:\t2\n").filters, Some(1));
    }
}

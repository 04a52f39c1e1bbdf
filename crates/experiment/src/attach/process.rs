//! Processes of this machine, as they are matched: arguments, executable, variables, cgroup.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::service::read_stat;

/// A process that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub start_ticks: u64,
    /// `argv`; not yet redacted.
    pub command: Vec<String>,
}

pub fn all_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `None` for a pid that is gone and for a zombie. Without arguments is a kernel thread, and for an instant a program
/// that is just being executed.
pub fn read_process(pid: i32) -> Option<Process> {
    let stat = read_stat(pid)?;
    let command = parse_list(&fs::read(format!("/proc/{pid}/cmdline")).ok()?);
    let living = !matches!(stat.state, 'Z' | 'X');
    living.then_some(Process {
        pid,
        start_ticks: stat.starttime,
        command,
    })
}

/// /proc/PID/cmdline and environ: texts, each with a NUL behind it.
fn parse_list(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}

/// Path of the executable, also when its file was replaced since.
pub fn read_executable(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let text = path.to_string_lossy();
    Some(text.strip_suffix(" (deleted)").unwrap_or(&text).to_owned())
}

/// `NAME=value` as the process was started with; `None` when it is somebody else's.
pub fn read_variables(pid: i32) -> Option<Vec<String>> {
    Some(parse_list(&fs::read(format!("/proc/{pid}/environ")).ok()?))
}

/// Path of the process's cgroup: of v2, else of systemd's own v1 hierarchy.
pub fn read_cgroup(pid: i32) -> Option<String> {
    parse_cgroup(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?).map(str::to_owned)
}

fn parse_cgroup(text: &str) -> Option<&str> {
    let path = |beginning: &str| text.lines().find_map(|line| line.strip_prefix(beginning));
    let named = || {
        let line = text.lines().find(|line| line.contains(":name=systemd:"))?;
        line.split_once(":name=systemd:").map(|(_, path)| path)
    };
    // Beside v1 hierarchies, v2 is there and empty.
    path("0::")
        .filter(|path| *path != "/")
        .or_else(named)
        .or_else(|| path("0::"))
}

/// highwater itself and what started it: a shell whose command line names the expression would match it.
pub fn own_line() -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut pid = i32::try_from(std::process::id()).expect("pids fit i32");
    while pid > 1 && line.insert(pid) {
        pid = read_stat(pid).map_or(0, |stat| stat.ppid);
    }
    line
}

/// How long a process runs already, by its start in ticks after boot.
pub fn age(start_ticks: u64) -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let now = Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec.max(0) as u32);
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let start = Duration::from_millis(start_ticks.saturating_mul(1000) / per_second);
    now.saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_cut_at_their_nuls() {
        assert_eq!(
            parse_list(b"/bin/a\0-x\0\0b c\0"),
            ["/bin/a", "-x", "", "b c"]
        );
        assert_eq!(parse_list(b"nginx: worker"), ["nginx: worker"]);
        assert!(parse_list(b"").is_empty());
    }

    #[test]
    fn cgroups_of_both_versions() {
        assert_eq!(parse_cgroup("0::/a/b.service\n"), Some("/a/b.service"));
        let mixed = "12:memory:/x\n1:name=systemd:/a/c.service\n0::/\n";
        assert_eq!(parse_cgroup(mixed), Some("/a/c.service"));
        assert_eq!(parse_cgroup("0::/\n"), Some("/"));
        assert_eq!(parse_cgroup(""), None);
    }

    #[test]
    fn this_process_is_young() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = read_process(pid).unwrap();
        let old = age(own.start_ticks);
        assert!(old < age(0) && age(u64::MAX) == Duration::ZERO);
    }
}

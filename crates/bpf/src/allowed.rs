//! What this machine and this user permit, found by trying; settings only explain a refusal.

use std::fs;
use std::io;
use std::path::Path;

use observe::container::is_first_pid_namespace;
use perf_event_open_sys::bindings as perf;

use super::kernel::{Tracing, bpf, event, open_event, uprobe, uprobe_kind};

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// What was tried, and with which result. `Err` holds the kernel's words.
#[derive(Debug, Clone)]
pub struct Allowed {
    pub uid: u32,
    pub capabilities: u64,
    /// /proc/sys/kernel/perf_event_paranoid.
    pub perf_event_paranoid: Option<i64>,
    /// /proc/sys/kernel/yama/ptrace_scope; absent: no Yama, as 0.
    pub ptrace_scope: Option<i64>,
    pub transparent_huge_pages: Option<String>,
    pub cgroup: Cgroups,
    pub pressure: bool,
    pub btf: bool,
    pub first_pid_namespace: bool,
    pub open_files: u64,
    pub bpf: Trial,
    pub tracing: Trial,
    pub tracepoints: Trial,
    pub cpu_samples: Trial,
    pub uprobes: Trial,
    pub switches: Trial,
    pub own_syscall: Trial,
}

pub type Trial = Result<(), String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    V1,
    V2,
    Missing,
}

/// How `stalls` would watch a process here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// eBPF on the scheduler's tracepoints, filtered in the kernel.
    Ebpf,
    /// Switch records of the subject's threads, and perf's samples of who wakes whom.
    Tracepoints,
    /// Switch records of the subject's own threads, and looks at /proc.
    Rootless,
    None,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Ebpf => "ebpf",
            Mode::Tracepoints => "tracepoints",
            Mode::Rootless => "rootless",
            Mode::None => "none",
        }
    }
}

impl Allowed {
    /// Tries everything once; takes some milliseconds and leaves nothing behind.
    pub fn try_all() -> Allowed {
        let tracing = Tracing::open();
        Allowed {
            uid: rustix::process::geteuid().as_raw(),
            capabilities: parse_capabilities(&text("/proc/self/status")).unwrap_or(0),
            perf_event_paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
            transparent_huge_pages: parse_chosen(&text(
                "/sys/kernel/mm/transparent_hugepage/enabled",
            )),
            cgroup: cgroups(Path::new("/sys/fs/cgroup")),
            pressure: Path::new("/proc/pressure/cpu").exists(),
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            first_pid_namespace: is_first_pid_namespace(),
            open_files: open_files(),
            bpf: words(try_bpf()),
            tracepoints: words(try_tracepoint(&tracing)),
            tracing: tracing.map(|_| ()).map_err(|e| e.to_string()),
            cpu_samples: words(try_cpu_samples()),
            uprobes: words(try_uprobes()),
            switches: words(try_switches()),
            own_syscall: words(fs::read_to_string("/proc/self/syscall").map(|_| ())),
        }
    }

    pub fn mode(&self) -> Mode {
        let seen = self.tracing.is_ok() && self.tracepoints.is_ok() && self.first_pid_namespace;
        if seen && self.bpf.is_ok() && self.btf {
            Mode::Ebpf
        } else if seen && self.switches.is_ok() {
            Mode::Tracepoints
        } else if self.switches.is_ok() {
            Mode::Rootless
        } else {
            Mode::None
        }
    }

    pub fn has(&self, capability: Capability) -> bool {
        let bit = match capability {
            Capability::Ptrace => CAP_SYS_PTRACE,
            Capability::Admin => CAP_SYS_ADMIN,
            Capability::Perfmon => CAP_PERFMON,
            Capability::Bpf => CAP_BPF,
        };
        self.capabilities >> bit & 1 == 1
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Capability {
    Ptrace,
    Admin,
    Perfmon,
    Bpf,
}

fn words(result: io::Result<()>) -> Trial {
    result.map_err(|error| error.to_string())
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn number(path: &str) -> Option<i64> {
    text(path).trim().parse().ok()
}

/// The effective capabilities of a /proc/PID/status.
pub fn parse_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// The word in brackets of "always [madvise] never".
pub fn parse_chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_string())
}

fn cgroups(root: &Path) -> Cgroups {
    if root.join("cgroup.controllers").exists() {
        Cgroups::V2
    } else if root.join("cpu").exists() || root.join("memory").exists() {
        Cgroups::V1
    } else {
        Cgroups::Missing
    }
}

fn open_files() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(u64::MAX)
}

/// A map of one entry.
fn try_bpf() -> io::Result<()> {
    const MAP_CREATE: u32 = 0;
    const ARRAY: u32 = 2;
    let attr: [u32; 18] = std::array::from_fn(|at| match at {
        0 => ARRAY,
        1..=3 => [4, 4, 1][at - 1],
        _ => 0,
    });
    bpf(MAP_CREATE, &attr).map(drop)
}

fn try_tracepoint(tracing: &io::Result<Tracing>) -> io::Result<()> {
    let Ok(tracing) = tracing else {
        return Err(io::Error::other("no tracing filesystem"));
    };
    let id = tracing.read("events/sched/sched_switch/id")?;
    let id = id.trim().parse().map_err(io::Error::other)?;
    let mut attr = event(perf::PERF_TYPE_TRACEPOINT, id);
    attr.set_disabled(1);
    open_event(&mut attr, -1, 0).map(drop)
}

fn try_cpu_samples() -> io::Result<()> {
    let config = u64::from(perf::PERF_COUNT_SW_CPU_CLOCK);
    let mut attr = event(perf::PERF_TYPE_SOFTWARE, config);
    attr.set_disabled(1);
    open_event(&mut attr, -1, 0).map(drop)
}

fn try_uprobes() -> io::Result<()> {
    let mut attr = uprobe(uprobe_kind()?, c"/proc/self/exe", 0);
    attr.set_disabled(1);
    match open_event(&mut attr, -1, 0) {
        // The start of the file is no code: an error about the place is leave to probe.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        other => other.map(drop),
    }
}

fn try_switches() -> io::Result<()> {
    let config = u64::from(perf::PERF_COUNT_SW_DUMMY);
    let mut attr = event(perf::PERF_TYPE_SOFTWARE, config);
    attr.set_context_switch(1);
    attr.set_exclude_kernel(1);
    attr.set_disabled(1);
    open_event(&mut attr, 0, -1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_the_kernel_writes_them() {
        // Linux 6.18, a shell of root and one of nobody.
        let root = "Name:\tsh\nCapPrm:\t000001fffeffffff\nCapEff:\t000001fffeffffff\n";
        assert_eq!(parse_capabilities(root), Some(0x1ff_feff_ffff));
        assert_eq!(parse_capabilities("CapEff:\t0000000000000000\n"), Some(0));
        assert_eq!(parse_capabilities("Name:\tsh\n"), None);
        assert_eq!(parse_chosen("always [madvise] never\n").unwrap(), "madvise");
        assert_eq!(parse_chosen("broken"), None);
    }

    #[test]
    fn the_mode_is_the_best_that_is_left() {
        let refused = || Err("not permitted".to_string());
        let mut allowed = Allowed {
            first_pid_namespace: true,
            btf: true,
            bpf: Ok(()),
            tracing: Ok(()),
            tracepoints: Ok(()),
            switches: Ok(()),
            ..Allowed::try_all()
        };
        assert_eq!(allowed.mode(), Mode::Ebpf);
        allowed.btf = false;
        assert_eq!(allowed.mode(), Mode::Tracepoints, "a kernel without BTF");
        (allowed.btf, allowed.bpf) = (true, refused());
        assert_eq!(allowed.mode(), Mode::Tracepoints, "or without eBPF");
        allowed.tracepoints = refused();
        assert_eq!(allowed.mode(), Mode::Rootless);
        allowed.switches = refused();
        assert_eq!(allowed.mode(), Mode::None);
    }

    #[test]
    fn trying_says_something_and_harms_nothing() {
        // Other tests open and close descriptors in this process meanwhile; what leaks, leaks every time.
        const TIMES: usize = 25;
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let allowed = Allowed::try_all();
        (1..TIMES).for_each(|_| drop(Allowed::try_all()));
        assert!(open() < before + TIMES, "{before} before, {} after", open());
        assert!(allowed.own_syscall.is_ok(), "{:?}", allowed.own_syscall);
        assert!(allowed.open_files > 0);
    }
}

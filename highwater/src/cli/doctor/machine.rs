//! What was tried on this machine, one right after the other: what is lost without it, and how to get it.

use bpf::allowed::{Allowed, Capability, Cgroups, Trial};
use report::stall::doctor::Finding;

pub fn findings(allowed: &Allowed) -> Vec<Finding> {
    let mut found = vec![
        trial(
            "eBPF",
            &allowed.bpf,
            "stalls works from perf's tracepoints as root; for other users from switch records alone: lock \
             holders may be inferred",
            "run as root, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep highwater",
        ),
        trial(
            "tracepoints of the scheduler",
            &allowed.tracepoints,
            "no record of who woke whom",
            "run as root, or add CAP_PERFMON and read access to /sys/kernel/tracing",
        ),
        trial(
            "stacks of all CPUs",
            &allowed.cpu_samples,
            "who ran instead is known only by CPU time, not by the moment",
            "run as root, with CAP_PERFMON, or: sysctl kernel.perf_event_paranoid=0",
        ),
        trial(
            "uprobes",
            &allowed.uprobes,
            "waits of goroutines and linked-in allocators are not seen, and explain --pid names no sites",
            "run as root, or add CAP_BPF and CAP_PERFMON",
        ),
        trial(
            "switch records of own threads",
            &allowed.switches,
            "stalls cannot run",
            "sysctl kernel.perf_event_paranoid=2; in a container, allow perf_event_open",
        ),
    ];
    found.push(ptrace_scope(allowed));
    found.push(paranoid(allowed));
    found.push(open_files(allowed));
    found.extend(surroundings(allowed));
    found
}

fn trial(what: &str, trial: &Trial, lost: &str, get: &str) -> Finding {
    match trial {
        Ok(()) => Finding::good(what, "works"),
        Err(words) => Finding::lost(what, words, lost, get),
    }
}

fn ptrace_scope(allowed: &Allowed) -> Finding {
    let what = "yama ptrace_scope";
    let free = allowed.has(Capability::Ptrace);
    match allowed.ptrace_scope {
        None => Finding::good(what, "not in this kernel: own processes can be read"),
        Some(0) => Finding::good(what, "0: own processes can be read"),
        Some(scope) if free => Finding::good(what, &format!("{scope}, but CAP_SYS_PTRACE is held")),
        Some(1) => Finding::lost(
            what,
            "1",
            "stacks and lock words only of processes that highwater starts itself",
            "highwater stalls -- CMD, or: sysctl kernel.yama.ptrace_scope=0",
        ),
        Some(scope) => Finding::lost(
            what,
            &scope.to_string(),
            "no stacks, no lock words, no heap probe by attaching",
            "run as root, or: sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

fn paranoid(allowed: &Allowed) -> Finding {
    let what = "perf_event_paranoid";
    let free = allowed.has(Capability::Perfmon) || allowed.has(Capability::Admin);
    match allowed.perf_event_paranoid {
        None => Finding::lost(
            what,
            "this kernel has no perf events",
            "stalls cannot run",
            "a kernel with CONFIG_PERF_EVENTS",
        ),
        Some(level) if free || level <= 2 => Finding::good(what, &level.to_string()),
        Some(level) => Finding::lost(
            what,
            &level.to_string(),
            "no switch records without privileges",
            "sysctl kernel.perf_event_paranoid=2",
        ),
    }
}

/// An event per thread and CPU is open at a time in the rootless mode.
fn open_files(allowed: &Allowed) -> Finding {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let threads = allowed.open_files / cpus;
    Finding::good(
        "open files",
        &format!(
            "{}: rootless, up to {threads} threads of a process on {cpus} CPUs",
            allowed.open_files
        ),
    )
}

fn surroundings(allowed: &Allowed) -> Vec<Finding> {
    let cgroup = match allowed.cgroup {
        Cgroups::V2 => Finding::good("control groups", "version 2"),
        Cgroups::V1 => Finding::good("control groups", "version 1"),
        Cgroups::Missing => Finding::lost(
            "control groups",
            "not mounted",
            "a CPU quota cannot be distinguished from busy neighbours; no memory limits",
            "mount /sys/fs/cgroup",
        ),
    };
    let pressure = match allowed.pressure {
        true => Finding::good("pressure files", "works"),
        false => Finding::lost(
            "pressure files",
            "absent",
            "the machine's own stall shares are not in a run's record",
            "a kernel with CONFIG_PSI, booted with psi=1",
        ),
    };
    let huge = allowed.transparent_huge_pages.as_deref();
    let namespace = match allowed.first_pid_namespace {
        true => Finding::good("PID namespace", "the machine's first"),
        false => Finding::lost(
            "PID namespace",
            "a container's own",
            "eBPF speaks the host's numbers: stalls uses switch records instead",
            "run highwater on the host",
        ),
    };
    let btf = match allowed.btf {
        true => Finding::good("BTF of the kernel", "present"),
        false => Finding::lost(
            "BTF of the kernel",
            "absent",
            "no system call numbers at the switch: stalls takes them from /proc, for long waits",
            "a kernel with CONFIG_DEBUG_INFO_BTF",
        ),
    };
    vec![
        cgroup,
        pressure,
        namespace,
        btf,
        Finding::good(
            "transparent huge pages",
            huge.unwrap_or("not in this kernel"),
        ),
    ]
}

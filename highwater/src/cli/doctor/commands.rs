//! What each command can do here, with these rights.

use std::path::Path;

use bpf::allowed::{Allowed, Capability, Mode};
use experiment::built_in::{self, ForLibc};
use experiment::probe_library;
use report::stall::doctor::Finding;

/// A line for each command that depends on rights.
pub fn findings(allowed: &Allowed) -> Vec<Finding> {
    vec![
        explain_pid(allowed),
        explain_command(),
        stalls(allowed),
        observe(allowed),
        run(allowed),
        adopt(allowed),
    ]
}

/// How to get these capabilities: root in a container may lack them.
fn get(allowed: &Allowed, capabilities: &str) -> String {
    match allowed.uid {
        0 => format!("add {capabilities}"),
        _ => format!("run as root, or add {capabilities}"),
    }
}

fn reads_others(allowed: &Allowed) -> bool {
    allowed.has(Capability::Ptrace)
}

fn explain_pid(allowed: &Allowed) -> Finding {
    let what = "explain --pid";
    let reads = reads_others(allowed);
    let reads_own = reads || allowed.ptrace_scope.unwrap_or(0) == 0;
    match (reads, allowed.uprobes.is_ok()) {
        (true, true) => Finding::good(
            what,
            "all processes: memory, types, holders, and the functions that allocate",
        ),
        (true, false) => Finding::lost(
            what,
            "all processes: memory, types, holders",
            "the functions that allocate, of what runs already",
            "add CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN), and a seccomp profile that lets bpf and \
             perf_event_open pass",
        ),
        (false, _) if reads_own => Finding::lost(
            what,
            "this user's processes: memory, types, holders",
            "other users' processes, and the functions that allocate",
            &get(allowed, "CAP_SYS_PTRACE, CAP_BPF and CAP_PERFMON"),
        ),
        (false, _) => Finding::lost(
            what,
            "the memory's account alone, from /proc",
            "types, holders and functions",
            &get(allowed, "CAP_SYS_PTRACE"),
        ),
    }
}

fn explain_command() -> Finding {
    let what = "explain -- CMD";
    match probe_library::find(ForLibc::Glibc) {
        Ok(Some(found)) => {
            let from = match built_in::is_complete() {
                true => "glibc and musl programs, probe unpacked to ",
                false => "glibc programs, probe ",
            };
            Finding::good(what, &format!("{from}{}", found.library.display()))
        }
        Ok(None) => Finding::lost(
            what,
            "the probe is not beside this program",
            "the functions that allocate from the start on",
            "install a released package, or build the whole (cargo build --release)",
        ),
        Err(error) => Finding::lost(
            what,
            "the probe cannot be used",
            "the functions that allocate from the start on",
            &error.to_string(),
        ),
    }
}

fn stalls(allowed: &Allowed) -> Finding {
    let what = "stalls";
    match allowed.mode() {
        Mode::Ebpf => Finding::good(what, "every switch and wake, who woke whom, exact"),
        Mode::Tracepoints => Finding::good(what, "every switch, who woke whom by samples"),
        Mode::Rootless => Finding::lost(
            what,
            "this user's processes, every switch",
            "who woke whom: holders that no lock word names are inferred",
            "run as root in the machine's first PID namespace, with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE",
        ),
        Mode::None => Finding::lost(
            what,
            "cannot run",
            "all of it",
            "sysctl kernel.perf_event_paranoid=2; in a container a seccomp profile that lets perf_event_open pass",
        ),
    }
}

fn observe(allowed: &Allowed) -> Finding {
    let what = "observe";
    match reads_others(allowed) || allowed.uid == 0 {
        true => Finding::good(what, "all processes that this PID namespace shows"),
        false => Finding::lost(
            what,
            "this user's processes",
            "what makes up the memory of others (smaps)",
            &get(allowed, "CAP_SYS_PTRACE"),
        ),
    }
}

fn run(allowed: &Allowed) -> Finding {
    let what = "run";
    match allowed.uid {
        0 => Finding::good(what, "arms in control groups of their own"),
        _ => Finding::lost(
            what,
            "arms as plain processes",
            "a memory limit of their own for the arms",
            "run as root",
        ),
    }
}

fn adopt(allowed: &Allowed) -> Finding {
    let what = "adopt, revert";
    let has_systemd = Path::new("/run/systemd/system").exists();
    match (allowed.uid, has_systemd) {
        (0, true) => Finding::good(what, "units of this systemd"),
        (_, false) => Finding::lost(
            what,
            "no systemd runs here",
            "putting an arm into service",
            "run it where the service's systemd runs, or take --script and apply it there",
        ),
        (_, true) => Finding::lost(
            what,
            "this systemd may be read",
            "changing its units",
            "run as root",
        ),
    }
}

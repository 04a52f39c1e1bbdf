//! What to do next, by what the memory was made of.

use super::{Made, OomCause, OomFinding};
use oom::kill::Outcome;

/// Names with other letters are not put into a command line.
fn is_plain(command: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    !command.is_empty() && !command.starts_with('-') && command.chars().all(is_plain)
}

const PRESSURE: &str = "see what the cgroup holds while it runs (`highwater observe --pid PID`); `oomctl` prints the \
    limits of systemd-oomd, ManagedOOMPreference=avoid spares a unit";
const NODES: &str = "allow more nodes (cpuset.mems, numactl --interleave), or move other processes off these: \
    `numastat -p PID`";
const SHARED: &str = "find the files in a tmpfs: `df -t tmpfs`, `ls -lS /dev/shm`, `ipcs -m`, volumes of Kubernetes \
    with medium: Memory; they count against the limit until they are deleted";
const FILES: &str = "look for dirty, locked and mapped pages: `grep -E 'file_dirty|file_writeback|unevictable' \
    memory.stat` in the cgroup; a slow disk or mlock() keeps them";
const KERNEL: &str = "look at what the kernel holds for it: `slabtop -s c`, and `grep -E \
    'slab|sock|kernel_stack|pagetables' memory.stat` in the cgroup; many threads, sockets, open files or mappings are \
    the usual reasons";
const HUGE_PAGES: &str =
    "reserve fewer huge pages: `sysctl vm.nr_hugepages`; what is reserved serves nothing else";

pub fn step(finding: &OomFinding) -> String {
    match finding.cause {
        OomCause::Pressure => return PRESSURE.to_owned(),
        OomCause::Nodes => return NODES.to_owned(),
        _ => {}
    }
    if let Some(standing) = &finding.standing
        && let Some(larger) = standing.larger.as_ref().filter(|_| standing.is_spared)
        && finding.made == Made::Anonymous
    {
        return format!(
            "find out which of the two grows: {} ({}), or the one that was killed, when it runs again; oom_score_adj \
             decides who is killed, not who fills the memory",
            larger.command,
            explain(Some(larger.pid), &larger.command)
        );
    }
    by_memory(finding)
}

fn by_memory(finding: &OomFinding) -> String {
    let last = finding.last();
    match &finding.made {
        Made::Shared => SHARED.to_owned(),
        Made::Files => FILES.to_owned(),
        Made::Kernel => KERNEL.to_owned(),
        Made::HugePages => HUGE_PAGES.to_owned(),
        Made::ManyProcesses { command, .. } => {
            format!(
                "bound how many processes of {command} run at once, or raise the limit to what they need together"
            )
        }
        Made::Anonymous | Made::Mixed | Made::Unknown => match (last.outcome, last.victim()) {
            (Outcome::Panicked, _) | (_, None) => largest(finding),
            (_, Some(victim)) => {
                let chosen = victim.instead_of.as_ref().map(|(_, command)| command);
                again(finding, chosen.unwrap_or(&victim.command))
            }
        },
    }
}

/// The next one of the same command.
fn again(finding: &OomFinding, command: &str) -> String {
    let how = explain(None, command);
    match finding.kills.len() {
        1 => format!(
            "when it runs again, see what grows: {how}; more memory helps only if it levels off"
        ),
        _ => format!("the next one grows the same way; while it does, see what grows: {how}"),
    }
}

fn largest(finding: &OomFinding) -> String {
    match finding.last().tasks.largest.first() {
        Some(task) => format!(
            "{} (pid {}) was the largest process; when it runs again, see what grows: {}",
            task.command,
            task.pid,
            explain(None, &task.command)
        ),
        None => "watch the largest processes: `highwater observe --pid PID`".to_owned(),
    }
}

fn explain(pid: Option<u32>, command: &str) -> String {
    match pid {
        Some(pid) => format!("`sudo highwater explain --pid {pid}`"),
        None if is_plain(command) => {
            format!("`sudo highwater explain --pid $(pgrep -n {command})`")
        }
        None => "`sudo highwater explain --pid PID`".to_owned(),
    }
}

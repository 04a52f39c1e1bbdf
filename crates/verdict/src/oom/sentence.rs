//! The sentence at the top, and what speaks against it.

use super::made_of::KERNEL;
use super::{Made, OomCause, OomFinding};
use oom::kill::{By, Kill, Missing, Outcome, Victim};
use units::written::{bytes, counted, percent, seconds};

/// Free memory of a zone is ample from this multiple of its mark on.
const AMPLE: u64 = 2;

pub fn sentence(finding: &OomFinding) -> String {
    let last = finding.last();
    let ran_out = match finding.cause {
        OomCause::CgroupLimit => limit(finding),
        OomCause::Machine => machine(last),
        OomCause::Panic => "the machine ran out of memory".to_owned(),
        OomCause::Nodes => nodes(last),
        OomCause::Pressure => return pressure(finding),
        OomCause::Unknown => "memory ran out; the log does not have which limit it was".to_owned(),
    };
    format!(
        "{ran_out}, and {}{}{}",
        ended(finding),
        made(finding),
        repeated(finding)
    )
}

/// "container 3f2a91c07bde of pod ... reached its memory limit of 40 MiB".
fn limit(finding: &OomFinding) -> String {
    let cgroup = finding.last().cgroup.as_ref();
    let path = finding.last().limit_cgroup.as_deref();
    let name = finding.owner.name();
    let name = name.or_else(|| path.map(|path| format!("cgroup {path}")));
    let name = name.unwrap_or_else(|| "a cgroup".to_owned());
    let of = |limit: Option<u64>| {
        limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit as f64)))
    };
    let Some(cgroup) = cgroup else {
        return format!("{name} reached its memory limit");
    };
    let limits = [
        (cgroup.memory, "memory limit"),
        (cgroup.memory_and_swap, "limit of memory and swap"),
        (cgroup.kernel, "limit of kernel memory"),
    ];
    let reached = limits.iter().find_map(|(counter, word)| {
        counter
            .filter(|counter| counter.is_at_limit())
            .map(|counter| (counter, word))
    });
    match reached {
        Some((counter, word)) => format!("{name} reached its {word}{}", of(counter.limit_bytes)),
        None => format!(
            "{name} reached its memory limit{}",
            of(cgroup.memory.and_then(|memory| memory.limit_bytes))
        ),
    }
}

fn machine(kill: &Kill) -> String {
    let Some(machine) = &kill.machine else {
        return "the machine ran out of memory".to_owned();
    };
    let ram = machine
        .managed_bytes
        .map_or_else(String::new, |ram| format!("{} of RAM, ", bytes(ram as f64)));
    let swap = match (machine.swap_total_bytes, machine.swap_free_bytes) {
        (Some(0), _) => "no swap".to_owned(),
        (Some(total), Some(free)) => format!(
            "{} of {} of swap used",
            bytes((total - free.min(total)) as f64),
            bytes(total as f64)
        ),
        _ => "swap not in the log".to_owned(),
    };
    format!("the machine ran out of memory ({ram}{swap})")
}

fn nodes(kill: &Kill) -> String {
    let nodes = kill
        .nodes
        .as_deref()
        .map_or_else(String::new, |nodes| format!(" (nodes {nodes})"));
    let cpuset = kill
        .cpuset
        .as_deref()
        .map_or_else(String::new, |cpuset| format!(" of cpuset {cpuset}"));
    format!(
        "the memory nodes{cpuset}{nodes} had no memory left; that of other nodes could not be used"
    )
}

fn pressure(finding: &OomFinding) -> String {
    let last = finding.last();
    let name = finding.owner.name().or_else(|| last.task_cgroup.clone());
    let why = match &last.by {
        By::SystemdOomd(why) => why.as_str(),
        By::Kernel => "",
    };
    let count = last.killed_count.map_or_else(String::new, |count| {
        format!(" ({})", counted(count, "process", "processes"))
    });
    let name = name.unwrap_or_else(|| "a cgroup".to_owned());
    format!(
        "systemd-oomd killed all of {name}{count} due to {why}{}",
        repeated(finding)
    )
}

/// Who was killed, with its size and its place.
fn ended(finding: &OomFinding) -> String {
    let last = finding.last();
    match (last.outcome, last.victim()) {
        (Outcome::Panicked, _) => {
            "the kernel stopped the machine (panic) instead of killing a process".to_owned()
        }
        (Outcome::NothingToKill, _) => "there was no process that may be killed".to_owned(),
        (Outcome::Unsaid, Some(victim)) => {
            format!("the kernel had chosen {}; the log ends there", who(victim))
        }
        (_, None) => "the log does not have which process was killed".to_owned(),
        (Outcome::Killed, Some(victim)) => killed(finding, victim),
    }
}

/// "leaky-worker (pid 158)".
pub fn who(victim: &Victim) -> String {
    format!("{} (pid {})", victim.command, victim.pid)
}

fn killed(finding: &OomFinding, victim: &Victim) -> String {
    let last = finding.last();
    let size = victim.resident_bytes().map_or_else(String::new, |size| {
        format!(" with {} resident", bytes(size as f64))
    });
    let place = match &finding.standing {
        Some(standing) if standing.of == 1 => ", the only process there".to_owned(),
        Some(standing) if standing.rank == 1 => {
            format!(", the largest of {} processes", standing.of)
        }
        Some(standing) => smaller(standing.larger.as_ref(), standing.is_spared),
        None => String::new(),
    };
    let others = last.victims.len() - 1;
    let group = match last.group_cgroup.is_some() && others > 0 {
        true => format!(
            ", and with it {} of its group (memory.oom.group)",
            counted(others as u64, "other process", "other processes")
        ),
        false => String::new(),
    };
    format!("the kernel killed {}{size}{place}{group}", who(victim))
}

fn smaller(larger: Option<&oom::kill::Task>, is_spared: bool) -> String {
    let Some(larger) = larger else {
        return String::new();
    };
    let why = match is_spared {
        true => format!(", which oom_score_adj {} protects", larger.oom_score_adj),
        false => String::new(),
    };
    format!(
        ", not the largest: {} (pid {}) had {}{why}",
        larger.command,
        larger.pid,
        bytes(larger.resident_bytes as f64)
    )
}

/// What the memory was made of, where it is not simply that of the victim.
fn made(finding: &OomFinding) -> String {
    let share = |words: &[&str]| {
        let (parts, whole) = super::parts(finding.last())?;
        let of = parts.iter().filter(|part| words.contains(&part.word));
        let sum: f64 = of.map(|part| part.bytes).sum();
        Some(format!(
            "{} ({})",
            bytes(sum),
            percent(sum / whole.max(1.0))
        ))
    };
    let text = match &finding.made {
        Made::Shared => share(&["shared"]).map(|share| {
            format!("; {share} was shared memory or files in a tmpfs, which stay when a process is killed")
        }),
        Made::Files => share(&["files", "unevictable"])
            .map(|share| format!("; {share} was page cache that could not be dropped")),
        Made::Kernel => share(&KERNEL)
            .map(|share| format!("; {share} was the kernel's own memory, and not the process's")),
        Made::HugePages => share(&["huge_pages"])
            .map(|share| format!("; {share} was reserved for huge pages")),
        Made::ManyProcesses { command, count, resident_bytes } => Some(format!(
            "; {count} processes of {command} had {} together",
            bytes(*resident_bytes as f64)
        )),
        Made::Anonymous | Made::Mixed | Made::Unknown => None,
    };
    text.unwrap_or_default()
}

fn repeated(finding: &OomFinding) -> String {
    let count = finding.kills.len();
    match (&finding.growth, count) {
        (_, 1) => String::new(),
        (Some(growth), _) => format!(
            ". It is kill {count} of the same command, one every {}",
            seconds(growth.interval_s)
        ),
        (None, _) => format!(". It is kill {count} of the same command"),
    }
}

/// What is missing, or puts the sentence in another light.
pub fn limitations(finding: &OomFinding) -> Vec<String> {
    let last = finding.last();
    let mut limitations = Vec::new();
    if last.is_allocating_task {
        limitations.push(
            "it was killed because it asked (vm.oom_kill_allocating_task), whatever its size: the process that \
             grew may be another"
                .to_owned(),
        );
    }
    if let Some((pid, command)) = last.victim().and_then(|victim| victim.instead_of.as_ref()) {
        limitations.push(format!(
            "the kernel had chosen {command} (pid {pid}) and killed a child of it, as it did before 5.3"
        ));
    }
    if let Some(beside) = &finding.beside {
        let over = beside
            .over_s
            .map_or_else(String::new, |s| format!(" in {}", seconds(s)));
        limitations.push(format!(
            "from the first kill to the last {} (pid {}) grew from {} to {}{over}: it may be the one that fills \
             the memory",
            beside.command,
            beside.pid,
            bytes(beside.from_bytes as f64),
            bytes(beside.to_bytes as f64)
        ));
    }
    limitations.extend(fragmented(last));
    if last.by == By::Kernel {
        limitations.extend(last.missing.iter().map(|part| missing(*part).to_owned()));
    }
    limitations
}

/// It asked for contiguous pages while there was memory.
fn fragmented(kill: &Kill) -> Option<String> {
    let order = kill
        .request
        .as_ref()?
        .order
        .filter(|order| (1..=10).contains(order))?;
    let zones = &kill.machine.as_ref()?.zones;
    let ample =
        |zone: &&oom::kill::Zone| zone.min_bytes > 0 && zone.free_bytes > AMPLE * zone.min_bytes;
    let zone = zones
        .iter()
        .filter(ample)
        .max_by_key(|zone| zone.free_bytes)?;
    Some(format!(
        "it asked for {} contiguous pages while {} of {} was free: that may be fragmentation, or a zone that the \
         request may not use, and no lack of memory",
        1_u32 << order,
        bytes(zone.free_bytes as f64),
        zone.name
    ))
}

fn missing(part: Missing) -> &'static str {
    match part {
        Missing::Request => {
            "the log does not have who asked for memory: the kernel prints the details of ten kills in five \
             seconds at most, or the beginning was overwritten"
        }
        Missing::Limit => "the log does not have which limit it was",
        Missing::Memory => "the log does not have what the memory was made of",
        Missing::Tasks => {
            "the log does not have the table of tasks (vm.oom_dump_tasks is 0, or it was overwritten)"
        }
        Missing::Victim => "the log ends before the line with the process that was killed",
    }
}

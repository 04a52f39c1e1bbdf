//! OOM kills for programs: `highwater.oom/1`. Bytes are whole numbers, times seconds.

use serde_json::{Value, json};

use super::{OomReport, SCHEMA};
use oom::kill::{
    At, By, Constraint, Counter, Kill, MachineMemory, Missing, Outcome, Task, Victim, Zone,
};
use oom::now::CgroupNow;
use verdict::oom::{OomFinding, parts};

pub fn json(report: &OomReport) -> Value {
    let reading = &report.reading;
    json!({
        "schema": SCHEMA,
        "searched": {
            "source": reading.source,
            "lines": reading.lines,
            "first": reading.first.map(at),
            "last": reading.last.map(at),
            "since_s": report.since_s,
            "overwritten_records": reading.overwritten,
            "cut_lines": reading.cut_lines,
        },
        "kills": report.kills(),
        "earlier_kills": report.earlier,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn at(at: At) -> Value {
    json!({"unix_s": at.wall_s, "after_boot_s": at.boot_s})
}

fn finding(finding: &OomFinding) -> Value {
    let owner = &finding.owner;
    json!({
        "cause": finding.cause.word(),
        "sentence": finding.sentence,
        "next_step": finding.next_step,
        "limitations": finding.limitations,
        "made_of": finding.made.word(),
        "owner": {
            "runtime": owner.runtime,
            "container": owner.container,
            "pod": owner.pod,
            "quality_of_service": owner.quality_of_service,
            "unit": owner.unit,
        },
        "victim": finding.standing.as_ref().map(|standing| json!({
            "rank": standing.rank,
            "of": standing.of,
            "larger": standing.larger.as_ref().map(task),
            "larger_is_spared": standing.is_spared,
        })),
        "growth": finding.growth.as_ref().map(|growth| json!({
            "interval_s": growth.interval_s,
            "shortest_s": growth.shortest_s,
            "longest_s": growth.longest_s,
            "bytes_at_kill": growth.bytes,
            "at_least_bytes_per_hour": growth.bytes_per_hour(),
        })),
        "grew_beside": finding.beside.as_ref().map(|beside| json!({
            "pid": beside.pid,
            "command": beside.command,
            "from_bytes": beside.from_bytes,
            "to_bytes": beside.to_bytes,
            "over_s": beside.over_s,
        })),
        "now": finding.now.as_ref().map(now),
        "kills": finding.kills.iter().map(kill).collect::<Vec<_>>(),
    })
}

fn kill(kill: &Kill) -> Value {
    let parts = parts(kill).map(|(parts, whole)| {
        let part =
            |part: &verdict::oom::Part| json!({"name": part.word, "bytes": part.bytes.round()});
        json!({"bytes": whole.round(), "parts": parts.iter().map(part).collect::<Vec<_>>()})
    });
    let cgroup = kill.cgroup.as_ref();
    json!({
        "at": at(kill.at),
        "line": kill.line,
        "kernel": kill.kernel,
        "by": match &kill.by {
            By::Kernel => "kernel",
            By::SystemdOomd(_) => "systemd-oomd",
        },
        "reason": match &kill.by {
            By::Kernel => None,
            By::SystemdOomd(why) => Some(why),
        },
        "constraint": constraint(kill.constraint),
        "outcome": outcome(kill.outcome),
        "limit_cgroup": kill.limit_cgroup,
        "task_cgroup": kill.task_cgroup,
        "cpuset": kill.cpuset,
        "nodes": kill.nodes,
        "limits": {
            "memory": cgroup.and_then(|cgroup| cgroup.memory).map(counter),
            "swap": cgroup.and_then(|cgroup| cgroup.swap).map(counter),
            "memory_and_swap": cgroup.and_then(|cgroup| cgroup.memory_and_swap).map(counter),
            "kernel": cgroup.and_then(|cgroup| cgroup.kernel).map(counter),
        },
        "request": kill.request.as_ref().map(|request| json!({
            "command": request.command,
            "pid": request.pid,
            "gfp": request.gfp,
            "order": request.order,
            "oom_score_adj": request.oom_score_adj,
        })),
        "victims": kill.victims.iter().map(victim).collect::<Vec<_>>(),
        "killed_count": kill.killed_count,
        "group_cgroup": kill.group_cgroup,
        "allocating_task": kill.is_allocating_task,
        "memory": parts,
        "machine": kill.machine.as_ref().map(machine),
        "tasks": {
            "count": kill.tasks.count,
            "resident_bytes": kill.tasks.resident_bytes,
            "largest": kill.tasks.largest.iter().map(task).collect::<Vec<_>>(),
        },
        "missing": kill.missing.iter().map(|part| missing(*part)).collect::<Vec<_>>(),
    })
}

fn counter(counter: Counter) -> Value {
    json!({"usage_bytes": counter.usage_bytes, "limit_bytes": counter.limit_bytes, "failures": counter.failures})
}

fn machine(machine: &MachineMemory) -> Value {
    let cache = |(name, bytes): &(String, u64)| json!({"name": name, "bytes": bytes});
    json!({
        "swap_total_bytes": machine.swap_total_bytes,
        "swap_free_bytes": machine.swap_free_bytes,
        "zones": machine.zones.iter().map(zone_json).collect::<Vec<_>>(),
        "slab_caches": machine.slab_caches.iter().map(cache).collect::<Vec<_>>(),
    })
}

fn zone_json(zone: &Zone) -> Value {
    json!({
        "name": zone.name,
        "free_bytes": zone.free_bytes,
        "min_bytes": zone.min_bytes,
    })
}

fn victim(victim: &Victim) -> Value {
    json!({
        "pid": victim.pid,
        "command": victim.command,
        "uid": victim.uid,
        "virtual_bytes": victim.virtual_bytes,
        "anon_bytes": victim.anon_bytes,
        "file_bytes": victim.file_bytes,
        "shmem_bytes": victim.shmem_bytes,
        "page_table_bytes": victim.page_table_bytes,
        "swap_bytes": victim.swap_bytes,
        "oom_score_adj": victim.oom_score_adj,
        "instead_of": victim.instead_of.as_ref().map(|(pid, command)| json!({"pid": pid, "command": command})),
    })
}

fn task(task: &Task) -> Value {
    json!({
        "pid": task.pid,
        "uid": task.uid,
        "command": task.command,
        "resident_bytes": task.resident_bytes,
        "virtual_bytes": task.virtual_bytes,
        "swap_bytes": task.swap_bytes,
        "oom_score_adj": task.oom_score_adj,
    })
}

fn now(now: &CgroupNow) -> Value {
    json!({
        "folder": now.folder.display().to_string(),
        "version": if now.is_v2 { 2 } else { 1 },
        "memory_bytes": now.memory.memory_bytes,
        "peak_bytes": now.memory.memory_peak_bytes,
        "limit_bytes": now.memory.memory_limit_bytes,
        "oom_kills": now.memory.oom_kills,
        "high_bytes": now.high_bytes,
        "high_events": now.high_events,
        "max_events": now.max_events,
        "oom_group": now.is_group,
        "oom_killer_off": now.is_killing_off,
    })
}

fn constraint(constraint: Constraint) -> &'static str {
    match constraint {
        Constraint::Unknown => "unknown",
        Constraint::Machine => "machine",
        Constraint::Cgroup => "cgroup",
        Constraint::Cpuset => "cpuset",
        Constraint::MemoryPolicy => "memory_policy",
    }
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unsaid => "unknown",
        Outcome::Killed => "killed",
        Outcome::NothingToKill => "nothing_to_kill",
        Outcome::Panicked => "panicked",
    }
}

fn missing(part: Missing) -> &'static str {
    match part {
        Missing::Request => "request",
        Missing::Limit => "limit",
        Missing::Memory => "memory",
        Missing::Tasks => "tasks",
        Missing::Victim => "victim",
    }
}

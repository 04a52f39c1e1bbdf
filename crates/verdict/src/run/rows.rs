//! One row per arm: its verdict and costs, and what its processes were and did.

use std::collections::{BTreeMap, BTreeSet};

use super::ArmRow;
use super::heap::ArmHeap;
use crate::Label;
use crate::arm::ArmVerdict;
use crate::cost::{ArmCost, rss_peak};
use experiment::file::SubjectKind;
use observe::member;
use observe::snapshot::{EventKind, ProcessId, Role};
use record::run::{Process, Run};
use series::arms::{arm_names, restarts, subjects};
use units::written;

/// Fact that holds the allocator's known defects, one a line; recorded once when the process is
/// proved.
pub const DEFECTS_FACT: &str = "allocator.defects";

/// Fact that holds what misuse the allocator stops, one name a line.
pub const PROTECTIONS_FACT: &str = "allocator.protections";

/// Kinds of event after which a process is gone though nobody asked it to go.
const UNEXPECTED: &[EventKind] = &[
    EventKind::Crashed,
    EventKind::OomKilled,
    EventKind::Killed,
    EventKind::Vanished,
];

/// Every arm of the run, in the experiment's order.
pub fn rows(
    run: &Run,
    verdicts: &[ArmVerdict],
    costs: &[ArmCost],
    heaps: &[ArmHeap],
) -> Vec<ArmRow> {
    arm_names(run)
        .iter()
        .map(|arm| row(run, arm, verdicts, costs, heaps))
        .collect()
}

fn row(
    run: &Run,
    arm: &str,
    verdicts: &[ArmVerdict],
    costs: &[ArmCost],
    heaps: &[ArmHeap],
) -> ArmRow {
    let replicas = subjects(run, arm);
    let processes: Vec<&Process> = replicas.values().flatten().copied().collect();
    let verdict = verdicts.iter().find(|verdict| verdict.arm == arm);
    let cost = costs.iter().find(|cost| cost.arm == arm);
    // One that was seen to be gone before its exit code was read has both events.
    let unexpected = |p: &&&Process| {
        has_event(run, p.id, UNEXPECTED) && !has_event(run, p.id, &[EventKind::Exited])
    };
    ArmRow {
        arm: arm.to_string(),
        is_control: arm == run.experiment.control,
        memory: verdict.cloned().unwrap_or_else(|| unjudged(arm)),
        cost: cost.cloned().unwrap_or_else(|| ArmCost {
            arm: arm.to_string(),
            ..ArmCost::default()
        }),
        heap: heaps.iter().find(|heap| heap.arm == arm).cloned(),
        rss_peak_bytes: rss_peak(run, arm).map_or(0.0, |(bytes, _)| bytes),
        proved: latest_facts(&processes, proved_words),
        defects: lines_of(&processes, DEFECTS_FACT),
        protections: lines_of(&processes, PROTECTIONS_FACT),
        aborted: aborted(run, arm),
        started: replicas.len() as u32,
        crashed: crashed(run, &replicas, unexpected),
        restarted: replicas.values().map(|all| restarts(all)).sum::<usize>() as u32,
    }
}

/// Of processes that highwater did not start, how one ended is unknown: one that has a successor was restarted by
/// somebody, and only one without is missed.
fn crashed(
    run: &Run,
    replicas: &BTreeMap<u32, Vec<&Process>>,
    unexpected: impl Fn(&&&Process) -> bool,
) -> u32 {
    let is_watched = run.experiment.subject.kind == SubjectKind::Attach;
    let counted = |incarnations: &Vec<&Process>| {
        let skipped = if is_watched {
            incarnations.len().saturating_sub(1)
        } else {
            0
        };
        incarnations
            .iter()
            .skip(skipped)
            .filter(&unexpected)
            .count()
    };
    replicas.values().map(counted).sum::<usize>() as u32
}

/// The lines of a fact of any of the processes, each once.
fn lines_of(processes: &[&Process], fact: &str) -> Vec<String> {
    let values = processes
        .iter()
        .filter_map(|process| member::latest(&process.facts, fact));
    let lines: BTreeSet<String> = values.flat_map(str::lines).map(str::to_string).collect();
    lines.into_iter().collect()
}

/// Why the arm ended before the run did: a guard, or no process of it was left.
fn aborted(run: &Run, arm: &str) -> Option<String> {
    let of_arm = |id: Option<ProcessId>| {
        let own = |p: &Process| p.role == Role::Subject && p.arm == arm && Some(p.id) == id;
        run.processes.iter().any(own)
    };
    let guard = run
        .events
        .iter()
        .find(|e| e.kind == EventKind::Aborted && of_arm(e.process));
    if let Some(event) = guard {
        return Some(event.words.clone());
    }
    let replicas = subjects(run, arm);
    let last = replicas
        .values()
        .filter_map(|incarnations| incarnations.last());
    // Unless the experiment says so, a server that gives up in every arm would pass for a program that ends.
    let is_done = |process: &&&Process| {
        run.experiment.subject.ends && has_event(run, process.id, &[EventKind::Exited])
    };
    let ends: Vec<String> = last
        .filter(|process| !is_done(process))
        .filter_map(|process| ended_early(run, process))
        .collect();
    if replicas.is_empty() {
        return Some("no process was started".to_string());
    }
    (ends.len() == replicas.len()).then(|| {
        let first = ends.first().cloned().unwrap_or_default();
        match ends.len() {
            1 => first,
            2 => format!("both processes ended, the first: {first}"),
            n => format!("all {n} processes ended, the first: {first}"),
        }
    })
}

/// How a process ended, when nobody asked it to; `None` for one that was stopped or still runs.
fn ended_early(run: &Run, process: &Process) -> Option<String> {
    let ends = [
        UNEXPECTED,
        &[
            EventKind::NeverReady,
            EventKind::NotTheArm,
            EventKind::Exited,
        ],
    ]
    .concat();
    let stops = [EventKind::Stopped, EventKind::StopForced];
    let event = run
        .events
        .iter()
        .find(|e| e.process == Some(process.id) && ends.contains(&e.kind))?;
    let stopped = run
        .events
        .iter()
        .any(|e| e.process == Some(process.id) && stops.contains(&e.kind) && e.time <= event.time);
    if stopped {
        return None;
    }
    let how = match event.kind {
        EventKind::OomKilled => "was OOM-killed",
        EventKind::NeverReady => "never got ready",
        EventKind::NotTheArm => "did not run what its arm says",
        EventKind::Vanished => "vanished",
        EventKind::Killed => "was killed",
        EventKind::Crashed => "crashed",
        _ => "ended by itself",
    };
    let age = series::arms::seconds_between(process.started, event.time);
    let exit = process
        .exit
        .as_deref()
        .map(|exit| format!(" ({exit})"))
        .unwrap_or_default();
    let id = series::arms::replica_id(process);
    Some(format!(
        "process {id} {how}{exit} after {}",
        written::seconds(age.max(0.0))
    ))
}

fn has_event(run: &Run, id: ProcessId, kinds: &[EventKind]) -> bool {
    run.events
        .iter()
        .any(|event| event.process == Some(id) && kinds.contains(&event.kind))
}

/// What `words` says of each process, each answer once.
fn latest_facts(processes: &[&Process], words: impl Fn(&Process) -> Option<String>) -> Vec<String> {
    let all: BTreeSet<String> = processes
        .iter()
        .filter_map(|process| words(process))
        .collect();
    all.into_iter().collect()
}

/// "jemalloc 5.3.0 (build id 1f2e3d4c)": from the facts that were proved at the last change.
pub fn proved_words(process: &Process) -> Option<String> {
    let version = member::latest(&process.facts, "allocator.version");
    let path = member::latest(&process.facts, "allocator.path");
    let name = version.or(path)?;
    let id = member::latest(&process.facts, "allocator.build_id")
        .map(|id| id.chars().take(12).collect::<String>());
    Some(match id {
        Some(id) if !id.is_empty() => format!("{name} (build id {id})"),
        _ => name.to_string(),
    })
}

fn unjudged(arm: &str) -> ArmVerdict {
    ArmVerdict {
        arm: arm.to_string(),
        label: Label::Insufficient,
        confidence: 0.0,
        rule: "no series to classify".to_string(),
        level: None,
        slope_per_hour: None,
        asymptote: None,
        time_to_limit_s: None,
        outliers: Vec::new(),
        needs: None,
        processes: Vec::new(),
    }
}

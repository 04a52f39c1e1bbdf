//! What the audit needs, from the record of a run: facts of each replica over time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::audit;
use crate::audit::{AuditInput, Check, Member, ProcessFacts, Stay};
use crate::run::Finding;
use crate::run::heap::LAST_WORDS_MAX;
use observe::member;
use observe::metric;
use observe::metric::Metric;
use observe::snapshot::{Event, EventKind, LAST_SNAPSHOT_MAX, Role, TimeNs};
use record::run::{Process, Run};
use series::arms::{member_id, seconds_between, subjects};
use series::latency::LOAD_METRIC;
use series::series::Point;
use units::wording::quoted;
use units::written;

/// With less than this share of the memory available the kernel evicts what is in use (0.5 to 4 % when it was seen).
const SHORT_SHARE: f64 = 0.05;

/// More than this share of the CPU time that was wanted went to other guests: latencies of milliseconds are theirs.
const STOLEN_SHARE: f64 = 0.02;

/// Intervals without a snapshot of the end of a run that are worth a finding, beyond what ending takes.
const SNAPSHOTS_UNSEEN: f64 = 3.0;

/// What missing snapshots mean.
const NOT_SEEN: &str =
    "growth, a peak or a restart in that time is not seen; verdicts rest on the other snapshots";

/// Kinds of events that are named when they are not known.
const NAMED_MAX: usize = 4;

/// Fact of a process: the file whose malloc answers.
const ALLOCATOR_FACT: &str = "malloc.library";

/// Everything that the audit finds, worst first, in the words of a report.
pub fn findings(run: &Run) -> Vec<Finding> {
    let mut all = audit::audit(&input(run));
    all.extend(audit::moves(&members(run)));
    all.sort_by(|a, b| b.severity.cmp(&a.severity).then(a.check.cmp(&b.check)));
    let words = |found: audit::Finding| Finding {
        effect: format!("{}; {}", found.effect, still(&found)),
        what: what(run, &found),
        processes: found.processes,
    };
    all.into_iter()
        .map(words)
        .chain(shortage(run))
        .chain(theft(run))
        .chain(lost_snapshots(run))
        .chain(unseen_end(run))
        .chain(unknown_events(run))
        .collect()
}

/// What was found, and of an arm that ended early why.
fn what(run: &Run, found: &audit::Finding) -> String {
    let event = found.arms.first().and_then(|arm| abortion(run, arm));
    match event.filter(|_| found.check == Check::Stopped) {
        Some(event) => format!("{}: {}", found.what, event.words),
        None => found.what.clone(),
    }
}

/// A run is judged over its own time: ages that differ cannot be made equal.
fn still(found: &audit::Finding) -> String {
    match found.check {
        Check::Uptimes => "every arm is classified over the time of this run; levels of different ages compare only \
                           when the processes are restarted together"
            .to_owned(),
        Check::Added => "each is classified over the time that it was seen".to_owned(),
        _ => found.still.clone(),
    }
}

/// Who was in which arm, and since when.
pub fn members(run: &Run) -> Vec<Member> {
    let mut members: BTreeMap<String, Vec<&Process>> = BTreeMap::new();
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    for process in subjects.clone() {
        // A process without a name is the same one in another arm only by its pid and start.
        let twin = subjects.clone().find(|other| {
            process.start_ticks > 0
                && (other.pid, other.start_ticks) == (process.pid, process.start_ticks)
        });
        let id = member_id(twin.unwrap_or(process));
        members.entry(id).or_default().push(process);
    }
    let member = |(id, mut rows): (String, Vec<&Process>)| {
        rows.sort_by_key(|process| process.started);
        let stays = (0..rows.len()).map(|at| stay(run, &rows, at)).collect();
        Member { id, stays }
    };
    members.into_iter().map(member).collect()
}

fn stay(run: &Run, rows: &[&Process], at: usize) -> Stay {
    let process = rows[at];
    let key = |p: &Process| (p.pid, p.start_ticks);
    let before = at.checked_sub(1).map(|before| rows[before]);
    Stay {
        arm: process.arm.clone(),
        from_s: seconds_between(run.begun, process.started),
        until_s: departed(run, process),
        is_same_process: before.is_some_and(|b| process.start_ticks > 0 && key(b) == key(process)),
        left_out: member::latest(&process.facts, member::LEFT_OUT).map(str::to_owned),
    }
}

/// When a process left its arm and went on.
fn departed(run: &Run, process: &Process) -> Option<f64> {
    let left = |kind: &EventKind| matches!(kind, EventKind::Moved | EventKind::Left);
    let mut events = run.events.iter().filter(|e| e.process == Some(process.id));
    let event = events.find(|event| left(&event.kind))?;
    // An arm that was stopped is not left: it is watched no more.
    let is_stopped = || aborted(run, process).is_some_and(|time| time <= event.time);
    match event.kind == EventKind::Left && is_stopped() {
        true => None,
        false => Some(seconds_between(run.begun, event.time)),
    }
}

/// What a newer highwater wrote down and this one cannot read.
fn unknown_events(run: &Run) -> Option<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for event in &run.events {
        if let EventKind::Unknown(word) = &event.kind {
            *counts.entry(word).or_default() += 1;
        }
    }
    let all = written::counted(counts.values().sum::<usize>() as u64, "event", "events");
    let named: Vec<String> = counts
        .keys()
        .take(NAMED_MAX)
        .map(|word| quoted(word))
        .collect();
    let more = if counts.len() > NAMED_MAX { " ..." } else { "" };
    (!counts.is_empty()).then(|| Finding {
        what: format!(
            "{all} of a kind that this highwater does not know: {}{more}",
            named.join(", ")
        ),
        processes: Vec::new(),
        effect: "they are listed and count for nothing; the highwater that wrote them may decide otherwise".to_owned(),
    })
}

/// A machine without memory takes the pages of programs and libraries from every process, and their resident sets
/// with them: seen on relays of 138 MiB that lost 10 in a minute, and got them back as a step.
fn shortage(run: &Run) -> Option<Finding> {
    let host = run.processes.iter().find(|p| p.role == Role::Host)?;
    let from = judged_from(run)?;
    let samples = |metric: Metric| host.samples.get(metric.name).into_iter().flatten();
    let (_, total) = samples(metric::HOST_MEMORY_TOTAL).next()?;
    let (time, least) = samples(metric::HOST_MEMORY_AVAILABLE)
        .filter(|(time, _)| *time >= from)
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    (*least < SHORT_SHARE * total).then(|| Finding {
        what: format!(
            "the machine ran short of memory: {} of {} available, {:.0} s into the run",
            written::bytes(*least),
            written::bytes(*total),
            seconds_between(run.begun, *time)
        ),
        processes: Vec::new(),
        effect: "the kernel takes pages of programs and libraries from every process: resident sets fall and come back \
                 as steps that are not the program's; the order of arms that are far apart stands"
            .to_owned(),
    })
}

/// A virtual machine whose host is full runs late, and nothing in it can tell why.
fn theft(run: &Run) -> Option<Finding> {
    let host = run.processes.iter().find(|p| p.role == Role::Host)?;
    let from = judged_from(run)?;
    let gained = |metric: Metric| {
        let samples = host.samples.get(metric.name)?;
        let mut seen = samples.iter().filter(|(time, _)| *time >= from);
        let (_, first) = seen.next()?;
        Some(seen.next_back()?.1 - first)
    };
    let stolen = gained(metric::HOST_CPU_STOLEN)?;
    let share = stolen / (stolen + gained(metric::HOST_CPU_BUSY)?);
    (share > STOLEN_SHARE).then(|| Finding {
        what: format!(
            "of the CPU time that this machine needed, its host gave {:.0} % to other guests",
            100.0 * share
        ),
        processes: Vec::new(),
        effect: "latencies hold the host's pauses, in every arm alike: a tail of milliseconds need not be the \
                 program's, and small differences of latency and CPU say little; memory minds where work queues up \
                 behind the pauses, or a warm-up takes longer for them"
            .to_owned(),
    })
}

/// Snapshots that the record had no room for, or that it could not take, as the collector counted them.
fn lost_snapshots(run: &Run) -> Option<Finding> {
    let lost = run
        .events
        .iter()
        .filter(|event| event.kind == EventKind::SnapshotsLost);
    let words: Vec<&str> = lost.map(|event| event.words.as_str()).collect();
    (!words.is_empty()).then(|| Finding {
        what: words.join("; "),
        processes: Vec::new(),
        effect: NOT_SEEN.to_owned(),
    })
}

/// A record that was full until the end has no word of it: only the end of the run, if that, stands long after its last
/// snapshot.
fn unseen_end(run: &Run) -> Option<Finding> {
    let end = run.end.as_ref()?;
    let unseen_s = seconds_between(run.last, end.time);
    let usual_s = run.experiment.interval.as_secs_f64();
    let judging = match run.experiment.probe {
        true => LAST_SNAPSHOT_MAX + LAST_WORDS_MAX,
        false => Duration::ZERO,
    };
    let grace = run.experiment.subject.stop.grace;
    let ending_s = grace.as_secs_f64() + judging.as_secs_f64();
    (unseen_s > SNAPSHOTS_UNSEEN * usual_s + ending_s).then(|| Finding {
        what: format!(
            "no snapshot in the last {} of the run",
            written::seconds(unseen_s)
        ),
        processes: Vec::new(),
        effect: NOT_SEEN.to_owned(),
    })
}

/// When the first process of an arm had its warm-up behind it.
fn judged_from(run: &Run) -> Option<TimeNs> {
    let subjects = run.processes.iter().filter(|p| p.role == Role::Subject);
    let first = subjects.map(|process| process.started.0).min()?;
    let warmup = i64::try_from(run.experiment.warmup.as_nanos()).unwrap_or(i64::MAX);
    Some(TimeNs(first.saturating_add(warmup)))
}

/// Facts of each replica over time, for the audit.
pub fn input(run: &Run) -> AuditInput {
    let of_subjects = run
        .processes
        .iter()
        .filter(|process| process.role == Role::Subject);
    let mut snapshots: Vec<i64> = of_subjects
        .filter_map(|process| process.samples.get(metric::RSS.name))
        .flatten()
        .map(|(time, _)| time.0)
        .collect();
    snapshots.sort_unstable();
    snapshots.dedup();
    AuditInput {
        processes: replicas(run),
        snapshots_s: snapshots
            .into_iter()
            .map(|time| seconds_between(run.begun, TimeNs(time)))
            .collect(),
        control: Some(run.experiment.control.clone()),
        stated: Vec::new(),
    }
}

fn replicas(run: &Run) -> Vec<ProcessFacts> {
    let mut found = Vec::new();
    for arm in &run.experiment.arms {
        let requests = requests(run, &arm.name);
        for (replica, incarnations) in subjects(run, &arm.name) {
            let mut facts = replica_facts(run, &arm.name, &incarnations);
            facts.requests = requests.get(&replica).cloned().unwrap_or_default();
            found.push(facts);
        }
    }
    found
}

fn replica_facts(run: &Run, arm: &str, incarnations: &[&Process]) -> ProcessFacts {
    let at = |time: TimeNs| seconds_between(run.begun, time);
    let points = |metric: Metric, scale: f64| -> Vec<Point> {
        incarnations
            .iter()
            .filter_map(|process| process.samples.get(metric.name))
            .flatten()
            .map(|(time, value)| Point {
                t_s: at(*time),
                value: value * scale,
            })
            .collect()
    };
    let allocators = incarnations
        .iter()
        .filter_map(|process| process.facts.get(ALLOCATOR_FACT))
        .flatten()
        .map(|(time, value)| (at(*time), value.clone()))
        .collect();
    let first = incarnations.first();
    ProcessFacts {
        id: first.map(|process| member_id(process)).unwrap_or_default(),
        arms: first
            .map(|process| (at(process.started), arm.to_owned()))
            .into_iter()
            .collect(),
        allocators,
        starts_s: births(run, incarnations),
        until_s: incarnations.last().and_then(|process| ended(run, process)),
        rss: points(metric::RSS, 1.0),
        hwm: points(metric::RSS_PEAK, 1.0),
        cpu_s: cpu(
            &points(metric::CPU_USER, 1e-9),
            &points(metric::CPU_SYSTEM, 1e-9),
        ),
        requests: Vec::new(),
        lazy_free: points(metric::LAZY_FREE, 1.0),
        huge_pages: points(metric::HUGE_PAGES, 1.0),
    }
}

/// Real starts: a process that was found ran long before, and one that came back is none anew.
fn births(run: &Run, incarnations: &[&Process]) -> Vec<f64> {
    let mut starts = Vec::new();
    let mut before = None;
    for process in incarnations {
        let key = Some((process.pid, process.start_ticks)).filter(|key| key.1 > 0);
        if key.is_none() || key != before {
            let born = member::latest(&process.facts, member::BORN);
            let born = born.and_then(|text| text.parse().ok()).map(TimeNs);
            starts.push(seconds_between(run.begun, born.unwrap_or(process.started)));
        }
        before = key;
    }
    starts
}

/// When a process that was watched went out of sight though it goes on, or goes on elsewhere, or was ended by us.
fn ended(run: &Run, process: &Process) -> Option<f64> {
    let left = |kind: &EventKind| matches!(kind, EventKind::Moved | EventKind::Left);
    let mut events = run.events.iter().filter(|e| e.process == Some(process.id));
    let event = events.find(|event| left(&event.kind));
    let moved = || {
        let name = member::latest(&process.facts, member::NAME)?;
        let later = |p: &&Process| p.started >= process.started && p.arm != process.arm;
        let is_it = |p: &&Process| member::latest(&p.facts, member::NAME) == Some(name);
        run.processes.iter().filter(later).find(is_it)?;
        process.ended
    };
    let time = event
        .map(|event| event.time)
        .or_else(moved)
        .or_else(|| aborted(run, process))?;
    Some(seconds_between(run.begun, time))
}

/// When its arm was ended early, by a guard or because it was not the arm.
fn aborted(run: &Run, process: &Process) -> Option<TimeNs> {
    abortion(run, &process.arm).map(|event| event.time)
}

fn abortion<'a>(run: &'a Run, arm: &str) -> Option<&'a Event> {
    let of_arm = |id| {
        let own = |p: &Process| Some(p.id) == id && p.arm == arm;
        run.processes.iter().any(own)
    };
    let mut events = run.events.iter();
    events.find(|e| e.kind == EventKind::Aborted && of_arm(e.process))
}

/// User and system together; both are read at every snapshot.
fn cpu(user: &[Point], system: &[Point]) -> Vec<Point> {
    let both = user.iter().zip(system);
    both.map(|(user, system)| Point {
        t_s: user.t_s,
        value: user.value + system.value,
    })
    .collect()
}

/// Requests served so far, by replica: what its own load programs counted.
fn requests(run: &Run, arm: &str) -> BTreeMap<u32, Vec<Point>> {
    let mut counted: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
    for process in run
        .processes
        .iter()
        .filter(|p| p.role == Role::Load && p.arm == arm)
    {
        for row in process
            .histograms
            .iter()
            .filter(|row| row.metric == LOAD_METRIC)
        {
            let points = counted.entry(process.replica).or_default();
            let before = points.last().map_or(0.0, |point| point.value);
            let (t_s, value) = (
                seconds_between(run.begun, row.end),
                before + row.requests as f64,
            );
            points.push(Point { t_s, value });
        }
    }
    counted
}

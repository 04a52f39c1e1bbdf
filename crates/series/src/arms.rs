//! A run turned into series: one per replica and arm, on the run's time and on each incarnation's
//! own uptime.

use std::collections::BTreeMap;
use std::time::Duration;

use super::series::{Point, Series};
use observe::member;
use observe::metric;
use observe::metric::Kind;
use observe::snapshot::{Role, TimeNs};
use record::run::{Process, Run};

const NS: f64 = 1e9;

/// All replicas of one arm, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArmSeries {
    pub arm: String,
    pub replicas: Vec<ReplicaSeries>,
}

impl ArmSeries {
    /// What the judge takes: one series per replica on the run's time, restarts noted.
    pub fn joined(&self) -> Vec<Series> {
        self.replicas
            .iter()
            .map(|replica| replica.joined.clone())
            .collect()
    }
}

/// One replica of an arm: the unit of independence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplicaSeries {
    /// "glibc/2".
    pub id: String,
    pub replica: u32,
    /// All incarnations one after the other; `t_s` is seconds since the run began and
    /// `restarts_s` the start of every incarnation but the first.
    pub joined: Series,
    /// Each incarnation apart, in order; `t_s` is its own uptime in seconds.
    pub incarnations: Vec<Series>,
}

/// The series of `metric` for every arm of the experiment (also one that has no process), in its
/// order.
///
/// Each incarnation loses its first `warmup`. A counter becomes a rate per second: the value at `t`
/// is the mean rate since the reading before it. Counters begin anew with each incarnation, and a
/// reading below the one before it begins anew as well. `rss_bytes` carries the subject's memory
/// limit.
pub fn arm_series(run: &Run, metric: &str, warmup: Duration) -> Vec<ArmSeries> {
    let replicas = |arm: &str| {
        subjects(run, arm)
            .into_iter()
            .map(|(replica, incarnations)| {
                replica_series(run, metric, warmup, replica, &incarnations)
            })
            .collect()
    };
    arm_names(run)
        .into_iter()
        .map(|arm| ArmSeries {
            replicas: replicas(&arm),
            arm,
        })
        .collect()
}

/// The arms in the experiment's order, then those that only the processes know.
pub fn arm_names(run: &Run) -> Vec<String> {
    let mut names: Vec<String> = run
        .experiment
        .arms
        .iter()
        .map(|arm| arm.name.clone())
        .collect();
    for process in run.processes.iter().filter(|p| p.role == Role::Subject) {
        if !names.contains(&process.arm) {
            names.push(process.arm.clone());
        }
    }
    names
}

/// The replicas of an arm that count for it, each with its incarnations in order. Processes that were found not to
/// be what the arm says do not, nor do those that came from another arm without a restart: they bring its memory
/// along.
pub fn subjects<'a>(run: &'a Run, arm: &str) -> BTreeMap<u32, Vec<&'a Process>> {
    let first = first_arms(run);
    by_replica(run, |process| {
        let own = process.role == Role::Subject && process.arm == arm;
        own && !is_left_out(process) && !came_along(process, &first)
    })
}

/// The arm in which each process (pid and start) was first, for those that the kernel tells apart.
pub fn first_arms(run: &Run) -> BTreeMap<(i32, u64), &str> {
    let mut first: BTreeMap<(i32, u64), &Process> = BTreeMap::new();
    let known = |p: &&Process| p.role == Role::Subject && p.start_ticks > 0 && !is_left_out(p);
    for process in run.processes.iter().filter(known) {
        let earliest = first
            .entry((process.pid, process.start_ticks))
            .or_insert(process);
        if process.started < earliest.started {
            *earliest = process;
        }
    }
    first
        .into_iter()
        .map(|(key, p)| (key, p.arm.as_str()))
        .collect()
}

/// Whether a process came into its arm from another one, and was not restarted for it.
pub fn came_along(process: &Process, first_arms: &BTreeMap<(i32, u64), &str>) -> bool {
    let first = first_arms.get(&(process.pid, process.start_ticks));
    first.is_some_and(|arm| *arm != process.arm)
}

/// What a process is called over its restarts and moves: the name that it was found by, else its replica.
pub fn member_id(process: &Process) -> String {
    let name = member::latest(&process.facts, member::NAME);
    name.map_or_else(|| replica_id(process), str::to_owned)
}

/// Whether a process was left out of its arm: its samples count for nothing.
pub fn is_left_out(process: &Process) -> bool {
    process.facts.contains_key(member::LEFT_OUT)
}

/// How often the process behind a replica was another one than before. A process that left the arm and came back
/// was not restarted.
pub fn restarts(incarnations: &[&Process]) -> usize {
    let is_same = |a: &Process, b: &Process| {
        a.start_ticks > 0 && (a.pid, a.start_ticks) == (b.pid, b.start_ticks)
    };
    let pairs = incarnations.windows(2);
    pairs.filter(|pair| !is_same(pair[0], pair[1])).count()
}

/// Processes that `wanted` picks, by replica, incarnations in order.
pub fn by_replica(run: &Run, wanted: impl Fn(&Process) -> bool) -> BTreeMap<u32, Vec<&Process>> {
    let mut replicas: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for process in run.processes.iter().filter(|process| wanted(process)) {
        replicas.entry(process.replica).or_default().push(process);
    }
    for incarnations in replicas.values_mut() {
        incarnations.sort_by_key(|process| (process.incarnation, process.started));
    }
    replicas
}

/// "glibc/2": who a replica is, in words for the reader; "glibc/tor@x.service" when it was found by a name.
pub fn replica_id(process: &Process) -> String {
    match member::latest(&process.facts, member::NAME) {
        Some(name) => format!("{}/{name}", process.arm),
        None => format!("{}/{}", process.arm, process.replica),
    }
}

/// Whether highwater defines `name` as a counter. The subject's own (`openmetrics:`) are told by
/// the suffixes that OpenMetrics prescribes.
pub fn is_counter(name: &str) -> bool {
    if let Some(known) = metric::ALL.iter().find(|known| known.name == name) {
        return known.kind == Kind::Counter;
    }
    let bare = name.split('{').next().unwrap_or(name);
    name.starts_with("openmetrics:")
        && ["_total", "_count", "_sum", "_bucket"]
            .iter()
            .any(|suffix| bare.ends_with(suffix))
}

/// Seconds from `from` to `to`; negative when `to` is earlier.
pub fn seconds_between(from: TimeNs, to: TimeNs) -> f64 {
    (to.0 as i128 - from.0 as i128) as f64 / NS
}

/// Readings of one incarnation at or after its warm-up, counters as rates; `t_s` is uptime.
pub fn incarnation_points(process: &Process, metric: &str, warmup: Duration) -> Vec<Point> {
    let readings = process.samples.get(metric).map_or(&[][..], Vec::as_slice);
    let points: Vec<Point> = readings
        .iter()
        .map(|(time, value)| Point {
            t_s: seconds_between(process.started, *time),
            value: *value,
        })
        .filter(|point| point.t_s >= warmup.as_secs_f64())
        .collect();
    match is_counter(metric) {
        true => rates(&points),
        false => points,
    }
}

/// The rise of a counter over its readings, and over how many seconds; a fall begins anew and
/// counts neither. `None` with fewer than two readings.
pub fn rise(points: &[Point]) -> Option<(f64, f64)> {
    let steps = points
        .windows(2)
        .map(|pair| (pair[1].value - pair[0].value, pair[1].t_s - pair[0].t_s));
    let (rise, seconds) = steps
        .filter(|(rise, seconds)| *rise >= 0.0 && *seconds > 0.0)
        .fold((0.0, 0.0), |(r, s), (rise, seconds)| {
            (r + rise, s + seconds)
        });
    (seconds > 0.0).then_some((rise, seconds))
}

fn rates(points: &[Point]) -> Vec<Point> {
    points
        .windows(2)
        .filter(|pair| pair[1].t_s > pair[0].t_s && pair[1].value >= pair[0].value)
        .map(|pair| Point {
            t_s: pair[1].t_s,
            value: (pair[1].value - pair[0].value) / (pair[1].t_s - pair[0].t_s),
        })
        .collect()
}

/// One snapshot has one time in the series of all processes, whenever each of them started: a sum of two seconds alone
/// would differ in its last digits.
fn to_microseconds(t_s: f64) -> f64 {
    (t_s * 1e6).round() / 1e6
}

fn replica_series(
    run: &Run,
    metric: &str,
    warmup: Duration,
    replica: u32,
    incarnations: &[&Process],
) -> ReplicaSeries {
    let id = incarnations
        .first()
        .map(|process| replica_id(process))
        .unwrap_or_default();
    let limit = match metric == metric::RSS.name {
        true => run
            .experiment
            .subject
            .memory_limit
            .map(|bytes| bytes as f64),
        false => None,
    };
    let series = |points, restarts_s| Series {
        id: id.clone(),
        points,
        restarts_s,
        limit,
    };
    let mut joined = Vec::new();
    let mut apart = Vec::new();
    for process in incarnations {
        let points = incarnation_points(process, metric, warmup);
        let offset = seconds_between(run.begun, process.started);
        joined.extend(points.iter().map(|p| Point {
            t_s: to_microseconds(p.t_s + offset),
            value: p.value,
        }));
        apart.push(series(points, Vec::new()));
    }
    let restarts = incarnations
        .iter()
        .skip(1)
        .map(|p| seconds_between(run.begun, p.started))
        .collect();
    ReplicaSeries {
        joined: series(joined, restarts),
        incarnations: apart,
        replica,
        id,
    }
}

//! Guard rails: the same conditions, judged at every snapshot from that snapshot and the last minute's
//! latencies.
//!
//! Cheap: one pass over the snapshot's samples, no reading back of the run. `trend` needs an interim
//! verdict and is not judged here; ask [`super::judge_check`] whenever one is made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{CheckOutcome, Seen, fact, p99_max, reading, restarts, words};
use experiment::file::{Check, Condition, Experiment};
use observe::load_lines::PAUSE_METRIC;
use observe::metric;
use observe::snapshot::{HistogramRow, ProcessId, Role, Snapshot, Target, TimeNs};
use series::arms::seconds_between;
use series::latency::Merged;
use units::written;

/// Latencies are judged over this much of the past.
const RECENT: Duration = Duration::from_secs(60);
/// Fewer requests than this have no p99 of their own: it would be their maximum.
const REQUESTS_MIN: u64 = 100;
/// Histograms kept for each arm at most; older ones are dropped first.
const ROWS_MAX: usize = 4_096;

/// The guards of a run and what they remember. A guard fires once for an arm.
#[derive(Debug, Clone, Default)]
pub struct Guards {
    checks: Vec<Check>,
    fired: BTreeSet<(usize, String)>,
    recent: BTreeMap<String, VecDeque<HistogramRow>>,
    restarts: BTreeMap<(String, u32), Vec<TimeNs>>,
    /// What processes are called that were found by a name.
    names: BTreeMap<ProcessId, String>,
}

/// One arm at one snapshot.
struct Arm<'a> {
    name: &'a str,
    snapshot: &'a Snapshot,
    /// Its processes that are old enough for the guard.
    processes: BTreeMap<ProcessId, String>,
    recent: Option<&'a VecDeque<HistogramRow>>,
}

impl Guards {
    pub fn new(experiment: &Experiment) -> Guards {
        Guards {
            checks: experiment.guard.clone(),
            ..Guards::default()
        }
    }

    /// The guards that this snapshot breaks, each with its arm. `uptime` is the age of a process at
    /// this snapshot.
    pub fn evaluate(
        &mut self,
        snapshot: &Snapshot,
        targets: &[Target],
        uptime: &dyn Fn(ProcessId) -> Duration,
    ) -> Vec<CheckOutcome> {
        self.remember(snapshot, targets);
        let names: BTreeSet<&str> = targets.iter().map(|target| target.arm.as_str()).collect();
        let mut broken = Vec::new();
        for (index, check) in self.checks.iter().enumerate() {
            let named =
                |arm: &str| check.arms.is_empty() || check.arms.iter().any(|name| name == arm);
            for name in names.iter().copied().filter(|name| named(name)) {
                let old = |t: &&Target| {
                    t.role == Role::Subject && t.arm == name && uptime(t.process) >= check.after
                };
                let id = |t: &Target| {
                    let replica = t.replica.to_string();
                    let name = self.names.get(&t.process).unwrap_or(&replica);
                    (t.process, format!("{}/{name}", t.arm))
                };
                let processes = targets.iter().filter(old).map(id).collect();
                let arm = Arm {
                    name,
                    snapshot,
                    processes,
                    recent: self.recent.get(name),
                };
                let key = (index, name.to_string());
                if let Some(outcome) = arm.breach(check).filter(|_| !self.fired.contains(&key)) {
                    self.fired.insert(key);
                    broken.push(outcome);
                }
            }
        }
        broken
    }

    /// A process is known by this name.
    pub fn name(&mut self, process: ProcessId, name: &str) {
        self.names.insert(process, name.to_owned());
    }

    /// A restart of one replica, `age` after its first start; the guards that it breaks.
    pub fn restarted(
        &mut self,
        arm: &str,
        replica: u32,
        at: TimeNs,
        age: Duration,
    ) -> Vec<CheckOutcome> {
        let times = self.restarts.entry((arm.to_owned(), replica)).or_default();
        times.push(at);
        let mut broken = Vec::new();
        for (index, check) in self.checks.iter().enumerate() {
            let Condition::RestartsMax { count, within } = check.condition else {
                continue;
            };
            let named = check.arms.is_empty() || check.arms.iter().any(|name| name == arm);
            // What was before `after` does not count.
            let since =
                at.0.saturating_sub(age.saturating_sub(check.after).as_nanos() as i64);
            let counted: Vec<TimeNs> = times.iter().copied().filter(|t| t.0 >= since).collect();
            let id = format!("{arm}/{replica}");
            let restarts = restarts::most(&counted, within);
            let (passed, observed) = restarts::judged(&id, restarts, count, within);
            let is_due = named && age >= check.after && passed == Some(false);
            if is_due && self.fired.insert((index, arm.to_owned())) {
                broken.push(CheckOutcome {
                    check: words::of(check),
                    arm: arm.to_owned(),
                    passed,
                    observed,
                });
            }
        }
        broken
    }

    fn remember(&mut self, snapshot: &Snapshot, targets: &[Target]) {
        let wanted = |check: &Check| {
            matches!(
                check.condition,
                Condition::P99Max { .. } | Condition::PausesPerMinuteMax { .. }
            )
        };
        if !self.checks.iter().any(wanted) {
            return;
        }
        let requests = |row: &&HistogramRow| row.metric != PAUSE_METRIC;
        for row in snapshot.histograms.iter().filter(requests) {
            if let Some(target) = targets.iter().find(|target| target.process == row.process) {
                self.recent
                    .entry(target.arm.clone())
                    .or_default()
                    .push_back(row.clone());
            }
        }
        for rows in self.recent.values_mut() {
            let old =
                |row: &HistogramRow| seconds_between(row.end, snapshot.time) > RECENT.as_secs_f64();
            while rows.len() > ROWS_MAX || rows.front().is_some_and(old) {
                rows.pop_front();
            }
        }
    }
}

impl Arm<'_> {
    fn breach(&self, check: &Check) -> Option<CheckOutcome> {
        if self.processes.is_empty() {
            return None;
        }
        let seen = match &check.condition {
            Condition::RssMax { bytes } => self.sample(
                |name| name == metric::RSS.name,
                None,
                Some(*bytes as f64),
                written::bytes,
            ),
            Condition::Metric { name, min, max } => self.sample(
                |recorded| reading::answers(recorded, name),
                *min,
                *max,
                |v| v.to_string(),
            ),
            Condition::P99Max { limit } => {
                let latency = self
                    .merged()
                    .latency()
                    .filter(|l| l.requests >= REQUESTS_MIN)?;
                Some(p99_max(Some(latency), *limit))
            }
            Condition::PausesPerMinuteMax { max } => self.pauses(*max),
            Condition::Http { .. } | Condition::Command { .. } => self.fact(&check.condition),
            // Told at once by `restarted`: a process in a crash loop may be down at every snapshot.
            Condition::Trend { .. } | Condition::RestartsMax { .. } => None,
        };
        let (passed, observed) = seen?;
        (passed == Some(false)).then(|| CheckOutcome {
            check: words::of(check),
            arm: self.name.to_string(),
            passed,
            observed,
        })
    }

    /// The first sample outside the bounds.
    fn sample(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        min: Option<f64>,
        max: Option<f64>,
        written: impl Fn(f64) -> String,
    ) -> Option<Seen> {
        self.snapshot.samples.iter().find_map(|sample| {
            let id = self.processes.get(&sample.process)?;
            let bad = is_wanted(&sample.metric) && reading::outside(sample.value, min, max);
            bad.then(|| {
                (
                    Some(false),
                    format!("{} (process {id})", written(sample.value)),
                )
            })
        })
    }

    fn merged(&self) -> Merged {
        let mut merged = Merged::default();
        self.recent
            .into_iter()
            .flatten()
            .for_each(|row| merged.add(row));
        merged
    }

    /// More pauses in the last minute than a minute may have, per process; less than a minute of
    /// past can only show too few.
    fn pauses(&self, max: f64) -> Option<Seen> {
        let pauses = self.merged().pauses() as f64 / self.processes.len() as f64;
        let observed = format!(
            "{} pauses in the last minute, per process",
            written::digits(pauses)
        );
        Some((Some(pauses <= max), observed))
    }

    fn fact(&self, condition: &Condition) -> Option<Seen> {
        let key = fact::key(condition)?;
        self.snapshot
            .facts
            .iter()
            .filter(|fact| fact.key == key)
            .find_map(|fact| {
                let id = self.processes.get(&fact.process)?;
                let (passed, observed) = fact::parse_value(&fact.value)?;
                Some((Some(passed), format!("{observed} (process {id})"))).filter(|_| !passed)
            })
    }
}

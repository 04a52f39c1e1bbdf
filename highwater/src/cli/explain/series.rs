//! The probe's account as series of an experiment: what `probe = true` adds to each snapshot, and the
//! cause, said as an event when it is known and when it changes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::conclude;
use super::tracked::Tracked;
use ::heap::family::Member;
use observe::metric;
use observe::metric::Metric;
use observe::proc::ProcRoot;
use observe::proc::pace::Pace;
use observe::snapshot::{EventKind, ProcessId, Role, Snapshot, Target};
use observe::snapshot_writer::SnapshotWriter;
use verdict::cause::{Cause, CauseVerdict};
use verdict::run::heap;

/// Part of one core that reading the heaps of all processes may take together.
const SHARE: f64 = 0.05;
/// The same for judging, which resolves symbols and searches memory for pointers.
const SHARE_JUDGE: f64 = 0.02;

/// A search for what is still held, which the snapshots of all processes wait for.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// An answer of one process for its names, during a run, whose snapshots wait meanwhile; the rest of the names
/// is there the next time.
const NAMES_MAX: Duration = Duration::from_secs(5);

/// Words that end the event of a cause that no allocator changes.
const NO_ALLOCATOR_HELPS: &str = "arms with another allocator cannot help";

/// Reads the heaps of an experiment's processes.
pub struct HeapSeries {
    root: ProcRoot,
    /// Of each process: not judged, once there is enough after it.
    warmup_s: f64,
    processes: HashMap<ProcessId, Followed>,
}

struct Followed {
    tracked: Tracked,
    pace: Pace,
    judging: Pace,
    begin_ns: i64,
    /// Said already: the cause, the function behind it, and when.
    found: Option<(Cause, Option<String>)>,
    said_ns: i64,
}

impl HeapSeries {
    pub fn new(root: ProcRoot, warmup: Duration) -> HeapSeries {
        HeapSeries {
            root,
            warmup_s: warmup.as_secs_f64(),
            processes: HashMap::new(),
        }
    }

    /// Adds to a snapshot what the probe tells of each process of the subject. What cannot be read is
    /// left out: the observer has said so of the same process already.
    pub fn add(&mut self, snapshot: &mut Snapshot, targets: &[Target]) {
        let subjects = targets.iter().filter(|target| target.role == Role::Subject);
        let among = subjects.clone().count().max(1) as f64;
        for target in subjects.clone() {
            self.add_one(snapshot, target, among);
        }
        self.judge_one(snapshot, subjects, among);
        self.judge_ended(snapshot, targets);
    }

    /// The last words on every process: over the time after its warm-up, by a snapshot of now, while it still runs.
    /// What this costs disturbs nothing that is measured any more.
    pub fn finish(&mut self, snapshot: &mut Snapshot) {
        let end = Instant::now() + heap::LAST_WORDS_MAX;
        let mut left = self.processes.len() as u32;
        for followed in self.processes.values_mut() {
            followed.prepare_end(&self.root, snapshot, share_of(end, &mut left));
        }
        left = self.processes.len() as u32;
        for (&process, followed) in &mut self.processes {
            let until = share_of(end, &mut left);
            followed.tracked.ask_after_blocks(until);
            followed.tracked.settle(until);
            followed.judge_last(snapshot, process, self.warmup_s);
        }
    }

    /// What is known of a process that has ended, its warm-up left out, is the last word on it.
    fn judge_ended(&mut self, snapshot: &mut Snapshot, targets: &[Target]) {
        let warmup_s = self.warmup_s;
        self.processes.retain(|&process, followed| {
            let lives = targets.iter().any(|target| target.process == process);
            if !lives {
                followed.tracked.end();
                followed.judge_last(snapshot, process, warmup_s);
            }
            lives
        });
    }

    fn add_one(&mut self, snapshot: &mut Snapshot, target: &Target, among: f64) -> Option<()> {
        let now = snapshot.time;
        if !self.processes.contains_key(&target.process) {
            let member = Member {
                pid: target.pid,
                start_ticks: target.start_ticks,
                parent: 0,
            };
            let tracked = Tracked::new(&self.root, member, 0.0).ok()?;
            let seed = target.process.0;
            let (pace, judging) = (Pace::new(seed), Pace::new(seed + 1));
            let followed = Followed {
                tracked,
                pace,
                judging,
                begin_ns: now.0,
                found: None,
                said_ns: now.0,
            };
            self.processes.insert(target.process, followed);
        }
        let followed = self.processes.get_mut(&target.process)?;
        if !followed.pace.is_due(now) {
            return None;
        }
        let at_s = (now.0 - followed.begin_ns) as f64 / 1e9;
        let cost = followed.tracked.snapshot(&self.root, at_s).ok()?;
        followed.pace.book(now, cost, SHARE / among);
        followed.tracked.snapshot.probe.as_ref()?;
        let account = &followed.tracked.history.last()?.account;
        let mut writer = SnapshotWriter::new(snapshot, target.process);
        let mut put = |metric: Metric, bytes: f64| writer.float(metric, bytes);
        put(metric::LIVE_HEAP, account.live);
        put(metric::ALLOCATOR_HELD, account.held);
        put(metric::FRAGMENTATION, account.fragmentation);
        put(metric::PROBE_MEMORY, account.probe);
        Some(())
    }

    /// One process a snapshot: the run's snapshots of all of them wait for it.
    fn judge_one<'a>(
        &mut self,
        snapshot: &mut Snapshot,
        mut subjects: impl Iterator<Item = &'a Target>,
        among: f64,
    ) -> Option<()> {
        let is_due = |target: &&Target| {
            let followed = self.processes.get(&target.process);
            followed.is_some_and(|followed| followed.is_due(snapshot))
        };
        let target = subjects.find(is_due)?;
        let followed = self.processes.get_mut(&target.process)?;
        followed.judge(snapshot, target.process, self.warmup_s, SHARE_JUDGE / among)
    }
}

/// Until when the next of those that are left may take, so that each has its share of the time.
fn share_of(end: Instant, left: &mut u32) -> Instant {
    let now = Instant::now();
    let share = end.saturating_duration_since(now) / (*left).max(1);
    *left -= 1;
    now + share.min(SEARCH_MAX)
}

impl Followed {
    /// Whether there is enough to judge by, and time to.
    fn is_due(&self, snapshot: &Snapshot) -> bool {
        let has_account = self.tracked.snapshot.probe.is_some();
        has_account && conclude::has_snapshots(&self.tracked) && self.judging.is_due(snapshot.time)
    }

    fn judge(
        &mut self,
        snapshot: &mut Snapshot,
        process: ProcessId,
        warmup_s: f64,
        share: f64,
    ) -> Option<()> {
        let begin = Instant::now();
        conclude::leave_out(&mut self.tracked, warmup_s);
        self.tracked.ask_after_blocks(begin + SEARCH_MAX);
        self.tracked.ask_names();
        self.tracked.settle(Instant::now() + NAMES_MAX);
        let found = conclude::verdict_of(&self.tracked);
        self.judging.book(snapshot.time, begin.elapsed(), share);
        let (verdict, place) = found?;
        let is_known = self.found.as_ref() == Some(&(verdict.cause, place.clone()));
        // Rates become surer with age: the same is said again whenever the process is twice as old.
        let age = |at_ns: i64| at_ns - self.begin_ns;
        let is_fresh = age(snapshot.time.0) < 2 * age(self.said_ns);
        let is_worth_it = verdict.confidence >= 0.5 && !(is_known && is_fresh);
        is_worth_it.then(|| self.say(snapshot, process, &verdict, place))
    }

    /// A snapshot of now; names, and what is held, are asked for, to be there (and to be compared with) a little later.
    fn prepare_end(&mut self, root: &ProcRoot, snapshot: &Snapshot, until: Instant) {
        let at_s = (snapshot.time.0 - self.begin_ns) as f64 / 1e9;
        // Of one that may not be read any more, what was seen before counts.
        let _ = self.tracked.snapshot(root, at_s);
        self.tracked.ask_names();
        if self.tracked.wants_survey() {
            self.tracked.ask_after_blocks(until);
        }
    }

    /// Said however sure it is: what was said during the run was of the warm-up, or is older.
    fn judge_last(
        &mut self,
        snapshot: &mut Snapshot,
        process: ProcessId,
        warmup_s: f64,
    ) -> Option<()> {
        self.tracked.snapshot.probe.as_ref()?;
        conclude::leave_out(&mut self.tracked, warmup_s);
        let (verdict, place) = conclude::verdict_of(&self.tracked)?;
        self.say(snapshot, process, &verdict, place);
        Some(())
    }

    /// The words as facts; a cause that is new, as an event.
    fn say(
        &mut self,
        snapshot: &mut Snapshot,
        process: ProcessId,
        verdict: &CauseVerdict,
        place: Option<String>,
    ) {
        self.said_ns = snapshot.time.0;
        let is_new = self.found.as_ref().map(|(cause, _)| *cause) != Some(verdict.cause);
        let mut writer = SnapshotWriter::new(snapshot, process);
        writer.fact(heap::CAUSE_FACT, verdict.cause.word().to_owned());
        writer.fact(heap::SENTENCE_FACT, words(verdict));
        writer.fact(heap::PLACE_FACT, place.clone().unwrap_or_default());
        self.found = Some((verdict.cause, place));
        if is_new {
            let words = format!("heap probe: {}", words(verdict));
            writer.event(EventKind::Note, words);
        }
    }
}

fn words(verdict: &CauseVerdict) -> String {
    let helps = match verdict.cause {
        Cause::Leak
        | Cause::Mapping
        | Cause::Stacks
        | Cause::Files
        | Cause::Sockets
        | Cause::Kernel => format!("; {NO_ALLOCATOR_HELPS}"),
        _ => String::new(),
    };
    format!("{}{helps}", verdict.sentence)
}

//! The probe's account as series of an experiment: what `probe = true` adds to each look, and the
//! cause, said as an event when it is known and when it changes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::conclude;
use super::follow::Tracked;
use crate::observe::heap::family::Member;
use crate::observe::look::{EventKind, Look, ProcessId, Role, Target};
use crate::observe::metric::{self, Metric};
use crate::observe::page::Page;
use crate::observe::proc::ProcRoot;
use crate::observe::proc::pace::Pace;
use crate::verdict::cause::{Cause, CauseVerdict};
use crate::verdict::run::heap;

/// Part of one core that reading the heaps of all processes may take together.
const SHARE: f64 = 0.05;
/// The same for judging, which resolves symbols and searches memory for pointers.
const SHARE_JUDGE: f64 = 0.02;

/// A search for what is still held, which the looks at all processes wait for.
const SEARCH_MAX: Duration = Duration::from_secs(2);

/// For the last words on all processes, when the run is over.
const LAST_WORDS_MAX: Duration = Duration::from_secs(30);

/// Words that end the event of a cause that no allocator changes.
const NO_ALLOCATOR_HELPS: &str = "arms with another allocator cannot help";

/// Reads the heaps of an experiment's processes.
pub struct HeapSeries {
    root: ProcRoot,
    warmup: Duration,
    processes: HashMap<ProcessId, Followed>,
}

struct Followed {
    tracked: Tracked,
    pace: Pace,
    judging: Pace,
    begin_ns: i64,
    /// Said already, and when.
    found: Option<Found>,
    said_ns: i64,
}

/// The cause, and the function behind it.
type Found = (Cause, Option<String>);

impl HeapSeries {
    pub fn new(root: ProcRoot, warmup: Duration) -> HeapSeries {
        HeapSeries {
            root,
            warmup,
            processes: HashMap::new(),
        }
    }

    /// Adds to a look what the probe tells of each process of the subject. What cannot be read is
    /// left out: the observer has said so of the same process already.
    pub fn add(&mut self, look: &mut Look, targets: &[Target]) {
        let subjects = targets.iter().filter(|target| target.role == Role::Subject);
        let among = subjects.clone().count().max(1) as f64;
        for target in subjects.clone() {
            self.add_one(look, target, among);
        }
        self.judge_one(look, subjects, among);
        let alive = |process: &ProcessId| targets.iter().any(|target| target.process == *process);
        self.processes.retain(|process, _| alive(process));
    }

    /// The last words on every process that still lives, into `look`: of the time after the warm-up, and at length, for
    /// nothing is measured any more. One process of each arm before the second of any.
    pub fn conclude(&mut self, look: &mut Look, targets: &[Target]) {
        let deadline = Instant::now() + LAST_WORDS_MAX;
        let mut subjects: Vec<&Target> =
            targets.iter().filter(|t| t.role == Role::Subject).collect();
        subjects.sort_by_key(|target| target.replica);
        for target in subjects {
            if Instant::now() > deadline {
                return;
            }
            if let Some(followed) = self.processes.get_mut(&target.process) {
                followed.conclude(look, target.process, self.warmup);
            }
        }
    }

    fn add_one(&mut self, look: &mut Look, target: &Target, among: f64) -> Option<()> {
        let now = look.time;
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
        let cost = followed.tracked.look(&self.root, at_s).ok()?;
        followed.pace.book(now, cost, SHARE / among);
        followed.tracked.look.probe.as_ref()?;
        let account = &followed.tracked.history.last()?.account;
        let mut page = Page::new(look, target.process);
        let mut put = |metric: Metric, bytes: f64| page.float(metric, bytes);
        put(metric::LIVE_HEAP, account.live);
        put(metric::ALLOCATOR_HELD, account.held);
        put(metric::FRAGMENTATION, account.fragmentation);
        put(metric::PROBE_MEMORY, account.probe);
        Some(())
    }

    /// One process a look: the run's looks at all of them wait for it.
    fn judge_one<'a>(
        &mut self,
        look: &mut Look,
        mut subjects: impl Iterator<Item = &'a Target>,
        among: f64,
    ) -> Option<()> {
        let is_due = |target: &&Target| {
            let followed = self.processes.get(&target.process);
            followed.is_some_and(|followed| followed.is_due(look))
        };
        let target = subjects.find(is_due)?;
        let followed = self.processes.get_mut(&target.process)?;
        followed.judge(look, target, among)
    }
}

impl Followed {
    /// Whether there is enough to judge by, and time to.
    fn is_due(&self, look: &Look) -> bool {
        let has_account = self.tracked.look.probe.is_some();
        has_account
            && conclude::has_looks(&self.tracked.history.moments)
            && self.judging.is_due(look.time)
    }

    /// The words so far: those of a verdict that is new, or of one that was said when the process was half as old, since
    /// rates become surer with age.
    fn judge(&mut self, look: &mut Look, target: &Target, among: f64) -> Option<()> {
        let begin = Instant::now();
        let judged = self.judged();
        self.judging
            .book(look.time, begin.elapsed(), SHARE_JUDGE / among);
        let (verdict, found) = judged?;
        let age = |at_ns: i64| at_ns - self.begin_ns;
        let is_fresh = age(look.time.0) < 2 * age(self.said_ns);
        if verdict.confidence < 0.5 || self.found.as_ref() == Some(&found) && is_fresh {
            return None;
        }
        self.say(look, target.process, &verdict, found);
        Some(())
    }

    fn conclude(&mut self, look: &mut Look, process: ProcessId, warmup: Duration) -> Option<()> {
        self.tracked.look.probe.as_ref()?;
        let warm_s = warmup.as_secs_f64();
        if conclude::has_looks(self.tracked.history.since(warm_s)) {
            self.tracked.history.forget_before(warm_s);
        }
        let (verdict, found) = self.judged()?;
        self.say(look, process, &verdict, found);
        Some(())
    }

    fn judged(&mut self) -> Option<(CauseVerdict, Found)> {
        self.tracked.ask_after_blocks(Instant::now() + SEARCH_MAX);
        let (verdict, place) = conclude::verdict_of(&mut self.tracked)?;
        let found = (verdict.cause, place);
        Some((verdict, found))
    }

    fn say(&mut self, look: &mut Look, process: ProcessId, verdict: &CauseVerdict, found: Found) {
        self.said_ns = look.time.0;
        let is_new = self.found.as_ref().map(|(cause, _)| *cause) != Some(verdict.cause);
        let mut page = Page::new(look, process);
        page.fact(heap::CAUSE_FACT, verdict.cause.word().to_owned());
        page.fact(heap::SENTENCE_FACT, words(verdict));
        page.fact(heap::PLACE_FACT, found.1.clone().unwrap_or_default());
        if is_new {
            page.event(EventKind::Note, format!("heap probe: {}", words(verdict)));
        }
        self.found = Some(found);
    }
}

fn words(verdict: &CauseVerdict) -> String {
    let helps = match verdict.cause {
        Cause::Leak | Cause::Mapping | Cause::Stacks | Cause::Files => {
            format!("; {NO_ALLOCATOR_HELPS}")
        }
        _ => String::new(),
    };
    format!("{}{helps}", verdict.sentence)
}

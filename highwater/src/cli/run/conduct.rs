//! The one loop that may act on what is seen: it keeps subject and collector going, aborts an arm, ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::decide::{self, Deciding};
use super::journal::Journal;
use super::progress::Progress;
use super::revert::Reverts;
use super::trend::TrendGuards;
use super::trial::{self, Candidate, Outcome, Trials};
use super::watch::Watch;
use experiment::file::{Condition, Experiment, SubjectKind};
use experiment::{Ending, Happening, Role as SubjectRole, Subject, What, Who};
use observe::clock::Clock;
use observe::metric;
use observe::snapshot::{EventKind, ProcessId, Role, Target, TimeNs};
use record::{EventId, News, Reader};
use units::written::counted;
use verdict::check::guard::Guards;

/// From one turn of the loop to the next: how soon an exit is noticed and a guard acts.
const TURN: Duration = Duration::from_millis(100);

/// Everything that the loop holds while a run goes on.
pub struct Conduct<'a> {
    pub experiment: &'a Experiment,
    pub subject: &'a mut dyn Subject,
    pub watch: &'a mut dyn Watch,
    pub journal: &'a mut Journal,
    pub reader: &'a Reader,
    pub clock: &'a dyn Clock,
    pub progress: &'a mut Progress,
    /// Set by Ctrl-C.
    pub interrupted: Arc<AtomicBool>,
    /// When the run began: what the subject calls zero.
    pub begun: TimeNs,
    /// Of the duration, what a resumed run has behind it.
    pub already: Duration,
    /// The stop rule of a run that goes on until it is decided.
    pub deciding: Option<Deciding>,
}

/// How the loop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub words: String,
    /// An arm was ended early for not being what it says.
    pub not_the_arm: bool,
    /// No process of any arm ever got ready.
    pub nothing_was_ready: bool,
}

pub(super) struct State {
    /// When every replica was ready or given up: the duration counts from here.
    pub(super) settled: Option<TimeNs>,
    pub(super) standing: BTreeMap<(String, u32), Standing>,
    pub(super) started: BTreeMap<ProcessId, TimeNs>,
    /// First start of each replica.
    pub(super) first: BTreeMap<(String, u32), TimeNs>,
    pub(super) aborted: BTreeSet<String>,
    pub(super) not_the_arm: bool,
    pub(super) was_ready: BTreeSet<String>,
    pub(super) reverts: Reverts,
    pub(super) news: News,
    pub(super) events: EventId,
    pub(super) next_trial: TimeNs,
    pub(super) snapshots: u64,
}

/// The guards by what they need: the snapshot itself, or an interim verdict.
pub(super) struct Guarding {
    pub(super) limits: Guards,
    pub(super) trends: TrendGuards,
    /// Successors of processes on other hosts that were counted as restarts.
    pub(super) counted: BTreeSet<ProcessId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Starting,
    Up,
    Down,
}

/// A replica that ends before it was ever ready: the command or its settings are wrong, and its log says how.
fn fails_at_start(state: &State, who: &Who) -> bool {
    let key = (who.arm.clone(), who.replica);
    who.role == SubjectRole::Subject
        && who.incarnation == 0
        && state.standing.get(&key) == Some(&Standing::Starting)
}

impl Conduct<'_> {
    /// Runs until the duration is over, nothing runs any more, or somebody interrupts. Whatever ends it, the
    /// subject is stopped in order and the last snapshot is taken.
    ///
    /// # Errors
    /// The record cannot be written (other than for a full disk), or the collector cannot be kept alive.
    pub fn run(&mut self) -> anyhow::Result<Ended> {
        let mut state = State {
            settled: None,
            standing: self.every_replica(),
            started: BTreeMap::new(),
            first: BTreeMap::new(),
            aborted: BTreeSet::new(),
            not_the_arm: false,
            was_ready: BTreeSet::new(),
            reverts: Reverts::default(),
            news: News::default(),
            events: self.reader.events_since(EventId::default())?.1,
            next_trial: self.clock.now(),
            snapshots: 0,
        };
        let mut trials = Trials::new(self.experiment);
        let mut guards = Guarding {
            limits: Guards::new(self.experiment),
            trends: TrendGuards::new(self.experiment, self.clock.now()),
            counted: BTreeSet::new(),
        };
        let outcome = self.turns(&mut state, &mut trials, &mut guards);
        let stopped = self.end(&mut state, &mut trials, outcome.is_ok());
        let words = outcome?;
        stopped?;
        Ok(Ended {
            words,
            not_the_arm: state.not_the_arm,
            nothing_was_ready: state.was_ready.is_empty(),
        })
    }

    /// The replicas that must get ready before the duration counts; attached processes are those that are found.
    fn every_replica(&self) -> BTreeMap<(String, u32), Standing> {
        if matches!(
            self.experiment.subject.kind,
            SubjectKind::Attach | SubjectKind::Remote
        ) {
            return BTreeMap::new();
        }
        let arms = self.experiment.arms.iter();
        arms.flat_map(|arm| (0..self.experiment.replicas).map(|n| (arm.name.clone(), n)))
            .map(|replica| (replica, Standing::Starting))
            .collect()
    }

    fn turns(
        &mut self,
        state: &mut State,
        trials: &mut Trials,
        guards: &mut Guarding,
    ) -> anyhow::Result<String> {
        loop {
            let now = self.clock.now();
            let happened = self.follow_subject(state, now)?;
            self.guard_restarts(state, guards, &happened, now)?;
            let undone = state.reverts.finished();
            self.take_reverts(undone)?;
            if let Some(words) = self.watch.tick(now)? {
                self.journal
                    .say(now, None, EventKind::CollectorRestarted, words)?;
            }
            self.journal.collector(self.watch.pid(), now)?;
            self.follow_record(state, guards)?;
            self.follow_trials(state, trials, now)?;
            self.decide(state, now)?;
            if let Some(words) = self.over(state, now) {
                return Ok(words);
            }
            self.tell(state, now);
            self.clock
                .sleep_until(TimeNs(now.0 + TURN.as_nanos() as i64));
        }
    }

    /// The stop rule, where a stage of it begins.
    fn decide(&mut self, state: &State, now: TimeNs) -> anyhow::Result<()> {
        let (Some(deciding), Some(settled)) = (&mut self.deciding, state.settled) else {
            return Ok(());
        };
        let after_s = decide::after_s(settled, now, self.already);
        if deciding.analyse(self.reader, after_s)? {
            self.journal.facts(now, vec![deciding.fact()])?;
        }
        Ok(())
    }

    fn follow_subject(&mut self, state: &mut State, now: TimeNs) -> anyhow::Result<Vec<Happening>> {
        let since = Duration::from_nanos((now.0 - self.begun.0).max(0) as u64);
        let happened = self.subject.poll(since);
        for happening in &happened {
            self.note(state, happening);
            self.journal.happened(happening.clone())?;
            if matches!(happening.what, What::Started(_) | What::Resumed(_))
                && let Some(id) = self.journal.id_of(&happening.who)
            {
                state.started.insert(id, now);
                let key = (happening.who.arm.clone(), happening.who.replica);
                state.first.entry(key).or_insert(now);
            }
        }
        self.journal.flush()?;
        let open = state
            .standing
            .values()
            .any(|standing| *standing == Standing::Starting);
        if state.settled.is_none() && !open {
            state.settled = Some(now);
        }
        Ok(happened)
    }

    fn note(&mut self, state: &mut State, happening: &Happening) {
        let Happening { who, what, .. } = happening;
        let is_loud = match what {
            What::NeverReady | What::StartFailed | What::GaveUp => who.role != SubjectRole::Load,
            What::Ended { ending, .. } => {
                *ending != Ending::Stopped
                    && (who.role == SubjectRole::Backing || fails_at_start(state, who))
            }
            _ => false,
        };
        if is_loud {
            self.progress
                .say(&format!("highwater: {}", happening.told()));
        }
        if who.role != SubjectRole::Subject {
            return;
        }
        let key = (who.arm.clone(), who.replica);
        match what {
            What::Ready => {
                state.was_ready.insert(who.arm.clone());
                state.standing.insert(key, Standing::Up);
            }
            What::Started(_) | What::Resumed(_) | What::Restarted => {
                state.standing.insert(key, Standing::Starting);
            }
            What::NeverReady
            | What::StartFailed
            | What::GaveUp
            | What::Left { .. }
            | What::Ended { .. } => {
                state.standing.insert(key, Standing::Down);
            }
            _ => {}
        }
    }

    /// What the collector saw: a process that is not its arm, a guard that is broken.
    fn follow_record(&mut self, state: &mut State, guards: &mut Guarding) -> anyhow::Result<()> {
        let (events, last) = self.reader.events_since(state.events)?;
        state.events = last;
        for event in events
            .iter()
            .filter(|event| event.kind == EventKind::NotTheArm)
        {
            let Some((arm, replica)) = self.replica_of(event.process)? else {
                continue;
            };
            let why = format!("not what the arm says: {}", event.words);
            if self.subject.leave_out(&arm, replica, &why) {
                let words = format!("highwater: {arm} {replica} is left out: {why}");
                self.progress.say(&words);
            } else {
                self.abort(state, &arm, &why)?;
                state.not_the_arm = true;
            }
        }
        let wants_all = self.experiment.guard.iter().any(wants_any_metric);
        let wants = |name: &str| wants_all || name == metric::RSS.name;
        let Some(snapshot) = self.reader.news(&mut state.news, &wants)? else {
            return Ok(());
        };
        state.snapshots += 1;
        if !self.experiment.guard.is_empty() {
            self.guard(state, guards, &snapshot)?;
        }
        for broken in guards.trends.evaluate(self.reader, snapshot.time)? {
            self.abort(state, &broken.arm, &broken.words)?;
        }
        Ok(())
    }

    fn follow_trials(
        &mut self,
        state: &mut State,
        trials: &mut Trials,
        now: TimeNs,
    ) -> anyhow::Result<()> {
        if trials.is_empty() {
            return Ok(());
        }
        let finished = trials.finished();
        self.take_trials(state, finished)?;
        if now >= state.next_trial {
            trials.begin(&self.candidates(state, now)?);
            state.next_trial = TimeNs(now.0 + trial::EVERY.as_nanos() as i64);
        }
        Ok(())
    }

    fn take_trials(&mut self, state: &mut State, finished: Vec<Outcome>) -> anyhow::Result<()> {
        let now = self.clock.now();
        for outcome in finished {
            self.journal.facts(now, vec![outcome.fact])?;
            if outcome.is_guard && !outcome.passed {
                self.abort(state, &outcome.arm, &format!("guard: {}", outcome.words))?;
            }
        }
        Ok(())
    }

    fn candidates(&self, state: &State, now: TimeNs) -> anyhow::Result<Vec<Candidate>> {
        let targets = self.reader.targets()?;
        let subjects = targets.iter().filter(|target| target.role == Role::Subject);
        let up = subjects.filter(|target| {
            let key = (target.arm.clone(), target.replica);
            state.standing.get(&key) == Some(&Standing::Up)
        });
        Ok(up
            .filter_map(|target| self.candidate(state, target, now))
            .collect())
    }

    fn candidate(&self, state: &State, target: &Target, now: TimeNs) -> Option<Candidate> {
        let began = state.started.get(&target.process)?;
        Some(Candidate {
            process: target.process,
            arm: target.arm.clone(),
            uptime: Duration::from_nanos((now.0 - began.0).max(0) as u64),
            values: self.subject.values(&target.arm, target.replica)?,
        })
    }

    fn replica_of(&self, process: Option<ProcessId>) -> anyhow::Result<Option<(String, u32)>> {
        let targets = self.reader.targets()?;
        let found = targets
            .into_iter()
            .find(|target| Some(target.process) == process);
        Ok(found
            .filter(|target| target.role == Role::Subject)
            .map(|target| (target.arm, target.replica)))
    }

    /// Why the run is over, when it is.
    fn over(&self, state: &State, now: TimeNs) -> Option<String> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Some("interrupted".to_owned());
        }
        if self.subject.is_over() {
            return Some("no process runs any more".to_owned());
        }
        let settled = state.settled?;
        if let Some(words) = self.deciding.as_ref().and_then(Deciding::ends) {
            self.progress
                .say(&format!("highwater: {words}: the run ends"));
            return Some(words);
        }
        let left = self.experiment.duration.saturating_sub(self.already);
        let is_over = now.0 - settled.0 >= left.as_nanos() as i64;
        is_over.then(|| match &self.deciding {
            Some(deciding) => format!("the longest time is over, {}", deciding.words()),
            None => "the duration is over".to_owned(),
        })
    }

    /// The last trials and the last snapshot while everything still runs, then the stop, in order.
    fn end(&mut self, state: &mut State, trials: &mut Trials, orderly: bool) -> anyhow::Result<()> {
        if orderly && !trials.is_empty() {
            trials.begin(&self.candidates(state, self.clock.now())?);
            let finished = trials.wait();
            self.take_trials(state, finished)?;
        }
        if self.experiment.probe {
            self.progress.say("highwater: explaining the heaps");
        }
        let finished = self.watch.finish(self.clock.now());
        self.subject.stop_all("the run is over");
        while !self.subject.is_over() {
            let now = self.clock.now();
            self.follow_subject(state, now)?;
            self.clock
                .sleep_until(TimeNs(now.0 + TURN.as_nanos() as i64));
        }
        self.follow_subject(state, self.clock.now())?;
        let undone = state.reverts.wait();
        self.take_reverts(undone)?;
        self.progress.end();
        finished
    }

    fn tell(&mut self, state: &State, now: TimeNs) {
        let up = state
            .standing
            .values()
            .filter(|s| **s == Standing::Up)
            .count();
        let Some(settled) = state.settled else {
            let words = format!("starting, {up} of {} processes ready", state.standing.len());
            return self
                .progress
                .tell(Duration::ZERO, self.experiment.duration, &words);
        };
        let done = Duration::from_nanos((now.0 - settled.0).max(0) as u64) + self.already;
        // Which processes run on other hosts is the collector's to know.
        let mut words = match self.experiment.subject.kind {
            SubjectKind::Remote => counted(state.snapshots, "snapshot", "snapshots"),
            _ => format!(
                "{}, {}",
                counted(up as u64, "process", "processes"),
                counted(state.snapshots, "snapshot", "snapshots")
            ),
        };
        if let Some(deciding) = &self.deciding {
            words += &format!(", {}", deciding.words());
        }
        self.progress.tell(done, self.experiment.duration, &words);
    }
}

fn wants_any_metric(check: &experiment::file::Check) -> bool {
    matches!(check.condition, Condition::Metric { .. })
}

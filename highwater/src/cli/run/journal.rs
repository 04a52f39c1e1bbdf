//! What the subject reports, written into the record: starts and ends as process rows, the rest as events.
//!
//! A full disk delays rows, it does not lose them: they wait here, in order, until the record takes them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::cli::out::say;
use experiment::service::start_ticks;
use experiment::{Ending, Happening, Role as SubjectRole, Started, What, Who};
use observe::member;
use observe::snapshot::{Event, EventKind, Expected, Fact, ProcessId, Role, TimeNs};
use record::{NewProcess, RecordError, Recorder};

/// Rows that wait for a full disk; more than this many are dropped, oldest first, and counted.
const WAITING_MAX: usize = 10_000;

/// One row to be.
#[derive(Debug, Clone)]
enum Row {
    Happened(Happening),
    Said {
        time: TimeNs,
        who: Option<Who>,
        kind: EventKind,
        words: String,
    },
    Facts {
        time: TimeNs,
        facts: Vec<Fact>,
    },
}

/// What is known of the processes of an arm before they run.
#[derive(Debug, Clone, Default)]
pub struct ArmFacts {
    pub expected: Expected,
    /// Facts of each of its processes: (key, value).
    pub facts: Vec<(String, String)>,
}

/// The supervisor's pen.
pub struct Journal {
    recorder: Recorder,
    begun: TimeNs,
    ids: HashMap<Who, ProcessId>,
    arms: BTreeMap<String, ArmFacts>,
    collector: Option<(i32, ProcessId)>,
    waiting: VecDeque<Row>,
    dropped: u64,
    /// The disk is full and that was said.
    full: bool,
}

impl Journal {
    pub fn new(recorder: Recorder, begun: TimeNs) -> Journal {
        Journal {
            recorder,
            begun,
            ids: HashMap::new(),
            arms: BTreeMap::new(),
            collector: None,
            waiting: VecDeque::new(),
            dropped: 0,
            full: false,
        }
    }

    /// Remembers processes that the record knows from before (a resumed run).
    pub fn remember(&mut self, who: Who, id: ProcessId) {
        self.ids.insert(who, id);
    }

    pub fn id_of(&self, who: &Who) -> Option<ProcessId> {
        self.ids.get(who).copied()
    }

    /// What is known of each arm before it runs; an arm that is absent promises no allocator.
    pub fn describe_arms(&mut self, arms: BTreeMap<String, ArmFacts>) {
        self.arms = arms;
    }

    /// A process of highwater itself, or the machine (pid 0): looked at like any other.
    pub fn ourselves(
        &mut self,
        role: Role,
        pid: i32,
        name: &str,
        time: TimeNs,
    ) -> Result<ProcessId, RecordError> {
        self.recorder.process_started(&NewProcess {
            arm: String::new(),
            replica: 0,
            incarnation: 0,
            role,
            pid,
            start_ticks: start_ticks(pid),
            started: time,
            command: vec![name.to_owned()],
            metrics_url: None,
            load_lines: None,
            cgroup: None,
            expected_allocator: Expected::Any,
        })
    }

    pub fn ended(&mut self, id: ProcessId, time: TimeNs) -> Result<(), RecordError> {
        self.recorder.process_ended(id, time, None)
    }

    /// The collector lives under this pid now: the row of the one before ends.
    pub fn collector(&mut self, pid: Option<i32>, time: TimeNs) -> Result<(), RecordError> {
        if self.collector.map(|(known, _)| known) == pid {
            return Ok(());
        }
        if let Some((_, id)) = self.collector.take() {
            self.recorder.process_ended(id, time, None)?;
        }
        if let Some(pid) = pid {
            let id = self.ourselves(Role::Highwater, pid, "collector", time)?;
            self.collector = Some((pid, id));
        }
        Ok(())
    }

    pub fn happened(&mut self, happening: Happening) -> Result<(), RecordError> {
        self.take(Row::Happened(happening))
    }

    pub fn say(
        &mut self,
        time: TimeNs,
        who: Option<Who>,
        kind: EventKind,
        words: String,
    ) -> Result<(), RecordError> {
        self.take(Row::Said {
            time,
            who,
            kind,
            words,
        })
    }

    pub fn facts(&mut self, time: TimeNs, facts: Vec<Fact>) -> Result<(), RecordError> {
        self.take(Row::Facts { time, facts })
    }

    fn take(&mut self, row: Row) -> Result<(), RecordError> {
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(row);
        self.flush()
    }

    /// Writes what waits. A full disk, or one that stands still, is no error: it is said once, and tried again at
    /// the next call.
    pub fn flush(&mut self) -> Result<(), RecordError> {
        while let Some(row) = self.waiting.front().cloned() {
            match self.write(&row) {
                Ok(()) => {
                    self.waiting.pop_front();
                    self.full = false;
                }
                Err(error) if error.may_pass() => {
                    if !std::mem::replace(&mut self.full, true) {
                        say!("highwater: {error}");
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&mut self, row: &Row) -> Result<(), RecordError> {
        match row {
            Row::Happened(happening) => self.write_happening(happening),
            Row::Said {
                time,
                who,
                kind,
                words,
            } => {
                let process = who.as_ref().and_then(|who| self.id_of(who));
                let words = words.clone();
                self.recorder.event(&Event {
                    time: *time,
                    process,
                    kind: kind.clone(),
                    words,
                })
            }
            Row::Facts { time, facts } => self.recorder.facts(*time, facts),
        }
    }

    fn write_happening(&mut self, happening: &Happening) -> Result<(), RecordError> {
        let Happening {
            at,
            who,
            what,
            words,
        } = happening;
        let time = self.time(*at);
        if let What::Started(started) | What::Resumed(started) = what
            && !self.ids.contains_key(who)
            // What backs the arms is no arm: it is not sampled.
            && who.role != SubjectRole::Backing
        {
            let row = new_process(who, started, time, self.expected(who));
            let id = self.recorder.process_started(&row)?;
            self.ids.insert(who.clone(), id);
            self.write_arm_facts(who, id, time)?;
            self.write_own_facts(started, id, time)?;
        }
        let process = self.id_of(who);
        if let (What::Ended { exit, .. }, Some(id)) = (what, process) {
            self.recorder.process_ended(id, time, exit.as_deref())?;
        }
        if let (What::Left { to, discard }, Some(id)) = (what, process) {
            self.write_leaving(id, to.as_deref(), *discard, words, time)?;
        }
        self.recorder.event(&Event {
            time,
            process,
            kind: kind_of(what),
            words: happening.told(),
        })
    }

    /// The row of a process that left its arm ends; what never was its arm counts for nothing.
    fn write_leaving(
        &mut self,
        process: ProcessId,
        to: Option<&str>,
        discard: bool,
        words: &str,
        time: TimeNs,
    ) -> Result<(), RecordError> {
        if discard {
            let fact = fact(process, member::LEFT_OUT, words);
            self.recorder.facts(time, &[fact])?;
        }
        let how = to.map_or("left the arm".to_owned(), |arm| format!("moved to {arm}"));
        self.recorder.process_ended(process, time, Some(&how))
    }

    /// What is known of a process that was found, and not started.
    fn write_own_facts(
        &mut self,
        started: &Started,
        process: ProcessId,
        time: TimeNs,
    ) -> Result<(), RecordError> {
        let born = |age: Duration| (time.0 - age.as_nanos() as i64).to_string();
        let known = [
            (member::NAME, started.name.clone()),
            (member::UNIT, started.unit.clone()),
            (member::BORN, started.age.map(born)),
        ];
        let facts: Vec<Fact> = known
            .into_iter()
            .filter_map(|(key, value)| Some(fact(process, key, &value?)))
            .collect();
        match facts.is_empty() {
            true => Ok(()),
            false => self.recorder.facts(time, &facts),
        }
    }

    /// A load program is no arm, whatever is preloaded into it.
    fn expected(&self, who: &Who) -> Expected {
        let of_arm = self
            .arms
            .get(&who.arm)
            .filter(|_| who.role == SubjectRole::Subject);
        of_arm.map(|arm| arm.expected.clone()).unwrap_or_default()
    }

    fn write_arm_facts(
        &mut self,
        who: &Who,
        process: ProcessId,
        time: TimeNs,
    ) -> Result<(), RecordError> {
        let known = self
            .arms
            .get(&who.arm)
            .filter(|_| who.role == SubjectRole::Subject);
        let facts: Vec<Fact> = known
            .into_iter()
            .flat_map(|arm| &arm.facts)
            .map(|(key, value)| Fact {
                process,
                key: key.clone(),
                value: value.clone(),
            })
            .collect();
        if facts.is_empty() {
            Ok(())
        } else {
            self.recorder.facts(time, &facts)
        }
    }

    /// The run's time, from the time since it began.
    pub fn time(&self, at: Duration) -> TimeNs {
        TimeNs(self.begun.0 + at.as_nanos() as i64)
    }
}

fn fact(process: ProcessId, key: &str, value: &str) -> Fact {
    Fact {
        process,
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn new_process(who: &Who, started: &Started, time: TimeNs, expected: Expected) -> NewProcess {
    let is_load = who.role == SubjectRole::Load;
    NewProcess {
        arm: who.arm.clone(),
        replica: who.replica,
        incarnation: who.incarnation,
        role: if is_load { Role::Load } else { Role::Subject },
        pid: started.pid,
        start_ticks: started.start_ticks,
        started: time,
        command: started.command.clone(),
        metrics_url: started.metrics_url.clone(),
        load_lines: started.out.clone().filter(|_| is_load),
        cgroup: started.cgroup.clone(),
        expected_allocator: expected,
    }
}

fn kind_of(what: &What) -> EventKind {
    match what {
        What::Started(_) => EventKind::Started,
        What::StartFailed => EventKind::StartFailed,
        What::Ready => EventKind::Ready,
        What::NeverReady => EventKind::NeverReady,
        What::Ended { ending, .. } => match ending {
            Ending::Stopped => EventKind::Stopped,
            Ending::Exited => EventKind::Exited,
            Ending::Crashed => EventKind::Crashed,
            Ending::OomKilled => EventKind::OomKilled,
            Ending::Killed => EventKind::Killed,
            Ending::Vanished => EventKind::Vanished,
        },
        What::StopForced => EventKind::StopForced,
        What::Left { to: Some(_), .. } => EventKind::Moved,
        What::Left { to: None, .. } => EventKind::Left,
        What::Restarted => EventKind::Restarted,
        What::GaveUp => EventKind::GaveUp,
        What::LogTruncated => EventKind::LogTruncated,
        What::Resumed(_) => EventKind::Resumed,
        What::Degraded => EventKind::Degraded,
        What::Note => EventKind::Note,
    }
}

//! Which processes of other hosts the run knows: their rows in the record, found again by where they run, their
//! pid and their start.

use anyhow::Result;

use experiment::{Role as SubjectRole, Who};
use import::prometheus::assemble::Identity;
use observe::snapshot::{Event, EventKind, Expected, Fact, ProcessId, Role, TimeNs};
use record::{NewProcess, ReadOptions, Reader, Recorder};

/// Fact of a process: its identity, so that a collector that is started again finds it.
const SERIES_FACT: &str = "series";
/// A successor may have started this long before the last sample of the one before it: clocks differ.
const SLACK_S: f64 = 5.0;
/// Replicas of one run, and restarts of one replica; more are left out and it is said.
const REPLICAS_MAX: usize = 2000;
const RESTARTS_MAX: u32 = 1000;

/// One replica, with its newest incarnation.
#[derive(Debug, Clone)]
pub struct Replica {
    pub who: Who,
    pub id: ProcessId,
    identity: Identity,
    /// Its newest sample, seconds since the epoch.
    pub last_s: f64,
    /// It was said that it gives no samples any more.
    pub silent: bool,
    /// What answers malloc, as last written.
    pub facts: std::collections::BTreeMap<&'static str, String>,
    /// It was said that it is not its arm.
    pub wrong: bool,
}

/// All replicas of the run.
#[derive(Debug, Default)]
pub struct Book {
    pub replicas: Vec<Replica>,
    left_out: bool,
}

/// A process as it appears in the store.
pub struct Appeared<'a> {
    pub arm: &'a str,
    pub identity: &'a Identity,
    pub first_s: f64,
}

impl Book {
    /// What the record knows already.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn read(reader: &Reader) -> Result<Book> {
        let facts = ReadOptions {
            without_histograms: true,
            ..ReadOptions::metrics([])
        };
        let run = reader.run(&facts)?;
        let mut book = Book::default();
        for process in run.processes.iter().filter(|p| p.role == Role::Subject) {
            let told = process.facts.get(SERIES_FACT).and_then(|f| f.last());
            let Some(identity) = told.and_then(|(_, text)| serde_json::from_str(text).ok()) else {
                continue;
            };
            let who = who(&process.arm, process.replica, process.incarnation);
            let replica = book.fresh(who, process.id, identity, run.last.0 as f64 / 1e9);
            book.put(replica);
        }
        Ok(book)
    }

    fn fresh(&self, who: Who, id: ProcessId, identity: Identity, last_s: f64) -> Replica {
        Replica {
            who,
            id,
            identity,
            last_s,
            silent: false,
            facts: Default::default(),
            wrong: false,
        }
    }

    /// In the place of an earlier incarnation, or as a new replica.
    fn put(&mut self, new: Replica) -> usize {
        let same = |r: &Replica| (&r.who.arm, r.who.replica) == (&new.who.arm, new.who.replica);
        match self.replicas.iter().position(same) {
            Some(at) => {
                self.replicas[at] = new;
                at
            }
            None => {
                self.replicas.push(new);
                self.replicas.len() - 1
            }
        }
    }

    /// The place of a process: a known one, the successor of one that ended, or a new replica. `None` for one too
    /// many.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn place(
        &mut self,
        recorder: &mut Recorder,
        seen: &Appeared<'_>,
        begun: TimeNs,
    ) -> Result<Option<usize>> {
        let is_it = |r: &Replica| r.who.arm == seen.arm && r.identity.is_same(seen.identity);
        if let Some(at) = self.replicas.iter().position(is_it) {
            return Ok(Some(at));
        }
        let before = self.replicas.iter().position(|r| {
            let ended = seen.identity.start_s >= r.last_s - SLACK_S;
            r.who.arm == seen.arm && r.identity.labels == seen.identity.labels && ended
        });
        let restarts = before.map_or(0, |at| self.replicas[at].who.incarnation);
        let too_many = before.is_none() && self.replicas.len() == REPLICAS_MAX;
        if too_many || restarts == RESTARTS_MAX {
            return self.leave_out(recorder, begun).map(|()| None);
        }
        let who = match before {
            Some(at) => {
                let old = &self.replicas[at];
                let end = TimeNs((old.last_s * 1e9) as i64);
                recorder.process_ended(old.id, end, None)?;
                let (replica, incarnation) = (old.who.replica, old.who.incarnation + 1);
                who(seen.arm, replica, incarnation)
            }
            None => {
                let of_arm = self.replicas.iter().filter(|r| r.who.arm == seen.arm);
                who(seen.arm, of_arm.count() as u32, 0)
            }
        };
        self.begin(recorder, seen, who, begun).map(Some)
    }

    fn leave_out(&mut self, recorder: &mut Recorder, begun: TimeNs) -> Result<()> {
        if std::mem::replace(&mut self.left_out, true) {
            return Ok(());
        }
        let words = format!(
            "more than {REPLICAS_MAX} processes match, or one was started more than {RESTARTS_MAX} times: the rest \
             is left out; match fewer"
        );
        say(recorder, begun, None, EventKind::Degraded, words)
    }

    /// Writes down a process that was not known.
    fn begin(
        &mut self,
        recorder: &mut Recorder,
        seen: &Appeared<'_>,
        who: Who,
        begun: TimeNs,
    ) -> Result<usize> {
        let identity = seen.identity;
        let start_s = if identity.start_s > 0.0 {
            identity.start_s
        } else {
            seen.first_s
        };
        let started = TimeNs(((start_s * 1e9) as i64).max(begun.0));
        let id = recorder.process_started(&NewProcess {
            arm: who.arm.clone(),
            replica: who.replica,
            incarnation: who.incarnation,
            role: Role::Subject,
            pid: identity.pid.unwrap_or(0),
            // Hundredths of a second since the epoch: no process of this machine started so many ticks after boot.
            start_ticks: (start_s * 100.0) as u64,
            started,
            command: vec![place_words(identity)],
            metrics_url: None,
            load_lines: None,
            cgroup: None,
            expected_allocator: Expected::Any,
        })?;
        let value = serde_json::to_string(identity)?;
        let key = SERIES_FACT.to_owned();
        recorder.facts(
            started,
            &[Fact {
                process: id,
                key,
                value,
            }],
        )?;
        let (name, place) = (who.words(), place_words(identity));
        if who.incarnation > 0 {
            let words = format!("{name}: it was restarted: {place}");
            say(recorder, started, Some(id), EventKind::Restarted, words)?;
        }
        let words = format!("{name}: it is watched through the store: {place}");
        say(recorder, started, Some(id), EventKind::Started, words)?;
        let replica = self.fresh(who, id, identity.clone(), seen.first_s);
        Ok(self.put(replica))
    }
}

fn who(arm: &str, replica: u32, incarnation: u32) -> Who {
    Who {
        arm: arm.to_owned(),
        replica,
        incarnation,
        role: SubjectRole::Subject,
    }
}

/// Where it runs, for people.
fn place_words(identity: &Identity) -> String {
    let known = [
        "process",
        "pod",
        "container",
        "groupname",
        "host",
        "instance",
    ];
    let labels = known.iter().filter_map(|name| {
        let value = identity.labels.get(*name)?;
        Some(format!("{name} {value}"))
    });
    let pid = identity.pid.map(|pid| format!("pid {pid}"));
    labels.chain(pid).collect::<Vec<_>>().join(", ")
}

/// An event outside any snapshot.
///
/// # Errors
/// The record cannot be written.
pub fn say(
    recorder: &mut Recorder,
    time: TimeNs,
    process: Option<ProcessId>,
    kind: EventKind,
    words: String,
) -> Result<()> {
    recorder.event(&Event {
        time,
        process,
        kind,
        words,
    })?;
    Ok(())
}

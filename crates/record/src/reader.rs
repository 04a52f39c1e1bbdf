//! Reading a record: as a whole, or bit by bit while it grows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::error::{RecordError, Result};
use super::folder::Folder;
use super::recorder::read_targets;
use super::run::{Process, Run, RunEnd};
use super::samples;
pub use super::samples::{ReadOptions, SampleRow};
use super::schema;
use super::word::{Word, Words};
use super::{FindingRow, meta};
use experiment::file::{Experiment, parse_experiment};
use observe::clock::Anchor;
use observe::snapshot::{Event, HistogramRow, ProcessId, Target, TimeNs};

/// Number of a snapshot, counting up from 1 in the order of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct SnapshotId(pub i64);

/// Number of an event, counting up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EventId(pub i64);

/// A record open for reading; the run may go on meanwhile.
#[derive(Debug)]
pub struct Reader {
    pub(super) db: Connection,
    folder: Folder,
    path: PathBuf,
}

impl Reader {
    pub fn open(folder: &Folder) -> Result<Reader> {
        let path = folder.database();
        let db = schema::open_for_reading(&path)?;
        Ok(Reader {
            db,
            folder: folder.clone(),
            path,
        })
    }

    /// The whole run, with the samples that `options` asks for.
    pub fn read(folder: &Folder, options: &ReadOptions) -> Result<Run> {
        Reader::open(folder)?.run(options)
    }

    /// As [`Reader::read`]. One read transaction: a snapshot that is being written is in it entirely or not at all.
    pub fn run(&self, options: &ReadOptions) -> Result<Run> {
        let all = self.db.unchecked_transaction();
        let all = all.map_err(|error| RecordError::from_sqlite(&self.path, "reading", error))?;
        let experiment = self.experiment()?;
        let begun = TimeNs(self.clock()?.wall_ns);
        let mut processes = self.processes()?;
        self.sql("reading samples", |db| {
            samples::attach(db, &mut processes, options)
        })?;
        self.sql("reading facts", |db| attach_facts(db, &mut processes))?;
        if !options.without_histograms {
            self.sql("reading histograms", |db| {
                attach_histograms(db, &mut processes)
            })?;
        }
        let last = self.last_snapshot()?.map_or(begun, |(_, time)| time);
        let run = Run {
            id: self.folder.id(),
            folder: self.folder.path().to_path_buf(),
            experiment,
            begun,
            last,
            end: self.end()?,
            machine: self.sql("reading the machine", meta::read_machine)?,
            processes,
            events: self.events_since(EventId::default())?.0,
        };
        drop(all);
        Ok(run)
    }

    /// The experiment as it was frozen. Allocators are not looked up: the run has used them.
    pub fn experiment(&self) -> Result<Experiment> {
        let text = self.sql("reading the experiment", |db| {
            meta::read(db, meta::EXPERIMENT)
        })?;
        let damaged = |why: String| RecordError::Damaged {
            path: self.path.clone(),
            why,
        };
        let text = text.ok_or_else(|| damaged("it holds no experiment".into()))?;
        parse_experiment(
            &text,
            "experiment in the record",
            self.folder.path(),
            &[],
            &|_| Ok(()),
        )
        .map_err(|problems| damaged(problems.to_string()))
    }

    /// The two clocks as they were read when the run began; `wall_ns` is the run's beginning.
    pub fn clock(&self) -> Result<Anchor> {
        self.sql("reading the clock", meta::read_clock)
    }

    /// How the run ended; `None` while it goes on, or when nobody could write it down.
    pub fn end(&self) -> Result<Option<RunEnd>> {
        self.sql("reading how the run ended", meta::read_end)
    }

    /// Every process without samples, facts and histograms.
    pub fn processes(&self) -> Result<Vec<Process>> {
        self.sql("reading processes", read_processes)
    }

    /// What is to be looked at now: processes that have not ended.
    pub fn targets(&self) -> Result<Vec<Target>> {
        self.sql("reading targets", read_targets)
    }

    /// The newest snapshot and its time.
    pub fn last_snapshot(&self) -> Result<Option<(SnapshotId, TimeNs)>> {
        self.sql("reading snapshots", |db| {
            use rusqlite::OptionalExtension;
            db.prepare_cached("SELECT id, time FROM look ORDER BY id DESC LIMIT 1")?
                .query_row([], |row| Ok((SnapshotId(row.get(0)?), TimeNs(row.get(1)?))))
                .optional()
        })
    }

    /// Samples of these metrics in the snapshots after `after`, ordered by snapshot; with the last snapshot that was
    /// read, to go on from. `SnapshotId::default()` starts at the beginning.
    pub fn samples_since(
        &self,
        after: SnapshotId,
        metrics: &[&str],
    ) -> Result<(Vec<SampleRow>, SnapshotId)> {
        let last = self.last_snapshot()?.map_or(after, |(id, _)| id.max(after));
        let rows = self.sql("reading samples", |db| {
            samples::between(db, after.0, last.0, metrics)
        })?;
        Ok((rows, last))
    }

    /// The latest value of each of these metrics for each process.
    pub fn latest(&self, metrics: &[&str]) -> Result<Vec<SampleRow>> {
        self.sql("reading samples", |db| samples::latest(db, metrics))
    }

    /// Events recorded after `after`, in the order in which they were recorded.
    pub fn events_since(&self, after: EventId) -> Result<(Vec<Event>, EventId)> {
        self.sql("reading events", |db| {
            let sql = "SELECT id, time, process, kind, words FROM event WHERE id > ? ORDER BY id";
            let mut last = after;
            let mut statement = db.prepare_cached(sql)?;
            let events = statement.query_map([after.0], |row| {
                last = EventId(row.get(0)?);
                Ok(Event {
                    time: TimeNs(row.get(1)?),
                    process: row.get::<_, Option<i64>>(2)?.map(ProcessId),
                    kind: row.get::<_, Word<_>>(3)?.0,
                    words: row.get(4)?,
                })
            })?;
            let events: rusqlite::Result<Vec<Event>> = events.collect();
            Ok((events?, last))
        })
    }

    /// Names of every metric that was ever recorded.
    pub fn metric_names(&self) -> Result<Vec<String>> {
        self.sql("reading metrics", |db| {
            db.prepare("SELECT name FROM metric ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// What the audit found.
    pub fn findings(&self) -> Result<Vec<FindingRow>> {
        self.sql("reading findings", |db| {
            let sql = "SELECT time, source, what, processes, effect FROM finding ORDER BY id";
            db.prepare(sql)?
                .query_map([], |row| {
                    Ok(FindingRow {
                        time: TimeNs(row.get(0)?),
                        source: row.get(1)?,
                        what: row.get(2)?,
                        processes: row.get::<_, Words>(3)?.0,
                        effect: row.get(4)?,
                    })
                })?
                .collect()
        })
    }

    pub(super) fn sql<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        work(&self.db).map_err(|error| RecordError::from_sqlite(&self.path, doing, error))
    }
}

fn read_processes(db: &Connection) -> rusqlite::Result<Vec<Process>> {
    let sql = "SELECT id, arm, replica, incarnation, role, pid, start_ticks, started, ended, exit, command
               FROM process ORDER BY id";
    db.prepare_cached(sql)?
        .query_map([], |row| {
            Ok(Process {
                id: ProcessId(row.get(0)?),
                arm: row.get(1)?,
                replica: row.get(2)?,
                incarnation: row.get(3)?,
                role: row.get::<_, Word<_>>(4)?.0,
                pid: row.get(5)?,
                start_ticks: row.get::<_, i64>(6)? as u64,
                started: TimeNs(row.get(7)?),
                ended: row.get::<_, Option<i64>>(8)?.map(TimeNs),
                exit: row.get(9)?,
                command: row.get::<_, Words>(10)?.0,
                samples: BTreeMap::new(),
                facts: BTreeMap::new(),
                histograms: Vec::new(),
            })
        })?
        .collect()
}

fn attach_facts(db: &Connection, processes: &mut [Process]) -> rusqlite::Result<()> {
    let sql = "SELECT process, key, valid_from, value FROM fact ORDER BY process, key, valid_from";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(process) = find(processes, ProcessId(row.get(0)?)) {
            let values = process.facts.entry(row.get(1)?).or_default();
            values.push((TimeNs(row.get(2)?), row.get(3)?));
        }
    }
    Ok(())
}

fn attach_histograms(db: &Connection, processes: &mut [Process]) -> rusqlite::Result<()> {
    let sql = "SELECT process, name, start, \"end\", requests, errors, dropped, histogram
               FROM histogram JOIN metric ON metric.id = metric ORDER BY histogram.id";
    let mut statement = db.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let histogram = HistogramRow {
            process: ProcessId(row.get(0)?),
            metric: row.get(1)?,
            start: TimeNs(row.get(2)?),
            end: TimeNs(row.get(3)?),
            requests: row.get::<_, i64>(4)? as u64,
            errors: row.get::<_, i64>(5)? as u64,
            dropped: row.get::<_, i64>(6)? as u64,
            histogram: row.get(7)?,
        };
        if let Some(process) = find(processes, histogram.process) {
            process.histograms.push(histogram);
        }
    }
    Ok(())
}

/// Processes are ordered by id.
fn find(processes: &mut [Process], id: ProcessId) -> Option<&mut Process> {
    let at = processes
        .binary_search_by_key(&id, |process| process.id)
        .ok()?;
    processes.get_mut(at)
}

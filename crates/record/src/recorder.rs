//! Writing a record: by the supervisor (processes, events) and by the collector (snapshots), each with its own
//! [`Recorder`] on the same file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::error::{RecordError, Result};
use super::folder::Folder;
use super::run::{Machine, RunEnd};
use super::schema;
use super::word::{Word, Words};
use super::{FindingRow, meta};
use experiment::file::redact::{redact_command, redact_text};
use experiment::file::{Experiment, freeze};
use observe::clock::Anchor;
use observe::snapshot::{
    Event, EventKind, Expected, Fact, ProcessId, Role, Snapshot, Target, TimeNs,
};

/// `process.expected_allocator` of the system's own; a library's path is absolute, NULL is any.
const SYSTEM: &str = "system";
/// Statements kept prepared; there are about a dozen.
const STATEMENTS_KEPT: usize = 32;

/// A process that has just been started or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProcess {
    pub arm: String,
    pub replica: u32,
    /// 0 for the first start of this replica.
    pub incarnation: u32,
    pub role: Role,
    pub pid: i32,
    /// Field 22 of /proc/PID/stat.
    pub start_ticks: u64,
    pub started: TimeNs,
    /// As started; secrets are left out here.
    pub command: Vec<String>,
    pub metrics_url: Option<String>,
    pub load_lines: Option<PathBuf>,
    pub cgroup: Option<PathBuf>,
    pub expected_allocator: Expected,
}

/// A record open for writing. Several processes may have one on the same file at once.
#[derive(Debug)]
pub struct Recorder {
    db: Connection,
    path: PathBuf,
    /// Ids of metric names, of committed rows only.
    metrics: HashMap<String, i64>,
    lost: Option<LostSnapshots>,
}

/// Snapshots that could not be written because the disk was full; told to the record when it has room again.
#[derive(Debug)]
struct LostSnapshots {
    since: TimeNs,
    count: u64,
    why: &'static str,
}

impl Recorder {
    /// Begins the record of a run in its folder; there must be none yet.
    pub fn create(
        folder: &Folder,
        experiment: &Experiment,
        machine: &Machine,
        clock: &Anchor,
    ) -> Result<Recorder> {
        let path = folder.database();
        let db = schema::create(&path, |all| {
            meta::write(all, meta::EXPERIMENT, &freeze(experiment))?;
            meta::write(all, meta::HIGHWATER, env!("CARGO_PKG_VERSION"))?;
            meta::write_clock(all, clock)?;
            meta::write_machine(all, machine)
        })?;
        Ok(Recorder::on(db, path))
    }

    /// Opens the record of a run that has begun, to write more into it. An older schema is brought up to date.
    pub fn open(folder: &Folder) -> Result<Recorder> {
        let path = folder.database();
        Ok(Recorder::on(schema::open_for_writing(&path)?, path))
    }

    fn on(db: Connection, path: PathBuf) -> Recorder {
        db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        Recorder {
            db,
            path,
            metrics: HashMap::new(),
            lost: None,
        }
    }

    /// The clock of the run, as anchored when it began.
    pub fn clock(&self) -> Result<Anchor> {
        meta::read_clock(&self.db).map_err(|e| self.failed("reading the clock", e))
    }

    /// A process runs from now on; the id stands for this incarnation in everything that follows.
    pub fn process_started(&mut self, process: &NewProcess) -> Result<ProcessId> {
        let library = match &process.expected_allocator {
            Expected::Any => None,
            Expected::System => Some(PathBuf::from(SYSTEM)),
            Expected::Library(path) => Some(path.clone()),
        };
        let paths = [&process.load_lines, &process.cgroup, &library];
        let [load_lines, cgroup, allocator] = paths.map(|path| path_text(path.as_deref()));
        let (load_lines, cgroup, allocator) = (load_lines?, cgroup?, allocator?);
        let id = self.write("recording a start", |all| {
            all.prepare_cached(
                "INSERT INTO process (arm, replica, incarnation, role, pid, start_ticks, started, command,
                    metrics_url, load_lines, cgroup, expected_allocator)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .insert(params![
                process.arm,
                process.replica,
                process.incarnation,
                Word(process.role),
                process.pid,
                process.start_ticks as i64,
                process.started.0,
                Words(redact_command(&process.command)),
                process.metrics_url,
                load_lines,
                cgroup,
                allocator,
            ])
        })?;
        Ok(ProcessId(id))
    }

    /// The process is gone; `exit` is its code or signal in words, when known.
    pub fn process_ended(&mut self, id: ProcessId, time: TimeNs, exit: Option<&str>) -> Result<()> {
        self.write("recording an end", |all| {
            let sql = "UPDATE process SET ended = ?, exit = ? WHERE id = ?";
            all.prepare_cached(sql)?
                .execute(params![time.0, exit, id.0])
                .map(|_| ())
        })
    }

    pub fn event(&mut self, event: &Event) -> Result<()> {
        self.write("recording an event", |all| insert_event(all, event))
    }

    /// Facts that the supervisor itself found out, outside any snapshot.
    pub fn facts(&mut self, time: TimeNs, facts: &[Fact]) -> Result<()> {
        self.write("recording facts", |all| insert_facts(all, time, facts))
    }

    /// Something that weakens the run, found by the audit.
    pub fn finding(&mut self, finding: &FindingRow) -> Result<()> {
        self.write("recording a finding", |all| {
            let sql = "INSERT INTO finding (time, source, what, processes, effect) VALUES (?, ?, ?, ?, ?)";
            let FindingRow { time, source, what, processes, effect } = finding;
            let processes = Words(processes.clone());
            all.prepare_cached(sql)?
                .execute(params![time.0, source, what, processes, effect])
                .map(|_| ())
        })
    }

    /// Everything of one snapshot, in one transaction: it is in the record as a whole or not at all. NaN says
    /// nothing and is left out; of two samples of one metric and process, the later one counts.
    ///
    /// After an error that [`RecordError::may_pass`] the snapshot is lost; the next one that fits brings an event that
    /// says how many were.
    pub fn snapshot(&mut self, snapshot: &Snapshot) -> Result<()> {
        let mut named = std::mem::take(&mut self.metrics);
        let lost = self
            .lost
            .as_ref()
            .map(|lost| lost_event(lost, snapshot.time));
        let written = self.write("recording a snapshot", |all| {
            if let Some(event) = &lost {
                insert_event(all, event)?;
            }
            insert_snapshot(all, snapshot, &mut named)
        });
        match &written {
            Ok(()) => {
                self.metrics = named;
                self.lost = None;
            }
            // Names added by a transaction that was undone have no row: the cache is dropped with it.
            Err(error) if error.may_pass() => {
                let lost = self.lost.get_or_insert(LostSnapshots {
                    since: snapshot.time,
                    count: 0,
                    why: match error {
                        RecordError::Busy(_) => "the record could not be written",
                        _ => "the disk was full",
                    },
                });
                lost.count += 1;
            }
            Err(_) => {}
        }
        written
    }

    /// The run is over: how it ended, in words. The write-ahead log is folded into run.db, so that a finished run
    /// can be copied as one file.
    pub fn ended(&mut self, end: &RunEnd) -> Result<()> {
        self.write("recording the end of the run", |all| {
            meta::write_end(all, end)
        })?;
        // Another reader may hold the log; then it stays beside the file and the next opener folds it in.
        let folded = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        folded.map_err(|error| self.failed("closing the record", error))
    }

    /// The run goes on after all (`--resume`).
    pub fn resumed(&mut self) -> Result<()> {
        self.write("resuming the run", |all| meta::clear_end(all))
    }

    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let path = self.path.clone();
        let failed = |error| RecordError::from_sqlite(&path, doing, error);
        // Immediate: the lock is waited for here, where the busy timeout applies, never in the middle.
        let all = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let value = work(&all).map_err(failed)?;
        all.commit().map_err(failed)?;
        Ok(value)
    }

    fn failed(&self, doing: &'static str, error: rusqlite::Error) -> RecordError {
        RecordError::from_sqlite(&self.path, doing, error)
    }
}

fn expected(text: Option<String>) -> Expected {
    match text {
        None => Expected::Any,
        Some(text) if text == SYSTEM => Expected::System,
        Some(path) => Expected::Library(path.into()),
    }
}

/// What the collector has to look at: subjects and loads that have not ended, and highwater itself.
pub(super) fn read_targets(db: &Connection) -> rusqlite::Result<Vec<Target>> {
    let sql = "SELECT id, pid, start_ticks, arm, replica, role, metrics_url, load_lines, cgroup, expected_allocator
               FROM process WHERE ended IS NULL ORDER BY id";
    let path = |text: Option<String>| text.map(PathBuf::from);
    db.prepare_cached(sql)?
        .query_map([], |row| {
            Ok(Target {
                process: ProcessId(row.get(0)?),
                pid: row.get(1)?,
                start_ticks: row.get::<_, i64>(2)? as u64,
                arm: row.get(3)?,
                replica: row.get(4)?,
                role: row.get::<_, Word<Role>>(5)?.0,
                metrics_url: row.get(6)?,
                load_lines: path(row.get(7)?),
                cgroup: path(row.get(8)?),
                expected_allocator: expected(row.get(9)?),
            })
        })?
        .collect()
}

fn insert_event(all: &Connection, event: &Event) -> rusqlite::Result<()> {
    let sql = "INSERT INTO event (time, process, kind, words) VALUES (?, ?, ?, ?)";
    let process = event.process.map(|process| process.0);
    let words = redact_text(&event.words);
    all.prepare_cached(sql)?
        .execute(params![event.time.0, process, Word(&event.kind), words])
        .map(|_| ())
}

fn insert_snapshot(
    all: &Connection,
    snapshot: &Snapshot,
    named: &mut HashMap<String, i64>,
) -> rusqlite::Result<()> {
    let id = all
        .prepare_cached("INSERT INTO look (time) VALUES (?)")?
        .insert([snapshot.time.0])?;
    insert_samples(all, id, snapshot, named)?;
    insert_facts(all, snapshot.time, &snapshot.facts)?;
    let mut histogram = all.prepare_cached(
        "INSERT INTO histogram (process, metric, start, \"end\", requests, errors, dropped, histogram)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    for row in &snapshot.histograms {
        let metric = metric_id(all, &row.metric, named)?;
        let [requests, errors, dropped] = [row.requests, row.errors, row.dropped].map(count);
        let (process, start, end) = (row.process.0, row.start.0, row.end.0);
        histogram.execute(params![
            process,
            metric,
            start,
            end,
            requests,
            errors,
            dropped,
            row.histogram
        ])?;
    }
    snapshot
        .events
        .iter()
        .try_for_each(|event| insert_event(all, event))
}

fn insert_facts(all: &Connection, time: TimeNs, facts: &[Fact]) -> rusqlite::Result<()> {
    let mut insert = all.prepare_cached("INSERT OR REPLACE INTO fact VALUES (?, ?, ?, ?)")?;
    facts.iter().try_for_each(|fact| {
        insert
            .execute(params![fact.process.0, fact.key, time.0, fact.value])
            .map(|_| ())
    })
}

/// Sorted by metric and process, so that the rows of one metric go to one place of the tree.
fn insert_samples(
    all: &Connection,
    snapshot_id: i64,
    snapshot: &Snapshot,
    named: &mut HashMap<String, i64>,
) -> rusqlite::Result<()> {
    let mut rows = Vec::with_capacity(snapshot.samples.len());
    for sample in snapshot
        .samples
        .iter()
        .filter(|sample| !sample.value.is_nan())
    {
        rows.push((
            metric_id(all, &sample.metric, named)?,
            sample.process.0,
            sample.value,
        ));
    }
    // Stable: of two rows of one key the later stays the later.
    rows.sort_by_key(|(metric, process, _)| (*metric, *process));
    let mut insert = all.prepare_cached("INSERT OR REPLACE INTO reading VALUES (?, ?, ?, ?)")?;
    for (metric, process, value) in rows {
        // SQLite stores a whole number in the bytes it needs, a float always in eight.
        match whole(value) {
            Some(whole) => insert.execute((metric, snapshot_id, process, whole))?,
            None => insert.execute((metric, snapshot_id, process, value))?,
        };
    }
    Ok(())
}

/// The value as a whole number, when it is one that a float holds exactly.
fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = (1u64 << 53) as f64;
    (value.fract() == 0.0 && value.abs() < EXACT && !(value == 0.0 && value.is_sign_negative()))
        .then_some(value as i64)
}

fn metric_id(
    all: &Connection,
    name: &str,
    named: &mut HashMap<String, i64>,
) -> rusqlite::Result<i64> {
    if let Some(id) = named.get(name) {
        return Ok(*id);
    }
    all.prepare_cached("INSERT OR IGNORE INTO metric (name) VALUES (?)")?
        .execute([name])?;
    let id = all
        .prepare_cached("SELECT id FROM metric WHERE name = ?")?
        .query_row([name], |row| row.get(0))?;
    named.insert(name.to_owned(), id);
    Ok(id)
}

/// SQLite has signed numbers only; no count gets there.
fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn lost_event(lost: &LostSnapshots, time: TimeNs) -> Event {
    let seconds = (time.0 - lost.since.0) as f64 / 1e9;
    let words = format!(
        "{}: {} snapshots of the last {seconds:.0} s are missing; everything else is kept",
        lost.why, lost.count
    );
    Event {
        time,
        process: None,
        kind: EventKind::SnapshotsLost,
        words,
    }
}

/// Paths stand in the record as text.
fn path_text(path: Option<&Path>) -> Result<Option<&str>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let not_text = || std::io::Error::other("the path is not UTF-8; choose another folder");
    path.to_str()
        .map(Some)
        .ok_or_else(|| RecordError::io(path, "recording a start", not_text()))
}

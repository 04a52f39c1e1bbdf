//! The samples of a record: whole series, the newest values, or the snapshots since the last time.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::run::Process;
use observe::snapshot::{ProcessId, TimeNs};

/// What to read of the samples. The default is everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadOptions {
    /// Names of the metrics wanted; a name that ends in `*` stands for all that begin so. `None`: every metric.
    pub metrics: Option<Vec<String>>,
    /// At most one snapshot in each stretch of this length (the first in it). Peaks between are not seen: for a
    /// peak, read a metric that keeps it (`rss_peak_bytes`).
    pub every: Option<Duration>,
    /// Leave the latency histograms out.
    pub without_histograms: bool,
}

impl ReadOptions {
    /// Only these metrics.
    pub fn metrics<'a>(names: impl IntoIterator<Item = &'a str>) -> ReadOptions {
        let metrics = names.into_iter().map(str::to_owned).collect();
        ReadOptions {
            metrics: Some(metrics),
            ..ReadOptions::default()
        }
    }

    pub fn every(self, every: Duration) -> ReadOptions {
        ReadOptions {
            every: Some(every),
            ..self
        }
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        let matches = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => wanted == name,
        };
        self.metrics
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(matches))
    }
}

/// One sample read back.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    pub process: ProcessId,
    pub metric: String,
    pub time: TimeNs,
    pub value: f64,
}

/// How many snapshots back the newest value of a process is searched; older ones are not news.
const LATEST_SNAPSHOTS_MAX: usize = 120;

/// Reads the wanted series into their processes (ordered by id).
pub(super) fn attach(
    db: &Connection,
    processes: &mut [Process],
    options: &ReadOptions,
) -> rusqlite::Result<()> {
    let snapshots = Snapshots::read(db, options.every)?;
    for (id, name) in metrics(db, |name| options.wants(name))? {
        let mut series: Vec<Vec<(TimeNs, f64)>> = vec![Vec::new(); processes.len()];
        let places: HashMap<i64, usize> = processes
            .iter()
            .enumerate()
            .map(|(n, process)| (process.id.0, n))
            .collect();
        snapshots.for_each(db, id, |process, time, value| {
            // Samples of a process that nobody recorded belong to nobody.
            if let Some(place) = places.get(&process) {
                series[*place].push((time, value));
            }
        })?;
        for (process, points) in processes.iter_mut().zip(series) {
            if !points.is_empty() {
                process.samples.insert(name.clone(), points);
            }
        }
    }
    Ok(())
}

/// Samples of the snapshots in (after, last], ordered by snapshot.
pub(super) fn between(
    db: &Connection,
    after: i64,
    last: i64,
    wanted: &[&str],
) -> rusqlite::Result<Vec<SampleRow>> {
    let sql = "SELECT look, process, look.time, value FROM reading JOIN look ON look.id = look
               WHERE metric = ? AND look > ? AND look <= ? ORDER BY look, process";
    let mut rows = Vec::new();
    for (id, name) in metrics(db, |name| wanted.contains(&name))? {
        let mut statement = db.prepare_cached(sql)?;
        let found = statement.query_map([id, after, last], |row| {
            let snapshot: i64 = row.get(0)?;
            let (process, time) = (ProcessId(row.get(1)?), TimeNs(row.get(2)?));
            Ok((
                snapshot,
                SampleRow {
                    process,
                    metric: name.clone(),
                    time,
                    value: row.get(3)?,
                },
            ))
        })?;
        for row in found {
            rows.push(row?);
        }
    }
    rows.sort_by_key(|(snapshot, _)| *snapshot);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The newest value of each wanted metric for each process. A process that ended or a metric read at a slower
/// rate is not in the newest snapshot, so each is searched backwards from the end of its metric.
pub(super) fn latest(db: &Connection, wanted: &[&str]) -> rusqlite::Result<Vec<SampleRow>> {
    let processes: Vec<i64> = db
        .prepare_cached("SELECT id FROM process")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for (id, name) in metrics(db, |name| wanted.contains(&name))? {
        let mut missing: Vec<i64> = processes.clone();
        let mut before = i64::MAX;
        // Nearly every process is in the last snapshot or two; the few that ended long ago end the search by count.
        for _ in 0..LATEST_SNAPSHOTS_MAX {
            if missing.is_empty() {
                break;
            }
            let Some(snapshot) = snapshot_before(db, id, before)? else {
                break;
            };
            before = snapshot;
            for row in of_snapshot(db, id, snapshot, &name)? {
                if let Some(at) = missing.iter().position(|process| *process == row.process.0) {
                    missing.swap_remove(at);
                    rows.push(row);
                }
            }
        }
    }
    Ok(rows)
}

fn snapshot_before(db: &Connection, metric: i64, before: i64) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT look FROM reading WHERE metric = ? AND look < ? ORDER BY look DESC LIMIT 1";
    db.prepare_cached(sql)?
        .query_row([metric, before], |row| row.get(0))
        .optional()
}

fn of_snapshot(
    db: &Connection,
    metric: i64,
    snapshot: i64,
    name: &str,
) -> rusqlite::Result<Vec<SampleRow>> {
    let sql = "SELECT process, look.time, value FROM reading JOIN look ON look.id = look
               WHERE metric = ? AND look = ?";
    db.prepare_cached(sql)?
        .query_map([metric, snapshot], |row| {
            let (process, time) = (ProcessId(row.get(0)?), TimeNs(row.get(1)?));
            Ok(SampleRow {
                process,
                metric: name.into(),
                time,
                value: row.get(2)?,
            })
        })?
        .collect()
}

/// Id and name of the metrics that `wanted` accepts.
pub(super) fn metrics(
    db: &Connection,
    wanted: impl Fn(&str) -> bool,
) -> rusqlite::Result<Vec<(i64, String)>> {
    let mut statement = db.prepare_cached("SELECT id, name FROM metric ORDER BY id")?;
    let all = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let all: rusqlite::Result<Vec<(i64, String)>> = all.collect();
    Ok(all?.into_iter().filter(|(_, name)| wanted(name)).collect())
}

/// The snapshots to read, with their times.
pub(super) struct Snapshots {
    /// Time of every snapshot, by id less `first`; nobody asks for an id in a gap.
    times: Vec<TimeNs>,
    first: i64,
    /// The ids to read, when not all are.
    picked: Option<Vec<i64>>,
}

impl Snapshots {
    pub(super) fn read(db: &Connection, every: Option<Duration>) -> rusqlite::Result<Snapshots> {
        let mut statement = db.prepare_cached("SELECT id, time FROM look ORDER BY id")?;
        let all = statement.query_map([], |row| Ok((row.get(0)?, TimeNs(row.get(1)?))))?;
        let all: rusqlite::Result<Vec<(i64, TimeNs)>> = all.collect();
        let all = all?;
        let first = all.first().map_or(0, |(id, _)| *id);
        let mut times = Vec::with_capacity(all.len());
        for (id, time) in &all {
            let at = usize::try_from(id - first).unwrap_or(0);
            // Ids count up one by one; a file that claims otherwise must not make this list endless.
            times.resize(at.min(all.len() * 2 + 1000), *time);
            times.push(*time);
        }
        Ok(Snapshots {
            times,
            first,
            picked: every.map(|every| pick(&all, every)),
        })
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        let last = self.first + self.times.len() as i64;
        self.picked
            .clone()
            .unwrap_or_else(|| (self.first..last).collect())
    }

    fn time(&self, snapshot: i64) -> Option<TimeNs> {
        self.times
            .get(usize::try_from(snapshot - self.first).ok()?)
            .copied()
    }

    /// Calls `take(process, time, value)` for every picked sample of a metric, ordered by snapshot and process.
    fn for_each(
        &self,
        db: &Connection,
        metric: i64,
        mut take: impl FnMut(i64, TimeNs, f64),
    ) -> rusqlite::Result<()> {
        let sql =
            "SELECT look, process, value FROM reading WHERE metric = ? AND look BETWEEN ? AND ?";
        let mut statement = db.prepare_cached(sql)?;
        let mut read = |from: i64, to: i64| -> rusqlite::Result<()> {
            let mut rows = statement.query([metric, from, to])?;
            while let Some(row) = rows.next()? {
                if let Some(time) = self.time(row.get(0)?) {
                    take(row.get(1)?, time, row.get(2)?);
                }
            }
            Ok(())
        };
        match &self.picked {
            None => read(i64::MIN, i64::MAX),
            Some(picked) => picked
                .iter()
                .try_for_each(|snapshot| read(*snapshot, *snapshot)),
        }
    }
}

/// The first snapshot in each stretch of `every`.
fn pick(snapshots: &[(i64, TimeNs)], every: Duration) -> Vec<i64> {
    let every = i64::try_from(every.as_nanos()).unwrap_or(i64::MAX).max(1);
    let mut next = i64::MIN;
    let mut picked = Vec::new();
    for (id, time) in snapshots {
        if time.0 >= next {
            picked.push(*id);
            next = time.0.saturating_add(every);
        }
    }
    picked
}

/// Samples of one metric in some snapshots, ordered by snapshot and process.
pub(super) fn of_snapshots(
    db: &Connection,
    metric: i64,
    snapshots: &[i64],
) -> rusqlite::Result<Vec<(ProcessId, TimeNs, f64)>> {
    let sql = "SELECT process, look.time, value FROM reading JOIN look ON look.id = look
               WHERE metric = ? AND look = ? ORDER BY process";
    let mut statement = db.prepare_cached(sql)?;
    let mut samples = Vec::new();
    for snapshot in snapshots {
        let mut rows = statement.query([metric, *snapshot])?;
        while let Some(row) = rows.next()? {
            samples.push((ProcessId(row.get(0)?), TimeNs(row.get(1)?), row.get(2)?));
        }
    }
    Ok(samples)
}

//! What a record has got since the last time: for the loop that acts on it while the run goes on.

use rusqlite::Connection;

use super::error::Result;
use super::reader::Reader;
use observe::snapshot::{HistogramRow, ProcessId, Sample, Snapshot, TimeNs};

/// How far was read. The default begins with the next snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct News {
    snapshot: i64,
    histogram: i64,
}

impl Reader {
    /// The newest snapshot if there is one since the last call, with those samples whose metric is wanted, and every
    /// histogram that came since. Looks in between are passed over: a loop acts on what is, not on what was.
    pub fn news(&self, since: &mut News, wants: &dyn Fn(&str) -> bool) -> Result<Option<Snapshot>> {
        let Some((last, time)) = self
            .last_snapshot()?
            .filter(|(last, _)| last.0 > since.snapshot)
        else {
            return Ok(None);
        };
        let samples = self.sql("reading the last snapshot", |db| samples(db, last.0, wants))?;
        let (histograms, read_to) = self.sql("reading new histograms", |db| {
            histograms(db, since.histogram)
        })?;
        *since = News {
            snapshot: last.0,
            histogram: read_to,
        };
        Ok(Some(Snapshot {
            samples,
            histograms,
            ..Snapshot::at(time)
        }))
    }
}

impl Reader {
    /// End of the last interval of latencies recorded for each process.
    pub fn latencies_until(&self) -> Result<Vec<(ProcessId, TimeNs)>> {
        self.sql("reading the last histograms", |db| {
            db.prepare("SELECT process, max(\"end\") FROM histogram GROUP BY process")?
                .query_map([], |row| Ok((ProcessId(row.get(0)?), TimeNs(row.get(1)?))))?
                .collect()
        })
    }
}

fn samples(
    db: &Connection,
    snapshot: i64,
    wants: &dyn Fn(&str) -> bool,
) -> rusqlite::Result<Vec<Sample>> {
    let mut names = db.prepare_cached("SELECT id, name FROM metric")?;
    let names = names.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut found = Vec::new();
    for name in names {
        let (metric, name) = name?;
        if !wants(&name) {
            continue;
        }
        let sql = "SELECT process, value FROM reading WHERE metric = ? AND look = ?";
        let mut rows = db.prepare_cached(sql)?;
        let rows = rows.query_map([metric, snapshot], |row| {
            let (process, metric) = (ProcessId(row.get(0)?), name.clone());
            Ok(Sample {
                process,
                metric,
                value: row.get(1)?,
            })
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    Ok(found)
}

fn histograms(db: &Connection, after: i64) -> rusqlite::Result<(Vec<HistogramRow>, i64)> {
    let sql = "SELECT histogram.id, process, name, start, \"end\", requests, errors, dropped, histogram
               FROM histogram JOIN metric ON metric.id = metric WHERE histogram.id > ? ORDER BY histogram.id";
    let mut last = after;
    let mut rows = db.prepare_cached(sql)?;
    let rows = rows.query_map([after], |row| {
        last = row.get(0)?;
        Ok(HistogramRow {
            process: ProcessId(row.get(1)?),
            metric: row.get(2)?,
            start: TimeNs(row.get(3)?),
            end: TimeNs(row.get(4)?),
            requests: row.get::<_, i64>(5)? as u64,
            errors: row.get::<_, i64>(6)? as u64,
            dropped: row.get::<_, i64>(7)? as u64,
            histogram: row.get(8)?,
        })
    })?;
    let rows: rusqlite::Result<Vec<HistogramRow>> = rows.collect();
    Ok((rows?, last))
}

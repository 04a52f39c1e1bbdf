//! Every sample as long-form CSV: one line per process, metric and instant.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::error::Result;
use super::reader::{ReadOptions, Reader};
use super::run::Process;
use super::samples::{self, Snapshots};
use observe::snapshot::{Role, TimeNs};

/// Columns of the export. `time` is ISO 8601 in UTC; `value` is in the unit that the metric's name ends in.
pub const HEADER: [&str; 9] = [
    "time",
    "arm",
    "replica",
    "incarnation",
    "role",
    "pid",
    "process",
    "metric",
    "value",
];
/// Snapshots read at once: with 200 processes a few megabytes.
const SNAPSHOTS_AT_ONCE: usize = 256;

/// Lines of the export, ordered by metric, time and process; the first is the header. Each ends with a line feed.
/// The record is read as the lines are taken, so the export of a long run needs little memory.
pub fn samples_csv<'a>(reader: &'a Reader, options: &ReadOptions) -> Result<CsvLines<'a>> {
    let metrics = reader.sql("reading metrics", |db| {
        samples::metrics(db, |name| options.wants(name))
    })?;
    let snapshots = reader
        .sql("reading snapshots", |db| Snapshots::read(db, options.every))?
        .ids();
    let stretches = snapshots
        .chunks(SNAPSHOTS_AT_ONCE)
        .map(<[i64]>::to_vec)
        .collect();
    let header = csv_line(&HEADER.map(str::to_owned));
    Ok(CsvLines {
        reader,
        processes: reader.processes()?,
        metrics: metrics.into(),
        stretches,
        stretch: 0,
        ready: VecDeque::from([header]),
    })
}

/// See [`samples_csv`].
pub struct CsvLines<'a> {
    reader: &'a Reader,
    processes: Vec<Process>,
    /// Still to do; the first one is being done.
    metrics: VecDeque<(i64, String)>,
    stretches: Vec<Vec<i64>>,
    stretch: usize,
    ready: VecDeque<String>,
}

impl Iterator for CsvLines<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            let (id, name) = self.metrics.front()?.clone();
            let Some(stretch) = self.stretches.get(self.stretch) else {
                self.metrics.pop_front();
                self.stretch = 0;
                continue;
            };
            self.stretch += 1;
            let read = self
                .reader
                .sql("exporting", |db| samples::of_snapshots(db, id, stretch));
            match read {
                Ok(rows) => {
                    self.ready
                        .extend(rows.into_iter().filter_map(|(process, time, value)| {
                            let at = self
                                .processes
                                .binary_search_by_key(&process, |p| p.id)
                                .ok()?;
                            Some(sample_line(&self.processes[at], &name, time, value))
                        }))
                }
                Err(error) => {
                    self.metrics.clear();
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

fn sample_line(process: &Process, metric: &str, time: TimeNs, value: f64) -> String {
    let role = match process.role {
        Role::Subject => "subject",
        Role::Load => "load",
        Role::Highwater => "highwater",
        Role::Host => "host",
    };
    csv_line(&[
        iso(time),
        process.arm.clone(),
        process.replica.to_string(),
        process.incarnation.to_string(),
        role.to_owned(),
        process.pid.to_string(),
        process.id.0.to_string(),
        metric.to_owned(),
        value.to_string(),
    ])
}

/// "2026-11-21T17:14:03.25Z"; a time that no calendar holds stays a number of nanoseconds.
pub fn iso(time: TimeNs) -> String {
    Timestamp::from_nanosecond(i128::from(time.0))
        .map_or_else(|_| time.0.to_string(), |t| t.to_string())
}

fn csv_line(fields: &[String]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).expect("writing to memory");
    let bytes = writer.into_inner().expect("writing to memory");
    String::from_utf8(bytes).expect("the fields were text")
}

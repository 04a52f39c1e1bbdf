//! The load program's report: one JSON line per interval on its stdout, tailed from the file.
//!
//! ```json
//! {"schema":"highwater.load/1","start_ns":1,"end_ns":2,"requests":9,"errors":0,"dropped":0,
//!  "histogram":"<base64 of HdrHistogram V2, nanoseconds>"}
//! ```
//! (on one line); it may have `"pauses":[[start_ns,end_ns],...]`, stretches in which requests waited and no session
//! was answered. Times are CLOCK_MONOTONIC. Any program may print them, among other text: a line
//! that is none of ours is counted and left out.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::Deserialize;

use super::metric;
use super::proc::process::Loss;
use super::snapshot::{HistogramRow, ProcessId, TimeNs};
use super::snapshot_writer::SnapshotWriter;

pub const SCHEMA: &str = "highwater.load/1";

/// The name of the rows in the record.
pub const METRIC: &str = "latency";

/// The name of the rows of pauses: start and end are the pause's own, and no request is counted.
pub const PAUSE_METRIC: &str = "pause";

/// Pauses taken from one line; of a line with more, the first.
const PAUSES_MAX: usize = 64;

/// Longest line; a histogram of an hour at three digits has about 60 kB in base64.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Read at one snapshot; what is left comes with the next.
const SNAPSHOT_BYTES_MAX: u64 = 16 << 20;

/// One interval. Times are CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadLine {
    pub start_ns: i64,
    pub end_ns: i64,
    pub requests: u64,
    pub errors: u64,
    pub dropped: u64,
    /// HdrHistogram V2, not compressed, nanoseconds.
    pub histogram: Vec<u8>,
    /// From when until when, in order of neither.
    pub pauses: Vec<(i64, i64)>,
}

/// Why a line is left out. One event tells of each kind, a counter of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    NotJson,
    OtherSchema,
    Fields,
    Histogram,
    TooLong,
    Truncated,
    Unreadable,
}

impl Problem {
    /// What is lost, for the event.
    fn what(self) -> &'static str {
        match self {
            Problem::NotJson => "a line of the load program's output (it is not JSON)",
            Problem::OtherSchema => "a JSON line of the load program (its schema is another)",
            Problem::Fields => {
                "a JSON line of the load program (a field is missing or of another type)"
            }
            Problem::Histogram => "a histogram of the load program",
            Problem::TooLong => "a line of the load program longer than 1 MiB",
            Problem::Truncated => "the load program's output before it was cut short",
            Problem::Unreadable => "the load program's output",
        }
    }
}

#[derive(Deserialize)]
struct Fields {
    start_ns: i64,
    end_ns: i64,
    requests: u64,
    #[serde(default)]
    errors: u64,
    #[serde(default)]
    dropped: u64,
    histogram: String,
    #[serde(default)]
    pauses: Vec<(i64, i64)>,
}

/// One line, without its end. `Err` tells the kind and the words.
pub fn parse_load_line(line: &[u8]) -> Result<LoadLine, (Problem, String)> {
    let value: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| (Problem::NotJson, error.to_string()))?;
    match value.get("schema").and_then(|schema| schema.as_str()) {
        Some(SCHEMA) => {}
        Some(other) => return Err((Problem::OtherSchema, format!("{other:?}, not {SCHEMA:?}"))),
        None => {
            return Err((
                Problem::OtherSchema,
                format!("it has none; {SCHEMA:?} is known"),
            ));
        }
    }
    let mut fields: Fields =
        serde_json::from_value(value).map_err(|error| (Problem::Fields, error.to_string()))?;
    if fields.end_ns < fields.start_ns {
        return Err((Problem::Fields, "end_ns lies before start_ns".to_owned()));
    }
    if fields.pauses.iter().any(|(start, end)| end < start) {
        return Err((Problem::Fields, "a pause ends before it starts".to_owned()));
    }
    let histogram = parse_histogram(&fields.histogram).map_err(|why| (Problem::Histogram, why))?;
    fields.pauses.truncate(PAUSES_MAX);
    Ok(LoadLine {
        start_ns: fields.start_ns,
        end_ns: fields.end_ns,
        requests: fields.requests,
        errors: fields.errors,
        dropped: fields.dropped,
        histogram,
        pauses: fields.pauses,
    })
}

/// A pause as a row of the record: the one value of its histogram is its length.
fn pause_row(process: ProcessId, start: TimeNs, end: TimeNs) -> Option<HistogramRow> {
    let mut length = Histogram::<u64>::new(3).ok()?;
    length
        .record(end.0.saturating_sub(start.0).max(1) as u64)
        .ok()?;
    Some(HistogramRow {
        process,
        start,
        end,
        metric: PAUSE_METRIC.to_owned(),
        requests: 0,
        errors: 0,
        dropped: 0,
        histogram: serialize(&length).ok()?,
    })
}

/// Checks that it is a histogram, and takes the compressed form too.
fn parse_histogram(text: &str) -> Result<Vec<u8>, String> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|error| format!("not base64: {error}"))?;
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("not an HdrHistogram: {error}"))?;
    serialize(&histogram)
}

/// HdrHistogram V2, as every row of the record has it.
pub fn serialize(histogram: &Histogram<u64>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| format!("cannot be written again: {error:?}"))?;
    Ok(bytes)
}

/// Turns CLOCK_MONOTONIC into the run's own time.
///
/// Both clocks are read one after the other at each snapshot, so that each estimate of their distance
/// is a little too small, by however long the second reading came late; the largest one is the
/// best. The true distance only grows (while the machine sleeps, which CLOCK_MONOTONIC does not
/// count).
#[derive(Debug, Clone, Copy)]
pub struct Bridge(i64);

impl Default for Bridge {
    fn default() -> Self {
        Bridge(i64::MIN)
    }
}

impl Bridge {
    /// `monotonic_ns` was read after `now`.
    pub fn update(&mut self, now: TimeNs, monotonic_ns: i64) {
        self.0 = self.0.max(now.0.saturating_sub(monotonic_ns));
    }

    pub fn time(&self, monotonic_ns: i64) -> TimeNs {
        TimeNs(monotonic_ns.saturating_add(self.0))
    }
}

/// Follows one file. Survives that it does not exist yet, is cut short, or is replaced.
#[derive(Debug)]
pub struct LoadTail {
    path: PathBuf,
    file: Option<File>,
    inode: u64,
    offset: u64,
    /// The beginning of a line that is not complete yet.
    partial: Vec<u8>,
    /// The rest of an over-long line is being left out.
    skipping: bool,
    bad_lines: u64,
    recorded_until: Option<TimeNs>,
}

impl LoadTail {
    pub fn new(path: &Path) -> LoadTail {
        LoadTail {
            path: path.to_path_buf(),
            file: None,
            inode: 0,
            offset: 0,
            partial: Vec::new(),
            skipping: false,
            bad_lines: 0,
            recorded_until: None,
        }
    }

    /// An earlier collector recorded the intervals up to here; the file still has them.
    pub fn carry(&mut self, recorded_until: TimeNs) {
        self.recorded_until = Some(recorded_until);
    }

    /// Reads what came since the last snapshot.
    pub fn sample(
        &mut self,
        bridge: &Bridge,
        writer: &mut SnapshotWriter<'_>,
        losses: &mut Vec<Loss>,
    ) {
        let bytes = self.read_new(losses);
        for line in self.complete_lines(bytes, losses) {
            match parse_load_line(&line) {
                Ok(line) => self.write(line, bridge, writer),
                Err((problem, why)) => self.count(problem, why, losses),
            }
        }
        if self.bad_lines > 0 {
            writer.value(metric::LOAD_LINES_LEFT_OUT, self.bad_lines);
        }
    }

    fn write(&self, line: LoadLine, bridge: &Bridge, writer: &mut SnapshotWriter<'_>) {
        let (start, end) = (bridge.time(line.start_ns), bridge.time(line.end_ns));
        // Its middle decides: two collectors turn the clocks into each other a little differently.
        let middle = TimeNs(start.0 + (end.0 - start.0) / 2);
        if self.recorded_until.is_some_and(|until| middle <= until) {
            return;
        }
        for (start_ns, end_ns) in &line.pauses {
            // A collector that goes on asks for the last end of all rows: no pause may end after its line.
            let end_ns = *end_ns.min(&line.end_ns);
            let (start, end) = (bridge.time(*start_ns.min(&end_ns)), bridge.time(end_ns));
            pause_row(writer.process(), start, end)
                .into_iter()
                .for_each(|row| writer.histogram(row));
        }
        writer.histogram(HistogramRow {
            process: writer.process(),
            start,
            end,
            metric: METRIC.to_owned(),
            requests: line.requests,
            errors: line.errors,
            dropped: line.dropped,
            histogram: line.histogram,
        });
    }

    fn count(&mut self, problem: Problem, why: String, losses: &mut Vec<Loss>) {
        self.bad_lines += 1;
        losses.push(Loss {
            what: problem.what(),
            why,
        });
    }

    fn read_new(&mut self, losses: &mut Vec<Loss>) -> Vec<u8> {
        match self.try_read(losses) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(), // not started
            Err(error) => {
                let why = format!("{}: {error}", self.path.display());
                losses.push(Loss {
                    what: Problem::Unreadable.what(),
                    why,
                });
                Vec::new()
            }
        }
    }

    fn try_read(&mut self, losses: &mut Vec<Loss>) -> std::io::Result<Vec<u8>> {
        let data = std::fs::metadata(&self.path)?;
        if self.file.is_none() || data.ino() != self.inode {
            self.file = Some(super::fact::open_file(&self.path)?);
            self.inode = data.ino();
            self.start_over();
        }
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let length = file.metadata()?.len();
        if length < self.offset {
            let why = format!(
                "{}: {length} bytes, {} were read",
                self.path.display(),
                self.offset
            );
            losses.push(Loss {
                what: Problem::Truncated.what(),
                why,
            });
            self.start_over();
        }
        let Some(file) = &self.file else {
            return Ok(Vec::new());
        };
        let take = length.saturating_sub(self.offset).min(SNAPSHOT_BYTES_MAX);
        let mut bytes = vec![0; take as usize];
        let got = read_at_most(file, &mut bytes, self.offset)?;
        bytes.truncate(got);
        self.offset += got as u64;
        Ok(bytes)
    }

    fn start_over(&mut self) {
        self.offset = 0;
        self.partial.clear();
        self.skipping = false;
    }

    /// Splits off the complete lines; keeps the rest for the next snapshot.
    fn complete_lines(&mut self, bytes: Vec<u8>, losses: &mut Vec<Loss>) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            if !self.skipping {
                self.partial.extend_from_slice(piece);
            }
            if self.partial.len() > LINE_BYTES_MAX {
                self.partial.clear();
                self.skipping = true;
                self.count(Problem::TooLong, "it is left out".to_owned(), losses);
            }
            if ends {
                let line = std::mem::take(&mut self.partial);
                if !std::mem::take(&mut self.skipping) && !line.trim_ascii().is_empty() {
                    lines.push(line.trim_ascii().to_vec());
                }
            }
        }
        lines
    }
}

fn read_at_most(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], offset + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

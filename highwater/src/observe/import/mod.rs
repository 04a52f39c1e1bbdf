//! Memory series measured elsewhere: CSV files and pipes, with the facts that come beside them.
//!
//! `rows` reads records and keeps line and column for errors; `columns` finds which column is what and in
//! which unit; `time` reads instants; `meta` and `groups` read the files beside a series. `prometheus` asks a
//! store over HTTP.

pub mod columns;
pub mod groups;
pub mod meta;
pub mod prometheus;
pub mod rows;
pub mod time;

use thiserror::Error;

/// What went wrong in a foreign file, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {what}; {next}")]
pub struct ImportError {
    /// From 1; the header is line 1.
    pub line: u64,
    /// From 1.
    pub column: usize,
    pub what: String,
    pub next: String,
}

impl ImportError {
    pub fn new(line: u64, column: usize, what: impl Into<String>, next: impl Into<String>) -> Self {
        ImportError {
            line,
            column: column + 1,
            what: what.into(),
            next: next.into(),
        }
    }
}

/// A file beside the readings, as people write them: blanks around values, lines of different length.
fn side_file<R: std::io::Read>(input: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(input)
}

/// A line of it that cannot be read.
fn broken(error: csv::Error) -> ImportError {
    let line = error.position().map_or(1, csv::Position::line);
    ImportError::new(line, 0, error.to_string(), "correct the line")
}

/// One usable record. Values in bytes, times in seconds on the clock of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// `process`, or `arm/process` where the file has arms.
    pub id: String,
    /// Empty when the file has no arms, or this record none.
    pub arm: String,
    pub process: String,
    pub t_s: f64,
    /// NaN where the reading is missing.
    pub rss_bytes: f64,
    pub hwm_bytes: Option<f64>,
}

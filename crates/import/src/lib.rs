//! Memory series measured elsewhere: CSV files and pipes, a Prometheus, with the facts that come beside them.
//!
//! In: a file, a pipe, or a query of a store. Out: series with units and times, and notes of what had to be assumed.
//! Called by: `highwater verdict` and `highwater run` with arms on other hosts.
//!
//! Bytes become text (`text`), and a table where they are none yet (`foreign`). Its beginning says how it is laid out
//! (`layout`); `records` cuts it, and `rows` makes readings of the records, with line and column for errors.
//! `find` and `columns` say which column is what and in which unit, by the words of its header (`header`, `headings`);
//! `number` and `time` read cells; `notes` says what had to be assumed, `doubles` which column
//! separates series that were read as one. `meta` and `groups` read the files beside a
//! series. `prometheus` asks a store over HTTP.

pub mod columns;
mod doubles;
mod find;
mod foreign;
pub mod groups;
mod header;
mod headings;
pub mod layout;
pub mod meta;
mod moment;
mod notes;
pub mod number;
pub mod prometheus;
mod records;
pub mod rows;
mod text;
pub mod time;

use std::io::{self, Read};

use thiserror::Error;

/// Largest file beside a series, after decompression: 100 bytes for each of 300,000 series.
const SIDE_BYTES_MAX: usize = 32 << 20;

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

/// Fields of a file beside the readings, as people write them: blanks around values, lines of different length,
/// semicolons, any coding; the header first.
struct SideFile<'a> {
    reader: csv::Reader<Small<'a>>,
    header: Vec<String>,
}

impl<'a> SideFile<'a> {
    fn open(input: impl Read + 'a) -> Result<SideFile<'a>, ImportError> {
        let text = text::open(input)?;
        let head = String::from_utf8_lossy(&text.head).into_owned();
        let line = head
            .lines()
            .find(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let separator = match layout::form_of(line.unwrap_or("")) {
            layout::Form::Separated(byte) => byte,
            _ => b',',
        };
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .flexible(true)
            .comment(Some(b'#'))
            .delimiter(separator)
            .from_reader(Small {
                input: text.from(0),
                read: 0,
            });
        let header = reader
            .headers()
            .map_err(broken)?
            .iter()
            .map(str::to_lowercase)
            .collect();
        Ok(SideFile { reader, header })
    }

    /// The first column of one of these names.
    fn find(&self, names: &[&str]) -> Option<usize> {
        names
            .iter()
            .find_map(|name| self.header.iter().position(|h| h == name))
    }

    /// The next record and its line.
    fn next(&mut self, record: &mut csv::StringRecord) -> Result<Option<u64>, ImportError> {
        let read = self.reader.read_record(record).map_err(broken)?;
        Ok(read.then(|| record.position().map_or(0, csv::Position::line)))
    }
}

/// Ends a file beside a series that is larger than one can be.
struct Small<'a> {
    input: text::Whole<'a>,
    read: usize,
}

#[derive(Debug, Error)]
#[error("it is larger than {} MiB after decompression", SIDE_BYTES_MAX >> 20)]
struct TooLarge;

impl Read for Small<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read > SIDE_BYTES_MAX {
            return Err(io::Error::other(TooLarge));
        }
        let read = self.input.read(into)?;
        self.read += read;
        Ok(read)
    }
}

/// A line of it that cannot be read.
fn broken(error: csv::Error) -> ImportError {
    let line = error.position().map_or(1, csv::Position::line);
    if let csv::ErrorKind::Io(io) = error.kind()
        && io.get_ref().is_some_and(|inner| inner.is::<TooLarge>())
    {
        let next = "is this the file with a line for each series?";
        return ImportError::new(line, 0, TooLarge.to_string(), next);
    }
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
    /// Cumulative, as `requests`.
    pub cpu_s: Option<f64>,
    pub requests: Option<f64>,
    pub lazy_free_bytes: Option<f64>,
    pub huge_pages_bytes: Option<f64>,
    /// When the process began, on the clock of the readings.
    pub start_s: Option<f64>,
    /// What it runs; empty when nobody says.
    pub allocator: String,
}

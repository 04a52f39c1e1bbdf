//! Records of a CSV file or pipe, one at a time, in constant memory.

use std::io::{self, Read};

use super::columns::{Columns, Wanted, parse_header};
use super::time::parse_instant;
use super::{ImportError, Row};

/// A record longer than this is none: a file without line ends, a quote that is never closed, /dev/zero.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

/// Counts what the parser takes for one record, so that a record without an end does not fill the memory.
struct Bounded<R> {
    input: R,
    since_record: usize,
}

/// Why the input was ended.
#[derive(Debug, thiserror::Error)]
#[error("a record longer than {} MiB", RECORD_BYTES_MAX >> 20)]
struct Endless;

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.since_record > RECORD_BYTES_MAX {
            return Err(io::Error::other(Endless));
        }
        let read = self.input.read(into)?;
        self.since_record += read;
        Ok(read)
    }
}

/// So much of the first line decides what stands between the fields.
const HEAD_BYTES: usize = 1 << 16;
const HEAD_STEP: usize = 1 << 12;

type Whole<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// A stream of rows.
pub struct Rows<R> {
    reader: csv::Reader<Bounded<Whole<R>>>,
    header: csv::StringRecord,
    record: csv::StringRecord,
    columns: Columns,
}

impl<R: Read> Rows<R> {
    /// Reads the header.
    pub fn open(input: R, wanted: &Wanted) -> Result<Rows<R>, ImportError> {
        let unread =
            |e: io::Error| ImportError::new(1, 0, e.to_string(), "is it a file that can be read?");
        let (head, input) = peek(input).map_err(unread)?;
        if head.contains(&0) {
            let next = "give a CSV file with a header";
            return Err(ImportError::new(1, 0, "this is no text", next));
        }
        let first_line = head.split(|b| *b == b'\n').next().unwrap_or_default();
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .delimiter(delimiter_of(first_line))
            .from_reader(Bounded {
                input: io::Cursor::new(head).chain(input),
                since_record: 0,
            });
        let header = reader.headers().map_err(|e| of_csv(&e, 1))?.clone();
        let names: Vec<String> = header.iter().map(str::to_owned).collect();
        if names.iter().all(String::is_empty) {
            return Err(ImportError::new(
                1,
                0,
                "the file is empty",
                "give a CSV file with a header",
            ));
        }
        if names.iter().all(|n| n.parse::<f64>().is_ok()) {
            return Err(ImportError::new(
                1,
                0,
                "the first line is numbers",
                "give a header such as id,t_s,rss_kib",
            ));
        }
        Ok(Rows {
            columns: parse_header(&names, wanted)?,
            reader,
            header,
            record: csv::StringRecord::new(),
        })
    }

    /// The next reading of a process; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        let mut row = Row::default();
        Ok(self.next_into(&mut row)?.then_some(row))
    }

    /// The same into a row that is used again and again; false at the end.
    pub fn next_into(&mut self, row: &mut Row) -> Result<bool, ImportError> {
        loop {
            self.reader.get_mut().since_record = 0;
            let after = self.reader.position().line();
            let read = self.reader.read_record(&mut self.record);
            if !read.map_err(|e| of_csv(&e, after))? {
                return Ok(false);
            }
            let line = self.record.position().map_or(0, csv::Position::line);
            let of_process = self
                .columns
                .kind
                .is_none_or(|k| &self.record[k] != "aggregate");
            // Files that were put one behind the other repeat their header.
            let is_header = || self.record.iter().eq(self.header.iter());
            if of_process && !is_header() {
                return parse_row(&self.record, &self.columns, line, row).map(|()| true);
            }
        }
    }
}

/// What stands between the fields: the one of comma, semicolon and tab that the first line has most of.
fn delimiter_of(first_line: &[u8]) -> u8 {
    let count = |d: u8| first_line.iter().filter(|b| **b == d).count();
    let rivals = [b';', b'\t']
        .into_iter()
        .filter(|d| count(*d) > count(b','));
    rivals.max_by_key(|d| count(*d)).unwrap_or(b',')
}

/// The beginning of the input, as much of its first line as [`HEAD_BYTES`] hold, and the rest.
fn peek<R: Read>(mut input: R) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    while head.len() < HEAD_BYTES && !head.contains(&b'\n') {
        let before = head.len();
        let least = HEAD_STEP.min(HEAD_BYTES - before);
        head.resize(before + least, 0);
        let read = input.read(&mut head[before..]);
        head.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => break,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok((head, input))
}

/// `after` is the line up to which the file was read.
fn of_csv(error: &csv::Error, after: u64) -> ImportError {
    let line = error.position().map_or(after, csv::Position::line);
    if let csv::ErrorKind::Io(io) = error.kind()
        && io.get_ref().is_some_and(|inner| inner.is::<Endless>())
    {
        let next = "is a quote never closed, or is this no text?";
        return ImportError::new(line, 0, Endless.to_string(), next);
    }
    let (column, what) = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let least = (*expected_len).min(*len) as usize;
            (
                least,
                format!("{len} fields where the header has {expected_len}"),
            )
        }
        csv::ErrorKind::Utf8 { err, .. } => (err.field(), "not UTF-8".to_owned()),
        _ => (0, error.to_string()),
    };
    ImportError::new(line, column, what, "correct the line, or cut it out")
}

/// One record into a row. A missing reading (empty, NaN) is NaN; text is an error.
fn parse_row(
    record: &csv::StringRecord,
    columns: &Columns,
    line: u64,
    row: &mut Row,
) -> Result<(), ImportError> {
    let text = |place: Option<usize>| place.and_then(|i| record.get(i)).unwrap_or("");
    let time = record.get(columns.time).unwrap_or("");
    row.t_s = time_of(time, columns.time_factor).ok_or_else(|| {
        let next = "write seconds, epoch seconds or ISO 8601";
        ImportError::new(line, columns.time, format!("{time:?} is no time"), next)
    })?;
    let (process, arm) = (text(columns.id), text(columns.arm));
    let between = if process.is_empty() || arm.is_empty() {
        ""
    } else {
        "/"
    };
    for (into, parts) in [
        (&mut row.process, &[process][..]),
        (&mut row.arm, &[arm]),
        (&mut row.id, &[arm, between, process]),
    ] {
        into.clear();
        parts.iter().for_each(|part| into.push_str(part));
    }
    if row.id.is_empty() {
        row.id.push_str("series");
    }
    row.hwm_bytes = match columns.hwm {
        Some((place, factor)) => Some(number(record, place, line)? * factor),
        None => None,
    };
    row.rss_bytes = number(record, columns.value, line)? * columns.value_factor;
    Ok(())
}

/// In a column of milliseconds a number is just that, however large.
fn time_of(text: &str, factor: f64) -> Option<f64> {
    match text.parse::<f64>() {
        Ok(number) if factor != 1.0 => number.is_finite().then_some(number * factor),
        _ => parse_instant(text),
    }
}

fn number(record: &csv::StringRecord, place: usize, line: u64) -> Result<f64, ImportError> {
    let text = record.get(place).unwrap_or("");
    if text.is_empty() {
        return Ok(f64::NAN);
    }
    text.parse().map_err(|_| {
        let next = "write a number, or leave a missing reading empty";
        ImportError::new(line, place, format!("{text:?} is no number"), next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Row>, ImportError> {
        let mut rows = Rows::open(text.as_bytes(), &Wanted::default())?;
        let mut all = Vec::new();
        while let Some(row) = rows.next_row()? {
            all.push(row);
        }
        Ok(all)
    }

    #[test]
    fn rows_with_and_without_arms() {
        let rows = read("id,t_s,rss_kib\na,0,10\nb,1.5,\n").unwrap();
        assert_eq!(
            (rows[0].id.as_str(), rows[0].t_s, rows[0].rss_bytes),
            ("a", 0.0, 10_240.0)
        );
        assert!(rows[1].rss_bytes.is_nan());
        let rows = read("arm,process,t_s,rss_kib\njemalloc,0,0,10\n").unwrap();
        assert_eq!(
            (rows[0].id.as_str(), rows[0].arm.as_str()),
            ("jemalloc/0", "jemalloc")
        );
    }

    /// Lines of tor-2025-12-26/memory_measurements.csv, github.com/1aeo/TorUtils, Apache-2.0.
    #[test]
    fn a_torutils_file_without_its_sums() {
        let text = "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb,frag_ratio,\
                    count,total_kb,avg_kb,min_kb,max_kb\n\
                    2025-12-26T08:39:37,co,aggregate,,,,,,,,142,156491136,1102050,217492,3146096\n\
                    2025-12-26T08:39:37,co,relay,,22gz,A,233408,1816080,233408,7.78,,,,,\n";
        let rows = read(text).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].arm.as_str(), rows[0].process.as_str()),
            ("A", "22gz")
        );
        assert_eq!(rows[0].rss_bytes, 233_408.0 * 1024.0);
        assert_eq!(rows[0].hwm_bytes, Some(233_408.0 * 1024.0));
    }

    #[test]
    fn errors_say_line_and_column() {
        let place = |text: &str| read(text).map_err(|e| (e.line, e.column)).unwrap_err();
        assert_eq!(place("id,t_s,rss_kib\na,0,1\na,1,lots\n"), (3, 3));
        assert_eq!(place("id,t_s,rss_kib\na,soon,1\n"), (2, 2));
        assert_eq!(place("id,t_s,rss_kib\na,0\n"), (2, 3));
        assert_eq!(place(""), (1, 1));
        assert_eq!(place("1,2,3\n4,5,6\n"), (1, 1));
        assert_eq!(place("id,when,rss_kib\n"), (1, 1));
        assert_eq!(read("id,t_s,rss_kib\n").unwrap(), []);
    }

    #[test]
    fn other_delimiters_joined_files_and_no_text() {
        for text in ["id;t_s;rss_kib\na;0;10\n", "id\tt_s\trss_kib\na\t0\t10\n"] {
            assert_eq!(read(text).unwrap()[0].rss_bytes, 10_240.0, "{text:?}");
        }
        let joined = read("id,t_s,rss_kib\na,0,1\nid,t_s,rss_kib\na,60,1\n").unwrap();
        assert_eq!(joined.len(), 2);
        assert_eq!(read("id,t\0s\n").unwrap_err().what, "this is no text");
    }

    #[test]
    fn epoch_milliseconds_are_not_taken_for_seconds() {
        let of = |header: &str| {
            read(&format!("id,{header},rss_kib\na,1795000000500,1\n")).unwrap()[0].t_s
        };
        assert_eq!(of("timestamp"), 1_795_000_000.5);
        assert_eq!(of("t_ms"), 1_795_000_000.5);
        assert_eq!(read("id,t_ms,rss_kib\na,1500,1\n").unwrap()[0].t_s, 1.5);
    }

    #[test]
    fn a_record_without_an_end_does_not_fill_the_memory() {
        let zeros = io::repeat(b'0');
        let error = Rows::open(zeros, &Wanted::default())
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            (error.line, error.what.as_str()),
            (1, "a record longer than 16 MiB")
        );
        let quote = "id,t_s,rss_kib\na,0,1\n\"b,0,1\n"
            .as_bytes()
            .chain(io::repeat(b'\n'));
        let mut rows = Rows::open(quote, &Wanted::default()).unwrap();
        assert!(rows.next_row().unwrap().is_some());
        let error = rows.next_row().unwrap_err();
        assert_eq!(error.line, 3, "{error}");
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            if let Ok(mut rows) = Rows::open(&bytes[..], &Wanted::default()) {
                while let Ok(Some(_)) = rows.next_row() {}
            }
            let text = [b"id,t_s,rss_kib\n".as_slice(), &bytes].concat();
            if let Ok(mut rows) = Rows::open(&text[..], &Wanted::default()) {
                while let Ok(Some(_)) = rows.next_row() {}
            }
        }
    }
}

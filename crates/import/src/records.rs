//! Records of a table, one at a time, in constant memory: of CSV, of lines of words, of JSON lines.

use std::io::{self, BufRead, BufReader, Read};

use csv::StringRecord;
use serde_json::{Map, Value};

use super::ImportError;
use super::layout::{Form, words_of_line};
use super::text::Whole;

/// A record longer than this is none: a file without line ends, a quote that is never closed, /dev/zero.
pub const RECORD_BYTES_MAX: usize = 16 << 20;
/// Objects within objects of a JSON line, as `process.memory.rss`.
const NESTED_MAX: usize = 4;

/// Counts what the parser takes for one record, so that a record without an end does not fill the memory.
struct Bounded<'a> {
    input: Whole<'a>,
    since_record: usize,
}

/// Why the input was ended.
#[derive(Debug, thiserror::Error)]
#[error("a record longer than {} MiB", RECORD_BYTES_MAX >> 20)]
struct Endless;

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.since_record > RECORD_BYTES_MAX {
            return Err(io::Error::other(Endless));
        }
        let read = self.input.read(into)?;
        self.since_record += read;
        Ok(read)
    }
}

/// A stream of records.
pub struct Records<'a> {
    source: Source<'a>,
    /// Lines before the first record.
    before: u64,
}

enum Source<'a> {
    Csv(Box<csv::Reader<Bounded<'a>>>),
    Lines(Lines<'a>),
    Json { lines: Lines<'a>, keys: Vec<String> },
}

impl<'a> Records<'a> {
    /// `input` begins with the header, after `before` lines; of JSON with the first record.
    pub fn new(input: Whole<'a>, form: Form, before: u64) -> Records<'a> {
        let input = Bounded {
            input,
            since_record: 0,
        };
        let source = match form {
            Form::Blanks => Source::Lines(Lines::new(input)),
            Form::Json => Source::Json {
                lines: Lines::new(input),
                keys: Vec::new(),
            },
            Form::Separated(separator) => Source::Csv(Box::new(
                csv::ReaderBuilder::new()
                    .has_headers(false)
                    .flexible(true)
                    .comment(Some(b'#'))
                    .delimiter(separator)
                    .from_reader(input),
            )),
        };
        Records { source, before }
    }

    /// The names of the columns. Of JSON they are the keys of the first record, which is given again.
    pub fn header(&mut self) -> Result<Vec<String>, ImportError> {
        if let Source::Json { lines, keys } = &mut self.source {
            let Some((text, number)) = lines.next(self.before)? else {
                return Ok(Vec::new());
            };
            let fields = parse_object(&text, number)?;
            *keys = fields.into_iter().map(|(key, _)| key).collect();
            let keys = keys.clone();
            lines.again(text);
            return Ok(keys);
        }
        let mut record = StringRecord::new();
        self.next(&mut record)?;
        Ok(record.iter().map(str::to_owned).collect())
    }

    /// The next record and its line; `None` at the end.
    pub fn next(&mut self, record: &mut StringRecord) -> Result<Option<u64>, ImportError> {
        match &mut self.source {
            Source::Csv(reader) => {
                reader.get_mut().since_record = 0;
                let after = reader.position().line();
                let read = reader
                    .read_record(record)
                    .map_err(|e| of_csv(&e, after, self.before))?;
                // A record is copied to be trimmed; most have nothing to trim.
                if record.iter().any(may_be_padded) {
                    record.trim();
                }
                let line = record.position().map_or(0, csv::Position::line);
                Ok(read.then_some(line + self.before))
            }
            Source::Lines(lines) => {
                let Some((text, number)) = lines.next(self.before)? else {
                    return Ok(None);
                };
                record.clear();
                words_of_line(&text)
                    .iter()
                    .for_each(|word| record.push_field(word));
                Ok(Some(number))
            }
            Source::Json { lines, keys } => {
                let Some((text, number)) = lines.next(self.before)? else {
                    return Ok(None);
                };
                let fields = parse_object(&text, number)?;
                record.clear();
                for key in keys {
                    let field = fields.iter().rev().find(|(name, _)| name == key);
                    record.push_field(field.map_or("", |(_, text)| text));
                }
                Ok(Some(number))
            }
        }
    }
}

/// Whether a blank of any kind may stand at either end.
fn may_be_padded(field: &str) -> bool {
    let bytes = field.as_bytes();
    let ends = bytes.first().into_iter().chain(bytes.last());
    !ends.copied().all(|byte| byte.is_ascii_graphic())
}

/// Lines that are neither empty nor comments.
struct Lines<'a> {
    input: BufReader<Bounded<'a>>,
    number: u64,
    bytes: Vec<u8>,
    again: Option<String>,
}

impl<'a> Lines<'a> {
    fn new(input: Bounded<'a>) -> Lines<'a> {
        Lines {
            input: BufReader::with_capacity(1 << 16, input),
            number: 0,
            bytes: Vec::new(),
            again: None,
        }
    }

    fn again(&mut self, text: String) {
        self.again = Some(text);
    }

    fn next(&mut self, before: u64) -> Result<Option<(String, u64)>, ImportError> {
        if let Some(text) = self.again.take() {
            return Ok(Some((text, before + self.number)));
        }
        loop {
            self.bytes.clear();
            self.input.get_mut().since_record = 0;
            let line = before + self.number + 1;
            let read = self
                .input
                .read_until(b'\n', &mut self.bytes)
                .map_err(|e| of_io(&e, line))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = std::str::from_utf8(&self.bytes)
                .map_err(|_| not_utf8(line, 0))?
                .trim();
            if !text.is_empty() && !text.starts_with('#') {
                return Ok(Some((text.to_owned(), line)));
            }
        }
    }
}

fn not_utf8(line: u64, column: usize) -> ImportError {
    ImportError::new(
        line,
        column,
        "not UTF-8",
        "write the file as UTF-8: iconv -f latin1 -t utf8 FILE",
    )
}

/// A line of text as an object's fields.
fn parse_object(text: &str, line: u64) -> Result<Vec<(String, String)>, ImportError> {
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        let next = "give an object a line: jq -c . FILE | highwater verdict -";
        let mut told = ImportError::new(line, 0, format!("no object of JSON ({error})"), next);
        told.column = error.column().max(1);
        told
    })?;
    Ok(flattened(&object))
}

/// An object's fields and their texts; those of an object within it by `outer.inner`. Lists are left out.
pub fn flattened(object: &Map<String, Value>) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    flatten("", object, NESTED_MAX, &mut fields);
    fields
}

fn flatten(
    outer: &str,
    object: &Map<String, Value>,
    depth: usize,
    into: &mut Vec<(String, String)>,
) {
    for (key, value) in object {
        let key = if outer.is_empty() {
            key.clone()
        } else {
            format!("{outer}.{key}")
        };
        match value {
            Value::String(text) => into.push((key, text.trim().to_owned())),
            Value::Object(inner) if depth > 0 => flatten(&key, inner, depth - 1, into),
            Value::Null => into.push((key, String::new())),
            Value::Object(_) | Value::Array(_) => {}
            other => into.push((key, other.to_string())),
        }
    }
}

/// `after` is the line up to which the records were read.
fn of_csv(error: &csv::Error, after: u64, before: u64) -> ImportError {
    let line = before + error.position().map_or(after, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Io(io) => of_io(io, line),
        csv::ErrorKind::Utf8 { err, .. } => not_utf8(line, err.field()),
        _ => ImportError::new(
            line,
            0,
            error.to_string(),
            "correct the line, or cut it out",
        ),
    }
}

fn of_io(error: &io::Error, line: u64) -> ImportError {
    if error.get_ref().is_some_and(|inner| inner.is::<Endless>()) {
        let next = "is a quote never closed, or is this no text?";
        return ImportError::new(line, 0, Endless.to_string(), next);
    }
    let broken = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
    );
    let (what, next) = match broken {
        true => (
            format!("the packed data break off ({error})"),
            "is the file complete?",
        ),
        false => (error.to_string(), "can the file be read to its end?"),
    };
    ImportError::new(line, 0, what, next)
}

/// Names of columns in which a word may hold blanks.
const FREE: &[&str] = &["command", "cmd", "args", "comm", "name", "user"];

/// The place of the column that takes the words which a line has too many.
pub fn free_column(header: &[String]) -> Option<usize> {
    let free = |name: &String| FREE.contains(&name.to_ascii_lowercase().as_str());
    header.iter().rposition(free)
}

/// A record of words made as long as the header: a date and the time behind it become one, then the column of
/// the command takes what is left over.
pub fn fit_words(record: &mut StringRecord, wanted: usize, time: usize, free: Option<usize>) {
    let over = record.len().saturating_sub(wanted);
    if over == 0 {
        return;
    }
    let is_dated = record
        .get(time)
        .is_some_and(|d| !d.contains(':') && d.contains(['-', '/', '.']))
        && record.get(time + 1).is_some_and(|c| c.contains(':'));
    if is_dated {
        join_words(record, time, 2);
    }
    let over = record.len() - wanted;
    if let Some(free) = free.filter(|_| over > 0) {
        join_words(record, free, over + 1);
    }
}

fn join_words(record: &mut StringRecord, from: usize, count: usize) {
    let words: Vec<&str> = record.iter().collect();
    let end = (from + count).min(words.len());
    let mut joined = StringRecord::new();
    words[..from]
        .iter()
        .for_each(|word| joined.push_field(word));
    joined.push_field(&words[from..end].join(" "));
    words[end..].iter().for_each(|word| joined.push_field(word));
    *record = joined;
}

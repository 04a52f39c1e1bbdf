//! Lines made into lines of a table, one at a time.

use std::io::{self, BufRead, BufReader, Read};

use crate::records::RECORD_BYTES_MAX;

/// What becomes of a line; an empty one is no reading.
pub type Each = Box<dyn FnMut(&str) -> String>;

/// How a text becomes a table.
pub struct Translation {
    /// A header that the text does not have.
    pub header: Option<String>,
    /// How the text was understood.
    pub note: Option<String>,
    pub each: Each,
}

/// The table of a text.
pub struct Translated<R> {
    input: BufReader<R>,
    each: Each,
    out: Vec<u8>,
    given: usize,
    line: Vec<u8>,
}

impl<R: Read> Translated<R> {
    pub fn new(input: R, translation: Translation) -> Translated<R> {
        let header = translation.header.map(|names| format!("{names}\n"));
        Translated {
            input: BufReader::new(input),
            each: translation.each,
            out: header.unwrap_or_default().into_bytes(),
            given: 0,
            line: Vec::new(),
        }
    }

    /// Whether there was a line. One that is too long for a record is handed on in parts, and refused there.
    fn fill(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut input = (&mut self.input).take(RECORD_BYTES_MAX as u64);
        if input.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(false);
        }
        let has_end = self.line.ends_with(b"\n");
        // What is no UTF-8 is refused further on, where its place is known.
        let made = match std::str::from_utf8(&self.line) {
            Ok(line) => (self.each)(&without_controls(line)).into_bytes(),
            Err(_) => self.line.trim_ascii_end().to_vec(),
        };
        self.out = made;
        if has_end {
            self.out.push(b'\n');
        }
        self.given = 0;
        Ok(true)
    }
}

impl<R: Read> Read for Translated<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.out.len() {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let count = into.len().min(self.out.len() - self.given);
        into[..count].copy_from_slice(&self.out[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// A line without its end, and without what moves the cursor of a terminal (ECMA-48: ESC [ ... letter).
pub fn without_controls(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line.trim_end_matches(['\n', '\r']);
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        kept.push_str(before);
        let sequence = after.strip_prefix('[').unwrap_or(after);
        let end = sequence.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    kept + rest
}

/// Cells parted by two blanks or more.
pub fn cells(line: &str) -> Vec<&str> {
    let parts = line.trim().split("  ").map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// A line of CSV.
pub fn csv_line<'c>(cells: impl IntoIterator<Item = &'c str>) -> String {
    let quoted = cells
        .into_iter()
        .map(|cell| match cell.contains([',', '"']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell.to_owned(),
        });
    quoted.collect::<Vec<String>>().join(",")
}

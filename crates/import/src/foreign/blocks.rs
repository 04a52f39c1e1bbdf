//! Tables that follow one another, each behind a line that says the time: `while sleep 60; do date; ps ...; done`,
//! `top -b`. And tables whose cells hold single blanks, as `docker stats` writes them.

use super::lines::{Translation, cells, csv_line, without_controls};
use crate::header::{Header, Wanted};
use crate::layout::words_of_line;
use crate::moment::{is_epoch, parse_moment};

/// So many lines may stand between the first time and its table: top writes six.
const LINES_BEFORE_TABLE: usize = 20;

/// What parts the fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parted {
    ByBlanks,
    /// By two of them or more.
    ByColumns,
}

impl Parted {
    fn fields(self, line: &str) -> Vec<String> {
        match self {
            Parted::ByBlanks => words_of_line(line),
            Parted::ByColumns => cells(line).into_iter().map(str::to_owned).collect(),
        }
    }
}

/// How to read a text that is such tables.
pub fn recognized(head: &str, wanted: &Wanted) -> Option<Translation> {
    let head: Vec<String> = head.lines().map(without_controls).collect();
    let mut lines = head
        .iter()
        .map(String::as_str)
        .filter(|line| !line.trim().is_empty());
    let first = lines.next().filter(|line| !line.starts_with('#'))?;
    let is_timed = time_of(first).is_some();
    let lines: Vec<&str> = match is_timed {
        true => lines.take(LINES_BEFORE_TABLE).collect(),
        false => [first].into_iter().chain(lines.take(1)).collect(),
    };
    let tables = lines.windows(2).find_map(|pair| {
        let parted = table(pair[0], pair[1], is_timed, wanted)?;
        Some((parted, parted.fields(pair[0])))
    });
    let (parted, names) = tables?;
    // Fields parted by single blanks are read as they are, where nothing has to be added.
    if !is_timed && parted == Parted::ByBlanks {
        return None;
    }
    let mut blocks = Blocks {
        parted,
        names,
        time: is_timed.then(String::new),
        is_in_table: false,
    };
    Some(Translation {
        header: None,
        note: None,
        each: Box::new(move |line| blocks.line(line)),
    })
}

/// How the fields of a header and of the line below it are parted.
fn table(header: &str, below: &str, is_timed: bool, wanted: &Wanted) -> Option<Parted> {
    [Parted::ByColumns, Parted::ByBlanks]
        .into_iter()
        .find(|parted| {
            let (names, fields) = (parted.fields(header), parted.fields(below));
            let has_value = || match &wanted.value {
                Some(value) => names.contains(value),
                None => Header::new(&names).usual_value().is_some(),
            };
            let alone = Wanted {
                interval_s: None,
                ..wanted.clone()
            };
            let is_timed_twice = || is_timed && Header::new(&names).time(&alone, true).is_ok();
            let are_names = names
                .iter()
                .all(|name| !name.starts_with(|c: char| c.is_ascii_digit()));
            let fits = match parted {
                Parted::ByColumns => {
                    names.len() == fields.len() && is_parted_by_columns(header, below)
                }
                // The last one may be a command of several words.
                Parted::ByBlanks => names.len() <= fields.len(),
            };
            names.len() >= 2 && are_names && fits && has_value() && !is_timed_twice()
        })
}

/// Where a cell holds a single blank, runs of blanks do not tell the cells.
fn is_parted_by_columns(header: &str, below: &str) -> bool {
    words_of_line(header).len() != words_of_line(below).len()
}

/// The instant that a line says, which says nothing else; or the first line of top's tables.
pub(super) fn time_of(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = match line.strip_prefix("top - ") {
        Some(rest) => rest.split_once(" up ")?.0,
        None => line,
    };
    let is_text =
        || line.parse::<f64>().is_err() && line.contains(':') && parse_moment(line, None).is_ok();
    (is_epoch(line) || is_text()).then_some(line)
}

struct Blocks {
    parted: Parted,
    names: Vec<String>,
    /// Of the table that is read; `None`: the tables have none.
    time: Option<String>,
    is_in_table: bool,
}

impl Blocks {
    fn line(&mut self, line: &str) -> String {
        if let (Some(time), Some(now)) = (&mut self.time, time_of(line)) {
            now.clone_into(time);
            self.is_in_table = false;
            return String::new();
        }
        let fields = self.parted.fields(line);
        let is_header = fields == self.names;
        if is_header {
            self.is_in_table = true;
        }
        let ends = fields.is_empty() || fields.len() < self.names.len();
        if ends && self.time.is_some() {
            self.is_in_table = false;
        }
        if !self.is_in_table || fields.is_empty() {
            return String::new();
        }
        let time = self
            .time
            .as_deref()
            .map(|time| if is_header { "time" } else { time });
        match self.parted {
            Parted::ByColumns => {
                csv_line(time.into_iter().chain(fields.iter().map(String::as_str)))
            }
            Parted::ByBlanks => format!("\"{}\" {line}", time.unwrap_or_default()),
        }
    }
}

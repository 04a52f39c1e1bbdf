//! Rows of a table, one reading each: from records by the columns that the header names.

use std::collections::HashMap;
use std::io::Read;

use csv::StringRecord;

use super::columns::{Columns, Wanted};
use super::doubles::Doubles;
use super::find::columns;
use super::headings::{factor_of_word, is_percent, without_unit};
use super::layout::{Form, Layout, is_clock, parse_layout};
use super::number::{NoNumber, Numbers, is_missing};
use super::records::{Records, fit_words, free_column};
use super::text::{self, Text};
use super::time::{NoTime, Times};
use super::{ImportError, Row, foreign, notes};

/// Rows of the beginning that are looked at for what they prove about the others.
const AHEAD_ROWS: usize = 4000;

/// A stream of rows.
pub struct Rows<'a> {
    records: Records<'a>,
    form: Form,
    header: Vec<String>,
    free: Option<usize>,
    columns: Columns,
    record: StringRecord,
    line: u64,
    /// Before it, that the input does not have.
    lines_added: u64,
    /// Readings of each series so far, where the table has no times.
    counted: HashMap<String, u64>,
    /// Of the wide form.
    lines_read: u64,
    /// In the wide form: the column that is next, of those of processes.
    next_wide: usize,
    numbers: Numbers,
    beside: Numbers,
    times: Times,
    /// Of a table in which no column names a process.
    doubles: Option<Doubles>,
    notes: Vec<String>,
}

impl<'a> Rows<'a> {
    /// Reads the header.
    pub fn open(input: impl Read + 'a, wanted: &Wanted) -> Result<Rows<'a>, ImportError> {
        let mut text = foreign::table_of(text::open(input)?, wanted)?;
        let note = text.note.take();
        let (is_cut, lines_added) = (text.is_cut(), text.lines_added);
        let head = String::from_utf8_lossy(whole_lines(&text.head, is_cut)).into_owned();
        let layout = parse_layout(&head, wanted, is_cut)?;
        let mut rows = Rows::of_layout(text, &head, layout, wanted)?;
        rows.lines_added = lines_added;
        rows.notes.splice(0..0, note);
        Ok(rows)
    }

    fn of_layout(
        text: Text<'a>,
        head: &str,
        layout: Layout,
        wanted: &Wanted,
    ) -> Result<Rows<'a>, ImportError> {
        let is_cut = text.is_cut();
        let Layout {
            form,
            begins,
            before,
            names,
        } = layout;
        let ahead = head.as_bytes().get(begins..).unwrap_or_default().to_vec();
        let mut records = Records::new(text.from(begins), form, before);
        let found = records.header()?;
        let header = names.unwrap_or(found);
        let columns = columns(&header, &ahead, form, wanted).map_err(|mut error| {
            error.line += before;
            error
        })?;
        let numbers = Numbers {
            decimal: wanted.decimal,
            comma_parts_thousands: form == Form::Separated(b','),
            // ps and top print KiB where they print no unit, and a letter behind what is large.
            unit_said: columns.unit_said || columns.value_factor == 1024.0,
            is_percent: wanted
                .unit
                .as_ref()
                .is_some_and(|unit| unit.starts_with('%')),
            ..Numbers::default()
        };
        let times = Times {
            order: wanted.dates,
            factor: columns.time.factor,
            is_date: columns.time.is_date,
            is_elapsed: columns.time.is_elapsed,
            ..Times::default()
        };
        let mut rows = Rows {
            records,
            form,
            free: free_column(&header),
            header,
            next_wide: columns.wide.len(),
            columns,
            record: StringRecord::new(),
            line: 0,
            lines_added: 0,
            counted: HashMap::new(),
            lines_read: 0,
            doubles: None,
            beside: Numbers {
                unit_said: true,
                is_percent: false,
                ..numbers.clone()
            },
            numbers,
            times,
            notes: Vec::new(),
        };
        rows.read_ahead(ahead, before, is_cut)?;
        rows.doubles = Doubles::of(&rows.columns, rows.header.len(), before + 1);
        Ok(rows)
    }

    /// What is worth a line to the user: how the input was understood where it does not say.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The line of the last record; 0 before the first.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next reading of a process; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        let mut row = Row::default();
        Ok(self.next_into(&mut row)?.then_some(row))
    }

    /// The same into a row that is used again and again; false at the end.
    pub fn next_into(&mut self, row: &mut Row) -> Result<bool, ImportError> {
        loop {
            if self.next_wide < self.columns.wide.len() {
                let (place, factor) = self.columns.wide[self.next_wide];
                self.next_wide += 1;
                if self.record.get(place).is_some_and(|text| !is_missing(text)) {
                    return self.wide_row(place, factor, row).map(|()| true);
                }
                continue;
            }
            let Some(line) = self.records.next(&mut self.record)? else {
                let doubles = self.doubles.as_ref();
                return doubles.map_or(Ok(false), |seen| seen.check(&self.header).map(|()| false));
            };
            self.line = line.saturating_sub(self.lines_added);
            if !self.is_reading() {
                continue;
            }
            self.check_length()?;
            if self.columns.wide.is_empty() {
                self.long_row(row)?;
                if let Some(doubles) = &mut self.doubles {
                    doubles.take(row.t_s, row.rss_bytes, &self.record);
                }
                return Ok(true);
            }
            self.next_wide = 0;
            self.lines_read += 1;
        }
    }

    /// Whether the record is a reading: no sum of a TorUtils file, no header that comes again (files that were put
    /// one behind the other), no rule or trailer of a table for people, no average of pidstat.
    fn is_reading(&self) -> bool {
        let record = &self.record;
        if self
            .columns
            .kind
            .is_some_and(|k| record.get(k) == Some("aggregate"))
        {
            return false;
        }
        let same = |skip: usize| {
            record.len() == self.header.len()
                && record.iter().skip(skip).eq(self.header.iter().skip(skip))
        };
        let first = record.get(0).unwrap_or("");
        match self.form {
            // pidstat and sar: averages, and starts of the machine.
            Form::Blanks if first == "Average:" || is_restart(record) => false,
            Form::Blanks => !(same(1) && (same(0) || is_clock(first))),
            Form::Separated(b'|') => !same(0) && !is_rule(record),
            _ => !same(0),
        }
    }

    fn check_length(&mut self) -> Result<(), ImportError> {
        let wanted = self.header.len();
        if self.form == Form::Blanks {
            fit_words(&mut self.record, wanted, self.columns.time.place, self.free);
        }
        let length = self.record.len();
        let spare = || self.record.iter().skip(wanted).all(str::is_empty);
        if length == wanted || (length > wanted && spare()) {
            return Ok(());
        }
        let what = format!("{length} fields where the header has {wanted}");
        let next = match self.form {
            Form::Blanks => {
                "is there a blank within a name, or a field empty? write commas between the fields"
            }
            _ => "correct the line, or cut it out",
        };
        Err(ImportError::new(self.line, wanted.min(length), what, next))
    }

    /// One record into a row. A missing reading (empty, NaN) is NaN; text is an error.
    fn long_row(&mut self, row: &mut Row) -> Result<(), ImportError> {
        self.who(row);
        row.t_s = self.time(&row.id)?;
        let facts = self.columns.facts;
        row.hwm_bytes = self.fact(self.columns.hwm)?;
        row.cpu_s = self.fact(facts.cpu)?;
        row.requests = self.fact(facts.requests.map(|at| (at, 1.0)))?;
        row.lazy_free_bytes = self.fact(facts.lazy_free)?;
        row.huge_pages_bytes = self.fact(facts.huge_pages)?;
        row.start_s = facts
            .start
            .and_then(|at| self.times.moment_s(self.record.get(at)?));
        row.allocator.clear();
        row.allocator.push_str(
            facts
                .allocator
                .and_then(|at| self.record.get(at))
                .unwrap_or(""),
        );
        let unit = self
            .columns
            .unit
            .and_then(|at| self.record.get(at))
            .unwrap_or("");
        let is_share = self.numbers.is_percent && is_percent(unit);
        let own = factor_of_word(unit).or(is_share.then_some(self.columns.value_factor));
        // Of a file of several measures: percents, counts.
        let is_other = own.is_none() && !unit.is_empty() && !unit.eq_ignore_ascii_case("none");
        let number = self.number(self.columns.value, own.unwrap_or(self.columns.value_factor))?;
        row.rss_bytes = if is_other { f64::NAN } else { number };
        Ok(())
    }

    fn who(&self, row: &mut Row) {
        row.process.clear();
        for place in &self.columns.id {
            let part = self.record.get(*place).unwrap_or("");
            if !row.process.is_empty() && !part.is_empty() {
                row.process.push('/');
            }
            row.process.push_str(part);
        }
        row.arm.clear();
        row.arm.push_str(
            self.columns
                .arm
                .and_then(|at| self.record.get(at))
                .unwrap_or(""),
        );
        row.id.clear();
        row.id.push_str(&row.arm);
        if !row.id.is_empty() && !row.process.is_empty() {
            row.id.push('/');
        }
        row.id.push_str(&row.process);
        if row.id.is_empty() {
            row.id.push_str("series");
        }
    }

    fn wide_row(&mut self, place: usize, factor: f64, row: &mut Row) -> Result<(), ImportError> {
        let name = without_unit(&self.header[place]);
        for into in [&mut row.process, &mut row.id] {
            into.clear();
            into.push_str(name);
        }
        // All of a line are of one instant.
        row.t_s = match self.columns.time.interval_s {
            Some(interval_s) => (self.lines_read - 1) as f64 * interval_s,
            None => self.time("")?,
        };
        row.rss_bytes = self.number(place, factor)?;
        Ok(())
    }

    fn time(&mut self, id: &str) -> Result<f64, ImportError> {
        if let Some(interval_s) = self.columns.time.interval_s {
            let count = self.counted.entry(id.to_owned()).or_default();
            *count += 1;
            return Ok((*count - 1) as f64 * interval_s);
        }
        let place = self.columns.time.place;
        let text = self.record.get(place).unwrap_or("");
        let told = |e: NoTime| ImportError::new(self.line, place, e.what, e.next);
        let date = self
            .columns
            .time
            .date
            .and_then(|at| self.record.get(at))
            .unwrap_or("");
        if !date.is_empty() && text.contains(':') && !text.contains(['-', '/']) {
            return self.times.read(&format!("{date} {text}"), id).map_err(told);
        }
        self.times.read(text, id).map_err(told)
    }

    fn number(&mut self, place: usize, factor: f64) -> Result<f64, ImportError> {
        let text = self.record.get(place).unwrap_or("");
        let told = |e: NoNumber| ImportError::new(self.line, place, e.what, e.next);
        self.numbers.read(text, factor).map_err(told)
    }

    fn fact(&mut self, column: Option<(usize, f64)>) -> Result<Option<f64>, ImportError> {
        let Some((place, factor)) = column else {
            return Ok(None);
        };
        let text = self.record.get(place).unwrap_or("");
        let told = |e: NoNumber| ImportError::new(self.line, place, e.what, e.next);
        self.beside.read(text, factor).map(Some).map_err(told)
    }

    /// What the first rows prove about the decimal sign and the order of dates, and what is worth a note.
    /// `is_cut`: there is more than `ahead`.
    fn read_ahead(&mut self, ahead: Vec<u8>, before: u64, is_cut: bool) -> Result<(), ImportError> {
        let empty: Box<dyn Read> = Box::new(std::io::empty());
        let mut records = Records::new(std::io::Cursor::new(ahead).chain(empty), self.form, before);
        if records.header().is_err() {
            return Ok(());
        }
        let mut seen = notes::Seen::default();
        let mut record = StringRecord::new();
        let mut is_whole = false;
        for at in 0..AHEAD_ROWS {
            if !matches!(records.next(&mut record), Ok(Some(_))) {
                is_whole = !is_cut;
                break;
            }
            if self.form == Form::Blanks {
                fit_words(
                    &mut record,
                    self.header.len(),
                    self.columns.time.place,
                    self.free,
                );
            }
            let values = self.columns.wide.iter().map(|(place, _)| *place);
            let long = self.columns.wide.is_empty().then_some(self.columns.value);
            for text in values.chain(long).filter_map(|place| record.get(place)) {
                self.numbers.learn(text);
                seen.cell(text, self.numbers.clone().read(text, 1.0).ok());
            }
            let time = record.get(self.columns.time.place).unwrap_or("");
            let date = self
                .columns
                .time
                .date
                .and_then(|at| record.get(at))
                .unwrap_or("");
            if self.columns.time.interval_s.is_none() {
                self.times.learn(if date.is_empty() { time } else { date });
                seen.time(time, !date.is_empty());
                if at == 0 {
                    seen.first_time(time, self.columns.time.factor);
                }
            }
            let unit = self.columns.unit.and_then(|place| record.get(place));
            seen.unit(unit.unwrap_or(""));
            seen.others(&record, &self.columns);
        }
        self.beside.decimal = self.numbers.decimal;
        seen.set_unit(&mut self.columns);
        self.notes = notes::of(&seen, &self.header, &self.columns);
        // Of what is sorted by metric the memory may come later.
        let is_percent = self.numbers.is_percent || !is_whole;
        seen.refused(&self.header, &self.columns, is_percent)
            .map_err(|mut error| {
                error.line += before;
                error
            })
    }
}

/// The beginning up to its last line end, where there is more behind it.
fn whole_lines(head: &[u8], is_cut: bool) -> &[u8] {
    match head.iter().rposition(|b| *b == b'\n').filter(|_| is_cut) {
        Some(last) => &head[..=last],
        None => head,
    }
}

/// sar writes where the machine was started: "12:34:56 LINUX RESTART (2 CPU)".
fn is_restart(record: &StringRecord) -> bool {
    let words = record.iter().skip(1);
    let mut pairs = words.clone().zip(words.skip(1));
    pairs.any(|pair| pair == ("LINUX", "RESTART"))
}

/// A line of dashes under a header, or the count of rows under a table, as databases write them.
fn is_rule(record: &StringRecord) -> bool {
    let dashes = |field: &str| field.bytes().all(|b| b"-+:= ".contains(&b));
    let first = record.get(0).unwrap_or("");
    let is_count = record.len() == 1 && first.starts_with('(') && first.ends_with("rows)");
    is_count || (record.iter().all(dashes) && record.iter().any(|field| field.contains('-')))
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;

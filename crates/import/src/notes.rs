//! What is said to the user about how a table was understood, where the table itself does not say.

use csv::StringRecord;

use super::columns::Columns;
use super::number::own_unit;
use super::time::{Moment, parse_moment};

/// Names of columns that a note lists.
const SHOWN: usize = 4;

/// What the first rows were seen to hold.
#[derive(Debug, Default)]
pub struct Seen {
    bare: bool,
    units: bool,
    letter: Option<String>,
    of_day: bool,
    /// Columns of text that nothing reads.
    texts: Vec<usize>,
}

impl Seen {
    pub fn cell(&mut self, text: &str) {
        match own_unit(text) {
            None => self.bare |= text.parse::<f64>().is_ok_and(|n| n != 0.0),
            Some(unit) => {
                self.units = true;
                if unit.len() == 1 && !unit.eq_ignore_ascii_case("b") {
                    self.letter.get_or_insert_with(|| unit.to_owned());
                }
            }
        }
    }

    pub fn time(&mut self, text: &str, has_date: bool) {
        let is_clock = || matches!(parse_moment(text, None), Ok((Moment::OfDay(_), _)));
        self.of_day |= !has_date && !self.of_day && text.contains(':') && is_clock();
    }

    pub fn others(&mut self, record: &StringRecord, columns: &Columns) {
        if !columns.id.is_empty() || !columns.wide.is_empty() || columns.arm.is_some() {
            return;
        }
        let read = [
            Some(columns.time.place),
            columns.time.date,
            Some(columns.value),
            columns.unit,
            columns.kind,
        ];
        let is_text = |text: &str| {
            !text.is_empty() && text.parse::<f64>().is_err() && parse_moment(text, None).is_err()
        };
        for (at, text) in record.iter().enumerate() {
            if !read.contains(&Some(at)) && !self.texts.contains(&at) && is_text(text) {
                self.texts.push(at);
            }
        }
    }
}

/// Sentences for stderr.
pub fn of(seen: &Seen, header: &[String], columns: &Columns) -> Vec<String> {
    let mut notes = Vec::new();
    let name = |at: usize| header.get(at).map_or("", String::as_str);
    if !columns.wide.is_empty() {
        let first: Vec<&str> = columns
            .wide
            .iter()
            .take(SHOWN)
            .map(|(at, _)| name(*at))
            .collect();
        let more = if columns.wide.len() > SHOWN {
            ", ..."
        } else {
            ""
        };
        notes.push(format!(
            "each of {} columns is a process: {}{more}",
            columns.wide.len(),
            first.join(", ")
        ));
    }
    if columns.is_only_number {
        let value = name(columns.value);
        notes.push(format!(
            "{value} is taken for the memory: no other column has numbers"
        ));
    }
    if !columns.unit_said && columns.unit.is_none() && seen.bare && !seen.units {
        let unit = if columns.value_factor == 1024.0 {
            "KiB, as ps prints it"
        } else {
            "bytes"
        };
        let what = if columns.wide.is_empty() {
            format!("the column {} says", name(columns.value))
        } else {
            "the columns say".to_owned()
        };
        notes.push(format!(
            "{what} no unit: read as {unit}; --unit says otherwise"
        ));
    }
    if let Some(letter) = &seen.letter {
        let whole = letter.to_ascii_uppercase();
        notes.push(format!(
            "{letter} is read as {whole}iB, as ps, top and systemd mean it"
        ));
    }
    if seen.of_day {
        notes.push(
            "times of day without a date: a day is counted at each midnight, and a gap of more than a day is not seen"
                .to_owned(),
        );
    }
    if !seen.texts.is_empty() {
        let names: Vec<&str> = seen.texts.iter().take(SHOWN).map(|at| name(*at)).collect();
        notes.push(format!(
            "no column says who was read: all rows are one series; is it one of {}? --id-column NAME",
            names.join(", ")
        ));
    }
    notes
}

//! What is said to the user about how a table was understood, where the table itself does not say.

use csv::StringRecord;

use super::ImportError;
use super::columns::Columns;
use super::headings::is_percent;
use super::number::{SAY_OF_WHAT, own_unit};
use super::time::{Moment, parse_moment};

/// Names of columns that a note lists.
const SHOWN: usize = 4;
/// Nobody records a process that is smaller; bytes have no fractions but where they are averages of many.
const MIB: f64 = 1_048_576.0;
/// Seconds of the epoch, 1989 to 2103: as milliseconds they lie in January and February of 1970.
const EPOCH_S: std::ops::Range<f64> = 6e8..4.2e9;

/// What the first rows were seen to hold.
#[derive(Debug, Default)]
pub struct Seen {
    bare: bool,
    units: bool,
    letter: Option<String>,
    of_day: bool,
    /// The largest number without a unit, and whether any has a fraction.
    largest: f64,
    has_fraction: bool,
    /// The first time, where it is an epoch in seconds in a column that says a finer unit.
    coarse: Option<String>,
    /// Rows by what their own column of units says.
    percentages: usize,
    other_units: usize,
    /// Columns of text that nothing reads.
    texts: Vec<usize>,
}

impl Seen {
    /// `number` is what the cell is read as; `None`: it cannot be read yet.
    pub fn cell(&mut self, text: &str, number: Option<f64>) {
        match own_unit(text) {
            None => {
                self.bare |= text.parse::<f64>().is_ok_and(|n| n != 0.0);
                let number = number.unwrap_or(f64::INFINITY);
                self.largest = self.largest.max(number.abs());
                self.has_fraction |= number.fract().abs() > 0.0;
            }
            Some(unit) => {
                self.units = true;
                if unit.len() == 1 && !unit.eq_ignore_ascii_case("b") {
                    self.letter.get_or_insert_with(|| unit.to_owned());
                }
            }
        }
    }

    pub fn unit(&mut self, text: &str) {
        match text {
            "" => {}
            share if is_percent(share) => self.percentages += 1,
            _ => self.other_units += 1,
        }
    }

    /// # Errors
    /// All rows are percentages.
    pub fn refused(
        &self,
        header: &[String],
        columns: &Columns,
        is_percent: bool,
    ) -> Result<(), ImportError> {
        if self.percentages == 0 || self.other_units > 0 || is_percent {
            return Ok(());
        }
        // Of a wide table the first process.
        let place = columns.wide.first().map_or(columns.value, |wide| wide.0);
        let name = header.get(place).map_or("", String::as_str);
        let what = format!("the readings of {name} are percentages");
        Err(ImportError::new(1, place, what, SAY_OF_WHAT))
    }

    /// Numbers that cannot be bytes, where nothing says what they are, are mebibytes.
    pub fn set_unit(&self, columns: &mut Columns) {
        let factor = columns
            .wide
            .first()
            .map_or(columns.value_factor, |wide| wide.1);
        let is_unknown = columns.unit.is_none() && !columns.unit_said && !self.units;
        let is_small = self.has_fraction && self.largest < MIB;
        if is_unknown && is_small && factor == 1.0 {
            columns.value_factor = MIB;
            columns.wide.iter_mut().for_each(|wide| wide.1 = MIB);
        }
    }

    pub fn time(&mut self, text: &str, has_date: bool) {
        let is_clock = || matches!(parse_moment(text, None), Ok((Moment::OfDay(_), _)));
        self.of_day |= !has_date && !self.of_day && text.contains(':') && is_clock();
    }

    /// The first time, of a column whose name says `factor` seconds: what has passed starts at a small number.
    pub fn first_time(&mut self, text: &str, factor: f64) {
        let is_epoch = || text.parse().is_ok_and(|number| EPOCH_S.contains(&number));
        if factor < 1.0 && is_epoch() {
            self.coarse = Some(text.to_owned());
        }
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
        let unit = match columns.value_factor {
            1024.0 => "KiB, as ps prints it",
            MIB => "MiB, for so few bytes are no process",
            _ => "bytes",
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
    notes.extend(coarse(seen, name(columns.time.place)));
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

/// Epoch seconds in a column whose name says a finer unit.
fn coarse(seen: &Seen, name: &str) -> Option<String> {
    let text = seen.coarse.as_ref()?;
    Some(format!(
        "{text} is a time in 1970, in the unit that {name} says; if it is seconds, rename the column"
    ))
}

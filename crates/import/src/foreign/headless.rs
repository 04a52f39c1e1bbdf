//! Tables with separators and without a header: the first line is a reading. Columns are called by their numbers then,
//! from 1.

use super::lines::Translation;
use crate::ImportError;
use crate::header::Wanted;
use crate::layout::{Form, fields_of, is_instant};
use crate::moment::is_epoch;
use crate::number::{Numbers, is_missing};

/// Lines that are read to find the columns by what is in them; fewer than two are no table.
const LINES: usize = 40;
const LINES_MIN: usize = 2;

/// How to read a text that is such a table.
///
/// # Errors
/// Several columns may be the time or the memory.
pub fn recognized(head: &str, wanted: &Wanted) -> Result<Option<Translation>, ImportError> {
    let lines = head.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.take(LINES).collect();
    let has_comment = lines.first().is_none_or(|line| line.starts_with('#'));
    if wanted.wide || has_comment {
        return Ok(None);
    }
    for separator in [';', '\t', '|', ','] {
        if let Some(table) = Table::of(&lines, separator)
            && let Some(time) = table.time(wanted)?
            && let Some(value) = table.value(time, wanted)?
        {
            return Ok(Some(table.translation(time, value, wanted)));
        }
    }
    Ok(None)
}

struct Table {
    separator: char,
    rows: Vec<Vec<String>>,
    count: usize,
}

impl Table {
    fn of(lines: &[&str], separator: char) -> Option<Table> {
        let form = Form::Separated(separator as u8);
        let rows = lines.iter().filter(|line| !line.starts_with('#'));
        let rows: Vec<Vec<String>> = rows.map(|line| fields_of(line, form)).collect();
        let count = rows.first()?.len();
        let is_table =
            count > 1 && rows.len() >= LINES_MIN && rows.iter().all(|row| row.len() == count);
        is_table.then_some(Table {
            separator,
            rows,
            count,
        })
    }

    fn all(&self, at: usize, is: impl Fn(&str) -> bool) -> bool {
        self.rows.iter().all(|row| is(&row[at]))
    }

    fn is_number(&self, at: usize) -> bool {
        let number = |cell: &str| {
            let mut numbers = Numbers {
                comma_parts_thousands: true,
                ..Numbers::default()
            };
            numbers.read(cell, 1.0).is_ok()
        };
        self.all(at, number) && !self.all(at, is_missing)
    }

    /// The column that a flag calls by its number, where the first line has no such name.
    fn numbered(&self, given: &str) -> Option<usize> {
        let place = given.trim().parse::<usize>().ok()?.checked_sub(1)?;
        let is_name = self.rows[0].iter().any(|cell| cell == given.trim());
        (place < self.count && !is_name).then_some(place)
    }

    /// Whether its numbers rise by the same from row to row.
    fn is_even(&self, at: usize) -> bool {
        let numbers = self.rows.iter().map(|row| row[at].trim().parse::<f64>());
        let Ok(numbers) = numbers.collect::<Result<Vec<f64>, _>>() else {
            return false;
        };
        let steps: Vec<f64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let same = |step: &f64| *step > 0.0 && (step - steps[0]).abs() < 1e-6 * step;
        steps.len() > 1 && steps.iter().all(same)
    }

    /// Dates come before numbers, which may be seconds of the epoch or bytes.
    fn time(&self, wanted: &Wanted) -> Result<Option<usize>, ImportError> {
        if let Some(given) = &wanted.time {
            let is_time = |at: &usize| self.is_number(*at) || self.all(*at, is_instant);
            return Ok(self.numbered(given).filter(is_time));
        }
        let is_date = |at: &usize| self.all(*at, |cell| is_instant(cell) && !is_epoch(cell));
        if let Some(date) = (0..self.count).find(is_date) {
            return Ok(Some(date));
        }
        let is_seconds = |at: &usize| self.all(*at, is_epoch);
        let seconds: Vec<usize> = (0..self.count).filter(is_seconds).collect();
        match seconds[..] {
            [] => Ok(None),
            // Bytes may look like seconds of the epoch, where what has passed stands beside them.
            [one]
                if (0..self.count).any(|at| at != one && self.is_even(at))
                    && !self.is_even(one) =>
            {
                let both: Vec<usize> = (0..self.count)
                    .filter(|at| *at == one || self.is_even(*at))
                    .collect();
                Err(self.several(&both, "times", "time", "--time-column", both[0]))
            }
            [one] => Ok(Some(one)),
            [first, ..] => Err(self.several(&seconds, "times", "time", "--time-column", first)),
        }
    }

    fn value(&self, time: usize, wanted: &Wanted) -> Result<Option<usize>, ImportError> {
        if let Some(given) = &wanted.value {
            return Ok(self.numbered(given).filter(|at| *at != time));
        }
        let is_named = |at: usize| {
            let flags = [&wanted.id, &wanted.arm].into_iter().flatten();
            let mut names = flags.flat_map(|flag| flag.split(','));
            names.any(|name| self.numbered(name) == Some(at))
        };
        let is_value = |at: &usize| *at != time && !is_named(*at) && self.is_number(*at);
        let values: Vec<usize> = (0..self.count).filter(is_value).collect();
        match values[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [.., last] => Err(self.several(&values, "numbers", "memory", "--value-column", last)),
        }
    }

    fn several(
        &self,
        places: &[usize],
        hold: &str,
        what: &str,
        flag: &str,
        example: usize,
    ) -> ImportError {
        let shown = |at: &usize| format!("{} ({})", at + 1, self.rows[0][*at]);
        let shown: Vec<String> = places.iter().map(shown).collect();
        ImportError::new(
            1,
            places.first().copied().unwrap_or(0),
            format!(
                "there is no header, and columns {} hold {hold}",
                shown.join(", ")
            ),
            format!(
                "say which is the {what} by its number, as {flag} {}",
                example + 1
            ),
        )
    }

    fn translation(&self, time: usize, value: usize, wanted: &Wanted) -> Translation {
        let name = |at: usize| match at {
            _ if at == time && wanted.time.is_none() => "time".to_owned(),
            _ if at == value && wanted.value.is_none() => "memory".to_owned(),
            _ => (at + 1).to_string(),
        };
        let names: Vec<String> = (0..self.count).map(name).collect();
        Translation {
            header: Some(names.join(&self.separator.to_string())),
            note: Some(format!(
                "there is no header: read as a time and the memory, columns {} and {}",
                time + 1,
                value + 1
            )),
            each: Box::new(str::to_owned),
        }
    }
}

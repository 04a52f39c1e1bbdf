//! Which columns a table has: by the names of its header, and where those do not say it by what is in its first lines.

use super::ImportError;
use super::columns::{Columns, Wanted, parse_header, parse_wide, unknown_columns};
use super::layout::{Form, columns_of, fields_of};
use super::number::Numbers;

/// Lines that are read to find the column of the values by what is in it.
const AHEAD_LINES: usize = 40;

/// What to do with a text that is no table.
const READ: &str = "make it lines of time,memory, with sed or awk; read are CSV, lines and documents of JSON, a time \
                    and a number a line, and what ps, top, pidstat, sar, free, docker stats, psrecord and mprof print";

/// The columns, or why the header is none.
pub fn columns(
    header: &[String],
    ahead: &[u8],
    form: Form,
    wanted: &Wanted,
) -> Result<Columns, ImportError> {
    let is_number = |name: &String| name.parse::<f64>().is_ok();
    if !header.is_empty() && header.iter().all(is_number) && wanted.value.is_none() {
        let next = "give a header such as id,t_s,rss_kib, or the columns by number: --time-column 1 --value-column 2";
        return Err(ImportError::new(1, 0, "the first line is numbers", next));
    }
    if header.iter().all(String::is_empty) {
        return Err(ImportError::new(
            1,
            0,
            "the file is empty",
            "give a CSV file with a header",
        ));
    }
    let text = String::from_utf8_lossy(ahead);
    let below = text
        .lines()
        .skip(1)
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if let Some(columns) = columns_of(header, below, form, wanted) {
        return Ok(columns);
    }
    if wanted.wide {
        return parse_wide(header, wanted);
    }
    let lines = text.lines().skip(1).take(AHEAD_LINES);
    if let Some(columns) = only_number(header, lines, form, wanted) {
        return Ok(columns);
    }
    let first = text.lines().next().unwrap_or("");
    let is_log = form != Form::Json && below.is_some_and(|below| is_of_form(first, below));
    if is_log && !is_flagged(wanted) {
        return Err(ImportError::new(
            1,
            0,
            "the first line is a reading, and the text no table",
            READ,
        ));
    }
    match parse_wide(header, wanted) {
        Err(error) if error.column > 1 => Err(error),
        _ => parse_header(header, wanted, form == Form::Blanks),
    }
}

/// Whether flags name columns: then their names are the fault.
fn is_flagged(wanted: &Wanted) -> bool {
    let names = [&wanted.id, &wanted.arm, &wanted.time, &wanted.value];
    names.iter().any(|name| name.is_some())
}

/// Whether two lines have the same words, and numbers between them: lines of a log.
fn is_of_form(line: &str, below: &str) -> bool {
    let words = |line: &str| -> Vec<String> {
        let words = line.split(|c: char| !c.is_alphabetic());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let own = words(line);
    line.contains(|c: char| c.is_ascii_digit()) && !own.is_empty() && own == words(below)
}

/// Columns of which one holds numbers, the times and the names apart, whatever it is called.
fn only_number<'t>(
    header: &[String],
    lines: impl Iterator<Item = &'t str>,
    form: Form,
    wanted: &Wanted,
) -> Option<Columns> {
    let unknown = unknown_columns(header, wanted);
    if unknown.is_empty() || wanted.value.is_some() {
        return None;
    }
    let rows: Vec<Vec<String>> = lines
        .map(|line| fields_of(line, form))
        .filter(|fields| fields.len() == header.len())
        .collect();
    let is_number = |at: &usize| {
        let cells = rows.iter().map(|row| row[*at].as_str());
        let mut cells = cells.filter(|cell| !cell.is_empty()).peekable();
        // Whether 123,456 has a decimal comma does not matter here.
        let number = |cell: &str| {
            let mut numbers = Numbers {
                decimal: wanted.decimal,
                comma_parts_thousands: true,
                ..Numbers::default()
            };
            numbers.read(cell, 1.0).is_ok()
        };
        cells.peek().is_some() && cells.all(number)
    };
    let all: Vec<usize> = unknown.into_iter().filter(is_number).collect();
    let [only] = all[..] else {
        return None;
    };
    let value = Some(header[only].trim().to_owned());
    let wanted = Wanted {
        value,
        ..wanted.clone()
    };
    let columns = parse_header(header, &wanted, form == Form::Blanks).ok()?;
    Some(Columns {
        is_only_number: true,
        ..columns
    })
}

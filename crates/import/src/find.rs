//! Which columns a table has: by the names of its header, and where those do not say it by what is in its first lines.

use super::ImportError;
use super::columns::{Columns, Wanted, parse_header, parse_wide, unknown_columns};
use super::layout::{Form, columns_of, fields_of};
use super::number::Numbers;

/// Lines that are read to find the column of the values by what is in it.
const AHEAD_LINES: usize = 40;

/// The columns, or why the header is none.
pub fn columns(
    header: &[String],
    ahead: &[u8],
    form: Form,
    wanted: &Wanted,
) -> Result<Columns, ImportError> {
    let is_number = |name: &String| name.parse::<f64>().is_ok();
    if !header.is_empty() && header.iter().all(is_number) {
        let next = "give a header such as id,t_s,rss_kib";
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
    match parse_wide(header, wanted) {
        Err(error) if error.column > 1 => Err(error),
        _ => parse_header(header, wanted, form == Form::Blanks),
    }
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
        let number = |cell: &str| Numbers::default().read(cell, 1.0).is_ok();
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

//! Readings without a header: a time and one number a line, as `echo $(date +%s) $(grep VmRSS ...)` writes them.

use super::lines::{Translation, csv_line};
use crate::header::{Header, Wanted};
use crate::headings::factor_of_word;
use crate::layout::{Form, fields_of, form_of};
use crate::moment::{is_epoch, parse_moment};

/// So many of the first lines have to be readings.
const LINES: usize = 3;

/// How to read a text that is such lines.
pub fn recognized(head: &str, wanted: &Wanted) -> Option<Translation> {
    if wanted.time.is_some() || wanted.value.is_some() || wanted.wide {
        return None;
    }
    let is_data = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<&str> = head.lines().filter(is_data).take(LINES).collect();
    // A comment above may be their header: with it they are a table.
    if head
        .lines()
        .take_while(|line| !is_data(line))
        .any(|line| line.contains('#'))
    {
        return None;
    }
    // A tab may stand between the words of one field.
    let form = match form_of(lines.first()?) {
        Form::Separated(b'\t') => Form::Blanks,
        other => other,
    };
    let is_reading = |line: &&str| reading(line, form).is_some();
    if lines.len() < LINES || !lines.iter().all(is_reading) {
        return None;
    }
    Some(Translation {
        header: Some("time,memory".to_owned()),
        note: Some("there is no header: read as a time and the memory".to_owned()),
        each: Box::new(move |line| match reading(line, form) {
            Some((time, value)) => csv_line([time.as_str(), value.as_str()]),
            // With as many fields as it has: it is refused for them.
            None if is_data(&line) => csv_line(fields_of(line, form).iter().map(String::as_str)),
            None => String::new(),
        }),
    })
}

/// The time and the number of a line, with its unit.
fn reading(line: &str, form: Form) -> Option<(String, String)> {
    let mut fields = fields_of(line.trim(), form);
    let unit = fields.pop_if(|last| last.parse::<f64>().is_err() && factor_of_word(last).is_some());
    let value = fields.pop()?;
    let is_number = value.starts_with(|c: char| c.is_ascii_digit());
    // `VmRSS:` of /proc/PID/status; another line of it is no resident memory.
    let name = fields.pop_if(|name| name.ends_with(':') && name.starts_with(char::is_alphabetic));
    let names = name.map(|name| [name.trim_end_matches(':').to_owned()]);
    if names.is_some_and(|names| Header::new(&names).usual_value().is_none()) {
        return None;
    }
    let time = fields.join(" ");
    let is_text = || time.parse::<f64>().is_err() && parse_moment(&time, None).is_ok();
    let value = unit.map_or(value.clone(), |unit| format!("{value} {unit}"));
    (is_number && (is_epoch(&time) || is_text())).then_some((time, value))
}

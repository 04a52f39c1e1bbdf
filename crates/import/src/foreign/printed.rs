//! Lines of a fixed form that tools print: mprof of memory_profiler, `echo $(date) $(ps aux | grep ...)`, and the lines
//! of `free` behind a time.

use super::blocks::time_of;
use super::lines::{Translation, csv_line};
use crate::ImportError;
use crate::header::Wanted;
use crate::layout::words_of_line;
use crate::moment::{Moment, parse_moment};
use crate::number::own_unit;

/// So many of the first lines have to be of the form, and there is a reading in so many.
const LINES: usize = 3;
const READING_LINES: usize = 20;
/// The most words of a time: "Thu Oct 9 08:53:20 AM UTC 2025".
const TIME_WORDS_MAX: usize = 7;
/// USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND
const PS_WORDS: usize = 11;

/// What a line of a form is.
enum Line {
    /// Cells of the table.
    Reading(Vec<String>),
    /// It says nothing of memory.
    Other,
}

struct LineForm {
    header: &'static str,
    note: &'static str,
    /// `None`: no line of this form.
    parse: fn(&str) -> Option<Line>,
}

const FORMS: &[LineForm] = &[
    LineForm {
        header: "time,process,rss_mib",
        note: "read as a log of mprof",
        parse: mprof,
    },
    LineForm {
        header: "time,pid,rss_kib,command",
        note: "read as times and lines of ps aux",
        parse: timed_ps,
    },
];

/// How to read a text that is such lines.
///
/// # Errors
/// `free` without its unit.
pub fn recognized(head: &str, wanted: &Wanted) -> Result<Option<Translation>, ImportError> {
    let lines = head.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.take(READING_LINES).collect();
    let fits = |form: &&LineForm| {
        let mut parsed = lines.iter().map(|line| (form.parse)(line));
        parsed.clone().take(LINES).all(|line| line.is_some())
            && parsed.any(|line| matches!(line, Some(Line::Reading(_))))
    };
    match FORMS.iter().find(fits) {
        Some(form) => Ok(Some(Translation {
            header: Some(form.header.to_owned()),
            note: Some(form.note.to_owned()),
            each: Box::new(|line| cells_of(form, line)),
        })),
        None => free(&lines, wanted),
    }
}

/// A line of another form is one cell, and refused for it.
fn cells_of(form: &LineForm, line: &str) -> String {
    match (form.parse)(line) {
        Some(Line::Reading(cells)) => csv_line(cells.iter().map(String::as_str)),
        Some(Line::Other) => String::new(),
        None => csv_line([line.trim()]),
    }
}

/// `MEM 12.34 1700000000.5`: MiB and seconds of the epoch; `CHLD 0 ...` of a child.
fn mprof(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let reading = |process: String, mib: &str, time: &str| {
        let are_numbers = mib.parse::<f64>().is_ok() && time.parse::<f64>().is_ok();
        let cells = vec![time.to_owned(), process, mib.to_owned()];
        are_numbers.then_some(Line::Reading(cells))
    };
    match words[..] {
        ["MEM", mib, time] => reading("main".to_owned(), mib, time),
        ["CHLD", child, mib, time] => reading(format!("child {child}"), mib, time),
        ["CMDLINE" | "FUNC", ..] => Some(Line::Other),
        _ => None,
    }
}

/// A time, and behind it a line of `ps aux`.
fn timed_ps(line: &str) -> Option<Line> {
    let words = words_of_line(line);
    let is_time = |count: &usize| {
        let text = words[..*count].join(" ");
        text.contains(':') && matches!(parse_moment(&text, None), Ok((Moment::At(_), _)))
    };
    let longest = TIME_WORDS_MAX.min(words.len().checked_sub(PS_WORDS)?);
    let count = (1..=longest).rev().find(is_time)?;
    let (time, ps) = words.split_at(count);
    let is_number = |at: usize| ps[at].parse::<f64>().is_ok();
    let is_ps = (1..=5).all(is_number) && !is_number(7) && ps[9].contains(':');
    let command = ps[PS_WORDS - 1..].join(" ");
    let cells = vec![time.join(" "), ps[1].clone(), ps[5].clone(), command];
    is_ps.then_some(Line::Reading(cells))
}

/// Tables of `free`, each behind its time; without times where `--interval` says how far apart they are.
fn free(lines: &[&str], wanted: &Wanted) -> Result<Option<Translation>, ImportError> {
    let is_timed = lines.first().is_some_and(|line| time_of(line).is_some());
    let mut table = lines.iter().skip(usize::from(is_timed));
    let (Some(names), Some(memory)) = (table.next(), table.next()) else {
        return Ok(None);
    };
    let names: Vec<&str> = names.split_whitespace().take(3).collect();
    let Some(used) = used_of(memory).filter(|_| names == ["total", "used", "free"]) else {
        return Ok(None);
    };
    if wanted.unit.is_none() && own_unit(used).is_none() {
        let what = "free prints no unit";
        let next = "say it: --unit MiB of free -m, --unit KiB of free, or record with free -h";
        return Err(ImportError::new(1, 0, what, next));
    }
    let mut time = String::new();
    let each = move |line: &str| match (time_of(line), used_of(line)) {
        (Some(now), _) if is_timed => {
            now.clone_into(&mut time);
            String::new()
        }
        (_, Some(used)) if is_timed => csv_line([time.as_str(), used]),
        (_, Some(used)) => used.to_owned(),
        _ => String::new(),
    };
    let header = if is_timed { "time,memory" } else { "memory" };
    Ok(Some(Translation {
        header: Some(header.to_owned()),
        note: Some("read as tables of free: what the machine uses".to_owned()),
        each: Box::new(each),
    }))
}

/// "100Mi" of "Mem:  7.8Gi  100Mi ...".
fn used_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix("Mem:")?.split_whitespace().nth(1)
}

//! How a table is laid out: what stands between the fields, and which line is the header. Decided by the
//! beginning of the text alone.

use super::ImportError;
use super::columns::{Columns, Wanted, is_no_time, parse_header, parse_wide};
use super::moment::{DateOrder, Moment, is_epoch, parse_moment};
use super::number::is_missing;

/// So many lines may stand before a header: a title, a line of pidstat about the machine.
const PREAMBLE_LINES: usize = 20;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Fields with this byte between them, quoted as in CSV.
    Separated(u8),
    /// Fields with runs of blanks between them.
    Blanks,
    /// An object of JSON a line.
    Json,
}

/// Where the header is, and what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    pub form: Form,
    /// Where the header begins (the first record, of JSON), bytes from the beginning of the text.
    pub begins: usize,
    /// Lines before it.
    pub before: u64,
    /// The names, where the line alone does not say them.
    pub names: Option<Vec<String>>,
}

/// One line of the beginning.
#[derive(Clone, Copy)]
struct Line<'a> {
    begins: usize,
    number: u64,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn comment(&self) -> Option<Line<'a>> {
        let inner = self
            .text
            .trim_start()
            .strip_prefix('#')?
            .trim_start_matches(['#', ' ', '\t']);
        let begins = self.begins + (self.text.len() - inner.len());
        Some(Line {
            begins,
            text: inner,
            ..*self
        })
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Reads the beginning. `is_cut`: there is more text than this.
///
/// # Errors
/// No text, or a kind of text that is no table.
pub fn parse_layout(head: &str, wanted: &Wanted, is_cut: bool) -> Result<Layout, ImportError> {
    let mut lines = lines_of(head);
    let (forced, skipped) = separator_line(&lines);
    lines.drain(..skipped);
    let Some(first) = lines
        .iter()
        .position(|l| !l.is_blank() && l.comment().is_none())
    else {
        return no_lines(&lines, forced);
    };
    let line = lines[first];
    if line.text.trim_start().starts_with('{') {
        return Ok(at(line, Form::Json, None));
    }
    refuse_other(&line)?;
    // The end of a header that does not end within the beginning is not here.
    if is_cut && first + 1 == lines.len() {
        return Ok(at(line, forced.unwrap_or(form_of(line.text)), None));
    }
    let data = |after: usize| {
        let is_data = |l: &&Line| !l.is_blank() && l.comment().is_none();
        lines[after..].iter().find(is_data).map(|l| l.text)
    };
    let try_line = |line: Line, next: Option<&str>| header_of(line, next, wanted, forced);
    if let Some(found) = try_line(line, data(first + 1)) {
        return Ok(found);
    }
    if let Some(found) = commented(&lines[..first], line.text, wanted, forced) {
        return Ok(found);
    }
    for (i, later) in lines
        .iter()
        .enumerate()
        .skip(first + 1)
        .take(PREAMBLE_LINES)
    {
        let found = match later.comment() {
            Some(_) => commented(&[*later], data(i + 1).unwrap_or(""), wanted, forced),
            None if later.is_blank() => None,
            None => try_line(*later, data(i + 1)),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    Ok(above_readings(&lines[first..], forced)
        .unwrap_or_else(|| at(line, forced.unwrap_or(form_of(line.text)), None)))
}

/// A header whose first name says nothing: the line above the first one that begins with an instant and holds numbers
/// behind it, as CloudWatch and pandas write them.
fn above_readings(lines: &[Line], forced: Option<Form>) -> Option<Layout> {
    let filled: Vec<&Line> = lines
        .iter()
        .filter(|line| !line.is_blank())
        .take(PREAMBLE_LINES)
        .collect();
    let forms = |pair: &[&Line]| match forced {
        Some(form) => vec![form],
        // A semicolon parts the fields where the numbers have decimal commas: the header has none of these.
        None => vec![form_of(pair[0].text), form_of(pair[1].text)],
    };
    let named = |pair: &[&Line], form: Form| {
        let (mut names, fields) = (fields_of(pair[0].text, form), fields_of(pair[1].text, form));
        let is_reading = is_instant(fields.first()?)
            && fields.len() > 1
            && fields[1..].iter().any(|field| is_number(field));
        let is_header = names.len() == fields.len() && !is_instant(&names[0]);
        if !(is_reading && is_header) || is_no_time(&names) {
            return None;
        }
        names[0] = "time".to_owned();
        Some(at(*pair[0], form, Some(names)))
    };
    filled
        .windows(2)
        .find_map(|pair| forms(pair).into_iter().find_map(|form| named(pair, form)))
}

/// A date, or so many seconds of the epoch.
pub fn is_instant(text: &str) -> bool {
    match text.parse::<f64>() {
        Ok(_) => is_epoch(text),
        Err(_) => [DateOrder::MonthFirst, DateOrder::DayFirst]
            .into_iter()
            .any(|order| matches!(parse_moment(text, Some(order)), Ok((Moment::At(_), _)))),
    }
}

fn at(line: Line, form: Form, names: Option<Vec<String>>) -> Layout {
    Layout {
        form,
        begins: line.begins,
        before: line.number - 1,
        names,
    }
}

/// Nothing but comments: the last of them may be a header without readings.
fn no_lines(lines: &[Line], forced: Option<Form>) -> Result<Layout, ImportError> {
    match lines.iter().rev().find_map(Line::comment) {
        Some(line) => Ok(at(line, forced.unwrap_or(form_of(line.text)), None)),
        None => Err(ImportError::new(
            1,
            0,
            "the file is empty",
            "give a CSV file with a header",
        )),
    }
}

/// Texts that are no table.
fn refuse_other(line: &Line) -> Result<(), ImportError> {
    let text = line.text.trim_start();
    let told = |what: &str, next: &str| Err(ImportError::new(line.number, 0, what, next));
    match text.as_bytes().first() {
        _ if is_vmstat(text) => told(
            "a table of vmstat, which says what is free and not what is used",
            "record with sar -r 60, or of a process with pidstat -r -h -p PID 60",
        ),
        Some(b'<') => told("a web page or XML", "give a CSV file with a header"),
        _ => Ok(()),
    }
}

fn is_vmstat(line: &str) -> bool {
    let words = words_of_line(line);
    let has = |name: &str| words.iter().any(|word| word == name);
    line.starts_with("procs --") || (has("swpd") && has("free") && has("buff"))
}

/// Lines with their places; a line ends in \n, \r\n or \r.
fn lines_of(head: &str) -> Vec<Line<'_>> {
    let mut all = Vec::new();
    let (mut begins, mut number) = (0, 1);
    while begins < head.len() {
        let rest = &head[begins..];
        let length = rest.find(['\n', '\r']).unwrap_or(rest.len());
        all.push(Line {
            begins,
            number,
            text: &rest[..length],
        });
        let ends = &rest[length..];
        begins += length
            + if ends.starts_with("\r\n") {
                2
            } else {
                ends.len().min(1)
            };
        number += 1;
    }
    all
}

/// "sep=;" as spreadsheets write before a header, and how many lines that took.
fn separator_line(lines: &[Line]) -> (Option<Form>, usize) {
    let said = lines
        .first()
        .and_then(|l| l.text.trim().trim_matches('"').strip_prefix("sep="));
    match said.map(str::as_bytes) {
        Some([byte]) => (Some(Form::Separated(*byte)), 1),
        _ => (None, 0),
    }
}

/// What stands between the fields: the one of comma, semicolon, tab and bar that the line has most of outside of
/// quotes; a run of blanks where there is none of them.
pub fn form_of(line: &str) -> Form {
    let count = |separator: char| {
        let mut quoted = false;
        let outside = line.chars().filter(|c| {
            quoted ^= *c == '"';
            !quoted && *c == separator
        });
        outside.count()
    };
    let mut best = (',', count(','));
    for rival in [';', '\t', '|'] {
        let seen = count(rival);
        if seen > best.1 {
            best = (rival, seen);
        }
    }
    match best {
        (_, 0) if line.trim().contains([' ', '\t']) => Form::Blanks,
        (separator, _) => Form::Separated(separator as u8),
    }
}

/// The line as a header, when it is one.
fn header_of(
    line: Line,
    next: Option<&str>,
    wanted: &Wanted,
    forced: Option<Form>,
) -> Option<Layout> {
    let form = forced.unwrap_or(form_of(line.text));
    let names = fields_of(line.text, form);
    if form == Form::Blanks {
        return blanks_header(line, next, wanted);
    }
    columns_of(&names, next, form, wanted).map(|_| at(line, form, None))
}

/// Names parted by runs of blanks; where a name holds a blank, by two or more. A header of pidstat begins with the
/// time of the snapshot below it.
fn blanks_header(line: Line, next: Option<&str>, wanted: &Wanted) -> Option<Layout> {
    let mut names = fields_of(line.text, Form::Blanks);
    let begins_with_time = names.first().is_some_and(|first| is_clock(first));
    if begins_with_time {
        names[0] = "time".to_owned();
    }
    let apart = line
        .text
        .trim()
        .split("  ")
        .map(|name| name.trim().to_owned());
    let apart: Vec<String> = apart.filter(|name| !name.is_empty()).collect();
    let count = next.map_or(0, |next| fields_of(next, Form::Blanks).len());
    let wide_apart = |names: &Vec<String>| names.len() == count;
    // The time is of the first snapshot, and no name: it is no header of the wide form.
    let below = next.filter(|_| !begins_with_time);
    let fits = |names: &Vec<String>| columns_of(names, below, Form::Blanks, wanted).is_some();
    let chosen = match apart {
        apart if apart.len() < names.len() && wide_apart(&apart) && fits(&apart) => apart,
        _ if fits(&names) => names,
        _ => return None,
    };
    Some(at(line, Form::Blanks, Some(chosen)))
}

/// A header behind a comment mark has as many fields as the readings below it.
fn commented(lines: &[Line], data: &str, wanted: &Wanted, forced: Option<Form>) -> Option<Layout> {
    let line = lines.iter().rev().find_map(Line::comment)?;
    let form = forced.unwrap_or(form_of(line.text));
    let found = header_of(line, Some(data), wanted, forced)?;
    let names = found
        .names
        .clone()
        .unwrap_or_else(|| fields_of(line.text, form));
    (names.len() == fields_of(data, form).len()).then_some(found)
}

/// The columns that these names mean; `next` is the line below.
pub fn columns_of(
    names: &[String],
    next: Option<&str>,
    form: Form,
    wanted: &Wanted,
) -> Option<Columns> {
    if wanted.wide {
        return parse_wide(names, wanted).ok();
    }
    let long = parse_header(names, wanted, form == Form::Blanks).ok();
    long.or_else(|| {
        let below = fields_of(next?, form);
        is_numbers(&below).then(|| parse_wide(names, wanted).ok())?
    })
}

/// Whether a row of the wide form may be these: every field but the first is missing, or starts as a number does.
fn is_numbers(fields: &[String]) -> bool {
    fields.len() > 2 && fields[1..].iter().all(|field| is_number(field))
}

fn is_number(field: &str) -> bool {
    let field = field.trim();
    is_missing(field) || field.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
}

/// "09:05:01", "09:05:01 PM"
pub fn is_clock(word: &str) -> bool {
    let word = word.trim_end_matches(" AM").trim_end_matches(" PM");
    let parts: Vec<&str> = word.split(':').collect();
    let digits = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(digits)
}

/// The fields of one line.
pub fn fields_of(line: &str, form: Form) -> Vec<String> {
    match form {
        Form::Blanks => words_of_line(line),
        Form::Json => Vec::new(),
        Form::Separated(separator) => {
            let mut reader = csv::ReaderBuilder::new()
                .trim(csv::Trim::All)
                .has_headers(false)
                .flexible(true)
                .delimiter(separator)
                .from_reader(line.as_bytes());
            let first = reader
                .records()
                .next()
                .and_then(Result::ok)
                .unwrap_or_default();
            first.iter().map(str::to_owned).collect()
        }
    }
}

/// Words of a line, blanks between them; a word in quotes may hold blanks. A time and its AM or PM are one.
pub fn words_of_line(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let quoted = rest
            .strip_prefix('"')
            .and_then(|inner| inner.split_once('"'));
        let (word, after) = match quoted {
            Some(split) => split,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        let half = matches!(word, "AM" | "PM") && words.last().is_some_and(|last| is_clock(last));
        match words.last_mut().filter(|_| half) {
            Some(clock) => *clock = format!("{clock} {word}"),
            None => words.push(word.to_owned()),
        }
        rest = after.trim_start();
    }
    words
}

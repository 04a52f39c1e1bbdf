//! The arms: tables of the same rows, memory first and then what it costs, each with as many
//! columns as the width holds, so that no cell is broken; one block per arm when narrow.

use std::ops::Range;

use anstyle::Style;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::{BAD, DIM, OPEN, STACKED_BELOW, wrapped};
use crate::column::Column;
use crate::visible::shortened;
use crate::{Report, column_scales, heap, stall};
use series::estimate::Estimate;
use units::written;
use units::written::{ByteScale, MISSING};
use verdict::Label;
use verdict::cost::ArmCost;
use verdict::run::{ArmRow, RunVerdict};

/// Title of the column of names.
const HEADING: &str = "Arm (* control)";
/// Between two columns.
const GAP: usize = 2;
/// Longer arm names are shortened in tables.
const NAME_MAX: usize = 24;

/// Columns that are left out when they hold nothing, and their names in a sentence.
const OMITTED: &[(&str, &str)] = &[
    ("Lazy %", "LazyFree"),
    ("THP %", "huge pages"),
    ("major", "major faults"),
    ("Errors", "errors"),
    ("Requests/s", "requests"),
    ("p50 ms", "latency"),
    ("p99", "p99"),
    ("max", "longest request"),
    ("CPU user %", "user CPU"),
    ("system %", "system CPU"),
    ("Faults/s", "faults"),
];

/// One cell of the tables: its column's title, and its text.
type Field = (String, String);

/// What both forms show of an arm.
struct Line<'a> {
    row: &'a ArmRow,
    name: String,
    memory: Vec<Field>,
    costs: Vec<Field>,
    heap: Vec<Field>,
    stalls: Vec<Field>,
}

pub fn render(report: &Report, width: usize) -> String {
    let mut lines = lines(&report.verdict);
    let constant = take_constant(&mut lines, width);
    let Some(first) = lines.first() else {
        return String::new();
    };
    if width < STACKED_BELOW {
        return stacked(&lines) + &constant;
    }
    let names = lines
        .iter()
        .map(|line| line.name.chars().count())
        .max()
        .unwrap_or(0);
    let space = width - names.max(HEADING.len()) - GAP;
    let mut tables = Vec::new();
    for (title, of) in [
        (
            "",
            (|line: &Line| line.memory.clone()) as fn(&Line) -> Vec<Field>,
        ),
        ("", |line: &Line| line.costs.clone()),
        (heap::TITLE, |line: &Line| line.heap.clone()),
        (stall::arms::TITLE, |line: &Line| line.stalls.clone()),
    ] {
        let widths: Vec<usize> = (0..of(first).len())
            .map(|at| column_width(&lines, of, at))
            .collect();
        let titled = match title {
            "" => String::new(),
            title => format!("{DIM}{title}{DIM:#}\n"),
        };
        for columns in folded(&widths, space) {
            let table = table(&lines, |line| of(line)[columns.clone()].to_vec());
            tables.push(titled.clone() + &table);
        }
    }
    tables.join("\n\n") + "\n" + &constant
}

/// Takes out the columns that say the same nothing for every arm, and says so once.
fn take_constant(lines: &mut [Line], width: usize) -> String {
    let mut words = String::new();
    let nothings = [
        (&["0"][..], "None in any arm"),
        (&[MISSING], "Not measured"),
        (&["0", MISSING], "None where measured"),
    ];
    for (nothing, sentence) in nothings {
        let is_nothing = |title: &str| {
            let fields = |line: &Line| [line.memory.clone(), line.costs.clone()].concat();
            let mut texts = lines
                .iter()
                .flat_map(fields)
                .filter(|(t, _)| t == title)
                .peekable();
            texts.peek().is_some() && texts.all(|(_, text)| nothing.contains(&text.as_str()))
        };
        let titles: Vec<String> = OMITTED
            .iter()
            .filter(|(title, _)| is_nothing(title))
            .map(|(title, _)| title.to_string())
            .collect();
        if titles.is_empty() || lines.is_empty() {
            continue;
        }
        let name = |title: &String| {
            OMITTED
                .iter()
                .find(|(t, _)| t == title)
                .map_or("", |(_, name)| *name)
        };
        let names: Vec<&str> = titles.iter().map(name).collect();
        for line in wrapped(&format!("{sentence}: {}.", names.join(", ")), width, "  ") {
            words += &format!("{DIM}{line}{DIM:#}\n");
        }
        for line in lines.iter_mut() {
            line.memory.retain(|(title, _)| !titles.contains(title));
            line.costs.retain(|(title, _)| !titles.contains(title));
        }
    }
    words
}

/// Stretches of columns whose widths and gaps fit the space; at least one column each.
fn folded(widths: &[usize], space: usize) -> Vec<Range<usize>> {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    let mut used = usize::MAX / 2;
    for (at, width) in widths.iter().enumerate() {
        used += width;
        match stretches.last_mut().filter(|_| used <= space) {
            Some(stretch) => stretch.end = at + 1,
            None => {
                used = *width;
                stretches.push(at..at + 1);
            }
        }
        used += GAP;
    }
    stretches
}

fn column_width(lines: &[Line], of: fn(&Line) -> Vec<Field>, at: usize) -> usize {
    let widest = |(title, text): &Field| title.chars().count().max(text.chars().count());
    lines
        .iter()
        .map(|line| widest(&of(line)[at]))
        .max()
        .unwrap_or(0)
}

/// Known defects, early ends, restarts: what a number in a table would hide.
pub fn notes(report: &Report) -> Vec<(Style, String)> {
    let mut notes = Vec::new();
    for row in &report.verdict.arms {
        if let Some(why) = &row.aborted {
            notes.push((BAD, format!("{}: ended early: {why}", row.arm)));
        }
        if row.crashed + row.restarted > 0 {
            let of = written::counted(row.started as u64, "process", "processes");
            let words = format!(
                "{} ended unexpectedly, {} restarted",
                row.crashed, row.restarted
            );
            notes.push((OPEN, format!("{}: of {of} {words}", row.arm)));
        }
        notes.extend(
            row.defects
                .iter()
                .map(|d| (OPEN, format!("{}: known defect: {d}", row.arm))),
        );
    }
    notes
}

fn lines(verdict: &RunVerdict) -> Vec<Line<'_>> {
    let scales = column_scales(verdict);
    let line = |row| Line {
        row,
        name: name(row),
        memory: memory(verdict, row, scales),
        costs: costs(&row.cost),
        heap: fields(heap::columns(verdict, row)),
        stalls: fields(stall::arms::columns(verdict, row)),
    };
    verdict.arms.iter().map(line).collect()
}

fn field(column: Column) -> Field {
    let text = column.text();
    (column.title, text)
}

fn fields(columns: Vec<Column>) -> Vec<Field> {
    columns.into_iter().map(field).collect()
}

fn name(row: &ArmRow) -> String {
    let name = shortened(&row.arm, NAME_MAX);
    if row.is_control {
        format!("{name} *")
    } else {
        name
    }
}

fn memory(verdict: &RunVerdict, row: &ArmRow, scales: (ByteScale, ByteScale)) -> Vec<Field> {
    let (level, slope) = scales;
    let pair = verdict
        .pairs
        .iter()
        .find(|pair| pair.a == row.arm && pair.b != row.arm);
    let ratio = pair.and_then(|pair| pair.ratio);
    let against = match (row.is_control, ratio) {
        (true, _) => "1".to_string(),
        (false, Some(r)) => written::ratio(r.value, r.lo, r.hi).replace('x', ""),
        (false, None) => MISSING.to_string(),
    };
    let share =
        |share: Option<f64>| share.map_or(MISSING.to_string(), |s| written::short(s * 100.0));
    let estimate = |title: String, estimate, scale: ByteScale, number| {
        field(Column::estimate(&title, estimate, scale.bytes, number))
    };
    vec![
        estimate(
            format!("RSS {} [95 %]", level.word),
            row.memory.level,
            level,
            written::digits,
        ),
        ("Trend".to_string(), row.memory.label.word().to_string()),
        estimate(
            format!("{}/h [95 %]", slope.word),
            row.memory.slope_per_hour,
            slope,
            written::signed,
        ),
        ("x control".to_string(), against),
        ("Peak".to_string(), peak(row, level)),
        ("Lazy %".to_string(), share(row.cost.lazy_free_share)),
        ("THP %".to_string(), share(row.cost.huge_pages_share)),
    ]
}

fn peak(row: &ArmRow, scale: ByteScale) -> String {
    match row.rss_peak_bytes > 0.0 {
        true => scale.number(row.rss_peak_bytes),
        false => MISSING.to_string(),
    }
}

fn costs(cost: &ArmCost) -> Vec<Field> {
    let mean = |e: Option<Estimate>, of: f64| {
        e.map_or(MISSING.to_string(), |e| written::digits(e.value * of))
    };
    let count = |e: Option<Estimate>| e.map_or(MISSING.to_string(), |e| written::count(e.value));
    let quantile = |of: fn(&series::latency::Latency) -> u64| {
        cost.latency
            .as_ref()
            .map_or(MISSING.to_string(), |l| written::digits(of(l) as f64 / 1e6))
    };
    vec![
        ("CPU user %".to_string(), mean(cost.cpu_user, 100.0)),
        ("system %".to_string(), mean(cost.cpu_system, 100.0)),
        ("Faults/s".to_string(), count(cost.minor_faults_per_second)),
        ("major".to_string(), count(cost.major_faults_per_second)),
        ("p50 ms".to_string(), quantile(|l| l.p50_ns)),
        ("p99".to_string(), quantile(|l| l.p99_ns)),
        ("max".to_string(), quantile(|l| l.max_ns)),
        ("Requests/s".to_string(), count(cost.requests_per_second)),
        ("Errors".to_string(), errors(cost)),
    ]
}

/// Failed and dropped requests; unknown where no request was recorded at all.
fn errors(cost: &ArmCost) -> String {
    let errors = cost.errors.saturating_add(cost.dropped);
    match cost.latency.is_none() && errors == 0 {
        true => MISSING.to_string(),
        false => written::count(errors as f64),
    }
}

/// Without colour when the label says nothing good or bad.
fn colour(label: Label) -> Option<Color> {
    match label {
        Label::Flat | Label::Plateauing | Label::Sawtooth => Some(Color::DarkGreen),
        Label::Growing => Some(Color::DarkRed),
        Label::Stepped | Label::Variable | Label::Insufficient => Some(Color::DarkYellow),
    }
}

fn table(lines: &[Line], fields: impl Fn(&Line) -> Vec<Field>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.enforce_styling();
    let titles = lines.first().map(&fields).unwrap_or_default();
    let title = |text: &str| Cell::new(text).add_attribute(Attribute::Dim);
    let header = titles
        .iter()
        .map(|(text, _)| title(text).set_alignment(alignment(text)));
    table.set_header([title(HEADING)].into_iter().chain(header));
    for line in lines {
        let cell = |(title, text): &Field| {
            let cell = Cell::new(text).set_alignment(alignment(title));
            match colour(line.row.memory.label).filter(|_| title == "Trend") {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        };
        table.add_row(
            [Cell::new(&line.name)]
                .into_iter()
                .chain(fields(line).iter().map(cell)),
        );
    }
    let last = titles.len();
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { GAP as u16 }));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_string())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Intervals differ in length: their numbers line up on the left, plain numbers on the right.
fn alignment(title: &str) -> CellAlignment {
    match title.contains('[') || title == "Trend" || title == "x control" {
        true => CellAlignment::Left,
        false => CellAlignment::Right,
    }
}

fn stacked(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text += &format!("{}{}{:#}\n", super::BOLD, line.name, super::BOLD);
        for (title, value) in [&line.memory, &line.costs, &line.heap, &line.stalls]
            .into_iter()
            .flatten()
        {
            text += &format!("  {title:<16} {value}\n");
        }
        text.push('\n');
    }
    text.trim_end().to_string() + "\n"
}

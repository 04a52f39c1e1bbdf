//! The text of a metrics endpoint: OpenMetrics 1.0 and Prometheus 0.0.4, told apart by nothing.
//!
//! An own parser of some hundred lines: the prometheus-parse crate splits labels at every comma and
//! equals sign (also inside quotes), refuses names with a colon and forgets the type of OpenMetrics
//! counters; openmetrics-parser refuses a whole page for one bad line.

use std::collections::HashMap;

/// Lines of a page that are read.
const LINES_MAX: usize = 200_000;
/// Longest line. The name of a series in the record is shorter (`series::NAME_BYTES_MAX`).
const LINE_BYTES_MAX: usize = 16 << 10;
/// Labels of all series of a page: each takes ten times the memory of its text.
const LABELS_MAX: usize = 500_000;

/// Labels of one series, ordered by name.
pub type Labels = Vec<(String, String)>;

/// One line of the text. Timestamps and exemplars are left out: the time of the snapshot counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    pub labels: Labels,
    pub value: f64,
}

/// A whole page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    pub series: Vec<Series>,
    /// `# TYPE`: by family name.
    pub types: HashMap<String, String>,
    /// Lines that are no metric, comment or blank.
    pub bad_lines: usize,
    /// The first of them, for the message.
    pub first_bad: Option<String>,
    /// Lines beyond a limit, which are not read.
    pub beyond: usize,
    /// The limit that the first of them met.
    pub limit: Option<String>,
}

/// Reads as much as can be read; a bad line costs only itself.
pub fn parse_exposition(text: &str) -> Exposition {
    let mut writer = Exposition::default();
    let mut labels = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(limit) = limit_met(index, line, labels) {
            writer.beyond += usize::from(!line.is_empty());
            writer.limit.get_or_insert(limit);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.split_ascii_whitespace();
            if let (Some("TYPE"), Some(name), Some(kind)) =
                (words.next(), words.next(), words.next())
            {
                writer
                    .types
                    .insert(name.trim_matches('"').to_owned(), kind.to_owned());
            }
            continue;
        }
        match parse_series(line) {
            Some(series) => {
                labels += series.labels.len();
                writer.series.push(series);
            }
            None => {
                writer.bad_lines += 1;
                writer
                    .first_bad
                    .get_or_insert_with(|| line.chars().take(100).collect());
            }
        }
    }
    writer
}

/// The limit that a line is beyond: memory is bounded by these, not by the page alone.
fn limit_met(index: usize, line: &str, labels: usize) -> Option<String> {
    if index >= LINES_MAX {
        Some(format!("it has more than {LINES_MAX} lines"))
    } else if line.len() > LINE_BYTES_MAX {
        Some(format!("a line is longer than {LINE_BYTES_MAX} bytes"))
    } else if labels >= LABELS_MAX {
        Some(format!("its series have more than {LABELS_MAX} labels"))
    } else {
        None
    }
}

/// `name{label="value"} 1.5 [timestamp] [# exemplar]`, or `{"name",label="value"} 1.5`.
fn parse_series(line: &str) -> Option<Series> {
    let name_end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (mut name, mut rest) = (line[..name_end].to_owned(), line[name_end..].trim_start());
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        let (quoted, found, behind) = parse_labels(inside)?;
        if let Some(quoted) = quoted {
            name = quoted;
        }
        (labels, rest) = (found, behind);
    }
    if name.is_empty() || name.contains('"') {
        return None;
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    labels.sort();
    Some(Series {
        name,
        labels,
        value,
    })
}

/// What stands between the braces: (a quoted metric name, labels, the text behind the brace).
fn parse_labels(mut text: &str) -> Option<(Option<String>, Labels, &str)> {
    let (mut name, mut labels) = (None, Labels::new());
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if let Some(behind) = text.strip_prefix('}') {
            return Some((name, labels, behind));
        }
        let key = if text.starts_with('"') {
            let (quoted, behind) = parse_quoted(text)?;
            text = behind.trim_start();
            if !text.starts_with('=') {
                name = Some(quoted);
                continue;
            }
            quoted
        } else {
            let (key, behind) = text.split_at(text.find('=')?);
            text = behind;
            key.trim_end().to_owned()
        };
        let (value, behind) = parse_quoted(text.strip_prefix('=')?.trim_start())?;
        labels.push((key, value));
        text = behind;
    }
}

/// A quoted string with `\\`, `\"` and `\n`; the text behind it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 2..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

impl Series {
    /// `NAME{a="x",b="y"}`: the same text for the same series at every snapshot.
    pub fn full_name(&self) -> String {
        full_name(&self.name, &self.labels)
    }
}

/// Name and labels as one text.
pub fn full_name(name: &str, labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return name.to_owned();
    }
    let escape = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}=\"{}\"", escape(value)))
        .collect();
    format!("{name}{{{}}}", labels.join(","))
}

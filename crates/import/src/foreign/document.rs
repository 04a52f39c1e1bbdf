//! A document of JSON made into a table: lists of objects, of pairs of a time and a value, of rows under a list of
//! column names, and lists side by side. So write the command lines and interfaces of CloudWatch, Datadog, Prometheus,
//! Netdata, InfluxDB, Graphite, `sadf -j`.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};

use serde_json::{Deserializer, Map, Value};

use crate::ImportError;
use crate::header::{Header, Wanted};
use crate::records::flattened;
use crate::text::{HEAD_BYTES, Text};

use super::lines::csv_line;

/// A document is held as a whole, in about ten times its size.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;
/// Lists and objects within one another.
const DEPTH_MAX: usize = 12;

/// What distinguishes readings is short, and there is not much of it: it is kept for each list of them.
const LABEL_BYTES_MAX: usize = 256;
const LABELS_MAX: usize = 64;

const AN_OBJECT_A_LINE: &str = "give an object a line: jq -c '.[]' FILE | highwater verdict -";

/// Whether a text begins as JSON does.
pub fn may_be(head: &[u8]) -> bool {
    let text = head.trim_ascii_start();
    let next = text.get(1..).unwrap_or_default().trim_ascii_start();
    match text.first() {
        Some(b'{') => true,
        // "[2025-01-02 ...] ..." is a line of a log.
        Some(b'[') => next.first().is_none_or(|byte| b"{[]\"".contains(byte)),
        _ => false,
    }
}

/// The table of a document; the text as it was where it is an object a line.
///
/// # Errors
/// It is too large, broken, or holds no readings.
pub fn table_of<'a>(text: Text<'a>, wanted: &Wanted) -> Result<Text<'a>, ImportError> {
    let is_list = text.head.trim_ascii_start().starts_with(b"[");
    let has_lines = !is_list && has_objects_by_line(&text.head);
    if has_lines {
        return Ok(text);
    }
    let mut bytes = Vec::new();
    let mut whole = text.from(0).take(DOCUMENT_BYTES_MAX + 1);
    whole.read_to_end(&mut bytes).map_err(|error| {
        ImportError::new(1, 0, error.to_string(), "can the file be read to its end?")
    })?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        let what = format!(
            "a document of JSON of more than {} MiB",
            DOCUMENT_BYTES_MAX >> 20
        );
        return Err(ImportError::new(1, 0, what, AN_OBJECT_A_LINE));
    }
    let values: Result<Vec<Value>, _> = Deserializer::from_slice(&bytes).into_iter().collect();
    let values = match values {
        Ok(values) => values,
        Err(error) if is_list => {
            let what = format!("no list of JSON ({error})");
            let place = error.column().saturating_sub(1);
            return Err(ImportError::new(
                error.line() as u64,
                place,
                what,
                "is the file complete?",
            ));
        }
        // Read by line, it is said where it breaks.
        Err(_) => return Ok(of_bytes(bytes)),
    };
    let mut found = Found {
        wanted,
        tables: Vec::new(),
    };
    found.visit_all(&values, &[], 0);
    if !found.tables.is_empty() {
        return Ok(of_bytes(joined(&found.tables).into_bytes()));
    }
    let (what, next) = match is_list {
        true => ("a list of JSON without readings", AN_OBJECT_A_LINE),
        false if values.first().is_some_and(is_of_prometheus) => (
            "an answer of a Prometheus without readings over time",
            "ask the server itself: highwater verdict --prometheus URL",
        ),
        false => return Ok(of_bytes(bytes)),
    };
    Err(ImportError::new(1, 0, what, next))
}

fn is_of_prometheus(value: &Value) -> bool {
    value.get("status").is_some() && value.get("data").is_some()
}

/// Whether each of the first two lines is an object of its own.
fn has_objects_by_line(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_object = |line: &str| serde_json::from_str::<Map<String, Value>>(line).is_ok();
    match (lines.next(), lines.next()) {
        (Some(first), Some(second)) => is_object(first) && second.trim_start().starts_with('{'),
        _ => false,
    }
}

fn of_bytes<'a>(bytes: Vec<u8>) -> Text<'a> {
    let rest = bytes[HEAD_BYTES.min(bytes.len())..].to_vec();
    let mut head = bytes;
    head.truncate(HEAD_BYTES);
    Text::new(head, Box::new(Cursor::new(rest)))
}

type Label = (String, String);

/// Readings that are of one object of the document.
struct Table {
    /// What the objects around them say.
    labels: Vec<Label>,
    rows: Vec<Vec<Label>>,
}

struct Found<'a> {
    wanted: &'a Wanted,
    tables: Vec<Table>,
}

impl Found<'_> {
    fn visit_all(&mut self, values: &[Value], labels: &[Label], depth: usize) {
        let objects: Vec<&Map<String, Value>> =
            values.iter().filter_map(Value::as_object).collect();
        if !objects.is_empty() && objects.len() == values.len() {
            let rows: Vec<Vec<Label>> = objects.iter().map(|object| flattened(object)).collect();
            if self.are_readings(&rows[0]) {
                return self.add(labels, rows);
            }
        } else if let Some(rows) = pairs(values) {
            return self.add(labels, rows);
        }
        for value in values {
            self.visit(value, labels, depth + 1);
        }
    }

    fn visit(&mut self, value: &Value, labels: &[Label], depth: usize) {
        match value {
            _ if depth > DEPTH_MAX => {}
            Value::Array(values) => self.visit_all(values, labels, depth),
            Value::Object(object) => {
                let own = flattened(object)
                    .into_iter()
                    .filter(|(_, text)| text.len() <= LABEL_BYTES_MAX);
                let labels: Vec<Label> =
                    labels.iter().cloned().chain(own).take(LABELS_MAX).collect();
                if let Some(rows) = rows_under_names(object).or_else(|| side_by_side(object)) {
                    return self.add(&labels, rows);
                }
                let inner = object.values();
                inner.for_each(|value| self.visit(value, &labels, depth + 1));
            }
            _ => {}
        }
    }

    /// Whether an object has a time and a value.
    fn are_readings(&self, row: &[Label]) -> bool {
        let names: Vec<String> = row
            .iter()
            .map(|(name, _)| last_part(name).to_owned())
            .collect();
        let header = Header::new(&names);
        let is_number = |(_, text): &Label| text.parse::<f64>().is_ok();
        let has_time = header.time(self.wanted, false).is_ok()
            || names
                .iter()
                .any(|name| Some(name) == self.wanted.time.as_ref());
        has_time && row.iter().filter(|label| is_number(label)).count() >= 1
    }

    fn add(&mut self, labels: &[Label], rows: Vec<Vec<Label>>) {
        if !rows.is_empty() {
            let labels = labels.to_vec();
            self.tables.push(Table { labels, rows });
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Null => Some(String::new()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn scalars(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(scalar).collect()
}

/// `[[1700000000, "12.5"], ...]`, or the value first, as Graphite writes them.
fn pairs(values: &[Value]) -> Option<Vec<Vec<Label>>> {
    let pairs: Option<Vec<Vec<String>>> = values.iter().map(scalars).collect();
    let pairs = pairs.filter(|all| !all.is_empty() && all.iter().all(|pair| pair.len() == 2))?;
    let number = |at: usize| move |pair: &Vec<String>| pair[at].parse::<f64>().unwrap_or(f64::NAN);
    let rises = |at: usize| {
        let all: Vec<f64> = pairs.iter().map(number(at)).collect();
        all.windows(2).all(|two| two[1] > two[0]) && all.iter().all(|t| *t > 1e8)
    };
    let time = usize::from(!rises(0) && rises(1));
    let row = |pair: &Vec<String>| {
        let (time, value) = (pair[time].clone(), pair[1 - time].clone());
        vec![("time".to_owned(), time), ("value".to_owned(), value)]
    };
    Some(pairs.iter().map(row).collect())
}

/// Names of columns, and a list of rows.
fn rows_under_names(object: &Map<String, Value>) -> Option<Vec<Vec<Label>>> {
    let of = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
    let names = scalars(of(&["columns", "labels"])?)?;
    let rows = of(&["values", "data", "rows"])?.as_array()?;
    let row = |row: &Value| {
        let cells = scalars(row)?;
        Some(names.iter().cloned().zip(cells).collect())
    };
    rows.iter().map(row).collect()
}

/// `{"Timestamps": [...], "Values": [...]}`
fn side_by_side(object: &Map<String, Value>) -> Option<Vec<Vec<Label>>> {
    let lists = object.iter().filter_map(|(name, list)| {
        let name = match name.to_lowercase().as_str() {
            "timestamps" | "times" => "time".to_owned(),
            "values" => "value".to_owned(),
            _ => name.clone(),
        };
        Some((name, scalars(list).filter(|list| list.len() > 1)?))
    });
    let lists: Vec<(String, Vec<String>)> = lists.collect();
    let names: Vec<String> = lists.iter().map(|(name, _)| name.clone()).collect();
    let count = lists.first()?.1.len();
    let is_table = lists.len() > 1 && lists.iter().all(|(_, list)| list.len() == count);
    if !is_table || Header::new(&names).time(&Wanted::default(), false).is_err() {
        return None;
    }
    let row = |at: usize| {
        let cells = lists
            .iter()
            .map(|(name, list)| (name.clone(), list[at].clone()));
        cells.collect()
    };
    Some((0..count).map(row).collect())
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// One table of all: the columns of any, and who each is by what distinguishes their objects.
fn joined(tables: &[Table]) -> String {
    let names: BTreeSet<&str> = tables
        .iter()
        .flat_map(|table| table.rows.iter().flatten().map(|(name, _)| name.as_str()))
        .collect();
    // A part of a name is enough where it is the only one of that end.
    let is_alone = |name: &str| {
        names
            .iter()
            .filter(|other| last_part(other) == last_part(name))
            .count()
            == 1
    };
    let shown = |name: &str| {
        if is_alone(name) {
            last_part(name).to_owned()
        } else {
            name.to_owned()
        }
    };
    let (ids, unit) = (
        ids(tables),
        unit(tables).filter(|_| !names.contains("unit")),
    );
    let mut header: Vec<String> = names.iter().map(|name| shown(name)).collect();
    header.extend(ids.first().map(|_| "series".to_owned()));
    header.extend(unit.as_ref().map(|_| "unit".to_owned()));
    let mut text = csv_line(header.iter().map(String::as_str)) + "\n";
    for (at, table) in tables.iter().enumerate() {
        for row in &table.rows {
            let cell = |name: &&str| {
                row.iter()
                    .find(|(own, _)| own == name)
                    .map_or("", |(_, cell)| cell.as_str())
            };
            let cells = names.iter().map(cell);
            let beside = ids.get(at).into_iter().chain(&unit).map(String::as_str);
            text += &csv_line(cells.chain(beside));
            text.push('\n');
        }
    }
    text
}

/// What each table is called: by the shortest label that all have and no two the same, or by all that differ. Nothing
/// where one table is all there is, or none of their labels differ.
fn ids(tables: &[Table]) -> Vec<String> {
    if tables.len() < 2 {
        return Vec::new();
    }
    let label = |table: &'_ Table, name: &str| -> String {
        let mut labels = table.labels.iter();
        let found = labels.find(|(own, text)| own == name && text.parse::<f64>().is_err());
        found.map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let of =
        |name: &str| -> Vec<String> { tables.iter().map(|table| label(table, name)).collect() };
    let all: BTreeSet<&str> = tables
        .iter()
        .flat_map(|table| &table.labels)
        .map(|(name, _)| name.as_str())
        .collect();
    let differ: Vec<Vec<String>> = all
        .into_iter()
        .map(of)
        .filter(|texts| texts.iter().any(|text| *text != texts[0]))
        .collect();
    let is_own = |texts: &&Vec<String>| texts.iter().collect::<BTreeSet<_>>().len() == tables.len();
    let bytes = |texts: &&Vec<String>| texts.iter().map(|text| text.len()).sum::<usize>();
    if let Some(shortest) = differ.iter().filter(is_own).min_by_key(bytes) {
        return shortest.clone();
    }
    let joined = |at: usize| {
        let parts = differ
            .iter()
            .map(|texts| texts[at].as_str())
            .filter(|text| !text.is_empty());
        parts.collect::<Vec<_>>().join("/")
    };
    match differ.is_empty() {
        true => Vec::new(),
        false => (0..tables.len()).map(joined).collect(),
    }
}

/// The unit that the objects around all readings say.
fn unit(tables: &[Table]) -> Option<String> {
    let of = |table: &Table| {
        let found = table
            .labels
            .iter()
            .find(|(name, _)| last_part(name).eq_ignore_ascii_case("unit"));
        found.map(|(_, unit)| unit.clone())
    };
    let first = of(tables.first()?)?;
    tables
        .iter()
        .all(|table| of(table).as_ref() == Some(&first))
        .then_some(first)
}

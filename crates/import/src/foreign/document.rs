//! A document of JSON made into a table: lists of objects, of pairs of a time and a value, of rows under a list of
//! column names, and lists side by side. So write the command lines and interfaces of CloudWatch, Datadog, Prometheus,
//! Netdata, InfluxDB, Graphite, `sadf -j`.

use std::collections::{BTreeSet, HashMap};
use std::io::{Cursor, Read};

use serde_json::{Deserializer, Map, Value};

use crate::ImportError;
use crate::columns::COLUMNS_MAX;
use crate::header::{Header, Wanted};
use crate::layout::is_instant;
use crate::records::flattened;
use crate::text::{HEAD_BYTES, Text};

use super::lines::csv_line;

/// A document is held as a whole, in about ten times its size.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;
/// Lists and objects within one another.
const DEPTH_MAX: usize = 12;

/// What distinguishes readings is short, and there is not much of it: it is kept for each list of them.
const LABEL_BYTES_MAX: usize = 256;
const LABELS_MAX: usize = 16;
/// Lists of readings; and cells of the table that is made of them.
const TABLES_MAX: usize = 10_000;
const CELLS_MAX: usize = 20_000_000;

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
    found.visit_all("", &values, &[], 0);
    if !found.tables.is_empty() {
        return joined(&found.tables).map(|text| of_bytes(text.into_bytes()));
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
    fn visit_all(&mut self, key: &str, values: &[Value], labels: &[Label], depth: usize) {
        let objects: Vec<&Map<String, Value>> =
            values.iter().filter_map(Value::as_object).collect();
        if !objects.is_empty() && objects.len() == values.len() {
            let rows: Vec<Vec<Label>> = objects.iter().map(|object| flattened(object)).collect();
            if self.are_readings(&rows[0]) {
                return self.add(labels, rows);
            }
        } else if let Some(rows) = pairs(key, values) {
            return self.add(labels, rows);
        }
        for value in values {
            self.visit(key, value, labels, depth + 1);
        }
    }

    fn visit(&mut self, key: &str, value: &Value, labels: &[Label], depth: usize) {
        match value {
            _ if depth > DEPTH_MAX || self.tables.len() >= TABLES_MAX => {}
            Value::Array(values) => self.visit_all(key, values, labels, depth),
            Value::Object(object) => {
                let own = flattened(object)
                    .into_iter()
                    .filter(|(name, text)| name.len().max(text.len()) <= LABEL_BYTES_MAX);
                let labels: Vec<Label> =
                    labels.iter().cloned().chain(own).take(LABELS_MAX).collect();
                if let Some(rows) = rows_under_names(object).or_else(|| side_by_side(object)) {
                    return self.add(&labels, rows);
                }
                for (key, value) in object {
                    self.visit(key, value, &labels, depth + 1);
                }
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

/// `[[1700000000, "12.5"], ...]`, or the value first, as Graphite writes them under `datapoints`.
fn pairs(key: &str, values: &[Value]) -> Option<Vec<Vec<Label>>> {
    let pairs: Option<Vec<Vec<String>>> = values.iter().map(scalars).collect();
    let pairs = pairs.filter(|all| !all.is_empty() && all.iter().all(|pair| pair.len() == 2))?;
    let are_times = |at: &usize| pairs.iter().all(|pair| is_instant(&pair[*at]));
    let first = usize::from(key == "datapoints");
    let time = [first, 1 - first].into_iter().find(are_times)?;
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

/// What a name is shown as: its last part, where that is the only one, and says what it is.
fn shown(names: &BTreeSet<&str>) -> Vec<String> {
    const SAY_NOTHING: &[&str] = &[
        "value", "used", "usage", "current", "average", "memory", "mem",
    ];
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for name in names {
        *ends.entry(last_part(name)).or_default() += 1;
    }
    let shown = |name: &&str| {
        let last = last_part(name);
        let is_enough = ends[last] == 1 && !SAY_NOTHING.contains(&last.to_lowercase().as_str());
        if is_enough {
            last.to_owned()
        } else {
            (*name).to_owned()
        }
    };
    names.iter().map(shown).collect()
}

/// One table of all: the columns of any, and who each is by what distinguishes their objects.
///
/// # Errors
/// It would be far larger than the document.
fn joined(tables: &[Table]) -> Result<String, ImportError> {
    let rows: usize = tables.iter().map(|table| table.rows.len()).sum();
    let names = tables.iter().flat_map(|table| table.rows.iter().flatten());
    let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
    if names.len() > COLUMNS_MAX || names.len().saturating_mul(rows) > CELLS_MAX {
        let what = format!("{} names in {rows} objects are no table", names.len());
        return Err(ImportError::new(1, 0, what, AN_OBJECT_A_LINE));
    }
    let (ids, unit) = (
        ids(tables),
        unit(tables).filter(|_| !names.contains("unit")),
    );
    let mut header = shown(&names);
    header.extend(ids.first().map(|_| "series".to_owned()));
    header.extend(unit.as_ref().map(|_| "unit".to_owned()));
    let mut text = csv_line(header.iter().map(String::as_str)) + "\n";
    for (at, table) in tables.iter().enumerate() {
        for row in &table.rows {
            let own: HashMap<&str, &str> = row
                .iter()
                .map(|(name, cell)| (name.as_str(), cell.as_str()))
                .collect();
            let cells = names
                .iter()
                .map(|name| own.get(name).copied().unwrap_or(""));
            let beside = ids.get(at).into_iter().chain(&unit).map(String::as_str);
            text += &csv_line(cells.chain(beside));
            text.push('\n');
        }
    }
    Ok(text)
}

/// What each table is called: by the shortest label that all have and no two the same, or by all that differ; numbers
/// only where nothing else distinguishes them. Nothing where one table is all there is.
fn ids(tables: &[Table]) -> Vec<String> {
    if tables.len() < 2 {
        return Vec::new();
    }
    let by_words = ids_by(tables, |text| text.parse::<f64>().is_err());
    if is_unique(&by_words) {
        return by_words;
    }
    let by_all = ids_by(tables, |_| true);
    if is_unique(&by_all) {
        return by_all;
    }
    let numbered = by_all.iter().enumerate();
    numbered.map(|(at, id)| format!("{id}#{at}")).collect()
}

fn is_unique(ids: &[String]) -> bool {
    ids.iter().collect::<BTreeSet<_>>().len() == ids.len()
}

/// By labels with such texts.
fn ids_by(tables: &[Table], counts: impl Fn(&str) -> bool) -> Vec<String> {
    let label = |table: &Table, name: &str| -> String {
        let mut labels = table.labels.iter();
        let found = labels.find(|(own, text)| own == name && counts(text));
        found.map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let of =
        |name: &str| -> Vec<String> { tables.iter().map(|table| label(table, name)).collect() };
    // One that none has in common with the first few says nothing of all.
    let all: BTreeSet<&str> = tables[..tables.len().min(2)]
        .iter()
        .flat_map(|table| table.labels.iter())
        .map(|(name, _)| name.as_str())
        .collect();
    let differ: Vec<Vec<String>> = all
        .into_iter()
        .map(of)
        .filter(|texts| texts.iter().any(|text| *text != texts[0]))
        .collect();
    let bytes = |texts: &&Vec<String>| texts.iter().map(String::len).sum::<usize>();
    let own = differ.iter().filter(|texts| is_unique(texts));
    if let Some(shortest) = own.min_by_key(bytes) {
        return shortest.clone();
    }
    let joined = |at: usize| {
        let parts = differ
            .iter()
            .map(|texts| texts[at].as_str())
            .filter(|text| !text.is_empty());
        parts.collect::<Vec<_>>().join("/")
    };
    (0..tables.len()).map(joined).collect()
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

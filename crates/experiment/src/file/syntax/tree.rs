//! The tree of an experiment file: values with their places, in the order of the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Fault, Place};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub struct Node {
    pub value: Value,
    pub place: Place,
    /// For a value typed after `--set key=`: the bare text, since `5` may have been meant as a word.
    pub bare: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    /// Beyond i64 only when somebody wrote nonsense; kept wide so that the message can say so.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    /// Dates and times: never wanted, kept for the message.
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// For messages: "is a list, not a text".
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "true or false",
            Value::Date(_) => "a date or time",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Keys with their values, in the order of the text.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub key_place: Place,
    pub node: Node,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// Parses the text of source number `source`; every syntax error it can recover from is reported.
pub fn parse_table(text: &str, source: usize) -> Result<Table, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(table_of(table.into_inner(), &At { source, offset: 0 }));
    }
    Err(errors
        .iter()
        .map(|error| fault_of(error, source, 0))
        .collect())
}

/// Parses one TOML value that stands at byte `offset` of its source; `None` when it is no TOML value.
pub fn parse_value(text: &str, source: usize, offset: usize) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    Some(node_of(value, &At { source, offset }))
}

/// Parses a dotted key ("subject.stop.grace", "arms.\"a b\".command") to its parts.
pub fn parse_key(text: &str) -> Option<Vec<String>> {
    if text.contains('\n') {
        return None;
    }
    let line = format!("{text} = 0");
    let mut table = DeTable::parse(&line).ok()?.into_inner();
    let mut parts = Vec::new();
    loop {
        let (key, value) = std::mem::take(&mut table).into_iter().next()?;
        parts.push(key.into_inner().into_owned());
        match value.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return Some(parts),
        }
    }
}

/// Where the text of a tree stands.
struct At {
    source: usize,
    offset: usize,
}

impl At {
    fn place(&self, span: Range<usize>) -> Place {
        Place {
            source: self.source,
            start: span.start + self.offset,
            end: span.end + self.offset,
        }
    }
}

fn fault_of(error: &toml::de::Error, source: usize, offset: usize) -> Fault {
    let place = At { source, offset }.place(error.span().unwrap_or(0..0));
    Fault {
        place,
        message: format!("not TOML: {}", error.message().replace('\n', "; ")),
        help: None,
    }
}

fn table_of(table: DeTable<'_>, at: &At) -> Table {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| Entry {
            key_place: at.place(key.span()),
            key: key.into_inner().into_owned(),
            node: node_of(value, at),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_place);
    Table { entries }
}

/// Recursion is bounded by the TOML parser's own limit on nesting (80).
fn node_of(value: Spanned<DeValue<'_>>, at: &At) -> Node {
    let place = at.place(value.span());
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            match i128::from_str_radix(&digits, number.radix()) {
                Ok(value) => Value::Integer(value),
                Err(_) => Value::Float(f64::INFINITY),
            }
        }
        DeValue::Float(number) => {
            Value::Float(number.as_str().replace('_', "").parse().unwrap_or(f64::NAN))
        }
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node_of(item, at)).collect())
        }
        DeValue::Table(table) => Value::Table(table_of(table, at)),
    };
    Node {
        value,
        place,
        bare: None,
    }
}

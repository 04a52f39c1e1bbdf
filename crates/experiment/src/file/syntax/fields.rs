//! Typed reading of one table of the experiment file. A wrong value is noted and read as absent, so that one
//! pass finds as many problems as it can.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::problem::{Fault, Place, Placed};
use super::tree::{Entry, Node, Table, Value};
use units::wording::{nearest, quoted};
use units::{parse_bytes, parse_duration};

/// Longest text and longest list of an experiment file; far above any real one.
const TEXT_BYTES_MAX: usize = 64 * 1024;
const LIST_ITEMS_MAX: usize = 10_000;

/// Where problems are noted while the file is read.
#[derive(Debug, Default)]
pub struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub fn note(&self, place: Place, message: impl Into<String>) {
        self.0.borrow_mut().push(Fault {
            place,
            message: message.into(),
            help: None,
        });
    }

    pub fn note_with_help(
        &self,
        place: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let fault = Fault {
            place,
            message: message.into(),
            help: Some(help.into()),
        };
        self.0.borrow_mut().push(fault);
    }

    pub fn into_inner(self) -> Vec<Fault> {
        self.0.into_inner()
    }
}

/// One table whose keys are known.
pub struct Fields<'a> {
    table: &'a Table,
    /// The table itself, for what is missing in it.
    pub place: Place,
    /// Keys that were refused: a required one may be among them, misspelt.
    pub unknown: usize,
    faults: &'a Faults,
}

impl<'a> Fields<'a> {
    /// Notes every key that is not among `known`; `name` is the table's, for the message: `[subject]`.
    pub fn new(
        table: &'a Table,
        place: Place,
        name: &str,
        known: &[&str],
        faults: &'a Faults,
    ) -> Fields<'a> {
        let mut unknown = 0;
        for entry in table
            .entries
            .iter()
            .filter(|entry| !known.contains(&entry.key.as_str()))
        {
            unknown += 1;
            let what = format!("unknown key {} in {name}", quoted(&entry.key));
            match nearest(&entry.key, known.iter().copied()) {
                Some(near) => {
                    faults.note(entry.key_place, format!("{what}; did you mean `{near}`?"))
                }
                None => faults.note_with_help(
                    entry.key_place,
                    what,
                    format!("known: {}", known.join(", ")),
                ),
            }
        }
        Fields {
            table,
            place,
            unknown,
            faults,
        }
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Where the key stands, or the table when it is absent.
    pub fn place_of(&self, key: &str) -> Place {
        self.table
            .get(key)
            .map_or(self.place, |entry| entry.key_place)
    }

    /// A text; a number typed after `--set` counts as one.
    pub fn text(&self, key: &str) -> Option<Placed<String>> {
        let entry = self.table.get(key)?;
        self.text_of(&entry.node, key)
    }

    /// A list of texts, or one text alone.
    pub fn texts(&self, key: &str) -> Vec<Placed<String>> {
        let Some(entry) = self.table.get(key) else {
            return Vec::new();
        };
        match &entry.node.value {
            Value::List(items) => items
                .iter()
                .take(LIST_ITEMS_MAX)
                .filter_map(|item| self.text_of(item, key))
                .collect(),
            _ => self.text_of(&entry.node, key).into_iter().collect(),
        }
    }

    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<Placed<u64>> {
        let entry = self.table.get(key)?;
        let value = self.integer_of(&entry.node, key)?;
        match u64::try_from(value)
            .ok()
            .filter(|value| range.contains(value))
        {
            Some(value) => Some(Placed {
                value,
                place: entry.node.place,
            }),
            None => {
                let (low, high) = (range.start(), range.end());
                let bounds = match *high {
                    u64::MAX if value < i128::from(*low) => format!("at least {low}"),
                    u64::MAX => "less than 2^64".to_owned(),
                    _ => format!("{low} to {high}"),
                };
                self.fault(entry, format!("`{key}` is {value}; it must be {bounds}"))
            }
        }
    }

    pub fn integers(&self, key: &str) -> Vec<Placed<i128>> {
        let Some(entry) = self.table.get(key) else {
            return Vec::new();
        };
        let one = std::slice::from_ref(&entry.node);
        let items = match &entry.node.value {
            Value::List(items) => items.as_slice(),
            _ => one,
        };
        let number = |item: &Node| {
            let value = self.integer_of(item, key)?;
            Some(Placed {
                value,
                place: item.place,
            })
        };
        items
            .iter()
            .take(LIST_ITEMS_MAX)
            .filter_map(number)
            .collect()
    }

    pub fn boolean(&self, key: &str) -> Option<bool> {
        let entry = self.table.get(key)?;
        match &entry.node.value {
            Value::Boolean(value) => Some(*value),
            other => self.wrong(&entry.node, key, "true or false", other),
        }
    }

    /// "90s", "1h30m"; a bare number is refused.
    pub fn duration(&self, key: &str) -> Option<Placed<Duration>> {
        self.measured(key, "a duration such as \"4m\"", parse_duration)
    }

    /// "512MiB", or a whole number of bytes.
    pub fn bytes(&self, key: &str) -> Option<Placed<u64>> {
        self.measured(key, "a size such as \"512MiB\"", parse_bytes)
    }

    /// A finite number, or a text that `unit` reads ("20ms" where nanoseconds are meant).
    pub fn number(&self, key: &str, unit: impl Fn(&str) -> Result<f64, String>) -> Option<f64> {
        let entry = self.table.get(key)?;
        match &entry.node.value {
            Value::Integer(value) => Some(*value as f64),
            Value::Float(value) if value.is_finite() => Some(*value),
            Value::Float(value) => self.fault(entry, format!("`{key}` is {value}, not a number")),
            Value::Text(text) => match unit(text) {
                Ok(value) => Some(value),
                Err(message) => self.fault(entry, format!("`{key}`: {message}")),
            },
            other => self.wrong(&entry.node, key, "a number", other),
        }
    }

    /// One word of a few.
    pub fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(key)?;
        self.word_of(&text, key, words)
    }

    pub fn word_of<T: Copy>(
        &self,
        text: &Placed<String>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let message = match nearest(&text.value, names.iter().copied()) {
            Some(near) => format!("`{key}` is {}; did you mean `{near}`?", quoted(&text.value)),
            None => format!(
                "`{key}` is {}; known: {}",
                quoted(&text.value),
                names.join(", ")
            ),
        };
        self.faults.note(text.place, message);
        None
    }

    /// A table of names and texts: an environment. Whole numbers count as texts (`MALLOC_ARENA_MAX = 2`).
    pub fn environment(&self, key: &str) -> BTreeMap<String, Placed<String>> {
        let Some((table, _)) = self.table(key) else {
            return BTreeMap::new();
        };
        let mut environment = BTreeMap::new();
        for entry in &table.entries {
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                let message = format!("{} cannot name an environment variable", quoted(&entry.key));
                self.faults.note(entry.key_place, message);
                continue;
            }
            let place = entry.node.place;
            let value = match &entry.node.value {
                Value::Integer(number) => Some(Placed {
                    value: number.to_string(),
                    place,
                }),
                _ => self.text_of(&entry.node, &entry.key),
            };
            environment.extend(value.map(|value| (entry.key.clone(), value)));
        }
        environment
    }

    /// A table inside this one.
    pub fn table(&self, key: &str) -> Option<(&'a Table, Place)> {
        let entry = self.table.get(key)?;
        match &entry.node.value {
            Value::Table(table) => Some((table, entry.key_place)),
            other => self.wrong(&entry.node, key, &format!("a table [{key}]"), other),
        }
    }

    /// `[[key]]` as often as it is written.
    pub fn tables(&self, key: &str) -> Vec<(&'a Table, Place)> {
        let Some(entry) = self.table.get(key) else {
            return Vec::new();
        };
        let Value::List(items) = &entry.node.value else {
            let _: Option<()> = self.wrong(
                &entry.node,
                key,
                &format!("a list [[{key}]]"),
                &entry.node.value,
            );
            return Vec::new();
        };
        let table = |item: &'a Node| match &item.value {
            Value::Table(table) => Some((table, item.place)),
            other => self.wrong(item, key, "a table", other),
        };
        items.iter().filter_map(table).collect()
    }

    /// The node itself, for a value of several shapes.
    pub fn node(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key).map(|entry| &entry.node)
    }

    /// Notes the value as of the wrong kind.
    pub fn wrong<T>(&self, node: &Node, key: &str, wanted: &str, got: &Value) -> Option<T> {
        self.faults.note(
            node.place,
            format!("`{key}` must be {wanted}, but is {}", got.kind()),
        );
        None
    }

    pub fn text_of(&self, node: &Node, key: &str) -> Option<Placed<String>> {
        let text = match (&node.value, &node.bare) {
            (Value::Text(text), _) => text,
            (Value::List(_) | Value::Table(_), _) | (_, None) => {
                return self.wrong(node, key, "a text", &node.value);
            }
            (_, Some(bare)) => bare,
        };
        if text.contains('\0') {
            self.faults
                .note(node.place, format!("`{key}` holds a NUL character"));
            return None;
        }
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("`{key}` is longer than {} KiB", TEXT_BYTES_MAX / 1024);
            self.faults.note(node.place, message);
            return None;
        }
        Some(Placed {
            value: text.clone(),
            place: node.place,
        })
    }

    fn integer_of(&self, node: &Node, key: &str) -> Option<i128> {
        match &node.value {
            Value::Integer(value) => Some(*value),
            // TOML's whole numbers end at 2^63; a larger one (a seed) is written as a text.
            Value::Text(digits) if digits.parse::<u64>().is_ok_and(|n| n > i64::MAX as u64) => {
                digits.parse().ok()
            }
            other => self.wrong(node, key, "a whole number", other),
        }
    }

    fn measured<T>(
        &self,
        key: &str,
        wanted: &str,
        parse: fn(&str) -> Result<T, units::ParseError>,
    ) -> Option<Placed<T>> {
        let entry = self.table.get(key)?;
        let text = match &entry.node.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => return self.wrong(&entry.node, key, wanted, other),
        };
        match parse(&text) {
            Ok(value) => Some(Placed {
                value,
                place: entry.node.place,
            }),
            Err(message) => self.fault(entry, format!("`{key}`: {message}")),
        }
    }

    fn fault<T>(&self, entry: &Entry, message: String) -> Option<T> {
        self.faults.note(entry.node.place, message);
        None
    }
}

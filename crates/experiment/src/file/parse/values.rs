//! Values that several tables have: commands, environments, addresses, expressions.

use std::collections::BTreeMap;

use regex::Regex;

use crate::file::command::parse_command;
use crate::file::placeholder;
use crate::file::placeholder::Moment;
use crate::file::syntax::fields::{Faults, Fields};
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::{Node, Value};
use units::wording::quoted;

/// `status` beside an `http`, 200 unless it says otherwise.
pub fn status(fields: &Fields, faults: &Faults) -> u16 {
    if fields.has("status") && !fields.has("http") {
        faults.note(fields.place_of("status"), "`status` belongs to `http`");
    }
    let status = fields.integer("status", 100..=599);
    status
        .and_then(|status| u16::try_from(status.value).ok())
        .unwrap_or(200)
}

/// A command: a list as it stands, or a text split into words.
pub fn command(fields: &Fields, key: &str, moment: Moment, faults: &Faults) -> Option<Vec<String>> {
    let node = fields.node(key)?;
    command_of(fields, node, key, moment, faults)
}

/// A list of commands, each a list or a text.
pub fn commands(fields: &Fields, key: &str, moment: Moment, faults: &Faults) -> Vec<Vec<String>> {
    let Some(node) = fields.node(key) else {
        return Vec::new();
    };
    match &node.value {
        Value::List(items) => items
            .iter()
            .filter_map(|item| command_of(fields, item, key, moment, faults))
            .collect(),
        other => fields
            .wrong(node, key, "a list of commands", other)
            .unwrap_or_default(),
    }
}

fn command_of(
    fields: &Fields,
    node: &Node,
    key: &str,
    moment: Moment,
    faults: &Faults,
) -> Option<Vec<String>> {
    let words: Vec<Placed<String>> = match &node.value {
        Value::List(items) => items
            .iter()
            .filter_map(|item| fields.text_of(item, key))
            .collect(),
        _ => {
            let text = fields.text_of(node, key)?;
            let words = noted(parse_command(&text.value), text.place, faults)?;
            words
                .into_iter()
                .map(|value| Placed {
                    value,
                    place: text.place,
                })
                .collect()
        }
    };
    for word in &words {
        placeholders(word, moment, faults);
    }
    if words.first().is_none_or(|program| program.value.is_empty()) {
        faults.note(node.place, format!("`{key}` names no program"));
        return None;
    }
    Some(words.into_iter().map(|word| word.value).collect())
}

pub fn environment(fields: &Fields, moment: Moment, faults: &Faults) -> BTreeMap<String, String> {
    let environment = fields.environment("environment");
    for value in environment.values() {
        placeholders(value, moment, faults);
    }
    environment
        .into_iter()
        .map(|(name, value)| (name, value.value))
        .collect()
}

pub fn check_url(url: &Placed<String>, key: &str, faults: &Faults) {
    placeholders(url, Moment::Running, faults);
    let rest = url
        .value
        .strip_prefix("http://")
        .or_else(|| url.value.strip_prefix("https://"));
    let good = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    if !good
        || url
            .value
            .contains(|c: char| c.is_whitespace() || c.is_control())
    {
        let message = format!(
            "`{key}` is {}; write http://127.0.0.1:{{port}}/path",
            quoted(&url.value)
        );
        faults.note(url.place, message);
    }
}

pub fn placeholders(text: &Placed<String>, moment: Moment, faults: &Faults) {
    noted(placeholder::check(&text.value, moment), text.place, faults);
}

pub fn regex(fields: &Fields, key: &str, faults: &Faults) -> Option<String> {
    let text = fields.text(key)?;
    if let Err(error) = Regex::new(&text.value) {
        // The crate's message draws the expression on several lines; the reason is the last.
        let words = error.to_string();
        let reason = words
            .lines()
            .last()
            .unwrap_or("")
            .trim_start_matches("error: ")
            .to_owned();
        faults.note(
            text.place,
            format!("`{key}` is no regular expression: {reason}"),
        );
    }
    Some(text.value)
}

/// The value, or its error noted at a place.
pub fn noted<T>(result: Result<T, String>, place: Place, faults: &Faults) -> Option<T> {
    result.map_err(|message| faults.note(place, message)).ok()
}

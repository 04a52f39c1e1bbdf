//! What one variant of the subject sets: allocator, environment, arguments, command. An arm has it, and a level of a
//! factor.

use std::collections::BTreeMap;

use super::values::{command, environment, placeholders};
use super::{Context, NAME_BYTES_MAX};
use crate::file::placeholder::Moment;
use crate::file::syntax::fields::Fields;
use crate::file::syntax::problem::Place;
use crate::file::syntax::tree::Table;

/// What an arm, or a level of a factor, sets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Setting {
    pub allocator: Option<String>,
    pub environment: BTreeMap<String, String>,
    pub arguments: Vec<String>,
    pub command: Option<Vec<String>>,
    pub curve: Option<String>,
}

const SETTING_KEYS: &[&str] = &["allocator", "environment", "arguments", "command", "curve"];

/// What a level of a factor sets.
pub fn setting(table: &Table, place: Place, context: &Context) -> Setting {
    let fields = Fields::new(table, place, "the level", SETTING_KEYS, context.faults);
    setting_of(&fields, context)
}

pub fn setting_of(fields: &Fields, context: &Context) -> Setting {
    let arguments = fields.texts("arguments");
    for argument in &arguments {
        placeholders(argument, Moment::BeforeStart, context.faults);
    }
    Setting {
        allocator: allocator(fields, context),
        environment: environment(fields, Moment::BeforeStart, context.faults),
        arguments: arguments
            .into_iter()
            .map(|argument| argument.value)
            .collect(),
        command: command(fields, "command", Moment::BeforeStart, context.faults),
        curve: fields.text("curve").map(|curve| curve.value),
    }
}

/// Letters, digits and . _ + @ -, the first a letter or a digit.
pub fn is_arm_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._+@-".contains(c);
    name.chars().all(fits)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME_BYTES_MAX
}

fn allocator(fields: &Fields, context: &Context) -> Option<String> {
    let allocator = fields.text("allocator")?;
    // A path is the user's own library: whether it is there and fits is found out before the start.
    if !allocator.value.contains('/')
        && let Err(message) = (context.known)(&allocator.value)
    {
        context.faults.note(allocator.place, message);
    }
    Some(allocator.value)
}

//! `[[arms]]`.

use std::collections::BTreeMap;

use super::values::{command, environment, placeholders};
use super::{Context, NAME_BYTES_MAX};
use crate::file::placeholder::Moment;
use crate::file::syntax::fields::Fields;
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::Table;
use crate::file::{Arm, LIFE, Over, Prediction};
use units::wording::quoted;

/// More arms than that cannot be told apart in one chart, nor run on one machine.
const ARMS_MAX: usize = 64;
const KEYS: &[&str] = &[
    "name",
    "allocator",
    "environment",
    "arguments",
    "command",
    "curve",
    "prediction",
];
/// What an arm runs unless it says otherwise: the program as it comes, whatever it is linked with.
const ALLOCATOR: &str = "";

/// Every arm with its place, in the order of the file.
pub fn parse(top: &Fields, context: &Context) -> Vec<Placed<Arm>> {
    let tables = top.tables("arms");
    if tables.is_empty() && (!top.has("arms") || top.node("arms").is_some_and(is_empty_list)) {
        context.faults.note_with_help(
            top.place_of("arms"),
            "the experiment has no arms",
            "add at least one: [[arms]] with name = \"glibc\"",
        );
    }
    if tables.len() > ARMS_MAX {
        let message = format!("{} arms; at most {ARMS_MAX} can be compared", tables.len());
        context.faults.note(top.place_of("arms"), message);
    }
    let mut seen: BTreeMap<String, Place> = BTreeMap::new();
    let arm = |(table, place): (&Table, Place)| {
        let arm = one(table, place, context);
        if !arm.value.name.is_empty() && seen.insert(arm.value.name.clone(), arm.place).is_some() {
            let message = format!(
                "two arms are called {}; give this one another name",
                quoted(&arm.value.name)
            );
            context.faults.note(arm.place, message);
        }
        arm
    };
    tables.into_iter().take(ARMS_MAX).map(arm).collect()
}

fn is_empty_list(node: &crate::file::syntax::tree::Node) -> bool {
    use crate::file::syntax::tree::Value;
    matches!(&node.value, Value::List(items) if items.is_empty())
}

fn one(table: &Table, place: Place, context: &Context) -> Placed<Arm> {
    let fields = Fields::new(table, place, "[[arms]]", KEYS, context.faults);
    let name = name(&fields, context);
    let arguments = fields.texts("arguments");
    for argument in &arguments {
        placeholders(argument, Moment::BeforeStart, context.faults);
    }
    let arm = Arm {
        name: name.value,
        allocator: allocator(&fields, context),
        environment: environment(&fields, Moment::BeforeStart, context.faults),
        arguments: arguments
            .into_iter()
            .map(|argument| argument.value)
            .collect(),
        command: command(&fields, "command", Moment::BeforeStart, context.faults),
        curve: fields.text("curve").map(|curve| curve.value),
        prediction: prediction(&fields, context),
    };
    Placed {
        value: arm,
        place: name.place,
    }
}

/// `prediction = { mean = "53MiB", lo = "48MiB", hi = "59MiB", over = "10m" }`.
fn prediction(fields: &Fields, context: &Context) -> Option<Prediction> {
    const KEYS: &[&str] = &["mean", "lo", "hi", "over"];
    let (table, place) = fields.table("prediction")?;
    let own = Fields::new(table, place, "`prediction`", KEYS, context.faults);
    if let Some(absent) = KEYS[..3].iter().find(|key| !own.has(key)) {
        let message = format!("`prediction` has no `{absent}`");
        let example = "prediction = { mean = \"53MiB\", lo = \"48MiB\", hi = \"59MiB\" }";
        context.faults.note_with_help(place, message, example);
        return None;
    }
    let bytes = |key| own.bytes(key).map(|bytes| bytes.value);
    let prediction = Prediction {
        mean_bytes: bytes("mean")?,
        lo_bytes: bytes("lo")?,
        hi_bytes: bytes("hi")?,
        over: over(&own, context)?,
    };
    let Prediction {
        mean_bytes,
        lo_bytes,
        hi_bytes,
        ..
    } = prediction;
    if lo_bytes > mean_bytes || mean_bytes > hi_bytes {
        let message = "`prediction` has `mean` outside of `lo` to `hi`";
        context.faults.note(place, message);
        return None;
    }
    Some(prediction)
}

/// A time, or "life"; `None` after a problem.
fn over(fields: &Fields, context: &Context) -> Option<Over> {
    if !fields.has("over") {
        return Some(Over::Run);
    }
    if fields.text("over")?.value == LIFE {
        return Some(Over::Life);
    }
    let time = fields.duration("over")?;
    if time.value.is_zero() {
        context
            .faults
            .note(time.place, "`over` is no time at all; or \"life\"");
        return None;
    }
    Some(Over::First(time.value))
}

fn name(fields: &Fields, context: &Context) -> Placed<String> {
    let Some(name) = fields.text("name") else {
        if !fields.has("name") {
            context.faults.note(fields.place, "this arm has no `name`");
        }
        return Placed {
            value: String::new(),
            place: fields.place,
        };
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "._+@-".contains(c);
    let good = name.value.chars().all(fits)
        && name.value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.value.len() <= NAME_BYTES_MAX;
    if !good {
        let message = format!("an arm cannot be called {}", quoted(&name.value));
        let rule = "letters, digits and . _ + @ -, at most 64, the first a letter or a digit";
        context.faults.note_with_help(name.place, message, rule);
    }
    name
}

fn allocator(fields: &Fields, context: &Context) -> String {
    let Some(allocator) = fields.text("allocator") else {
        return ALLOCATOR.into();
    };
    // A path is the user's own library: whether it is there and fits is found out before the start.
    if !allocator.value.contains('/')
        && let Err(message) = (context.known)(&allocator.value)
    {
        context.faults.note(allocator.place, message);
    }
    allocator.value
}

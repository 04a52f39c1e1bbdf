//! `[[arms]]`.

use std::collections::BTreeMap;

use super::setting::{is_arm_name, setting_of};
use super::{ARMS_MAX, Context, factors};
use crate::file::syntax::fields::Fields;
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::Table;
use crate::file::{Arm, LIFE, Over, Prediction};
use units::wording::quoted;

const KEYS: &[&str] = &[
    "name",
    "allocator",
    "environment",
    "arguments",
    "command",
    "curve",
    "prediction",
    "levels",
];
/// What an arm runs unless it says otherwise: the program as it comes, whatever it is linked with.
const ALLOCATOR: &str = "";

/// Every arm with its place, in the order of the file; those of `[factors]` where it has some.
pub fn parse(top: &Fields, context: &Context) -> Vec<Placed<Arm>> {
    let made = factors::parse(top, context);
    let tables = top.tables("arms");
    if top.has("factors") {
        if top.has("arms") {
            let message = "an experiment has `[factors]` or `[[arms]]`, not both";
            context.faults.note(top.place_of("arms"), message);
        }
        return made;
    }
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
    let what = setting_of(&fields, context);
    let arm = Arm {
        name: name.value,
        allocator: what.allocator.unwrap_or_else(|| ALLOCATOR.into()),
        environment: what.environment,
        arguments: what.arguments,
        command: what.command,
        curve: what.curve,
        prediction: prediction(&fields, context),
        levels: levels(&fields, context),
    };
    Placed {
        value: arm,
        place: name.place,
    }
}

/// `levels = { version = "2.0.9", purge = "default" }`, as a frozen experiment has them.
fn levels(fields: &Fields, context: &Context) -> Vec<(String, String)> {
    let Some((table, place)) = fields.table("levels") else {
        return Vec::new();
    };
    let keys: Vec<&str> = table
        .entries
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    let own = Fields::new(table, place, "`levels`", &keys, context.faults);
    let level = |key: &&str| Some(((*key).to_owned(), own.text(key)?.value));
    keys.iter().filter_map(level).collect()
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
    let good = is_arm_name(&name.value);
    if !good {
        let message = format!("an arm cannot be called {}", quoted(&name.value));
        let rule = "letters, digits and . _ + @ -, at most 64, the first a letter or a digit";
        context.faults.note_with_help(name.place, message, rule);
    }
    name
}

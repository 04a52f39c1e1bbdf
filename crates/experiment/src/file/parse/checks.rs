//! `[[verify]]` and `[[guard]]`.

use std::time::Duration;

use super::values::{check_url, command, status};
use super::{Context, known_arm};
use crate::file::placeholder::Moment;
use crate::file::syntax::fields::{Faults, Fields};
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::Table;
use crate::file::{Check, Condition, Trend};
use units::{parse_bytes, parse_duration, write_duration_exact};

/// Keys that are a condition each; an entry has exactly one.
const CONDITIONS: &[&str] = &[
    "http",
    "command",
    "metric",
    "rss_max",
    "p99_max",
    "pauses_per_minute_max",
    "restarts_max",
    "trend",
];
const KEYS: &[&str] = &[
    "http",
    "status",
    "command",
    "exit",
    "metric",
    "min",
    "max",
    "rss_max",
    "p99_max",
    "pauses_per_minute_max",
    "restarts_max",
    "within",
    "trend",
    "after",
    "arm",
    "arms",
];
/// More restarts than that in one run are no limit.
const RESTARTS_MAX: u32 = 1_000_000;
const TRENDS: &[(&str, Trend)] = &[
    ("flat", Trend::Flat),
    ("plateauing", Trend::Plateauing),
    ("growing", Trend::Growing),
    ("sawtooth", Trend::Sawtooth),
    ("stepped", Trend::Stepped),
];

/// The entries of `[[key]]`.
pub fn parse(
    top: &Fields,
    key: &str,
    arms: &[&str],
    duration: Duration,
    context: &Context,
) -> Vec<Check> {
    let name = format!("[[{key}]]");
    let one = |(table, place): (&Table, Place)| {
        let fields = Fields::new(table, place, &name, KEYS, context.faults);
        let after = after(&fields, duration, context.faults);
        let arms = arms_of(&fields, arms, context.faults);
        condition(&fields, &name, context.faults).map(|condition| Check {
            condition,
            after,
            arms,
        })
    };
    top.tables(key).into_iter().filter_map(one).collect()
}

fn after(fields: &Fields, duration: Duration, faults: &Faults) -> Duration {
    let Some(Placed {
        value: after,
        place,
    }) = fields.duration("after")
    else {
        return Duration::ZERO;
    };
    if after >= duration {
        let words = write_duration_exact;
        let message = format!(
            "`after` {} never comes: `duration` is {}",
            words(after),
            words(duration)
        );
        faults.note(place, message);
    }
    after
}

fn arms_of(fields: &Fields, arms: &[&str], faults: &Faults) -> Vec<String> {
    let mut named = Vec::new();
    if fields.has("arm") && fields.has("arms") {
        faults.note(
            fields.place_of("arms"),
            "`arm` and `arms` say the same; write one of them",
        );
    }
    if fields.has("arms") && fields.texts("arms").is_empty() {
        faults.note(
            fields.place_of("arms"),
            "`arms` names none; left out, it means all of them",
        );
    }
    for key in ["arm", "arms"] {
        for arm in fields.texts(key) {
            named.push(known_arm(&arm, key, arms, faults));
        }
    }
    named
}

/// The key of the one condition of a check.
fn one_condition(fields: &Fields, name: &str, faults: &Faults) -> Option<&'static str> {
    let given: Vec<&'static str> = CONDITIONS
        .iter()
        .copied()
        .filter(|key| fields.has(key))
        .collect();
    if given.is_empty() && fields.unknown > 0 {
        return None; // said already: the condition is misspelt
    }
    let [key] = given[..] else {
        let message = match &given[..] {
            [] => format!("{name} has no condition"),
            many => format!(
                "{name} has {} conditions ({}); one each",
                many.len(),
                many.join(", ")
            ),
        };
        let place = given
            .get(1)
            .map_or(fields.place, |second| fields.place_of(second));
        faults.note_with_help(place, message, format!("one of: {}", CONDITIONS.join(", ")));
        return None;
    };
    Some(key)
}

fn condition(fields: &Fields, name: &str, faults: &Faults) -> Option<Condition> {
    let key = one_condition(fields, name, faults)?;
    let extras = [
        ("exit", "command"),
        ("min", "metric"),
        ("max", "metric"),
        ("within", "restarts_max"),
    ];
    for (extra, owner) in extras {
        if fields.has(extra) && key != owner {
            faults.note(
                fields.place_of(extra),
                format!("`{extra}` belongs to `{owner}`"),
            );
        }
    }
    let status = status(fields, faults);
    match key {
        "http" => {
            let url = fields.text("http")?;
            check_url(&url, "http", faults);
            Some(Condition::Http {
                url: url.value,
                status,
            })
        }
        "command" => {
            let command = command(fields, "command", Moment::Running, faults)?;
            let exit = fields
                .integer("exit", 0..=255)
                .map_or(0, |exit| exit.value as i32);
            Some(Condition::Command { command, exit })
        }
        "metric" => metric(fields, faults),
        "rss_max" => Some(Condition::RssMax {
            bytes: positive(fields.bytes(key)?, key, faults),
        }),
        "p99_max" => Some(Condition::P99Max {
            limit: positive(fields.duration(key)?, key, faults),
        }),
        "pauses_per_minute_max" => pauses(fields, faults),
        "restarts_max" => restarts(fields, faults),
        _ => trend(fields, faults),
    }
}

/// A limit of nothing can never be kept.
pub fn positive<T: Default + PartialEq>(limit: Placed<T>, key: &str, faults: &Faults) -> T {
    if limit.value == T::default() {
        faults.note(
            limit.place,
            format!("`{key}` is zero; no process keeps that"),
        );
    }
    limit.value
}

fn pauses(fields: &Fields, faults: &Faults) -> Option<Condition> {
    let key = "pauses_per_minute_max";
    let max = fields.number(key, |text| Err(format!("{text:?} is not a number")))?;
    if max < 0.0 {
        faults.note(fields.place_of(key), format!("`{key}` is negative"));
    }
    Some(Condition::PausesPerMinuteMax { max })
}

fn restarts(fields: &Fields, faults: &Faults) -> Option<Condition> {
    let count = fields.integer("restarts_max", 0..=u64::from(RESTARTS_MAX))?;
    let within = fields
        .duration("within")
        .map(|within| positive(within, "within", faults));
    Some(Condition::RestartsMax {
        count: u32::try_from(count.value).unwrap_or(RESTARTS_MAX),
        within,
    })
}

/// `min` and `max` are in the unit that the metric's name ends in; a text may bring its own unit.
fn metric(fields: &Fields, faults: &Faults) -> Option<Condition> {
    let name = fields.text("metric")?;
    let unit = |text: &str| in_unit_of(&name.value, text);
    let (min, max) = (fields.number("min", unit), fields.number("max", unit));
    if !fields.has("min") && !fields.has("max") {
        faults.note(name.place, "`metric` needs a `min` or a `max`");
    }
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        faults.note(
            fields.place_of("min"),
            format!("`min` {min} is above `max` {max}"),
        );
    }
    if name.value.trim().is_empty() {
        faults.note(name.place, "`metric` is empty");
    }
    Some(Condition::Metric {
        name: name.value,
        min,
        max,
    })
}

/// "512MiB" for `..._bytes`, "5ms" for `..._ns` and `..._seconds`, whatever labels follow the name.
fn in_unit_of(metric: &str, text: &str) -> Result<f64, String> {
    let name = metric.split('{').next().unwrap_or(metric);
    let name = name.strip_suffix("_total").unwrap_or(name);
    if name.ends_with("_bytes") {
        return Ok(parse_bytes(text)? as f64);
    }
    if name.ends_with("_ns") {
        return Ok(parse_duration(text)?.as_nanos() as f64);
    }
    if name.ends_with("_seconds") {
        return Ok(parse_duration(text)?.as_secs_f64());
    }
    Err(format!("write a number: the unit of `{name}` is not known"))
}

fn trend(fields: &Fields, faults: &Faults) -> Option<Condition> {
    let words = fields.texts("trend");
    let any_of: Vec<Trend> = words
        .iter()
        .filter_map(|word| fields.word_of(word, "trend", TRENDS))
        .collect();
    if words.is_empty() {
        faults.note(
            fields.place_of("trend"),
            "`trend` allows nothing; name at least one label",
        );
    }
    (!any_of.is_empty()).then_some(Condition::Trend { any_of })
}

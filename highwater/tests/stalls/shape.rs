//! `highwater.stalls/1`, field by field. Every watch of these tests goes through it.

use serde_json::Value;

const CAUSES: [&str; 11] = [
    "lock",
    "cpu-starvation",
    "cpu-quota",
    "disk",
    "network",
    "process",
    "page-fault",
    "allocator",
    "runtime",
    "sleep",
    "on-cpu",
];
const MODES: [&str; 3] = ["ebpf", "tracepoints", "rootless"];

/// What a field holds.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Number,
    Share,
    Flag,
    Texts,
    MaybeNumber,
    MaybeText,
    List(&'static [(&'static str, Is)]),
    Object(&'static [(&'static str, Is)]),
}

const CULPRIT: &[(&str, Is)] = &[
    ("thread", Is::Text),
    ("tid", Is::MaybeNumber),
    ("function", Is::MaybeText),
    ("callers", Is::Texts),
    ("doing", Is::Text),
    ("stack", Is::Texts),
];
const HOP: &[(&str, Is)] = &[
    ("thread", Is::Text),
    ("waited_for", Is::Text),
    ("ns", Is::Number),
];
const RAN: &[(&str, Is)] = &[("name", Is::Text), ("ns", Is::Number)];
const WAITER: &[(&str, Is)] = &[("stack", Is::Texts), ("ns", Is::Number)];
const FINDING: &[(&str, Is)] = &[
    ("cause", Is::Text),
    ("count", Is::Number),
    ("threads", Is::Number),
    ("longest_ns", Is::Number),
    ("total_ns", Is::Number),
    ("period_ns", Is::MaybeNumber),
    ("episodes", Is::Number),
    ("agreeing_episodes", Is::Number),
    ("open", Is::Flag),
    ("inferred", Is::Flag),
    ("culprit", Is::Object(CULPRIT)),
    ("chain", Is::List(HOP)),
    ("ran_instead", Is::List(RAN)),
    ("waiters", Is::List(WAITER)),
    ("stalled_threads", Is::Texts),
];
const CHECKS: &[(&str, Is)] = &[
    ("watched_ns", Is::Number),
    ("threads", Is::Number),
    ("lost_records", Is::Number),
    ("lost_samples", Is::Number),
    ("missed_switches", Is::Number),
    ("run_delay_difference", Is::Share),
    ("stolen_share", Is::Share),
    ("unresolved_stacks", Is::Number),
    ("dropped_segments", Is::Number),
    ("dropped_stalls", Is::Number),
    ("unwatched_threads", Is::Number),
    ("left_out_below_ns", Is::Number),
    ("below_the_rule", Is::Number),
    ("own_cpu_ns", Is::Number),
    ("missing", Is::Texts),
];

/// Panics with the path of the first field that is not as documented, is missing, or is one too many.
pub fn check(found: &Value) {
    const ALL: &[(&str, Is)] = &[
        ("schema", Is::Text),
        ("pid", Is::Number),
        ("mode", Is::Text),
        ("findings", Is::List(FINDING)),
        ("self_checks", Is::Object(CHECKS)),
    ];
    let mut found = found.clone();
    // Only with --requests or --span, and looked at by their own tests.
    found.as_object_mut().unwrap().remove("requests");
    let overhead = found.as_object_mut().unwrap().remove("overhead").unwrap();
    assert!(
        overhead["items"].is_array() && overhead["own_cpu_s"].as_f64() > Some(0.0),
        "{overhead}"
    );
    holds(&found, Is::Object(ALL), "").unwrap();
    assert_eq!(found["schema"], "highwater.stalls/1");
    assert!(MODES.contains(&found["mode"].as_str().unwrap()));
    for row in found["findings"].as_array().unwrap() {
        makes_sense(row);
    }
}

fn makes_sense(row: &Value) {
    let number = |field: &str| row[field].as_u64().unwrap();
    assert!(CAUSES.contains(&row["cause"].as_str().unwrap()), "{row:#}");
    assert!(number("count") >= number("threads"), "{row:#}");
    assert!(number("threads") >= 1, "{row:#}");
    assert!(number("longest_ns") >= 1, "{row:#}");
    assert!(number("total_ns") >= number("longest_ns"), "{row:#}");
    assert!(number("episodes") >= number("agreeing_episodes"), "{row:#}");
    // Of all stalls; `episodes` are those in which the culprit was seen.
    assert!(
        row["period_ns"].is_null() || number("count") >= 4,
        "{row:#}"
    );
}

fn holds(value: &Value, is: Is, path: &str) -> Result<(), String> {
    let texts = |value: &Value| {
        value
            .as_array()
            .is_some_and(|a| a.iter().all(Value::is_string))
    };
    let right = match is {
        Is::Text => value.is_string(),
        Is::Number => value.is_u64(),
        Is::Share => value.is_null() || value.is_f64(),
        Is::Flag => value.is_boolean(),
        Is::Texts => texts(value),
        Is::MaybeNumber => value.is_null() || value.as_u64().is_some_and(|number| number > 0),
        Is::MaybeText => value.is_null() || value.as_str().is_some_and(|text| !text.is_empty()),
        Is::List(fields) => {
            let list = value.as_array().ok_or(format!("{path} is no list"))?;
            for (at, one) in list.iter().enumerate() {
                holds(one, Is::Object(fields), &format!("{path}/{at}"))?;
            }
            true
        }
        Is::Object(fields) => return object(value, fields, path),
    };
    right.then_some(()).ok_or(format!("{path} is {value}"))
}

fn object(value: &Value, fields: &[(&str, Is)], path: &str) -> Result<(), String> {
    let object = value.as_object().ok_or(format!("{path} is no object"))?;
    for (name, is) in fields {
        let field = object
            .get(*name)
            .ok_or(format!("{path}/{name} is missing"))?;
        holds(field, *is, &format!("{path}/{name}"))?;
    }
    let known = |name: &&String| fields.iter().any(|(field, _)| field == name);
    match object.keys().find(|name| !known(name)) {
        Some(name) => Err(format!("{path}/{name} is not documented")),
        None => Ok(()),
    }
}

#[test]
fn what_is_not_documented_or_missing_is_found() {
    let culprit = serde_json::json!({
        "thread": "a", "tid": 7, "function": null, "callers": [], "doing": "", "stack": ["f"]
    });
    assert_eq!(holds(&culprit, Is::Object(CULPRIT), "c"), Ok(()));
    let changed = |field: &str, to: Value| {
        let mut culprit = culprit.clone();
        culprit[field] = to;
        holds(&culprit, Is::Object(CULPRIT), "c").unwrap_err()
    };
    assert_eq!(changed("tid", Value::from(-1)), "c/tid is -1");
    assert_eq!(changed("stack", Value::from("f")), "c/stack is \"f\"");
    assert_eq!(changed("more", Value::from(1)), "c/more is not documented");
    let bare = serde_json::json!({});
    let missing = holds(&bare, Is::Object(HOP), "h").unwrap_err();
    assert_eq!(missing, "h/thread is missing");
}

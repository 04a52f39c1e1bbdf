//! The JSON Schema files of `docs/schema` describe what the commands really print: each is held against fresh output,
//! with no field left over. A new field is added to its file; a field that goes or changes needs a new version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::skipped;

fn schema(name: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).expect("a schema");
    serde_json::from_str(&text).expect("JSON")
}

/// Where a value differs from its schema; the part of JSON Schema that the files use, and no field beyond it.
fn faults(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) {
        let each = alternatives.iter().map(|one| faults(one, value, place));
        return each.min_by_key(Vec::len).unwrap_or_default();
    }
    if let Some(expected) = schema.get("const").filter(|expected| *expected != value) {
        return vec![format!("{place}: {value} is not {expected}")];
    }
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    let fits = match schema.get("type") {
        None => true,
        Some(Value::Array(names)) => names.iter().any(is),
        Some(name) => is(name),
    };
    if !fits {
        return vec![format!("{place}: {value} is no {}", schema["type"])];
    }
    let items = value.as_array().into_iter().flatten();
    let mut found: Vec<String> = match schema.get("items") {
        Some(inner) => items
            .flat_map(|item| faults(inner, item, &format!("{place}[]")))
            .collect(),
        None => Vec::new(),
    };
    found.extend(faults_of_fields(schema, value, place));
    found
}

fn faults_of_fields(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let (Some(fields), true) = (value.as_object(), schema.get("type").is_some()) else {
        return Vec::new();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let mut found: Vec<String> = names
        .filter(|name| !fields.contains_key(*name))
        .map(|name| format!("{place}.{name}: missing"))
        .collect();
    for (name, inner) in fields {
        let known = schema.get("properties").and_then(|all| all.get(name));
        match known.or_else(|| schema.get("additionalProperties")) {
            Some(known) => found.extend(faults(known, inner, &format!("{place}.{name}"))),
            None => found.push(format!("{place}.{name}: not in the schema")),
        }
    }
    found
}

/// Runs highwater in a folder of its own; its lines of JSON, or `None` where it could not run here.
fn printed(folder: &Path, arguments: &[&str]) -> Option<Vec<Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("highwater starts");
    if output.status.code() == Some(4) {
        skipped(&format!(
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
        return None;
    }
    let text = String::from_utf8(output.stdout).expect("text");
    let values = serde_json::Deserializer::from_str(&text).into_iter();
    let values: Result<Vec<Value>, _> = values.collect();
    let values = values.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
    assert!(!values.is_empty(), "{arguments:?} printed nothing");
    Some(values)
}

fn holds(name: &str, folder: &Path, arguments: &[&str]) {
    let schema = schema(name);
    for value in printed(folder, arguments).into_iter().flatten() {
        let found = faults(&schema, &value, "");
        assert!(
            found.is_empty(),
            "{name}: {arguments:?}:\n{}",
            found.join("\n")
        );
    }
}

fn folder_with(file: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(file);
    fs::write(&path, text).expect("written");
    (folder, path)
}

#[test]
fn doctor() {
    holds("highwater.doctor.1", Path::new("."), &["doctor", "--json"]);
}

#[test]
fn verdict_with_arms_pairs_and_findings() {
    let mut text = "arm,process,t_s,rss_kib\n".to_owned();
    for (minute, process) in (0..120_u32).flat_map(|minute| (0..4_u32).map(move |p| (minute, p))) {
        let arm = if process < 2 || (process == 2 && minute < 60) {
            "a"
        } else {
            "b"
        };
        let kib = (100 + process) * 1024 + minute % 3 + process * minute * 9;
        text += &format!("{arm},p{process},{},{kib}\n", minute * 60);
    }
    let (folder, _) = folder_with("arms.csv", &text);
    let all = [
        "verdict",
        "arms.csv",
        "--all-pairs",
        "--limit",
        "1GiB",
        "--json",
    ];
    holds("highwater.verdict.2", folder.path(), &all);
}

#[test]
fn run_and_report() {
    let plan = "name = \"fake\"\ncontrol = \"steady\"\nadopt = \"steady\"\nduration = \"10m\"\nreplicas = 2\n\
        [subject]\nkind = \"fake\"\n\
        [[arms]]\nname = \"steady\"\ncurve = \"64MiB + noise 1% + latency 2ms + pause 40ms every 15s\"\n\
        prediction = { mean = \"60MiB\", lo = \"50MiB\", hi = \"70MiB\" }\n\
        [[arms]]\nname = \"leaks\"\ncurve = \"64MiB + 80KiB/s + noise 1%\"\n\
        prediction = { mean = \"60MiB\", lo = \"50MiB\", hi = \"70MiB\", over = \"life\" }\n\
        [[verify]]\ntrend = [\"flat\", \"plateauing\"]\n\
        [[guard]]\nrss_max = \"100MiB\"\narm = \"leaks\"\n";
    let (folder, _) = folder_with("fake.toml", plan);
    holds(
        "highwater.run.2",
        folder.path(),
        &["run", "fake.toml", "--json"],
    );
    holds("highwater.run.2", folder.path(), &["report", "--json"]);
}

#[test]
fn explain() {
    let arguments = [
        "explain",
        "--duration",
        "3s",
        "--json",
        "-q",
        "--",
        "sleep",
        "30",
    ];
    holds("highwater.explain.2", Path::new("."), &arguments);
}

/// A core of a program of its own, where gdb's gcore is installed.
#[test]
fn explain_of_a_core() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut program = Command::new("sleep").arg("30").spawn().expect("sleep");
    let pid = program.id().to_string();
    let made = Command::new("gcore")
        .arg("-o")
        .arg(folder.path().join("core"))
        .arg(&pid)
        .output();
    let _ = program.kill();
    let _ = program.wait();
    if !made.is_ok_and(|made| made.status.success()) {
        return skipped("no gcore, or it may not attach");
    }
    let core = format!("core.{pid}");
    holds(
        "highwater.core.1",
        folder.path(),
        &["explain", "--core", &core, "--json"],
    );
}

#[test]
fn stalls() {
    let arguments = ["stalls", "--duration", "1s", "--json", "--", "sleep", "30"];
    holds("highwater.stalls.1", Path::new("."), &arguments);
}

#[test]
fn a_field_too_many_or_too_few_and_a_wrong_type_are_faults() {
    let schema = serde_json::json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": ["null", "number"]}, "b": {"type": "array", "items": {"type": "string"}}}});
    let of = |value: Value| faults(&schema, &value, "");
    assert!(of(serde_json::json!({"a": null, "b": ["x"]})).is_empty());
    let wrong = of(serde_json::json!({"b": [1], "c": true}));
    assert_eq!(
        wrong,
        [
            ".a: missing",
            ".b[]: 1 is no \"string\"",
            ".c: not in the schema"
        ]
    );
}

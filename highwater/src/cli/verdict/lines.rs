//! Verdicts as JSON lines: one object a line, `schema` first.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Map, Value, json};

use super::answer::Answer;
use series::estimate::Estimate;
use verdict::arm::ArmVerdict;
use verdict::audit::Finding;
use verdict::pair::PairVerdict;
use verdict::series::SeriesVerdict;

/// The schema of every line.
pub const SCHEMA: &str = "highwater.verdict/2";

/// Findings, then series, then each arm after its processes, then pairs.
///
/// # Errors
/// `out` takes no more.
pub fn write(answer: &Answer, out: &mut impl Write) -> std::io::Result<()> {
    for f in &answer.findings {
        writeln!(out, "{}", audit_line(f))?;
    }
    let labels = |v: &SeriesVerdict| answer.labels.get(&v.id);
    for v in &answer.series {
        writeln!(out, "{}", series_line(v, labels(v)))?;
    }
    for arm in &answer.arms {
        // Parts of series (`--at`) stand above, in place of the whole ones.
        for v in arm
            .verdict
            .processes
            .iter()
            .filter(|_| answer.series.is_empty())
        {
            writeln!(out, "{}", series_line(v, labels(v)))?;
        }
        writeln!(out, "{}", arm_line(&arm.verdict, arm.refused))?;
    }
    for pair in &answer.pairs {
        writeln!(out, "{}", pair_line(pair))?;
    }
    Ok(())
}

/// An infinite or missing number is null.
fn put(line: &mut Map<String, Value>, names: [&str; 3], e: Option<Estimate>) {
    let parts = e.map_or([None; 3], |e| [Some(e.value), Some(e.lo), Some(e.hi)]);
    for (name, part) in names.into_iter().zip(parts) {
        line.insert(name.to_owned(), json!(part.filter(|v| v.is_finite())));
    }
}

fn line(kind: &str, id: &str) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("schema".to_owned(), json!(SCHEMA));
    line.insert("kind".to_owned(), json!(kind));
    line.insert("id".to_owned(), json!(id));
    line
}

/// What series and arms both say: the estimate and its interval.
pub const SLOPE: [&str; 3] = ["slope_bytes_per_hour", "slope_lo", "slope_hi"];
pub const ASYMPTOTE: [&str; 3] = ["asymptote_bytes", "asymptote_lo", "asymptote_hi"];
pub const TIME_TO_LIMIT: [&str; 3] = ["time_to_limit_s", "time_to_limit_lo", "time_to_limit_hi"];
pub const LEVEL: [&str; 3] = ["level_bytes", "level_lo", "level_hi"];

/// One series; `labels` are those of a fleet's series.
pub fn series_line(v: &SeriesVerdict, labels: Option<&BTreeMap<String, String>>) -> String {
    let mut l = line("series", &v.id);
    l.insert("label".to_owned(), json!(v.label.word()));
    put(&mut l, SLOPE, v.slope_per_hour);
    put(&mut l, ASYMPTOTE, v.asymptote);
    put(&mut l, TIME_TO_LIMIT, v.time_to_limit_s);
    put(&mut l, LEVEL, v.level);
    l.insert("confidence".to_owned(), json!(v.confidence));
    l.insert("period_s".to_owned(), json!(v.period_s));
    let steps: Vec<Value> = v
        .steps
        .iter()
        .map(|(t, by)| json!({"t_s": t, "bytes": by}))
        .collect();
    l.insert("steps".to_owned(), json!(steps));
    l.insert("rule".to_owned(), json!(v.rule));
    l.insert("evidence".to_owned(), json!(v.evidence));
    l.insert("needs".to_owned(), json!(v.needs));
    if let Some(labels) = labels {
        l.insert("labels".to_owned(), json!(labels));
    }
    Value::Object(l).to_string()
}

/// One arm; `refused` when the audit refuses it as it was meant.
pub fn arm_line(v: &ArmVerdict, refused: bool) -> String {
    let mut l = line("arm", &v.arm);
    l.insert("label".to_owned(), json!(v.label.word()));
    put(&mut l, SLOPE, v.slope_per_hour);
    put(&mut l, ASYMPTOTE, v.asymptote);
    put(&mut l, TIME_TO_LIMIT, v.time_to_limit_s);
    put(&mut l, LEVEL, v.level);
    l.insert("confidence".to_owned(), json!(v.confidence));
    let odd: Vec<&str> = v.outliers.iter().map(|o| o.id.as_str()).collect();
    l.insert("outliers".to_owned(), json!(odd));
    let why: Map<String, Value> = v
        .outliers
        .iter()
        .map(|o| (o.id.clone(), json!(o.why)))
        .collect();
    l.insert("rule".to_owned(), json!(v.rule));
    let evidence = json!({ "processes": v.processes.len(), "outliers_why": why });
    l.insert("evidence".to_owned(), evidence);
    l.insert("refused".to_owned(), json!(refused));
    l.insert("needs".to_owned(), json!(v.needs));
    Value::Object(l).to_string()
}

/// One pair.
pub fn pair_line(v: &PairVerdict) -> String {
    let mut l = line("pair", &format!("{}:{}", v.a, v.b));
    l.insert("a".to_owned(), json!(v.a));
    l.insert("b".to_owned(), json!(v.b));
    put(&mut l, ["ratio", "lo", "hi"], v.ratio);
    l.insert("p_better".to_owned(), json!(v.p_better));
    let names = [
        "difference_slope_bytes_per_hour",
        "difference_slope_lo",
        "difference_slope_hi",
    ];
    put(&mut l, names, v.difference_slope_per_hour);
    l.insert("decided".to_owned(), json!(v.decided));
    l.insert("words".to_owned(), json!(v.words));
    l.insert("needs".to_owned(), json!(v.needs));
    Value::Object(l).to_string()
}

/// One finding of the audit.
pub fn audit_line(f: &Finding) -> String {
    let told = serde_json::to_value(f).unwrap_or(Value::Null);
    let id = told
        .get("check")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let mut l = line("audit", &id);
    if let Value::Object(fields) = told {
        l.extend(fields);
    }
    Value::Object(l).to_string()
}

//! A replay as JSON, highwater.replay/1.

use serde_json::{Value, json};

use super::Report;
use super::experiment::redacted;
use super::runs::Played;
use super::text::{forecasts, problem};
use super::tuning::{Trial, Tuned};
use replay::{End, Remedy, alike};

const SCHEMA: &str = "highwater.replay/1";

/// All of it.
pub fn of(report: &Report) -> Value {
    let (trace, planned) = (&report.trace, &report.planned);
    let rows = forecasts(&report.played, &report.trace);
    let arms = rows.iter().map(|(played, forecast)| {
        let unfinished = played.runs.iter().find(|ran| ran.end != End::Finished);
        json!({
            "arm": played.arm.name,
            "allocator": played.arm.library.spec,
            "version": played.arm.library.version,
            "library": played.arm.library.path,
            "environment": environment(played),
            "recorded": played.is_recorded,
            "malloc_answered_by": played.runs.first().map(|ran| &ran.malloc_path),
            "replays": played.runs.len(),
            "forecast": forecast,
            "problem": unfinished.map(|ran| problem(&ran.end, ran.done_share)),
            "samples_anon_bytes": played.runs.iter().map(|ran| &ran.anon_bytes).collect::<Vec<_>>(),
        })
    });
    let names: Vec<_> = rows
        .iter()
        .filter_map(|(p, f)| Some((&p.arm.name, f.as_ref()?)))
        .collect();
    let mut pairs = Vec::new();
    for (index, (name, forecast)) in names.iter().enumerate() {
        let others = names[index + 1..]
            .iter()
            .filter(|(_, other)| alike(forecast, other));
        pairs.extend(others.map(|(other, _)| json!([name, other])));
    }
    json!({
        "schema": SCHEMA,
        "trace": trace.path,
        "program": trace.about("program"),
        "recorded_allocator": trace.about("allocator"),
        "length_ns": trace.facts.length_ns,
        "operations": planned.operations,
        "threads": planned.threads,
        "epochs": planned.epochs,
        "repeat": report.repeat,
        "elapsed_s": report.elapsed.as_secs_f64(),
        "trusted": report.check.as_ref().is_ok_and(|check| check.is_trusted),
        "self_check": report.check.as_ref().ok(),
        "self_check_missing": report.check.as_ref().err(),
        "sample_times_ns": planned.sample_times,
        "recorded_anon_bytes": trace.samples.iter().map(|sample| sample.anon_bytes).collect::<Vec<_>>(),
        "arms": arms.collect::<Vec<_>>(),
        "cannot_be_told_apart": pairs,
        "remedies": report.remedies.iter().map(|remedy| remedy_json(report, remedy)).collect::<Vec<_>>(),
        "factors": report::factors::json(&report.factors),
        "tuned": report.tuned.iter().map(tuned_json).collect::<Vec<_>>(),
        "earlier_predictions": report.score,
        "not_seen": report.notes,
        "large_bytes": planned.unseen.large_bytes,
        "guessed_touch_bytes": planned.unseen.guessed_bytes,
    })
}

/// `NAME=value`, secrets hidden.
fn environment(played: &Played) -> Vec<String> {
    let safe = redacted(&played.arm.environment);
    safe.iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

fn tuned_json(tuned: &Tuned) -> Value {
    let trial = |trial: &Trial| json!({ "arm": trial.arm, "mean_bytes": trial.mean_bytes, "cpu_ns": trial.cpu_ns });
    json!({
        "allocator": tuned.allocator,
        "elapsed_s": tuned.elapsed.as_secs_f64(),
        "tried": tuned.tried.iter().map(trial).collect::<Vec<_>>(),
        "front": tuned.front,
    })
}

fn remedy_json(report: &Report, remedy: &Remedy) -> Value {
    let mut value = json!(remedy);
    value["arm"] = report.played[remedy.index].arm.name.as_str().into();
    value["source"] = "replay".into();
    value.as_object_mut().map(|all| all.remove("index"));
    value
}

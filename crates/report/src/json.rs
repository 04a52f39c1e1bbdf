//! The run as one JSON object, schema `highwater.run/2`: every number has its unit in its name.
//!
//! An estimate `x` is three fields, `x_<unit>`, `x_lo_<unit>` and `x_hi_<unit>` (95 % over
//! processes; equal when there was one process). What was not measured is null. Names are as
//! recorded, not made visible.

use serde_json::{Map, Value, json};

use super::charts::latency::{LatencyLine, pause_words};
use super::{Report, event_word};
use series::estimate::Estimate;
use verdict::arm::ArmVerdict;
use verdict::cost::ArmCost;
use verdict::pair::PairVerdict;
use verdict::run::predicted::Outcome;
use verdict::run::{ArmRow, RunVerdict};

/// Name and version of the form.
pub const SCHEMA: &str = "highwater.run/2";

/// The object, indented, with a newline at its end.
pub fn render(report: &Report) -> String {
    let text = serde_json::to_string_pretty(&value(report)).unwrap_or_else(|_| "null".to_string());
    text + "\n"
}

/// The object as a value.
pub fn value(report: &Report) -> Value {
    let s = &report.summary;
    let verdict = &report.verdict;
    json!({
        "schema": SCHEMA,
        "run": s.run,
        "experiment": s.experiment,
        "headline": verdict.headline,
        "decided": verdict.decided,
        "needs": verdict.needs,
        "adopt": verdict.adopt.as_ref().map(|adopt| {
            json!({ "arm": adopt.arm, "passed": adopt.passed, "words": adopt.words })
        }),
        "hypothesis": s.hypothesis,
        "why": s.why,
        "evidence": s.evidence,
        "control": s.control,
        "begun": s.begun,
        "took_s": s.took_s,
        "planned_s": s.planned_s,
        "interval_s": s.interval_s,
        "warmup_s": s.warmup_s,
        "replicas_count": s.replicas,
        "seed": s.seed,
        "end": s.end,
        "arms": verdict.arms.iter().map(|row| arm(report, row)).collect::<Vec<_>>(),
        "pairs": verdict.pairs.iter().map(pair).collect::<Vec<_>>(),
        "factors": super::factors::json(&verdict.factors),
        "predictions": verdict.predictions.iter().map(prediction).collect::<Vec<_>>(),
        "checks": verdict.checks,
        "findings": verdict.findings,
        "learnings": verdict.learnings,
        "events": report.events.iter().map(event).collect::<Vec<_>>(),
        "own": own(verdict),
        "machine": {
            "cpu": s.machine.cpu,
            "cpus_count": s.machine.cpus,
            "memory_bytes": s.machine.memory_bytes,
            "kernel": s.machine.kernel,
            "distribution": s.machine.distribution,
            "transparent_huge_pages": s.machine.transparent_huge_pages,
        },
        "version": s.version,
    })
}

fn arm(report: &Report, row: &ArmRow) -> Value {
    let plan = report.arms.iter().find(|plan| plan.name == row.arm);
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_string(), value);
    put("arm", json!(row.arm));
    put("is_control", json!(row.is_control));
    put("allocator", json!(plan.map(|plan| &plan.allocator)));
    put("environment", json!(plan.map(|plan| &plan.environment)));
    put("command", json!(plan.map(|plan| &plan.command)));
    put("proved", json!(row.proved));
    put("defects", json!(row.defects));
    put("protections", json!(row.protections));
    put("aborted", json!(row.aborted));
    put("started_count", json!(row.started));
    put("crashed_count", json!(row.crashed));
    put("restarted_count", json!(row.restarted));
    memory(&mut object, &row.memory);
    object.insert("rss_peak_bytes".to_string(), json!(row.rss_peak_bytes));
    costs(&mut object, &row.cost);
    if let Some(heap) = &row.heap {
        object.insert("heap".to_string(), super::heap::json(heap));
    }
    object.insert("pauses".to_string(), pauses(report, &row.arm));
    Value::Object(object)
}

/// Stretches in which requests waited and nobody was answered, after warm-up; null when no request was recorded.
fn pauses(report: &Report, arm: &str) -> Value {
    let of_arm = |line: &&LatencyLine| report.charts.arms.get(line.arm).is_some_and(|a| a == arm);
    let line = report.charts.latency.iter().find(of_arm);
    let Some(found) = line.and_then(|line| line.pauses.as_ref()) else {
        return Value::Null;
    };
    json!({
        "words": pause_words(found),
        "found_count": found.count,
        "found_per_minute": found.per_minute,
        "length_p50_s": found.length_s,
        "length_max_s": found.longest_s,
        "watched_s": found.watched_s,
        "is_exact": found.is_exact,
        "period_s": found.rhythm.map(|r| r.period_s),
        "period_lo_s": found.rhythm.map(|r| r.lo_s),
        "period_hi_s": found.rhythm.map(|r| r.hi_s),
        "period_length_s": found.rhythm.map(|_| found.rhythm_length_s),
    })
}

fn memory(object: &mut Map<String, Value>, memory: &ArmVerdict) {
    let mut put = |name: &str, value: Value| object.insert(name.to_string(), value);
    put("label", json!(memory.label.word()));
    put("confidence_probability", json!(memory.confidence));
    put("rule", json!(memory.rule));
    put("needs", json!(memory.needs));
    let outlier = |o: &verdict::arm::Outlier| json!({ "process": o.id, "why": o.why });
    put("outliers", memory.outliers.iter().map(outlier).collect());
    estimate(object, "rss", "bytes", memory.level);
    estimate(object, "slope", "bytes_per_hour", memory.slope_per_hour);
    estimate(object, "asymptote", "bytes", memory.asymptote);
    estimate(object, "time_to_limit", "s", memory.time_to_limit_s);
    let processes = memory.processes.iter().map(|process| {
        let mut one = Map::new();
        one.insert("process".to_string(), json!(process.id));
        one.insert("label".to_string(), json!(process.label.word()));
        one.insert(
            "confidence_probability".to_string(),
            json!(process.confidence),
        );
        estimate(&mut one, "rss", "bytes", process.level);
        estimate(&mut one, "slope", "bytes_per_hour", process.slope_per_hour);
        Value::Object(one)
    });
    object.insert("processes".to_string(), processes.collect());
}

fn costs(object: &mut Map<String, Value>, cost: &ArmCost) {
    estimate(object, "cpu_user", "cores", cost.cpu_user);
    estimate(object, "cpu_system", "cores", cost.cpu_system);
    estimate(
        object,
        "minor_faults",
        "per_second",
        cost.minor_faults_per_second,
    );
    estimate(
        object,
        "major_faults",
        "per_second",
        cost.major_faults_per_second,
    );
    estimate(object, "run_delay", "share", cost.run_delay_share);
    estimate(object, "requests", "per_second", cost.requests_per_second);
    let latency = cost.latency.as_ref();
    let fields = [
        ("lazy_free_share", json!(cost.lazy_free_share)),
        ("huge_pages_share", json!(cost.huge_pages_share)),
        ("requests_count", json!(latency.map(|l| l.requests))),
        ("errors_count", json!(cost.errors)),
        ("dropped_count", json!(cost.dropped)),
        ("latency_p50_ns", json!(latency.map(|l| l.p50_ns))),
        ("latency_p99_ns", json!(latency.map(|l| l.p99_ns))),
        ("latency_p999_ns", json!(latency.map(|l| l.p999_ns))),
        ("latency_max_ns", json!(latency.map(|l| l.max_ns))),
        (
            "pauses_per_minute",
            json!(latency.map(|l| l.pauses_per_minute)),
        ),
        (
            "histograms_unreadable_count",
            json!(cost.histograms_unreadable),
        ),
    ];
    object.extend(fields.map(|(name, value)| (name.to_string(), value)));
    if let Some(stalls) = &cost.stalls {
        object.insert("stalls".to_string(), super::stall::arms::json(stalls));
    }
}

fn prediction(outcome: &Outcome) -> Value {
    let mut object = Map::new();
    object.insert("arm".to_string(), json!(outcome.arm));
    object.insert("outcome".to_string(), json!(outcome.place().word()));
    object.insert("why".to_string(), json!(outcome.why));
    object.insert("over_s".to_string(), json!(outcome.over_s));
    object.insert("processes_count".to_string(), json!(outcome.processes));
    object.insert(
        "processes_all_count".to_string(),
        json!(outcome.processes_all),
    );
    object.insert("starved_share".to_string(), json!(outcome.starved_share));
    let predicted = Some(outcome.predicted);
    estimate(&mut object, "predicted_rss_anon", "bytes", predicted);
    estimate(&mut object, "measured_rss_anon", "bytes", outcome.measured);
    object.insert("error_share".to_string(), json!(outcome.error()));
    Value::Object(object)
}

fn pair(pair: &PairVerdict) -> Value {
    let mut object = Map::new();
    object.insert("a".to_string(), json!(pair.a));
    object.insert("b".to_string(), json!(pair.b));
    estimate(&mut object, "rss", "ratio", pair.ratio);
    object.insert("p_better_probability".to_string(), json!(pair.p_better));
    estimate(
        &mut object,
        "difference_slope",
        "bytes_per_hour",
        pair.difference_slope_per_hour,
    );
    object.insert("words".to_string(), json!(pair.words));
    object.insert("decided".to_string(), json!(pair.decided));
    object.insert("needs".to_string(), json!(pair.needs));
    Value::Object(object)
}

fn event(event: &super::EventLine) -> Value {
    json!({
        "at_s": event.t_s,
        "arm": event.arm,
        "process": event.process,
        "kind": event_word(&event.kind),
        "words": event.words,
    })
}

fn own(verdict: &RunVerdict) -> Value {
    let own = &verdict.own;
    json!({
        "cpu_cores": own.cpu,
        "rss_bytes": own.rss_bytes,
        "snapshot_p50_ns": own.snapshot_ns_p50,
        "snapshot_max_ns": own.snapshot_ns_max,
        "snapshots_count": own.snapshots,
        "snapshots_missed_count": own.snapshots_missed,
    })
}

/// `name_unit`, `name_lo_unit`, `name_hi_unit`; null when there is no estimate or it is not finite.
fn estimate(object: &mut Map<String, Value>, name: &str, unit: &str, estimate: Option<Estimate>) {
    let ends = [
        ("", estimate.map(|e| e.value)),
        ("_lo", estimate.map(|e| e.lo)),
        ("_hi", estimate.map(|e| e.hi)),
    ];
    object.extend(ends.map(|(end, value)| (format!("{name}{end}_{unit}"), json!(value))));
}

//! Stalls of the arms beside each other: the same columns for the terminal, the page and Markdown.

use serde_json::{Value, json};

use crate::column::Column;
use series::estimate::Estimate;
use stalls::arm::ArmStalls;
use units::written;
use verdict::run::{ArmRow, RunVerdict};

/// What is said above the columns.
pub const TITLE: &str = "Stalls over 1 ms a minute";

/// One arm's stalls: all of them, then each cause that any arm has; none when no arm was watched.
pub fn columns(verdict: &RunVerdict, row: &ArmRow) -> Vec<Column> {
    let watched = || {
        verdict
            .arms
            .iter()
            .filter_map(|arm| arm.cost.stalls.as_ref())
    };
    if watched().next().is_none() {
        return Vec::new();
    }
    let own = row.cost.stalls.as_ref();
    let all = own.map(|stalls| stalls.per_minute);
    let mut columns = vec![column("Stalls/min", all)];
    let causes = watched().flat_map(|stalls| &stalls.by_cause);
    let mut seen = Vec::new();
    for (cause, _) in causes.filter(|(_, rate)| rate.value > 0.0) {
        if !seen.contains(cause) {
            seen.push(*cause);
        }
    }
    seen.sort_unstable();
    for cause in seen {
        let of = |stalls: &ArmStalls| {
            let mut rates = stalls.by_cause.iter();
            rates.find(|(c, _)| *c == cause).map(|(_, rate)| *rate)
        };
        columns.push(column(cause.word(), own.and_then(of)));
    }
    columns
}

/// No rate is below zero, whatever its interval says.
fn column(title: &str, rate: Option<Estimate>) -> Column {
    let rate = rate.map(|rate| Estimate {
        lo: rate.lo.max(0.0),
        ..rate
    });
    Column::estimate(title, rate, 1.0, written::digits)
}

/// What the watching took, and whether it saw everything; empty when nothing was watched.
pub fn cost(verdict: &RunVerdict) -> String {
    let watched: Vec<&ArmStalls> = verdict
        .arms
        .iter()
        .filter_map(|arm| arm.cost.stalls.as_ref())
        .collect();
    let most = watched.iter().filter_map(|stalls| stalls.watch_cpu);
    let most = most.map(|cpu| cpu.value).fold(0.0, f64::max);
    let lost: u64 = watched.iter().map(|stalls| stalls.records_lost).sum();
    let losses = match lost {
        0 => String::new(),
        lost => format!(", and {} records were lost", written::count(lost as f64)),
    };
    match watched.is_empty() {
        true => String::new(),
        false => format!(
            " Watching for stalls is part of it: at most {} of a core for each process{losses}.",
            written::percent(most)
        ),
    }
}

pub fn json(stalls: &ArmStalls) -> Value {
    let estimate = |e: &Estimate| json!({ "value": e.value, "lo": e.lo, "hi": e.hi });
    let by_cause = stalls.by_cause.iter();
    let by_cause: serde_json::Map<String, Value> = by_cause
        .map(|(cause, rate)| (cause.word().to_string(), estimate(rate)))
        .collect();
    json!({
        "per_minute": estimate(&stalls.per_minute),
        "by_cause_per_minute": by_cause,
        "watch_cpu_cores": stalls.watch_cpu.as_ref().map(estimate),
        "records_lost_count": stalls.records_lost,
    })
}

//! What stands beside the samples of a run: events, who was in which group, and everything that weakens the run.

use super::harmless;
use crate::incidents::incidents;
use crate::{Report, event_word};
use units::written;
use verdict::check::CheckOutcome;

/// Every event; `number` is that of the charts.
pub fn events(report: &Report) -> String {
    let numbered = incidents(report);
    let header = ["t_s", "number", "event", "arm", "process", "words"];
    let rows = report.events.iter().map(|event| {
        let is_it = |one: &&crate::incidents::Incident| {
            one.t_s == event.t_s && one.kind == event.kind && event.words.starts_with(&one.words)
        };
        let number = numbered
            .iter()
            .find(is_it)
            .map(|one| one.number.to_string());
        vec![
            seconds(event.t_s),
            number.unwrap_or_default(),
            event_word(&event.kind),
            harmless(&event.arm),
            harmless(&event.process),
            harmless(&event.words),
        ]
    });
    table(&header, rows)
}

/// Every stretch of every process; `process` is the same as in the samples.
pub fn groups(report: &Report) -> String {
    let header = [
        "process",
        "member",
        "unit",
        "arm",
        "replica",
        "incarnation",
        "pid",
        "from_s",
        "until_s",
        "end",
        "counts",
        "proved",
        "library",
        "build_id",
        "command",
    ];
    let rows = report.groups.iter().map(|one| {
        vec![
            one.row.to_string(),
            harmless(&one.process),
            harmless(&one.unit),
            harmless(&one.arm),
            one.replica.to_string(),
            one.incarnation.to_string(),
            one.pid.to_string(),
            seconds(one.from_s),
            one.until_s.map(seconds).unwrap_or_default(),
            harmless(&one.end),
            harmless(&one.counts.words()),
            harmless(&one.proved),
            harmless(&one.library),
            harmless(&one.build_id),
            harmless(&one.command.join(" ")),
        ]
    });
    table(&header, rows)
}

/// Findings of the audit, checks, cautions, and what highwater itself took.
pub fn diagnostics(report: &Report) -> String {
    let verdict = &report.verdict;
    let own = &verdict.own;
    let row = |kind: &str, arm: &str, processes: &str, what: &str, effect: &str| {
        let mut row = vec![kind.to_owned()];
        row.extend([arm, processes, what, effect].map(harmless));
        row
    };
    let mut rows = Vec::new();
    for finding in &verdict.findings {
        let who = finding.processes.join("; ");
        rows.push(row("finding", "", &who, &finding.what, &finding.effect));
    }
    for check in &verdict.checks {
        let what = format!("{}: {}", check.check, check.observed);
        rows.push(row("check", &check.arm, "", &what, outcome(check)));
    }
    for arm in verdict.arms.iter().filter(|arm| arm.aborted.is_some()) {
        let why = arm.aborted.as_deref().unwrap_or_default();
        rows.push(row("aborted", &arm.arm, "", why, ""));
    }
    for caution in &report.recommendation.cautions {
        rows.push(row("caution", "", "", caution, ""));
    }
    let words = format!(
        "{} snapshots, {} missed",
        own.snapshots, own.snapshots_missed
    );
    let cost = format!(
        "{} of one core, {}, {} a snapshot, longest {}",
        written::percent(own.cpu),
        written::bytes(own.rss_bytes),
        written::nanoseconds(own.snapshot_ns_p50),
        written::nanoseconds(own.snapshot_ns_max)
    );
    rows.push(row("own", "", "", &words, &cost));
    table(
        &["kind", "arm", "processes", "what", "effect"],
        rows.into_iter(),
    )
}

fn outcome(check: &CheckOutcome) -> &'static str {
    match check.passed {
        Some(true) => "pass",
        Some(false) => "fail",
        None => "open",
    }
}

/// To the millisecond.
fn seconds(t_s: f64) -> String {
    format!("{t_s:.3}")
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing into memory cannot fail, and every row has as many fields as the header.
    let _ = writer.write_record(header);
    for row in rows {
        let _ = writer.write_record(&row);
    }
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

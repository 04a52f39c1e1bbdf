//! `kind = "remote"`: processes of other hosts, whose samples a Prometheus holds.

use std::path::PathBuf;

use super::known_arm;
use crate::file::syntax::fields::{Faults, Fields};
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::Table;
use crate::file::{Arm, Check, Condition, Remote, RemoteSeries};
use units::wording::quoted;

/// Keys of `[subject]` that only this kind has.
pub const KEYS: [&str; 4] = ["prometheus", "metric", "headers", "series"];

/// The plan, for a subject of this kind.
pub fn parse(fields: &Fields, arms: &[Placed<Arm>], faults: &Faults) -> Remote {
    if !fields.has("prometheus") {
        let message = "a remote subject has no `prometheus`";
        let help = "prometheus = \"http://127.0.0.1:9090\", the store that scrapes the hosts";
        faults.note_with_help(fields.place, message, help);
    }
    let url = fields.text("prometheus");
    if let Some(url) = &url {
        super::values::check_url(url, "prometheus", faults);
        if url.value.contains('@') {
            let message = "`prometheus` holds a name or password, which the record must not";
            let help = "headers = \"FILE\", with the line \"Authorization: Basic ...\" in it";
            faults.note_with_help(url.place, message, help);
        }
    }
    let names: Vec<&str> = arms.iter().map(|arm| arm.value.name.as_str()).collect();
    let tables = fields.tables("series").into_iter();
    let series: Vec<RemoteSeries> = tables.map(|t| one(t, &names, faults)).collect();
    for arm in arms {
        check_arm(arm, &series, faults);
    }
    Remote {
        url: url.map(|url| url.value).unwrap_or_default(),
        metric: fields.text("metric").map(|metric| metric.value),
        headers: fields.text("headers").map(|path| PathBuf::from(path.value)),
        series,
    }
}

fn one((table, place): (&Table, Place), names: &[&str], faults: &Faults) -> RemoteSeries {
    let series = Fields::new(
        table,
        place,
        "[[subject.series]]",
        &["arm", "match"],
        faults,
    );
    if !series.has("arm") {
        let message = "[[subject.series]] does not say which `arm` the series are";
        faults.note(place, message);
    }
    let matching = series.texts("match");
    if matching.is_empty() {
        let message = "[[subject.series]] does not say which series `match`";
        faults.note_with_help(place, message, "match = [\"arm=glibc\", \"job=tor\"]");
    }
    for text in matching
        .iter()
        .filter(|text| !text.value.contains('=') && !text.value.contains('~'))
    {
        let message = format!(
            "`match` is {}; write LABEL=VALUE, or LABEL=~REGEX",
            quoted(&text.value)
        );
        faults.note(text.place, message);
    }
    let arm = series.text("arm");
    RemoteSeries {
        arm: arm
            .map(|arm| known_arm(&arm, "arm", names, faults))
            .unwrap_or_default(),
        matching: matching.into_iter().map(|text| text.value).collect(),
    }
}

/// Every arm has series, and sets nothing that a process of another host cannot be given.
fn check_arm(arm: &Placed<Arm>, series: &[RemoteSeries], faults: &Faults) {
    let Placed { value: arm, place } = arm;
    let name = quoted(&arm.name);
    if !series.iter().any(|one| one.arm == arm.name) {
        let message = format!("arm {name} has no series");
        let help = "add [[subject.series]] with arm and match = [\"label=value\"]";
        faults.note_with_help(*place, message, help);
    }
    if arm.command.is_some() || !arm.arguments.is_empty() || !arm.environment.is_empty() {
        let what =
            "a command, arguments or an environment cannot be set for processes of other hosts";
        faults.note(*place, format!("arm {name}: {what}"));
    }
}

/// What must be tried on the process itself cannot be tried from here.
pub fn check_conditions(checks: &[Check], list: &str, faults: &Faults) {
    for check in checks {
        let kind = match &check.condition {
            Condition::Http { .. } => "http",
            Condition::Command { .. } => "command",
            _ => continue,
        };
        let message = format!(
            "[[{list}]] with `{kind}` cannot be tried on processes of other hosts: a remote subject is evaluated by \
             its samples"
        );
        faults.note(Place::WHOLE, message);
    }
}

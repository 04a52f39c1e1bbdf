//! `[subject]` and `[load]`, and the commands and environments that other tables have too.

use std::time::Duration;

use super::values::{check_url, command, environment, noted, placeholders, regex, status};
use super::{Context, attach, checks, directory, remote};
use crate::fake::Curve;
use crate::file::placeholder::Moment;
use crate::file::signal::parse_signal;
use crate::file::syntax::fields::{Faults, Fields};
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::{Table, Value};
use crate::file::{Arm, LoadPer, LoadPlan, Ready, Restart, Stop, SubjectKind, SubjectPlan};
use units::wording::quoted;

const KEYS: &[&str] = &[
    "kind",
    "command",
    "directory",
    "restart",
    "keep",
    "ends",
    "memory_limit",
    "metrics",
    "ready",
    "stop",
    "environment",
    "attach",
    "managed",
    "prometheus",
    "metric",
    "headers",
    "series",
];
const KINDS: &[(&str, SubjectKind)] = &[
    ("service", SubjectKind::Service),
    ("attach", SubjectKind::Attach),
    ("remote", SubjectKind::Remote),
    ("fake", SubjectKind::Fake),
];
const RESTARTS: &[(&str, Restart)] = &[
    ("never", Restart::Never),
    ("on-failure", Restart::OnFailure),
];
const LOAD_PER: &[(&str, LoadPer)] = &[("process", LoadPer::Process), ("run", LoadPer::Run)];
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(10);

pub fn parse(top: &Fields, arms: &[Placed<Arm>], context: &Context) -> SubjectPlan {
    let empty = Table::default();
    let (table, place) = top.table("subject").unwrap_or((&empty, Place::WHOLE));
    let faults = context.faults;
    let fields = Fields::new(table, place, "[subject]", KEYS, faults);
    let kind = fields.word("kind", KINDS).unwrap_or(SubjectKind::Service);
    let (ready, ready_timeout) = ready(&fields, "[subject.ready]", faults);
    let metrics = fields.text("metrics");
    if let Some(url) = &metrics {
        check_url(url, "metrics", faults);
    }
    let plan = SubjectPlan {
        kind,
        command: command(&fields, "command", Moment::BeforeStart, faults).unwrap_or_default(),
        directory: directory(&fields),
        environment: environment(&fields, Moment::BeforeStart, faults),
        ready,
        ready_timeout,
        stop: stop(&fields, "[subject.stop]", faults),
        restart: fields.word("restart", RESTARTS).unwrap_or(Restart::Never),
        keep: fields.boolean("keep").unwrap_or(false),
        ends: fields.boolean("ends").unwrap_or(false),
        memory_limit: fields
            .bytes("memory_limit")
            .map(|limit| checks::positive(limit, "memory_limit", faults)),
        metrics: metrics.map(|url| url.value),
        attach: attach::parse(&fields, arms, context),
        managed: fields.boolean("managed").unwrap_or(false),
        remote: (kind == SubjectKind::Remote).then(|| remote::parse(&fields, arms, faults)),
    };
    check_kind(&plan, &fields, arms, faults);
    plan
}

pub fn parse_load(top: &Fields, kind: SubjectKind, context: &Context) -> Option<LoadPlan> {
    let (table, place) = top.table("load")?;
    let faults = context.faults;
    let keys = ["command", "per", "environment", "directory"];
    let fields = Fields::new(table, place, "[load]", &keys, faults);
    if !fields.has("command") {
        faults.note(place, "[load] has no `command`");
    }
    let why = match kind {
        SubjectKind::Fake => Some("a fake subject has no process that a load could reach"),
        SubjectKind::Remote => Some("a remote subject is only read: it has no load of ours"),
        _ => None,
    };
    if let Some(why) = why {
        faults.note(place, why);
    }
    Some(LoadPlan {
        command: command(&fields, "command", Moment::Running, faults).unwrap_or_default(),
        per: fields.word("per", LOAD_PER).unwrap_or(LoadPer::Process),
        environment: environment(&fields, Moment::Running, faults),
        directory: directory(&fields),
    })
}

/// A fake arm has a curve, and no other has.
fn check_curves(kind: SubjectKind, arms: &[Placed<Arm>], faults: &Faults) {
    for arm in arms {
        let name = quoted(&arm.value.name);
        match (kind, &arm.value.curve) {
            (SubjectKind::Fake, None) => {
                let help =
                    "the shape that its memory takes, for example curve = \"100MiB + 1MiB/s\"";
                faults.note_with_help(
                    arm.place,
                    format!("arm {name} of a fake subject has no `curve`"),
                    help,
                );
            }
            (SubjectKind::Fake, Some(curve)) => {
                if let Err(why) = Curve::parse(curve) {
                    faults.note(arm.place, format!("arm {name}: {why}"));
                }
            }
            (_, None) => {}
            (_, Some(_)) => faults.note(
                arm.place,
                format!("arm {name}: `curve` is for a fake subject"),
            ),
        }
    }
}

/// What belongs to one kind of subject only.
fn check_kind(plan: &SubjectPlan, fields: &Fields, arms: &[Placed<Arm>], faults: &Faults) {
    let refuse = |key: &str, why: &str| {
        if fields.has(key) {
            faults.note(fields.place_of(key), format!("`{key}` {why}"));
        }
    };
    check_curves(plan.kind, arms, faults);
    check_remote(plan.kind, fields, faults);
    match plan.kind {
        SubjectKind::Service => {
            for key in ["attach", "managed"] {
                refuse(key, "is for kind = \"attach\"");
            }
            let without = arms.iter().any(|arm| arm.value.command.is_none());
            if without && !fields.has("command") {
                let message = "the subject has no `command`, and neither has every arm";
                faults.note_with_help(
                    fields.place,
                    message,
                    "command = [\"./server\", \"--port\", \"{port}\"]",
                );
            }
        }
        SubjectKind::Attach => {
            for key in [
                "command",
                "environment",
                "directory",
                "memory_limit",
                "restart",
                "keep",
                "stop",
                "ready",
            ] {
                refuse(
                    key,
                    "cannot be set for processes that already run (kind = \"attach\")",
                );
            }
            attach::check(arms, plan, faults);
        }
        SubjectKind::Remote => {}
        SubjectKind::Fake => {
            for key in [
                "command",
                "attach",
                "managed",
                "environment",
                "ready",
                "metrics",
            ] {
                refuse(key, "has no meaning for a fake subject: nothing is started");
            }
        }
    }
}

/// A remote subject has keys of its own and no others.
fn check_remote(kind: SubjectKind, fields: &Fields, faults: &Faults) {
    let is_remote = kind == SubjectKind::Remote;
    let why = match is_remote {
        true => "cannot be set for processes of other hosts (kind = \"remote\")",
        false => "is for kind = \"remote\"",
    };
    let others = KEYS.iter().filter(|key| **key != "kind");
    for key in others.filter(|key| remote::KEYS.contains(*key) != is_remote && fields.has(key)) {
        faults.note(fields.place_of(key), format!("`{key}` {why}"));
    }
}

pub fn ready(fields: &Fields, title: &'static str, faults: &Faults) -> (Option<Ready>, Duration) {
    let Some((table, place)) = fields.table("ready") else {
        return (None, READY_TIMEOUT);
    };
    let keys = ["http", "status", "log", "tcp", "timeout"];
    let fields = Fields::new(table, place, title, &keys, faults);
    let timeout = fields
        .duration("timeout")
        .map_or(READY_TIMEOUT, |timeout| timeout.value);
    let given: Vec<&str> = ["http", "log", "tcp"]
        .into_iter()
        .filter(|key| fields.has(key))
        .collect();
    if given.len() != 1 {
        let message = format!("{title} needs exactly one of `http`, `log` and `tcp`");
        faults.note(
            given.get(1).map_or(place, |key| fields.place_of(key)),
            message,
        );
    }
    let status = status(&fields, faults);
    let ready = if let Some(url) = fields.text("http") {
        check_url(&url, "http", faults);
        Some(Ready::Http {
            url: url.value,
            status,
        })
    } else if let Some(regex) = regex(&fields, "log", faults) {
        Some(Ready::Log { regex })
    } else {
        fields.text("tcp").map(|address| tcp(address, faults))
    };
    (ready, timeout)
}

fn tcp(address: Placed<String>, faults: &Faults) -> Ready {
    placeholders(&address, Moment::Running, faults);
    let good = address.value.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && (port.starts_with('{') || port.parse::<u16>().is_ok_and(|port| port > 0))
    });
    if !good {
        let message = format!(
            "`tcp` is {}; write 127.0.0.1:{{port}}",
            quoted(&address.value)
        );
        faults.note(address.place, message);
    }
    Ready::Tcp {
        address: address.value,
    }
}

pub fn stop(fields: &Fields, title: &'static str, faults: &Faults) -> Stop {
    let Some((table, place)) = fields.table("stop") else {
        return Stop {
            signal: libc::SIGTERM,
            grace: GRACE,
        };
    };
    let fields = Fields::new(table, place, title, &["signal", "grace"], faults);
    // A number is as good as a name.
    let number = fields.node("signal").and_then(|node| match node.value {
        Value::Integer(number) => Some(Placed {
            value: number.to_string(),
            place: node.place,
        }),
        _ => None,
    });
    let signal = number.or_else(|| fields.text("signal"));
    let signal = signal.and_then(|text| noted(parse_signal(&text.value), text.place, faults));
    Stop {
        signal: signal.unwrap_or(libc::SIGTERM),
        grace: fields.duration("grace").map_or(GRACE, |grace| grace.value),
    }
}

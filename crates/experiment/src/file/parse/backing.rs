//! `[backing]`: the service that every process of the subject needs.

use super::subject::{ready, stop};
use super::values::{command, environment};
use super::{Context, directory};
use crate::file::placeholder::Moment;
use crate::file::syntax::fields::Fields;
use crate::file::{BackingPlan, SubjectKind};
use crate::placeholder::mentions;

const KEYS: &[&str] = &["command", "directory", "ready", "stop", "environment"];

/// Placeholders of a process of an arm, and of the backing service itself as others see it.
const OF_OTHERS: &[&str] = &["arm", "replica", "backing", "backing_port"];

pub fn parse(top: &Fields, kind: SubjectKind, context: &Context) -> Option<BackingPlan> {
    let (table, place) = top.table("backing")?;
    let faults = context.faults;
    let fields = Fields::new(table, place, "[backing]", KEYS, faults);
    if !fields.has("command") {
        faults.note(place, "[backing] has no `command`");
    }
    if kind != SubjectKind::Service {
        let message = "[backing] is for processes that highwater starts (kind = \"service\")";
        faults.note(place, message);
    }
    let (ready, ready_timeout) = ready(&fields, "[backing.ready]", faults);
    let plan = BackingPlan {
        command: command(&fields, "command", Moment::BeforeStart, faults).unwrap_or_default(),
        directory: directory(&fields),
        environment: environment(&fields, Moment::BeforeStart, faults),
        ready,
        ready_timeout,
        stop: stop(&fields, "[backing.stop]", faults),
    };
    let texts = plan.command.iter().chain(plan.environment.values());
    for text in texts {
        for name in OF_OTHERS.iter().filter(|name| mentions(text, name)) {
            let message = format!("[backing] belongs to no arm: {{{name}}} has no value in it");
            faults.note(place, message);
        }
    }
    Some(plan)
}

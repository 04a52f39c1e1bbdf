//! `[[subject.attach]]`: which running processes are meant, and in which arm each is.

use std::collections::BTreeSet;

use super::values::regex;
use super::{Context, known_arm, path};
use crate::attach::glob::Glob;
use crate::file::syntax::fields::{Faults, Fields};
use crate::file::syntax::problem::{Place, Placed};
use crate::file::syntax::tree::{Table, Value};
use crate::file::{Arm, AttachGroup, SubjectPlan};
use units::wording::quoted;

const KEYS: &[&str] = &[
    "arm", "pids", "exe", "args", "unit", "environ", "cgroup", "groups",
];
/// Keys that say which processes are meant.
const CRITERIA: &[&str] = &["pids", "exe", "args", "unit", "environ", "cgroup"];

/// Every arm of an attach experiment has processes, and sets nothing that a running process cannot take on.
pub fn check(arms: &[Placed<Arm>], plan: &SubjectPlan, faults: &Faults) {
    // A file says at the start of the run which arms it knows.
    let by_file = plan.attach.iter().any(|group| group.groups.is_some());
    for Placed { value: arm, place } in arms {
        let name = quoted(&arm.name);
        if !by_file && !plan.attach.iter().any(|group| group.arm == arm.name) {
            let message = format!("arm {name} has no processes to attach to");
            let help = "add [[subject.attach]] with arm and pids = [...], unit = \"name@*.service\" or exe = \"regex\"";
            faults.note_with_help(*place, message, help);
        }
        if arm.command.is_some() || !arm.arguments.is_empty() || !arm.environment.is_empty() {
            let what = "a command, arguments or an environment cannot be set";
            faults.note(
                *place,
                format!("arm {name}: {what} for processes that already run"),
            );
        }
    }
}

pub fn parse(fields: &Fields, arms: &[Placed<Arm>], context: &Context) -> Vec<AttachGroup> {
    let names: Vec<&str> = arms.iter().map(|arm| arm.value.name.as_str()).collect();
    let mut pids_seen = BTreeSet::new();
    let group =
        |(table, place): (&Table, Place)| one(table, place, &names, &mut pids_seen, context.faults);
    fields.tables("attach").into_iter().map(group).collect()
}

fn one(
    table: &Table,
    place: Place,
    names: &[&str],
    pids_seen: &mut BTreeSet<i32>,
    faults: &Faults,
) -> AttachGroup {
    let group = Fields::new(table, place, "[[subject.attach]]", KEYS, faults);
    let arm = group.text("arm");
    match (group.has("arm"), group.has("groups")) {
        (false, false) => faults.note(
            place,
            "[[subject.attach]] does not say which `arm` the processes are",
        ),
        (true, true) => faults.note(
            group.place_of("arm"),
            "`arm` and `groups` exclude each other: the file says the arm of each process",
        ),
        _ => {}
    }
    if !CRITERIA.iter().any(|key| group.has(key)) && !group.has("groups") {
        let message = "[[subject.attach]] names no processes";
        let help = "pids = [1234, 1235], or unit = \"name@*.service\", or exe = \"regex\", args = \"regex\", environ = \
                    { NAME = \"value\" }, cgroup = \"/path/*\", or groups = \"FILE.csv\"";
        faults.note_with_help(place, message, help);
    }
    if group.has("pids") && CRITERIA[1..].iter().any(|key| group.has(key)) {
        let message =
            "`pids` stands alone: a process that is known by its number needs no other sign";
        faults.note(group.place_of("pids"), message);
    }
    AttachGroup {
        arm: arm
            .map(|arm| known_arm(&arm, "arm", names, faults))
            .unwrap_or_default(),
        pids: pids(&group, pids_seen, faults),
        exe: regex(&group, "exe", faults),
        args: regex(&group, "args", faults),
        units: units(&group, faults),
        environ: environ(&group, faults),
        cgroup: group
            .text("cgroup")
            .map(|path| glob(&path, "cgroup", faults)),
        groups: path(&group, "groups"),
    }
}

fn units(group: &Fields, faults: &Faults) -> Vec<String> {
    if group.has("unit") && group.texts("unit").is_empty() {
        faults.note(group.place_of("unit"), "`unit` is empty");
    }
    let names = group.texts("unit").into_iter();
    names
        .map(|name| {
            let name = glob(&name, "unit", faults);
            with_suffix(&name)
        })
        .collect()
}

/// `tor@a` is `tor@a.service`, as systemctl has it.
pub fn with_suffix(unit: &str) -> String {
    match unit.rsplit_once('.') {
        Some((_, "service" | "scope")) => unit.to_owned(),
        _ => format!("{unit}.service"),
    }
}

fn environ(group: &Fields, faults: &Faults) -> std::collections::BTreeMap<String, String> {
    let wanted = group.environment("environ").into_iter();
    wanted
        .map(|(name, value)| (name, glob(&value, "environ", faults)))
        .collect()
}

/// The pattern as it was typed; noted when it is none.
fn glob(text: &Placed<String>, key: &str, faults: &Faults) -> String {
    if text.value.is_empty() {
        faults.note(text.place, format!("`{key}` is empty"));
    }
    if let Err(why) = Glob::new(&text.value) {
        faults.note(text.place, format!("`{key}`: {why}"));
    }
    text.value.clone()
}

fn pids(group: &Fields, seen: &mut BTreeSet<i32>, faults: &Faults) -> Vec<i32> {
    let numbers = group.integers("pids");
    if numbers.is_empty()
        && group
            .node("pids")
            .is_some_and(|node| matches!(&node.value, Value::List(items) if items.is_empty()))
    {
        faults.note(group.place_of("pids"), "`pids` is empty");
    }
    let pid = |number: Placed<i128>| match i32::try_from(number.value).ok().filter(|pid| *pid > 0) {
        Some(pid) if seen.insert(pid) => Some(pid),
        Some(pid) => {
            faults.note(
                number.place,
                format!("process {pid} is listed twice; it can be in one arm only"),
            );
            None
        }
        None => {
            faults.note(number.place, format!("{} is no process id", number.value));
            None
        }
    };
    numbers.into_iter().filter_map(pid).collect()
}

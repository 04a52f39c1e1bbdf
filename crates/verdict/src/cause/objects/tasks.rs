//! Tasks that become more: goroutines, threads.

use super::super::Cause;
use super::MOST;
use super::finding::Finding;
use super::frames::{is_own, named, short};
use memory::managed::{ManagedGrowth, TaskGrowth};
use runtimes::{Frame, Language};

/// Tasks that must have become more, and by this share of those before, to be named.
const TASKS_MIN: f64 = 10.0;
const TASKS_SHARE: f64 = 0.05;

const THREAD: &str = "java.lang.Thread";

/// What holds most of the objects that grow is the stacks of these tasks, whoever wrote their functions.
pub fn is_held_by(managed: &ManagedGrowth, tasks: &TaskGrowth) -> bool {
    let root = managed.roots.first().and_then(|of| of.root.stack_of());
    let places = tasks.group.frames.iter().chain(&tasks.group.created_by);
    let mut functions = places.filter_map(|frame| frame.function.as_deref());
    root.is_some_and(|root| {
        functions.any(|function| function == root || root.starts_with(&format!("{function}.")))
    })
}

/// More tasks of the same origin, not only other places at which the same ones stand.
pub fn is_many(tasks: &TaskGrowth) -> bool {
    let all = tasks.of_creator;
    let before = all.level - all.grown;
    let is_new = all.is_clear && all.grown >= MOST * tasks.tasks.grown;
    is_new && all.grown >= TASKS_MIN.max(TASKS_SHARE * before)
}

pub fn by_task(managed: &ManagedGrowth, tasks: &TaskGrowth) -> Finding {
    let group = &tasks.group;
    let noun = match managed.language {
        Language::Go => "goroutines",
        _ => "threads",
    };
    let all = tasks.of_creator;
    let waits = group
        .waits_for
        .as_ref()
        .map_or_else(String::new, |wait| format!(" that wait ({wait})"));
    let at = where_they_wait(&group.frames);
    let starters = starters(managed);
    let created = group.created_by.as_ref().and_then(named);
    let by = match (&created, &starters[..]) {
        (Some(maker), _) => format!(", started by {maker}"),
        (None, []) => String::new(),
        (None, code) => format!("; code that starts {noun}: {}", code.join(", ")),
    };
    let maker = created.or(starters.into_iter().next());
    let each = group.bytes as f64 / group.tasks.max(1) as f64;
    let (now, before) = (all.level, all.level - all.grown);
    let what = match group.created_by.is_some() {
        true => format!("{noun}{waits}{at}{by} rise from {before:.0} to {now:.0}"),
        // Who starts them is not known: the number is that of all.
        false => format!(
            "{noun} rise from {before:.0} to {now:.0}, of them {:.0}{waits}{at}{by}",
            tasks.tasks.level
        ),
    };
    let next = match &maker {
        Some(maker) => {
            format!("read {maker}: what it starts does not end; give the wait a timeout or an end")
        }
        None => format!("find out who starts these {noun} and what should end them"),
    };
    Finding {
        cause: Cause::Leak,
        bytes: each * all.grown,
        values: all.values,
        by_part: false,
        by_task: true,
        is_certain: group.created_by.is_some(),
        sentence: format!("a leak of {noun}: {what}"),
        next,
    }
}

/// Functions of the program that start threads, where the objects of threads tell.
fn starters(managed: &ManagedGrowth) -> Vec<String> {
    let holder = managed.holder_of(THREAD);
    let makers = holder.into_iter().flat_map(|holder| &holder.makers);
    makers.map(|maker| short(maker)).collect()
}

/// Where tasks stand, and which they are: ", in acceptLoop (Server.java:40)", " (pool-N-thread-N)".
fn where_they_wait(frames: &[Frame]) -> String {
    let name_of = |frame: &Frame| {
        let function = frame.function.as_deref()?;
        Some(function.strip_prefix('[')?.strip_suffix(']')?.to_owned())
    };
    let name = frames.last().and_then(name_of);
    let frames = &frames[..frames.len() - usize::from(name.is_some())];
    let own = frames.iter().find(is_own);
    // All is the runtime's: what the thread was started for tells most.
    let last = frames.iter().rfind(|frame| {
        !frame
            .function
            .as_deref()
            .is_some_and(|of| of.starts_with(THREAD))
    });
    let place = match name {
        Some(_) => own.or(last),
        None => own.or(frames.first()),
    };
    let called = name.map_or_else(String::new, |name| format!(" ({name})"));
    let place = place.and_then(named);
    let place = place.map_or_else(String::new, |place| format!(" in {place}"));
    format!("{place}{called}")
}

//! A plan for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::SCHEMA;
use report::visible::{visible, visible_lines};
use rollout::adopt::Ended;
use rollout::plan::{After, Instance, Plan, PlannedFile, Proposal};
use rollout::predict::Prediction;
use units::written;

/// The whole plan: files with their exact content, units, order, what is in the way.
pub fn plan(proposal: &Proposal, headline: &str, said: &[String]) -> String {
    let plan = &proposal.plan;
    let mut out = format!(
        "Adopt arm {} of run {}: {} of {}\n",
        plan.arm,
        plan.run,
        instances(plan.instances.len()),
        plan.patterns.join(", ")
    );
    let mut line = |name: &str, words: &str| {
        let _ = writeln!(out, "  {name:<10} {}", visible(words));
    };
    line("the run", headline);
    said.iter().for_each(|words| line("", words));
    for source in &plan.libraries {
        let build_id = source.build_id.as_deref().unwrap_or("none");
        line(
            "library",
            &format!(
                "{} (sha256 {}, build id {build_id})",
                source.from.display(),
                &source.sha256[..16]
            ),
        );
    }
    if let Some(prediction) = &plan.prediction {
        line("predicted", &predicted(prediction));
    }
    out.push_str(&files(&plan.files));
    out.push_str(&steps(plan));
    for note in &proposal.notes {
        let _ = writeln!(out, "note: {}", visible(note));
    }
    for problem in &proposal.problems {
        let _ = writeln!(out, "problem: {}", visible(problem));
    }
    out
}

pub fn instances(n: usize) -> String {
    match n {
        1 => "1 instance".to_owned(),
        n => format!("{n} instances"),
    }
}

/// `20 x 52.3 MiB = 1.02 GiB (0.98 to 1.07 GiB) ...`.
pub fn predicted(prediction: &Prediction) -> String {
    let total = prediction.total;
    format!(
        "{} x {} = {} under the run's load (from {} of {}, {})",
        prediction.instances,
        written::bytes(prediction.mean_bytes),
        written::bytes_interval(total.value, total.lo, total.hi),
        match prediction.processes {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        },
        written::seconds(prediction.age_s),
        prediction.label.word()
    )
}

/// Each file; of several with the same text, the text once.
fn files(files: &[PlannedFile]) -> String {
    let mut out = String::from("\nFiles\n");
    let mut shown: Option<&After> = None;
    for file in files {
        let word = if file.before.is_some() {
            "replace"
        } else {
            "new"
        };
        match &file.after {
            After::CopyOf(from) => {
                let _ = writeln!(
                    out,
                    "  {word:<8} {} (a copy of {})",
                    file.path.display(),
                    from.display()
                );
            }
            After::Text(_) if shown == Some(&file.after) && file.before.is_none() => {
                let _ = writeln!(out, "  {word:<8} {} (the same)", file.path.display());
            }
            After::Text(text) => {
                let _ = writeln!(out, "  {word:<8} {}", file.path.display());
                out.push_str(&difference(file, text));
            }
        }
        shown = Some(&file.after);
    }
    out
}

/// What is taken out and what is put in; both are a few lines.
fn difference(file: &PlannedFile, text: &str) -> String {
    let before = file
        .before
        .as_ref()
        .and_then(|kept| kept.bytes().ok())
        .unwrap_or_default();
    let before = String::from_utf8_lossy(&before).into_owned();
    let minus = before
        .lines()
        .filter(|line| !text.lines().any(|new| new == *line));
    let mut out: String = minus
        .map(|line| format!("    - {}\n", visible_lines(line)))
        .collect();
    for line in text.lines() {
        let mark = if before.lines().any(|old| old == line) {
            ' '
        } else {
            '+'
        };
        out.push_str(&format!("    {mark} {}\n", visible_lines(line)));
    }
    out
}

fn steps(plan: &Plan) -> String {
    let timing = plan.timing;
    let mut out = String::from("\nThen\n  systemctl daemon-reload\n");
    for (n, instance) in plan.instances.iter().enumerate() {
        let pause = match n {
            0 => String::new(),
            _ => format!("  after {}", written::seconds(timing.pause_s)),
        };
        let _ = writeln!(out, "  systemctl restart {}{pause}", instance.unit);
    }
    let _ = writeln!(
        out,
        "  each within {}: active, proved to run the arm, {}; and still so {} later",
        written::seconds(timing.health_s),
        visible(&plan.health.to_string()),
        written::seconds(timing.settle_s)
    );
    out.push_str("  at the first failure everything is undone\n\n");
    out
}

/// `what` is plan or adopt.
pub fn plan_json(proposal: &Proposal, what: &str) -> Value {
    let plan = &proposal.plan;
    let file = |file: &PlannedFile| {
        let (text, copy_of) = match &file.after {
            After::Text(text) => (Some(text.clone()), None),
            After::CopyOf(from) => (None, Some(from.clone())),
        };
        json!({
            "path": file.path,
            "text": text,
            "copy_of": copy_of,
            "sha256": file.sha256,
            "replaces": file.before.is_some(),
        })
    };
    let instance = |instance: &Instance| {
        json!({
            "unit": instance.unit,
            "pid": instance.pid,
            "environment": instance.environment,
        })
    };
    json!({
        "schema": SCHEMA,
        "action": what,
        "rollout": plan.id,
        "arm": plan.arm,
        "run": plan.run,
        "units": plan.patterns,
        "libraries": plan.libraries,
        "folders": plan.folders,
        "files": plan.files.iter().map(file).collect::<Vec<_>>(),
        "instances": plan.instances.iter().map(instance).collect::<Vec<_>>(),
        "health": plan.health,
        "timing": plan.timing,
        "prediction": plan.prediction.as_ref().map(prediction_json),
        "notes": proposal.notes,
        "problems": proposal.problems,
    })
}

pub fn prediction_json(prediction: &Prediction) -> Value {
    json!({
        "label": prediction.label.word(),
        "mean_bytes": prediction.mean_bytes,
        "spread_bytes": prediction.spread_bytes,
        "processes": prediction.processes,
        "age_s": prediction.age_s,
        "instances": prediction.instances,
        "total_bytes": prediction.total.value,
        "total_bytes_lo": prediction.total.lo,
        "total_bytes_hi": prediction.total.hi,
    })
}

/// How a rollout ended: a word for programs, a sentence for people.
pub fn ended(plan: &Plan, ended: &Ended) -> (&'static str, String) {
    let arm = &plan.arm;
    match ended {
        Ended::Adopted => (
            "adopted",
            format!(
                "Adopted: {} of {} run arm {arm}. `highwater adopt --status` checks it; `highwater revert \
                 --yes` takes it back.",
                instances(plan.instances.len()),
                plan.patterns.join(", ")
            ),
        ),
        Ended::RolledBack { why, left } if left.is_empty() => (
            "rolled-back",
            format!("Not adopted: {why}. Everything is as it was."),
        ),
        Ended::RolledBack { why, left } => (
            "rolled-back",
            format!("Not adopted: {why}. The files are as they were; not well: {left}."),
        ),
        Ended::Stuck { why, then } => (
            "stuck",
            format!(
                "Not adopted: {why}. And not everything could be undone: {then}. `highwater revert --yes` goes on."
            ),
        ),
        Ended::Stopped { done } => (
            "stopped",
            format!(
                "Stopped half way: {done} of {} run arm {arm}, every drop-in is in place. `highwater adopt --resume \
                 --yes` goes on; `highwater revert --yes` takes it back.",
                instances(plan.instances.len())
            ),
        ),
    }
}

//! `run --dry-run`: the plan in full, nothing run.

use std::collections::BTreeMap;

use super::decide::Schedule;
use super::{prepare, start};
use crate::cli::exit;
use crate::cli::out::{print as print_text, say};
use experiment::file::redact::redact_experiment;
use experiment::file::{Arm, Experiment, SubjectKind, freeze};
use report::visible::visible_lines;
use units::wording::shell_word;
use units::{write_duration_exact, written};

/// Every command and environment as it would be started, then the effective experiment file.
pub fn print(experiment: Experiment, until_decided: bool) -> anyhow::Result<u8> {
    let missing = missing(&experiment)?;
    let plan = redact_experiment(&experiment);
    let stop = match until_decided {
        true => stop_words(&plan),
        false => String::new(),
    };
    print_text(&visible_lines(&words(&plan, &stop)))?;
    if !missing.is_empty() {
        say!(
            "highwater: a run would not start here now:\n  {}",
            missing.join("\n  ")
        );
    }
    Ok(exit::DONE)
}

/// What a run would meet on this machine: warnings are said, what would stop it is the value.
///
/// # Errors
/// A misspelt tunable, as a run would refuse it.
fn missing(experiment: &Experiment) -> anyhow::Result<Vec<String>> {
    let (prepared, mut problems) = prepare::prepare_nothing(experiment.clone())?;
    let found = start::examine(&prepared);
    for warning in prepared.warnings.iter().chain(&found.warnings) {
        say!("highwater: {warning}");
    }
    problems.extend(found.problems);
    Ok(problems)
}

fn words(plan: &Experiment, stop: &str) -> String {
    let mut out = match plan.hypothesis.as_str() {
        "" => format!("{}\n", plan.name),
        hypothesis => format!("{}: {hypothesis}\n", plan.name),
    };
    out.push_str(&format!(
        "{}, {} for {} with a snapshot every {}, the first {} left out; seed {}\n",
        written::counted(plan.arms.len() as u64, "arm", "arms"),
        processes_words(plan),
        write_duration_exact(plan.duration),
        write_duration_exact(plan.interval),
        write_duration_exact(plan.warmup),
        plan.seed,
    ));
    out.push_str(stop);
    if let Some(backing) = &plan.backing {
        out.push_str(&format!("\nbacking: {}\n", shell(&backing.command)));
    }
    if !plan.subject.environment.is_empty() {
        out.push_str("\nevery arm\n");
        out.push_str(&environment_words(&plan.subject.environment));
    }
    for arm in &plan.arms {
        out.push_str(&arm_words(plan, arm));
    }
    if let Some(load) = &plan.load {
        let per = format!("{:?}", load.per).to_lowercase();
        out.push_str(&format!("\nload (per {per}): {}\n", shell(&load.command)));
    }
    out.push_str("\nThe experiment with every default and override in it:\n\n");
    out.push_str(&freeze(plan));
    out
}

/// Of each arm; nobody knows beforehand how many of those that run already there are.
fn processes_words(plan: &Experiment) -> String {
    match plan.subject.kind {
        SubjectKind::Attach | SubjectKind::Remote => "processes that run already,".to_owned(),
        SubjectKind::Service | SubjectKind::Fake => {
            let of_each = written::counted(u64::from(plan.replicas), "process", "processes");
            format!("{of_each} each,")
        }
    }
}

/// When the stop rule looks.
fn stop_words(plan: &Experiment) -> String {
    let schedule = Schedule::of(plan);
    let warmup_s = plan.warmup.as_secs_f64();
    format!(
        "until decided: the first decision is possible after {}, then whenever the window has grown by a \
         quarter, {} in all; at most {}\n",
        written::seconds(schedule.first_s + warmup_s),
        schedule.count(),
        written::seconds(schedule.last_s + warmup_s),
    )
}

fn arm_words(plan: &Experiment, arm: &Arm) -> String {
    let control = if arm.name == plan.control {
        " (control)"
    } else {
        ""
    };
    let mut out = format!("\narm {}{control}\n", arm.name);
    let allocator = if arm.allocator.is_empty() {
        "as the program comes"
    } else {
        &arm.allocator
    };
    out.push_str(&format!("  allocator    {allocator}\n"));
    if plan.subject.kind == SubjectKind::Service {
        let mut command = arm
            .command
            .clone()
            .unwrap_or_else(|| plan.subject.command.clone());
        command.extend(arm.arguments.clone());
        out.push_str(&format!("  command      {}\n", shell(&command)));
    }
    out.push_str(&environment_words(&arm.environment));
    if let Some(curve) = &arm.curve {
        out.push_str(&format!("  curve        {curve}\n"));
    }
    out
}

fn environment_words(variables: &BTreeMap<String, String>) -> String {
    let line = |(name, value): (&String, &String)| format!("  environment  {name}={value}\n");
    variables.iter().map(line).collect()
}

/// Words as a shell would take them.
fn shell(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

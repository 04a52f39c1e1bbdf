//! `run --dry-run`: the plan in full, nothing run.

use std::collections::BTreeMap;

use super::decide::Schedule;
use crate::cli::exit;
use crate::subject::experiment::{Arm, Experiment, SubjectKind, freeze, redact::redact_experiment};
use crate::units::written;

/// Every command and environment as it would be started, then the effective experiment file.
pub fn print(experiment: &Experiment, until_decided: bool) -> anyhow::Result<u8> {
    let plan = redact_experiment(experiment);
    let stop = match until_decided {
        true => stop_words(&plan),
        false => String::new(),
    };
    anstream::print!("{}", words(&plan, &stop));
    Ok(exit::DONE)
}

fn words(plan: &Experiment, stop: &str) -> String {
    let mut out = format!("{}: {}\n", plan.name, plan.hypothesis);
    out.push_str(&format!(
        "{} arms x {} processes for {} at a look every {}, the first {} left out; seed {}\n",
        plan.arms.len(),
        plan.replicas,
        humantime::format_duration(plan.duration),
        humantime::format_duration(plan.interval),
        humantime::format_duration(plan.warmup),
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
        out.push_str(
            &format!("\nload ({:?}): {}\n", load.per, shell(&load.command)).to_lowercase(),
        );
    }
    out.push_str("\nThe experiment with every default and override in it:\n\n");
    out.push_str(&freeze(plan));
    out
}

/// When the stop rule looks.
fn stop_words(plan: &Experiment) -> String {
    let schedule = Schedule::of(plan);
    let warmup_s = plan.warmup.as_secs_f64();
    format!(
        "until decided: the first look that may decide after {}, then whenever the window has grown by a \
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
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

//! `replay --experiment FILE`: the recorded program on its own allocator and on the best remedies, as an experiment.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::Report;
use super::runs::Played;
use crate::cli::exit::Usage;
use experiment::file::redact::redact_value;
use experiment::file::replayed::{Predicted, ReplayFacts, ReplayedArm, duration_of, of_replay};
use replay::{Against, Curve, End, Interval, Range, Remedy};
use trace::Trace;

/// Remedies in the file, besides the recorded arm.
const REMEDIES: usize = 3;

/// Finds out before the replays what would fail after them.
///
/// # Errors
/// The file exists, its folder does not, or the trace does not say how the program was started.
pub fn check(path: &Path, trace: &Trace) -> anyhow::Result<()> {
    let shown = path.display();
    if path.exists() {
        let words =
            format!("{shown} exists already: choose another name with --experiment, or delete it");
        return Err(Usage(words).into());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(Usage(format!("{shown}: its folder is not there")).into());
    }
    if command(trace).is_none() {
        let words = "the trace does not say how its program was started (an earlier highwater made it): record it \
            again";
        return Err(Usage(words.to_owned()).into());
    }
    Ok(())
}

/// Writes the file; the names of its arms.
///
/// # Errors
/// It exists, or cannot be written.
pub fn write(path: &Path, report: &Report) -> anyhow::Result<Vec<String>> {
    let arms = arms(report);
    let names = arms.iter().map(|arm| arm.name.clone()).collect();
    let text = of_replay(&facts(report, arms));
    let writing = || path.display().to_string();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(writing)?;
    file.write_all(text.as_bytes()).with_context(writing)?;
    Ok(names)
}

fn command(trace: &Trace) -> Option<Vec<String>> {
    let command: Vec<String> = serde_json::from_str(trace.about("command")?).ok()?;
    (!command.is_empty()).then_some(command)
}

fn facts(report: &Report, arms: Vec<ReplayedArm>) -> ReplayFacts {
    let trace = &report.trace;
    let runtime = trace.about("runtime").unwrap_or_default().split('\t');
    let pair = |set: &str| {
        let (name, value) = set.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    ReplayFacts {
        program: trace.about("program").unwrap_or_default().to_owned(),
        trace: trace.path.display().to_string(),
        command: command(trace).unwrap_or_default(),
        directory: trace.about("directory").map(str::to_owned),
        environment: runtime.filter_map(pair).collect(),
        recorded: recorded(trace),
        is_whole_life: trace.is_whole_life(),
        unpredicted: unpredicted(report).unwrap_or_default().to_owned(),
        arms,
    }
}

fn recorded(trace: &Trace) -> Duration {
    Duration::from_nanos(trace.facts.off_ns.unwrap_or(trace.facts.length_ns))
}

/// The recorded arm, then the best: those with less memory, or where there are none those that cost less CPU.
fn arms(report: &Report) -> Vec<ReplayedArm> {
    let glibc_runs = is_glibc(report);
    let can_run = |remedy: &&Remedy| {
        let arm = &report.played[remedy.index].arm;
        remedy.against != Against::Today && (glibc_runs || arm.library.path.is_some())
    };
    let mut others: Vec<&Remedy> = report.remedies.iter().filter(can_run).collect();
    let cost = |remedy: &Remedy| remedy.cpu_ratio.unwrap_or(f64::MAX);
    let has_less = |remedy: &Remedy| remedy.against == Against::Less;
    // What is like the best is chosen by its CPU time; a sort keeps the order of equals.
    others.sort_by(|a, b| {
        let (a, b) = (
            (!has_less(a), !a.is_like_best, cost(a)),
            (!has_less(b), !b.is_like_best, cost(b)),
        );
        a.0.cmp(&b.0).then(a.1.cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    let today = report.played.iter().filter(|played| played.is_recorded);
    let best = others.iter().map(|remedy| &report.played[remedy.index]);
    today
        .chain(best.take(REMEDIES))
        .map(|played| arm(report, played, glibc_runs))
        .collect()
}

/// Whether the program runs on the C library's malloc, so that an arm on it needs no preload.
fn is_glibc(report: &Report) -> bool {
    let mut recorded = report.played.iter().filter(|played| played.is_recorded);
    recorded.any(|played| played.arm.library.path.is_none())
}

fn arm(report: &Report, played: &Played, glibc_runs: bool) -> ReplayedArm {
    let of_file = played.arm.library.spec.contains('/');
    let comes = played.is_recorded && (of_file || !glibc_runs);
    ReplayedArm {
        name: played.arm.name.clone(),
        allocator: (!comes).then(|| played.arm.library.spec.clone()),
        environment: redacted(&played.arm.environment),
        predicted: predicted(report, played),
    }
}

/// Settings as they may be written down.
pub fn redacted(environment: &[(String, String)]) -> Vec<(String, String)> {
    let safe = |(name, value): &(String, String)| (name.clone(), redact_value(name, value));
    environment.iter().map(safe).collect()
}

/// Why a replay predicts nothing of a run; `None`: it does.
pub fn unpredicted(report: &Report) -> Option<&'static str> {
    let is_trusted = report.check.as_ref().is_ok_and(|check| check.is_trusted);
    match (is_trusted, report.trace.is_from_the_start()) {
        (false, _) => Some("the self-check failed"),
        (true, false) => Some(
            "the process did something else before this program (exec), and a run counts from its start",
        ),
        (true, true) => None,
    }
}

/// Of the time that the experiment compares: all of the recording only where it is the program's whole life.
fn predicted(report: &Report, played: &Played) -> Option<Predicted> {
    if unpredicted(report).is_some() {
        return None;
    }
    let until_ns = match report.trace.is_whole_life() {
        true => u64::MAX,
        false => duration_of(recorded(&report.trace)).as_nanos() as u64,
    };
    let other = replay::other_bytes(&report.trace);
    let times = &report.planned.sample_times;
    let count = times.iter().filter(|time| **time <= until_ns).count();
    let mean = |ran: &replay::Ran| {
        let mut curve = Curve::of(ran, &other);
        curve.0.truncate(count.max(1));
        curve.mean()
    };
    let finished = played.runs.iter().filter(|ran| ran.end == End::Finished);
    let interval = Interval::of(Range::of(finished.map(mean))?);
    Some(Predicted {
        mean_bytes: interval.value,
        lo_bytes: interval.lo,
        hi_bytes: interval.hi,
    })
}

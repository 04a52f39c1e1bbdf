//! The verbs. Each joins the stages of the pipeline and owns no logic of theirs.

pub mod adopt;
pub mod allocators;
pub mod collect;
pub mod conclude;
pub mod doctor;
pub mod exit;
pub mod explain;
pub mod gather;
pub mod init;
pub mod log;
pub mod manual;
pub mod observe;
mod out;
pub mod recording;
pub mod replaying;
pub mod report;
pub mod revert;
pub mod run;
mod signals;
pub mod stalls;
pub mod traces;
pub mod verdict;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use ::report::visible::visible_lines;
use experiment::built_in;
use record::{Folder, RecordError, list};
use units::wording::quoted;

/// Finds why a service's memory climbs, tries every remedy side by side, proves which one holds.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, long_version = long_version(), max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

/// The version with what a report of a fault needs: the commit (where the build names one), the target, and which
/// forms of the probe are inside.
fn long_version() -> String {
    let commit = option_env!("HIGHWATER_COMMIT").unwrap_or("built from a checkout");
    let libc = match cfg!(target_feature = "crt-static") {
        true => "static",
        false => "dynamic",
    };
    let probe = match built_in::is_complete() {
        true => "probe for glibc and musl inside",
        false => "probe beside it",
    };
    format!(
        "{} ({commit}; {} {}, {libc}; {probe})",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
    )
}

const EXAMPLES: &str = "\
Examples:
  highwater run experiments/relay.toml                 run the experiment, end with a verdict
  highwater run experiments/relay.toml --dry-run       print the plan, run nothing
  highwater run experiments/relay.toml --set duration=1h
  highwater explain -- ./server --port 8080            why its memory grows, with the sites
  highwater stalls --pid 4242                          who held its requests up, and why
  highwater init --pid 4242 > mine.toml                an experiment for a service that already runs
  highwater report runs/2026-11-21-relay-1 --format md the verdict for a pull request
  highwater adopt jemalloc --unit 'tor@*.service'      the plan that puts the winner into service
  highwater log                                        what was tried so far, and what it taught
  highwater observe --unit 'tor@*'                     the same samples for a fleet's Prometheus

Exit codes: 0 done, 1 a failed check, 2 usage, 3 undecided, 4 could not run.";

#[derive(Debug, Subcommand)]
pub enum Verb {
    Run(run::RunArgs),
    Explain(explain::ExplainArgs),
    Stalls(stalls::StallsArgs),
    Record(recording::RecordArgs),
    Replay(replaying::ReplayArgs),
    Trace(traces::TraceArgs),
    Verdict(Box<verdict::VerdictArgs>),
    Report(report::ReportArgs),
    Log(log::LogArgs),
    Adopt(Box<adopt::AdoptArgs>),
    Revert(revert::RevertArgs),
    Observe(Box<observe::ObserveArgs>),
    Allocators(allocators::AllocatorsArgs),
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[command(hide = true)]
    Collect(collect::CollectArgs),
    /// What a malloc and its free cost in this process, nanoseconds: freed at once, and at random.
    #[command(hide = true)]
    TimePairs,
}

/// Runs the verb; the value is the exit code.
pub fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.verb {
        Verb::Run(args) => run::run(&args).map(ExitCode::from),
        Verb::Explain(args) => explain::run(&args).map(ExitCode::from),
        Verb::TimePairs => time_pairs(),
        Verb::Collect(args) => collect::run(&args).map(ExitCode::from),
        Verb::Report(args) => report::run(&args).map(ExitCode::from),
        Verb::Verdict(args) => verdict::run(&args).map(ExitCode::from),
        Verb::Adopt(args) => adopt::run(&args),
        Verb::Revert(args) => revert::run(&args).map(ExitCode::from),
        Verb::Log(args) => log::print(&args).map(ExitCode::from),
        Verb::Init(args) => init::run(&args).map(ExitCode::from),
        Verb::Allocators(args) => allocators::run(&args),
        Verb::Replay(args) => replaying::run(&args),
        Verb::Trace(args) => traces::run(&args).map(ExitCode::from),
        Verb::Record(args) => recording::run(&args).map(ExitCode::from),
        Verb::Stalls(args) => stalls::run(&args).map(ExitCode::from),
        Verb::Observe(args) => observe::run(&args).map(ExitCode::from),
        Verb::Doctor(args) => doctor::run(&args).map(ExitCode::from),
        Verb::Completions(args) => manual::completions(&args).map(ExitCode::from),
        Verb::Man(args) => manual::man(&args).map(ExitCode::from),
    }
}

fn time_pairs() -> anyhow::Result<ExitCode> {
    let times = pairs::time_pairs();
    out::print(&format!("{} {}\n", times.at_once_ns, times.random_ns))?;
    Ok(ExitCode::SUCCESS)
}

/// An error as the user reads it: what happened, then why, a line each. It may name what others named: a file, a
/// series, a process.
pub fn words_of(error: &anyhow::Error) -> String {
    visible_lines(&format!(
        "highwater: {}",
        chain(error).join("\n  because: ")
    ))
    .into_owned()
}

/// Says it on stderr.
pub fn complain(error: &anyhow::Error) {
    out::say!("{}", words_of(error));
}

/// What happened, then why; a cause that ends the words before it has been said.
pub fn chain(error: &anyhow::Error) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.last().is_some_and(|before| before.ends_with(&cause)) {
            said.push(cause);
        }
    }
    said
}

/// A run by its folder, by its name under the folder where runs are kept, or "latest".
///
/// # Errors
/// There is none; the message has those that there are.
pub fn find_run(runs: &Path, word: &Path) -> anyhow::Result<Folder> {
    if word.is_dir() {
        return Ok(Folder::open(word)?);
    }
    let named = word.to_string_lossy();
    match Folder::find(runs, &named) {
        Err(RecordError::Missing(_) | RecordError::Io { .. }) if !named.contains('/') => {
            anyhow::bail!("there is no run {}; {}", quoted(&named), runs_in(runs))
        }
        found => Ok(found?),
    }
}

/// The newest names, for one that was mistyped.
fn runs_in(runs: &Path) -> String {
    const SHOWN_MAX: usize = 3;
    let here = runs.display();
    if !runs.exists() {
        return format!(
            "no run was made here yet: {here} does not exist; --runs names another folder"
        );
    }
    let all = match list(runs) {
        Ok(all) => all,
        Err(error) => return format!("{error}; --runs names another folder"),
    };
    let newest: Vec<String> = all.iter().rev().take(SHOWN_MAX).map(Folder::id).collect();
    match newest.is_empty() {
        true => format!("{here} holds none yet; --runs names another folder"),
        false => format!("the newest in {here}: {}", newest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_names_cannot_speak_to_the_terminal() {
        let error = anyhow::anyhow!("no series \x1b[31mevil\x07").context("reading x.csv");
        let words = words_of(&error);
        assert_eq!(
            words,
            "highwater: reading x.csv\n  because: no series \\x1b[31mevil\\x07"
        );
    }
}

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
mod pictures;
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

/// Find why a service's memory grows or its requests stall, and prove which change fixes it
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version,
    long_version = long_version(),
    max_term_width = 100,
    help_template = HELP,
    before_help = EXAMPLES,
    after_help = EXIT_CODES
)]
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
  sudo highwater explain --pid 4242              memory grows: which function, a leak or a cache?
  sudo highwater stalls --pid 4242               requests stall: which lock, who holds it?
  highwater verdict rss.csv                      does this memory series grow, and when is it full?
  highwater run experiments/relay.toml           which allocator or setting helps, side by side
  highwater adopt jemalloc --unit relay          the plan that puts the winner into service
  highwater doctor                               what this user and this machine allow";

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 a failed check, 2 usage, 3 undecided, 4 could not run.";

/// What every command's `--help` shows, in this order: what it does, examples, usage, options, exit codes.
pub const HELP: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

#[derive(Debug, Subcommand)]
pub enum Verb {
    Explain(explain::ExplainArgs),
    Stalls(stalls::StallsArgs),
    Run(run::RunArgs),
    Record(recording::RecordArgs),
    Replay(replaying::ReplayArgs),
    Trace(traces::TraceArgs),
    Report(report::ReportArgs),
    Verdict(Box<verdict::VerdictArgs>),
    Adopt(Box<adopt::AdoptArgs>),
    Revert(revert::RevertArgs),
    Observe(Box<observe::ObserveArgs>),
    Allocators(allocators::AllocatorsArgs),
    Log(log::LogArgs),
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

/// Of `explain 4242` and `stalls ./server`: prints how a subject is given. Other mistakes have no tip of ours.
pub fn tip(words: &[String]) {
    if let Some(call) = call_of(words) {
        out::say!("\n  tip: a process is given as --pid, a program after --: {call}");
    }
}

fn call_of(words: &[String]) -> Option<String> {
    let [_, verb, subject, ..] = words else {
        return None;
    };
    let takes_a_subject = matches!(verb.as_str(), "explain" | "stalls");
    let way = match subject.parse::<u32>() {
        Ok(_) => "--pid",
        Err(_) => "--",
    };
    let call = format!("highwater {verb} {way} {subject}");
    (takes_a_subject && !subject.starts_with('-')).then(|| visible_lines(&call).into_owned())
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
    fn a_subject_without_its_option_gets_a_tip() {
        let of = |line: &str| call_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            of("hw explain 42").as_deref(),
            Some("highwater explain --pid 42")
        );
        assert_eq!(
            of("hw stalls ./a").as_deref(),
            Some("highwater stalls -- ./a")
        );
        assert_eq!(of("hw explain --pdi"), None);
        assert_eq!(of("hw verdict 42"), None);
    }

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

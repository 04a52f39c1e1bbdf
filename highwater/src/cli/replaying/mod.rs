//! `highwater replay`: a recorded trace on other allocators, and what each would do to the program's memory.

mod arms;
mod experiment;
mod json;
mod remedies;
mod runs;
mod table;
mod text;
mod tuning;
mod wording;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use super::{exit, out, pictures, signals};
use arms::{Choice, Chosen};
use record::ledger::{Ledger, Score};
use replay::{Planned, Remedy};
use runs::Played;
use trace::Trace;
use tuning::{Tuned, Tuning};
use verdict::run::factors::FactorEffects;

/// Replay a recorded trace on other allocators: the program's memory under each, in a minute.
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = EXAMPLES, after_help = EXIT_CODES)]
pub struct ReplayArgs {
    /// The trace, as `record` writes it
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Allocators, with commas between them: NAME@VERSION, NAME for its newest, a path to a library, or `all` that are
    /// installed. The recorded one is always replayed too
    #[arg(long, value_name = "LIST", default_value = "all")]
    allocators: String,
    /// A setting as a further arm, one for each value: jemalloc:dirty_decay_ms=1000,10000 (may be given several times)
    #[arg(long, value_name = "ALLOCATOR:KEY=VALUE")]
    set: Vec<String>,
    /// Replays of each arm; their spread is printed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Replay usual settings of the recorded allocator and of the two best others as well, while this time lasts;
    /// 0s: no settings
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = units::parse_seconds)]
    budget: Duration,
    /// Replay the arms of an experiment file with [factors], and say which factor moves memory and CPU
    #[arg(long, value_name = "FILE", conflicts_with = "tune")]
    factors: Option<PathBuf>,
    /// Search the settings of these allocators, with commas between them, while the budget lasts: those with the least
    /// memory for their CPU become arms
    #[arg(
        long,
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    tune: String,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw what --tune tried, memory by CPU, into a file that ends in .svg or .png
    #[arg(long, value_name = "FILE", requires = "tune")]
    plot: Option<PathBuf>,
    /// Write an experiment that would prove it: the recorded command on its own allocator and on the best remedies. The
    /// file must not exist
    #[arg(long, value_name = "FILE")]
    experiment: Option<PathBuf>,
    /// Folder of the ledger, where `run` keeps what came of earlier predictions
    #[arg(long, value_name = "FOLDER", default_value = "ledger")]
    ledger: PathBuf,
    /// Longest time of one replay
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = units::parse_seconds)]
    timeout: Duration,
    /// Most memory of one replay; four times what the program had, and 1 GiB, unless given
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    max_memory: Option<u64>,
    /// Print JSON (highwater.replay/1) instead of text
    #[arg(long)]
    json: bool,
    /// No progress on stderr
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  highwater record -- ./server                        first: the trace
  highwater replay server.hwt                         every allocator that is installed
  highwater replay server.hwt --allocators jemalloc,mimalloc@2.1.7
  highwater replay server.hwt --allocators glibc --set glibc:MALLOC_ARENA_MAX=1,2,4
  highwater replay server.hwt --tune jemalloc --budget 3m --plot front.svg
  highwater replay server.hwt --experiment proof.toml, then: highwater run proof.toml
  highwater allocators add jemalloc@5.3.0             one that is not installed yet";

const EXIT_CODES: &str = "\
TMPDIR names the folder for the replay's plan, 16 bytes an event.

Exit codes: 0 done; 2 usage; 3 the self-check failed: the recorded memory is not reproduced; 4 could not run.";

/// Everything that is reported.
pub(super) struct Report {
    pub trace: Trace,
    pub planned: Planned,
    pub played: Vec<Played>,
    /// Of the arms that finished, the least memory first.
    pub remedies: Vec<Remedy>,
    pub tuned: Vec<Tuned>,
    pub factors: Vec<FactorEffects>,
    pub check: Result<replay::SelfCheck, String>,
    pub notes: Vec<String>,
    /// How earlier predictions came out.
    pub score: Option<Score>,
    pub repeat: u32,
    pub elapsed: Duration,
}

/// Replays, compares, prints; the value is the exit code.
///
/// # Errors
/// The trace, an allocator or the replayer is missing or broken.
pub fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let trace = Trace::open(&args.trace)?;
    let choice = Choice {
        allocators: &args.allocators,
        settings: &args.set,
        tune: &args.tune,
        factors: args.factors.as_deref(),
        quiet: args.quiet,
    };
    args.plot.as_deref().map(pictures::check).transpose()?;
    let chosen = arms::choose(&trace, &choice)?;
    if let Some(path) = &args.experiment {
        experiment::check(path, &trace)?;
    }
    let interrupted = signals::flag(signals::ENDING)?;
    let report = play(args, trace, chosen, &interrupted, begun)?;
    let written = match &args.experiment {
        Some(path) => Some((path.as_path(), experiment::write(path, &report)?)),
        None => None,
    };
    match args.json {
        true => out::print(&format!("{:#}\n", json::of(&report)))?,
        false => {
            let next = text::next(
                &report,
                written.as_ref().map(|(path, arms)| (*path, &arms[..])),
            );
            out::print(&format!("{}\n{next}", text::of(&report)))?;
        }
    }
    if let Some(path) = &args.plot {
        tuning::draw(path, &report)?;
    }
    let is_trusted = report.check.as_ref().is_ok_and(|check| check.is_trusted);
    Ok(ExitCode::from(if is_trusted {
        exit::DONE
    } else {
        exit::UNDECIDED
    }))
}

fn play(
    args: &ReplayArgs,
    trace: Trace,
    mut chosen: Chosen,
    interrupted: &AtomicBool,
    begun: Instant,
) -> anyhow::Result<Report> {
    let is_over = || interrupted.load(Ordering::Relaxed);
    let replayer = runs::find_replayer()?;
    let folder = tempfile::tempdir().context("a folder for the replay's plan")?;
    let planned = Planned::write(&trace, &folder.path().join("plan"), &is_over)?;
    let runner = replay::Runner {
        replayer: &replayer,
        planned: &planned,
        folder: folder.path(),
        limits: runs::limits(&trace, args.timeout, args.max_memory),
    };
    let first = std::mem::take(&mut chosen.arms);
    let mut played = runs::all(&runner, first, args.repeat, args.quiet, &is_over)?;
    let left = args.budget.saturating_sub(begun.elapsed());
    let mut tuned = Vec::new();
    if !chosen.tuned.is_empty() {
        let tuning = Tuning {
            runner: &runner,
            trace: &trace,
            threads: planned.threads,
            seed: args.seed,
            repeat: args.repeat,
            quiet: args.quiet,
            is_over: &is_over,
        };
        for base in &chosen.tuned {
            let (found, more) = tuning.search(base, args.budget / chosen.tuned.len() as u32)?;
            tuned.push(found);
            played.extend(more);
        }
    } else if chosen.factors.is_empty() {
        let further = remedies::further(&played, &trace, planned.threads, args.repeat, left);
        if !args.budget.is_zero() {
            remedies::note(&further, &mut chosen);
        }
        let arms = further.arms.into_iter().map(|arm| (arm, false)).collect();
        played.extend(runs::all(&runner, arms, args.repeat, args.quiet, &is_over)?);
    }
    let mut notes = chosen.notes;
    notes.extend(text::unsearched(&tuned));
    let check = match played.iter().find(|played| played.is_recorded) {
        Some(recorded) => replay::SelfCheck::of(&recorded.runs, &trace),
        None => Err(chosen.why_not_recorded.unwrap_or_default()),
    };
    notes.extend(text::unseen(&trace, &planned));
    let factors = remedies::factors(&chosen.factors, &played, &trace);
    let remedies = remedies::remedies(&text::forecasts(&played, &trace));
    Ok(Report {
        trace,
        planned,
        played,
        remedies,
        tuned,
        factors,
        check,
        notes,
        score: Ledger::at(&args.ledger)
            .list()
            .ok()
            .and_then(|listing| Score::of(&listing.entries)),
        repeat: args.repeat,
        elapsed: begun.elapsed(),
    })
}

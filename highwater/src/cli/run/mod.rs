//! `highwater run`: the main job. Reads the plan, makes the allocators ready, runs every arm side by side, and ends
//! with a verdict, a report and a ledger entry.

mod conduct;
mod decide;
mod guarding;
mod journal;
mod plan;
pub(crate) mod prepare;
pub mod progress;
mod remote;
mod revert;
mod simulate;
mod start;
mod trend;
mod trial;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use super::conclude::{self, Output};
use super::exit::{self, Usage};
use crate::cli::out::say;
use conduct::Ended;
use experiment::file::{Experiment, SubjectKind};
use observe::clock::{Clock, RealClock};
use observe::snapshot::TimeNs;
use record::run::RunEnd;
use record::{Folder, Reader, Recorder};
use units::write_duration_exact;

/// Run an experiment: the same service under several allocators or settings, side by side
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater run experiments/relay.toml --dry-run        print the plan, start nothing
  highwater run experiments/relay.toml                  run it: table, report.html, exit code
  highwater run experiments/relay.toml --set duration=1h --set replicas=3
  highwater run mine.toml --until-decided --at-most 72h stop as soon as the arms are ranked
  highwater run --resume 2026-11-21-relay-1             continue a run that was interrupted", after_help = "\
Exit codes: 0 decided, whatever the arms did; 1 the arm named `adopt` fails `verify`;
2 the experiment file or the call is wrong; 3 undecided; 4 could not run.")]
pub struct RunArgs {
    /// The experiment file, TOML
    #[arg(value_name = "EXPERIMENT", required_unless_present = "resume")]
    pub experiment: Option<PathBuf>,
    /// Override a key of the file, such as duration=1h or arms.jemalloc.command=...; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Stop as soon as the arms are ranked and each is known to grow or not
    #[arg(long)]
    pub until_decided: bool,
    /// With --until-decided: stop at this time at the latest [default: `duration` of the file]
    #[arg(long, value_name = "TIME", requires = "until_decided", conflicts_with = "resume",
          value_parser = units::parse_seconds)]
    pub at_most: Option<Duration>,
    /// Print the plan with every command and environment, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Continue a run that was interrupted: its folder, its name, or `latest`
    #[arg(long, value_name = "RUN", conflicts_with_all = ["experiment", "set", "dry_run"])]
    pub resume: Option<PathBuf>,
    /// Folder of the run folders
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
    /// Print JSON (highwater.run/2) instead of text
    #[arg(long, conflicts_with = "dry_run")]
    pub json: bool,
    /// Print only the verdict: no progress, no paths
    #[arg(long, short)]
    pub quiet: bool,
}

pub fn run(args: &RunArgs) -> anyhow::Result<u8> {
    let (folder, ended) = match (&args.resume, &args.experiment) {
        (Some(resume), _) => start::resume(&super::find_run(&args.runs, resume)?, args)?,
        (None, Some(file)) => {
            let experiment = prepare::read(file, &overrides(args))?;
            if args.dry_run {
                return plan::print(experiment, args.until_decided);
            }
            start::begin(experiment, args)?
        }
        (None, None) => return Err(Usage("name an experiment file".into()).into()),
    };
    let output = Output {
        json: args.json,
        quiet: args.quiet,
    };
    let code = conclude::conclude(&folder, &args.runs, &output)?;
    Ok(code_of(&ended, code))
}

/// `--at-most` is the duration, and is recorded as such.
fn overrides(args: &RunArgs) -> Vec<String> {
    let at_most = args
        .at_most
        .map(|time| format!("duration={}", write_duration_exact(time)));
    args.set.iter().cloned().chain(at_most).collect()
}

/// A run whose arms could not be what they say, or never got ready at all, could not be run as planned.
fn code_of(ended: &Ended, code: u8) -> u8 {
    if ended.not_the_arm || ended.nothing_was_ready {
        exit::COULD_NOT_RUN
    } else {
        code
    }
}

/// The clock of a run as its collector and its supervisor tell it, and when the run began.
pub fn clock_of(reader: &Reader) -> anyhow::Result<(RealClock, TimeNs)> {
    let anchor = reader.clock()?;
    let begun = TimeNs(anchor.wall_ns);
    let last = reader.last_snapshot()?.map_or(begun, |(_, time)| time);
    Ok((RealClock::resume(&anchor, last), begun))
}

/// Writes down that the run is over and how. A full disk is said; what is recorded can be judged all the same.
fn close(folder: &Folder, ended: &Ended, clock: &dyn Clock) -> anyhow::Result<()> {
    let mut recorder = Recorder::open(folder)?;
    let end = RunEnd {
        time: clock.now(),
        words: ended.words.clone(),
    };
    match recorder.ended(&end) {
        Err(error) if error.may_pass() => {
            say!("highwater: the end of the run is not recorded: {error}");
            Ok(())
        }
        other => other.context("writing the end of the run"),
    }
}

fn is_fake(experiment: &Experiment) -> bool {
    experiment.subject.kind == SubjectKind::Fake
}

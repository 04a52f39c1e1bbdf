//! `highwater record`: a program's allocations as a trace, to be replayed on other allocators.

mod facts;
mod subject;
mod summary;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::exit::Usage;
use subject::Subject;
use trace::Recording;
use watch::Watch;

/// Record every malloc and free of a program into a trace, which `replay` tries on other allocators.
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = EXAMPLES, after_help = EXIT_CODES)]
pub struct RecordArgs {
    /// The program to start, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
    /// The trace's file, which must not exist; PROGRAM.hwt in this folder unless given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Record for so long only; the program goes on
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_seconds)]
    length: Option<Duration>,
    /// Largest size of the file; recording ends there, the program goes on
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = units::parse_bytes)]
    max_size: u64,
    /// Print what was recorded as JSON (highwater.record/1) on stderr
    #[arg(long)]
    json: bool,
    /// Print nothing
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  highwater record -- ./server --port 8080            until it ends
  highwater record --for 10m --out day.hwt -- ./server
  highwater trace info day.hwt                        what is in it
  highwater replay day.hwt --allocators all           its memory under each allocator";

const EXIT_CODES: &str = "\
The program keeps its terminal, and signals are passed on. A trace holds sizes, times, addresses and the command line
(what looks like a secret is hidden), no contents.

Exit codes: the program's own, 128 and the signal's number where one ended it; 2 usage; 4 it could not be started or
recorded.";

/// Starts the program, records it, and passes on its exit code.
///
/// # Errors
/// The file cannot be made, or the program cannot be started with the recorder.
pub fn run(args: &RecordArgs) -> anyhow::Result<u8> {
    let name = args.command.first().context("no command was given")?;
    let path = match &args.out {
        Some(path) => path.clone(),
        None => free_name(name),
    };
    if args.out.is_some() && path.exists() {
        let path = path.display();
        let words = format!("{path} exists already: choose another name with --out, or delete it");
        return Err(Usage(words).into());
    }
    let plan = subject::plan(&args.command)?;
    let mut recording = Recording::create(&path, args.max_size)?;
    recording.add_facts(&facts::before(name, &plan));
    let started = Subject::start(&plan, &absolute(&path)?);
    let subject = match started {
        Ok(subject) => subject,
        Err(error) => {
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
    };
    let watched = Watch::new(recording, subject, args.length).run();
    if !args.quiet {
        summary::print(&watched, &path, args.json);
    }
    Ok(watched.code)
}

/// PROGRAM.hwt, or PROGRAM-2.hwt ... where that exists.
fn free_name(program: &str) -> PathBuf {
    let stem = Path::new(program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let name = |number: u32| match number {
        1 => PathBuf::from(format!("{stem}.hwt")),
        _ => PathBuf::from(format!("{stem}-{number}.hwt")),
    };
    (1..u32::MAX)
        .map(name)
        .find(|path| !path.exists())
        .unwrap_or_else(|| name(1))
}

/// The program may change its folder before the recorder opens the file.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

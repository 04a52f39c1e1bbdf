//! `highwater report RUN`: judges the record of a run anew and renders it in any format.

mod files;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;

use super::conclude::{self, Judged, judge, ledger_of, terminal_width};
use super::find_run;
use files::Place;
use record::ledger::{Ledger, render};
use record::{Folder, Reader};

use report::{Report, against, csv, html, json, junit, markdown, text};

/// Print the report of a run: text, HTML, Markdown, JSON, CSV, JUnit
#[derive(Debug, clap::Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater report                                        the newest run, as `run` printed it
  highwater report 2026-11-21-relay-1 --format md         for a pull request
  highwater report latest --format md --output relay/     report.md with its charts beside it
  highwater report latest --format csv --output relay/    five tables
  highwater report latest --against 2026-11-21-relay-1    compare two runs, arm by arm
  highwater report latest --samples > samples.csv         every recorded sample", after_help = "\
Exit codes: as `run`: 0 decided, 1 the arm to adopt fails, 2 usage, 3 undecided; 4 no such run, or
its record cannot be read.")]
pub struct ReportArgs {
    /// The run: its folder, its name under --runs, or `latest`
    #[arg(value_name = "RUN", default_value = "latest")]
    pub run: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Compare arm by arm with another run
    #[arg(long, value_name = "RUN")]
    pub against: Option<PathBuf>,
    /// Print every recorded sample as CSV instead of the report
    #[arg(long, conflicts_with_all = ["format", "json", "against"])]
    pub samples: bool,
    /// Write to this file or folder instead of stdout; a folder also gets the charts of md and the five files of csv
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Folder of the run folders
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub runs: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Html,
    Md,
    Json,
    Csv,
    Junit,
}

impl Format {
    /// Of a file of this format.
    fn ending(self) -> &'static str {
        match self {
            Format::Text => "txt",
            Format::Html => "html",
            Format::Md => "md",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Junit => "xml",
        }
    }
}

pub fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let folder = find_run(&args.runs, &args.run)?;
    if args.samples {
        return samples(args, &Reader::open(&folder)?);
    }
    let judged = judge(&folder)?;
    let mut report = judged.report(ledger_entry(args, &judged));
    report.extras.score = conclude::score(&report.verdict, &ledger_of(runs_of(args, &judged)));
    let format = if args.json { Format::Json } else { args.format };
    let other = args.against.as_ref();
    match (other, Place::of(args, format)) {
        (Some(other), place) => {
            let other = judge(&find_run(&args.runs, other)?)?.report(None);
            place.write(&compared(&report, &other, format)?)?;
        }
        (None, Place::Folder(folder)) if format == Format::Csv => {
            files::csv(&report, &Reader::open(&folder_of(&judged)?)?, &folder)?;
        }
        (None, place) if format == Format::Md && !matches!(place, Place::Stdout) => {
            files::markdown(&report, &place)?;
        }
        (None, place) => place.write(&rendered(&report, format))?,
    }
    Ok(conclude::code_of(&judged.verdict))
}

fn folder_of(judged: &Judged) -> anyhow::Result<Folder> {
    Ok(Folder::open(&judged.run.folder)?)
}

fn rendered(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text::render(report, terminal_width()),
        Format::Html => html::render(report),
        Format::Md => markdown::render(report),
        Format::Json => json::render(report),
        Format::Csv => csv::render(report),
        Format::Junit => junit::render(report),
    }
}

fn compared(report: &Report, other: &Report, format: Format) -> anyhow::Result<String> {
    let comparison = against::compare(report, other);
    Ok(match format {
        Format::Text => against::text(&comparison, terminal_width()),
        Format::Md => against::markdown(&comparison),
        Format::Json => format!("{}\n", against::json(&comparison)),
        _ => anyhow::bail!(super::exit::Usage(
            "--against is shown as text, md or json; leave the other run out for html, csv and junit"
                .into()
        )),
    })
}

/// The folder that this run stands in.
fn runs_of<'a>(args: &'a ReportArgs, judged: &'a Judged) -> &'a Path {
    judged.run.folder.parent().unwrap_or(&args.runs)
}

/// The entry that has this run among its attempts.
fn ledger_entry(args: &ReportArgs, judged: &Judged) -> Option<String> {
    let ledger = Ledger::at(&ledger_of(runs_of(args, judged)));
    let entries = ledger.list().ok()?.entries;
    let mine = |entry: &&record::ledger::Entry| {
        entry
            .attempts
            .iter()
            .any(|attempt| attempt.run == judged.run.id)
    };
    entries.iter().rev().find(mine).map(render::text)
}

/// The reader closed its end (`| head`).
fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

fn samples(args: &ReportArgs, reader: &Reader) -> anyhow::Result<u8> {
    let mut out: Box<dyn std::io::Write> = match &args.output {
        Some(file) => Box::new(std::io::BufWriter::new(
            std::fs::File::create(file).with_context(|| format!("writing {}", file.display()))?,
        )),
        None => Box::new(std::io::BufWriter::new(std::io::stdout().lock())),
    };
    match files::samples(reader, &mut out) {
        Err(error) if is_closed(&error) => {}
        other => other?,
    }
    Ok(super::exit::DONE)
}

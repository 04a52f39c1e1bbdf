//! `highwater report RUN`: judges the record of a run anew and renders it in any format.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;

use super::conclude::{self, Judged, judge, ledger_of, print, terminal_width};
use super::find_run;
use crate::ledger::{Ledger, render};
use crate::record::export::samples_csv;
use crate::record::{ReadOptions, Reader};
use crate::report::{Report, against, csv, html, json, junit, markdown, text};

/// Show the verdict of a run, in any format
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  highwater report 2026-11-21-relay-1
  highwater report runs/2026-11-21-relay-1 --format md        for a pull request
  highwater report 2026-11-21-relay-2 --against 2026-11-21-relay-1
  highwater report 2026-11-21-relay-1 --samples > samples.csv")]
pub struct ReportArgs {
    /// The run's folder, or its name under --runs
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Compare arm by arm with another run
    #[arg(long, value_name = "RUN")]
    pub against: Option<PathBuf>,
    /// Every recorded sample as CSV instead of the verdict
    #[arg(long, conflicts_with_all = ["format", "json", "against"])]
    pub samples: bool,
    /// Into this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where runs are kept
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

pub fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let folder = find_run(&args.runs, &args.run)?;
    if args.samples {
        return samples(args, &Reader::open(&folder)?);
    }
    let judged = judge(&folder)?;
    let report = judged.report(ledger_entry(args, &judged));
    let format = if args.json { Format::Json } else { args.format };
    let words = match &args.against {
        None => rendered(&report, format),
        Some(other) => {
            let other = judge(&find_run(&args.runs, other)?)?.report(None);
            compared(&report, &other, format)?
        }
    };
    write(args, &words)?;
    Ok(conclude::code_of(&judged.verdict))
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

/// The entry that has this run among its attempts.
fn ledger_entry(args: &ReportArgs, judged: &Judged) -> Option<String> {
    let runs = judged.run.folder.parent().unwrap_or(&args.runs);
    let entries = Ledger::at(&ledger_of(runs)).list().ok()?.entries;
    let mine = |entry: &&crate::ledger::Entry| {
        entry
            .attempts
            .iter()
            .any(|attempt| attempt.run == judged.run.id)
    };
    entries.iter().rev().find(mine).map(render::text)
}

fn samples(args: &ReportArgs, reader: &Reader) -> anyhow::Result<u8> {
    use std::io::Write;
    let lines = samples_csv(reader, &ReadOptions::default())?;
    let mut out: Box<dyn Write> = match &args.output {
        Some(file) => Box::new(std::io::BufWriter::new(
            std::fs::File::create(file).with_context(|| format!("writing {}", file.display()))?,
        )),
        None => Box::new(std::io::BufWriter::new(std::io::stdout().lock())),
    };
    for line in lines {
        match out.write_all(line?.as_bytes()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            other => other?,
        }
    }
    Ok(super::exit::DONE)
}

fn write(args: &ReportArgs, words: &str) -> anyhow::Result<()> {
    match &args.output {
        Some(file) => {
            std::fs::write(file, words).with_context(|| format!("writing {}", file.display()))
        }
        None => print(words),
    }
}

//! `highwater log`: the ledger of experiments.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};

use super::exit;
use super::out::{self, say};
use record::ledger::{Attempt, Entry, Ledger, Outcome, Status, Step, render};

/// Print or edit the ledger: a dated list of experiments, changes and results
#[derive(Debug, Args)]
#[command(help_template = super::HELP, before_help = "\
Examples:
  highwater log                                   every entry, one line each
  highwater log show 2026-11-21-relay-leak        one entry in full
  highwater log --format md > LEDGER.md
  highwater log add --goal \"halve the relay's memory\" --changed \"frames from one arena\"
  highwater log status 2026-11-21-relay-leak concluded --learning \"it was a leak\"", after_help = "\
Exit codes: 0 done, 2 usage, 4 the ledger cannot be read or written.")]
pub struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    /// Folder of the ledger
    #[arg(long, global = true, default_value = "ledger", value_name = "FOLDER")]
    ledger: PathBuf,
    /// Output format
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Same as --format json
    #[arg(long, global = true, conflicts_with = "format")]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Md,
    Json,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Add an entry without a run
    Add(AddArgs),
    /// Show one entry in full
    Show {
        /// The entry, as `highwater log` names it
        id: String,
    },
    /// Set the status of an entry
    Status {
        /// The entry, as `highwater log` names it
        id: String,
        /// Its status from now on
        #[arg(value_enum)]
        status: Status,
        /// A conclusion; may be repeated
        #[arg(long, value_name = "WORDS")]
        learning: Vec<String>,
        /// The result
        #[arg(long, value_name = "WORDS")]
        result: Option<String>,
    },
    /// Add a dated attempt to an entry
    Attempt {
        /// The entry, as `highwater log` names it
        id: String,
        /// The result
        words: String,
        /// Id of the run
        #[arg(long, default_value = "", hide_default_value = true)]
        run: String,
        /// Day, such as 2026-11-21 [default: today]
        #[arg(long)]
        date: Option<String>,
    },
    /// Record the outcome of a verification step
    Verify {
        /// The entry, as `highwater log` names it
        id: String,
        /// Number of the step, from 1
        step: usize,
        /// Its outcome
        #[arg(value_enum)]
        outcome: Outcome,
        /// What was observed
        #[arg(
            long,
            value_name = "WORDS",
            default_value = "",
            hide_default_value = true
        )]
        observed: String,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The goal
    #[arg(long)]
    goal: String,
    /// The hypothesis
    #[arg(long, default_value = "", hide_default_value = true)]
    hypothesis: String,
    /// Why it matters
    #[arg(long, default_value = "", hide_default_value = true)]
    why: String,
    /// The evidence so far
    #[arg(long, default_value = "", hide_default_value = true)]
    evidence: String,
    /// A change; may be repeated
    #[arg(long, value_name = "WORDS")]
    changed: Vec<String>,
    /// A verification step; may be repeated
    #[arg(long, value_name = "WORDS")]
    verify: Vec<String>,
    /// A step that undoes the change; may be repeated
    #[arg(long, value_name = "WORDS")]
    revert: Vec<String>,
    /// The result
    #[arg(long, default_value = "", hide_default_value = true)]
    result: String,
    /// A conclusion; may be repeated
    #[arg(long, value_name = "WORDS")]
    learning: Vec<String>,
    /// Its status
    #[arg(long, value_enum, default_value_t = Status::Active)]
    status: Status,
    /// Words for the id of the entry [default: from the goal]
    #[arg(long)]
    name: Option<String>,
    /// Day, such as 2026-11-21 [default: today]
    #[arg(long)]
    date: Option<String>,
}

/// The verb, on stdout and stderr.
pub fn print(args: &LogArgs) -> Result<u8> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let done = run(args, &mut out, &mut err);
    if !err.is_empty() {
        say!("{}", String::from_utf8_lossy(&err).trim_end());
    }
    done?;
    out::print(&String::from_utf8_lossy(&out))?;
    Ok(exit::DONE)
}

/// Does what was asked and prints to `out`; broken entries are told to `err` and do not hide the others.
pub fn run(args: &LogArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let ledger = Ledger::at(&args.ledger);
    let format = if args.json { Format::Json } else { args.format };
    let entry = match &args.command {
        None => return list(&ledger, format, out, err),
        Some(LogCommand::Show { id }) => ledger.read(id)?,
        Some(LogCommand::Add(add)) => {
            let name = add.name.as_deref().unwrap_or(&add.goal);
            ledger.add(&entry_of(add), name)?
        }
        Some(LogCommand::Status {
            id,
            status,
            learning,
            result,
        }) => {
            ledger.set_status(id, *status, learning)?;
            ledger.update(id, |entry| {
                entry.result = result.clone().unwrap_or(entry.result.clone())
            })?
        }
        Some(LogCommand::Attempt {
            id,
            words,
            run,
            date,
        }) => {
            let date = date.clone().unwrap_or_else(today);
            ledger.append_attempt(
                id,
                &Attempt {
                    date,
                    run: run.clone(),
                    words: words.clone(),
                },
            )?
        }
        Some(LogCommand::Verify {
            id,
            step,
            outcome,
            observed,
        }) => verify(&ledger, id, *step, *outcome, observed)?,
    };
    let text = match format {
        Format::Text => render::text(&entry),
        Format::Md => render::markdown(&[entry]),
        Format::Json => render::json(&[entry]) + "\n",
    };
    out.write_all(text.as_bytes()).context("printing the entry")
}

fn list(ledger: &Ledger, format: Format, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let listing = ledger.list()?;
    for broken in &listing.broken {
        writeln!(err, "left out: {broken}")?;
    }
    let text = match format {
        Format::Text if listing.entries.is_empty() => {
            "The ledger is empty; `highwater run` adds an entry, and so does `highwater log add`.\n"
                .into()
        }
        Format::Text => render::text_list(&listing.entries),
        Format::Md => render::markdown(&listing.entries),
        Format::Json => render::json(&listing.entries) + "\n",
    };
    out.write_all(text.as_bytes())
        .context("printing the ledger")
}

fn entry_of(add: &AddArgs) -> Entry {
    let step = |step: &String| Step {
        step: step.clone(),
        outcome: Outcome::Open,
        observed: String::new(),
    };
    Entry {
        status: add.status,
        hypothesis: add.hypothesis.clone(),
        why: add.why.clone(),
        evidence: add.evidence.clone(),
        changed: add.changed.clone(),
        verify: add.verify.iter().map(step).collect(),
        revert: add.revert.clone(),
        result: add.result.clone(),
        learnings: add.learning.clone(),
        ..Entry::new(&add.date.clone().unwrap_or_else(today), &add.goal)
    }
}

fn verify(
    ledger: &Ledger,
    id: &str,
    step: usize,
    outcome: Outcome,
    observed: &str,
) -> Result<Entry> {
    let steps = ledger.read(id)?.verify.len();
    anyhow::ensure!(
        (1..=steps).contains(&step),
        "entry {id} has {steps} steps of verification; there is no step {step}"
    );
    let entry = ledger.update(id, |entry| {
        if let Some(found) = entry.verify.get_mut(step - 1) {
            found.outcome = outcome;
            found.observed = observed.to_owned();
        }
    })?;
    Ok(entry)
}

/// Today on this machine's calendar.
fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

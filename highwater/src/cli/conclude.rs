//! The end of every run: read the record, judge, write the page beside it and the entry in the ledger, print the
//! answer.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit;
pub use super::out::print;
use super::out::say;
use record::ledger::{Attempt, Entry, Ledger, Outcome, Predicted, Score, Status, Step, render};
use record::{Folder, ReadOptions, Reader};
use report::{Extras, Report, html, json, text};
use units::wording::shell_word;
use verdict::Rules;
use verdict::check::CheckOutcome;
use verdict::run::RunVerdict;
use verdict::run::judge::judge_run;

/// Name of the page in the run folder.
pub const PAGE: &str = "report.html";
/// The ledger stands beside the folder of the runs.
const LEDGER: &str = "ledger";

/// How the answer is printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub json: bool,
    pub quiet: bool,
}

/// Judges the run, enters it in the ledger, writes `report.html`, prints the table; the value is the exit code.
///
/// # Errors
/// The record cannot be read. A page or an entry that cannot be written is said, and costs nothing else.
pub fn conclude(folder: &Folder, runs: &Path, output: &Output) -> anyhow::Result<u8> {
    let judged = judge(folder)?;
    let entry = enter(&judged, &ledger_of(runs)).map_err(|error| {
        say!(
            "highwater: no entry in the ledger: {}",
            super::chain(&error).join(": ")
        );
    });
    let ledger = entry.as_ref().ok().map(render::text);
    let mut report = judged.report(ledger);
    report.extras.score = score(&report.verdict, &ledger_of(runs));
    let page = write_page(folder, &report);
    if output.json {
        print(&json::render(&report))?;
    } else {
        print(&text::render(&report, terminal_width()))?;
        if !output.quiet {
            print(&pointers(page.as_deref(), entry.as_ref().ok()))?;
        }
    }
    Ok(code_of(&report.verdict))
}

/// A run with its verdict.
pub struct Judged {
    pub run: record::run::Run,
    pub verdict: RunVerdict,
}

/// Reads and judges a run.
///
/// # Errors
/// The record cannot be read; the message says what is wrong with it.
pub fn judge(folder: &Folder) -> anyhow::Result<Judged> {
    let run = Reader::read(folder, &ReadOptions::default())
        .with_context(|| format!("reading run {}", folder.id()))?;
    let verdict = judge_run(&run, &Rules::default());
    Ok(Judged { run, verdict })
}

impl Judged {
    /// Ready to be rendered; `ledger` is the entry's text.
    pub fn report(&self, ledger: Option<String>) -> Report {
        let frozen = self.run.folder.join("experiment.toml");
        let file = shell_word(&frozen.to_string_lossy());
        let extras = Extras {
            ledger,
            reproduce: vec![format!("highwater run {file}")],
            score: None,
        };
        Report::build(&self.run, &self.verdict, extras)
    }
}

/// The ledger that belongs to a folder of runs.
pub fn ledger_of(runs: &Path) -> PathBuf {
    runs.parent().unwrap_or(Path::new("")).join(LEDGER)
}

/// The entry of this run: found by experiment and hypothesis while it is open, else a new one.
fn enter(judged: &Judged, folder: &Path) -> anyhow::Result<Entry> {
    let Judged { run, verdict } = judged;
    let date = run.id.get(..10).unwrap_or_default().to_owned();
    let ledger = Ledger::at(folder);
    let wanted = Entry::of_experiment(&run.experiment, &date);
    let open = match ledger.entry_of_run(&wanted, &run.id)? {
        Some(entry) => entry,
        None => ledger.entry_for(&wanted)?,
    };
    let attempt = Attempt {
        date,
        run: run.id.clone(),
        words: verdict.headline.clone(),
    };
    Ok(ledger.update(&open.id, |entry| {
        entry.attempts.retain(|old| old.run != attempt.run);
        entry.attempts.push(attempt.clone());
        entry.result.clone_from(&verdict.headline);
        entry.learnings.clone_from(&verdict.learnings);
        entry.verify = steps(verdict);
        entry.status = status_of(verdict);
        entry.predictions.retain(|old| old.run != attempt.run);
        entry.predictions.extend(predictions(&run.id, verdict));
    })?)
}

/// How often this ledger's predictions came true, for a run that has some.
pub fn score(verdict: &RunVerdict, folder: &Path) -> Option<String> {
    if verdict.predictions.is_empty() {
        return None;
    }
    let listing = Ledger::at(folder).list().ok()?;
    Some(Score::of(&listing.entries)?.words())
}

/// The predictions that were compared with a measurement.
fn predictions<'a>(run: &'a str, verdict: &'a RunVerdict) -> impl Iterator<Item = Predicted> + 'a {
    verdict.predictions.iter().filter_map(|outcome| {
        Some(Predicted {
            run: run.to_owned(),
            arm: outcome.arm.clone(),
            predicted_bytes: outcome.predicted.value as u64,
            lo_bytes: outcome.predicted.lo as u64,
            hi_bytes: outcome.predicted.hi as u64,
            measured_bytes: outcome.measured?.value as u64,
        })
    })
}

/// The conditions of the arm to adopt, or of every arm when none is named.
fn steps(verdict: &RunVerdict) -> Vec<Step> {
    let adopted = verdict.adopt.as_ref().map(|adopt| &adopt.arm);
    let named = |check: &&CheckOutcome| adopted.is_none_or(|arm| *arm == check.arm);
    verdict
        .checks
        .iter()
        .filter(named)
        .map(|check| Step {
            step: format!("{} ({})", check.check, check.arm),
            outcome: match check.passed {
                Some(true) => Outcome::Passed,
                Some(false) => Outcome::Failed,
                None => Outcome::Unknown,
            },
            observed: check.observed.clone(),
        })
        .collect()
}

fn status_of(verdict: &RunVerdict) -> Status {
    let failed = verdict
        .adopt
        .as_ref()
        .is_some_and(|adopt| adopt.passed == Some(false));
    match (failed, verdict.decided) {
        (true, _) => Status::Failed,
        (false, true) => Status::Concluded,
        (false, false) => Status::Active,
    }
}

fn write_page(folder: &Folder, report: &Report) -> Option<PathBuf> {
    let page = folder.path().join(PAGE);
    match fs::write(&page, html::render(report)) {
        Ok(()) => Some(page),
        Err(error) => {
            say!("highwater: {} was not written: {error}", page.display());
            // The beginning of a page, or none of it, would be taken for the report.
            let _ = fs::remove_file(&page);
            None
        }
    }
}

fn pointers(page: Option<&Path>, entry: Option<&Entry>) -> String {
    let mut words = String::from("\n");
    if let Some(page) = page {
        words.push_str(&format!("report  {}\n", page.display()));
    }
    if let Some(entry) = entry {
        words.push_str(&format!("ledger  highwater log show {}\n", entry.id));
    }
    words
}

/// Decided or not, and whether the arm to adopt passed.
pub fn code_of(verdict: &RunVerdict) -> u8 {
    let failed = verdict
        .adopt
        .as_ref()
        .is_some_and(|adopt| adopt.passed == Some(false));
    match (failed, verdict.decided) {
        (true, _) => exit::FAILED,
        (false, true) => exit::DONE,
        (false, false) => exit::UNDECIDED,
    }
}

/// Columns of the terminal; 80 where stdout is none.
pub fn terminal_width() -> usize {
    comfy_table::Table::new()
        .width()
        .map_or(report::COLUMNS, usize::from)
        .clamp(40, 140)
}

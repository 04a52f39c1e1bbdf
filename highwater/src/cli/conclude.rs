//! The end of every run: read the record, judge, write the report beside it, print the answer.

use std::path::Path;

use anyhow::Context;

use super::exit;
use crate::record::{Folder, ReadOptions, Reader};
use crate::report::{Extras, Report, html, text};
use crate::verdict::Rules;
use crate::verdict::run::judge::judge_run;

/// Name of the page in the run folder.
pub const PAGE: &str = "report.html";

/// How the answer is printed.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub json: bool,
    pub quiet: bool,
}

/// Judges the run, writes `report.html`, prints the table; the value is the exit code.
///
/// # Errors
/// The record cannot be read. A page that cannot be written is said and costs nothing else.
pub fn conclude(folder: &Folder, runs: &Path, output: &Output) -> anyhow::Result<u8> {
    let report = report_on(folder, runs)?;
    let page = folder.path().join(PAGE);
    let written = std::fs::write(&page, html::render(&report));
    print_text(&report);
    match written {
        Ok(()) if !output.quiet => anstream::println!("\nreport: {}", page.display()),
        Ok(()) => {}
        Err(error) => anstream::eprintln!("highwater: {} was not written: {error}", page.display()),
    }
    Ok(code_of(&report))
}

/// Reads and judges a run.
///
/// # Errors
/// The record cannot be read; the message says what is wrong with it.
pub fn report_on(folder: &Folder, _runs: &Path) -> anyhow::Result<Report> {
    let run = Reader::read(folder, &ReadOptions::default())
        .with_context(|| format!("reading run {}", folder.id()))?;
    let verdict = judge_run(&run, &Rules::default());
    let extras = Extras {
        ledger: None,
        reproduce: Vec::new(),
    };
    Ok(Report::build(&run, &verdict, extras))
}

/// Decided or not, and whether the arm to adopt passed.
pub fn code_of(report: &Report) -> u8 {
    let failed = report
        .verdict
        .adopt
        .as_ref()
        .is_some_and(|adopt| adopt.passed == Some(false));
    match (failed, report.verdict.decided) {
        (true, _) => exit::FAILED,
        (false, true) => exit::DONE,
        (false, false) => exit::UNDECIDED,
    }
}

fn print_text(report: &Report) {
    let width = terminal_width();
    anstream::print!("{}", text::render(report, width));
}

/// Columns of the terminal; 100 where stdout is none.
fn terminal_width() -> usize {
    comfy_table::Table::new()
        .width()
        .map_or(100, usize::from)
        .clamp(40, 140)
}

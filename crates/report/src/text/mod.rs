//! The report on a terminal: the answer in one sentence, the arms, what they cost, checks,
//! findings, lessons, and what highwater itself took.
//!
//! The text carries ANSI styles; print it through `anstream`, which drops them at a pipe, under
//! NO_COLOR and on terminals that know none. No escape sequence of a name or log line gets through
//! (see [`super::visible`]).

mod arms;

use anstyle::{AnsiColor, Style};

use super::visible::visible;
use super::{Report, factors, heap, predictions};
use units::written;
use verdict::check::CheckOutcome;
use verdict::run::RunVerdict;
use verdict::run::predicted::Place;

/// Below this width arms are written as blocks instead of rows.
pub const STACKED_BELOW: usize = 80;
/// Longer lines are hard to read, however wide the terminal.
const WIDTH_MAX: usize = 120;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const OPEN: Style = AnsiColor::Yellow.on_default();

/// The whole report, at most `width` columns wide (no less than 40 are used).
pub fn render(report: &Report, width: usize) -> String {
    let width = width.clamp(40, WIDTH_MAX);
    let verdict = &report.verdict;
    let mut page = Page {
        text: String::new(),
        width,
    };
    let style = if verdict.decided { BOLD } else { OPEN.bold() };
    page.paragraph(style, &verdict.headline);
    if let Some(needs) = &verdict.needs {
        page.paragraph(OPEN, &format!("To decide it: {needs}."));
    }
    if let Some(adopt) = &verdict.adopt {
        let style = match adopt.passed {
            Some(true) => GOOD,
            Some(false) => BAD,
            None => OPEN,
        };
        page.paragraph(style, &adopt.words);
    }
    page.paragraph(DIM, &facts(report));
    page.block(&arms::render(report, width));
    let causes = verdict.arms.iter().filter_map(|row| {
        let causes = heap::causes(row)?;
        Some((Style::new(), format!("{}: {causes}", row.arm)))
    });
    page.section("Causes that the heap probe found", causes.collect());
    let effects = factors::lines(&verdict.factors).into_iter();
    page.section(
        factors::TITLE,
        effects.map(|line| (Style::new(), line)).collect(),
    );
    page.section(predictions::TITLE, prediction_lines(report));
    page.section("Checks", check_lines(verdict));
    let findings = verdict
        .findings
        .iter()
        .map(|f| (OPEN, format!("{}: {}", f.what, f.effect)));
    page.section("Findings", findings.collect());
    page.section("Defects and accidents", arms::notes(report));
    let learnings = verdict.learnings.iter().filter(|l| !is_said(report, l));
    page.section(
        "Conclusions",
        learnings.map(|l| (Style::new(), l.clone())).collect(),
    );
    page.paragraph(DIM, &own(report));
    page.text
}

/// Already said above the table.
fn is_said(report: &Report, learning: &str) -> bool {
    report
        .verdict
        .adopt
        .as_ref()
        .is_some_and(|adopt| adopt.words == learning)
}

/// What is said of a run without an end.
pub const NO_END: &str = "none recorded: it still runs, or was broken off";

/// "relay: 8 arms of 3 processes, 5 min, a snapshot every 1 s, warm-up of 30 s left out."
fn facts(report: &Report) -> String {
    let s = &report.summary;
    let end = match &s.end {
        None => format!(" End: {NO_END}."),
        Some(end) if s.ended_early() => {
            format!(
                " End, of {} planned: {}.",
                written::seconds(s.planned_s),
                visible(end)
            )
        }
        Some(_) => String::new(),
    };
    let manner = match s.manner {
        "" => String::new(),
        manner => format!(" {manner}"),
    };
    format!(
        "{}: {} of {}, {}, a snapshot every {}, warm-up of {} left out.{end}{manner}",
        s.run,
        report.arms_counted(),
        s.processes_counted(),
        written::seconds(s.took_s),
        written::seconds(s.interval_s),
        written::seconds(s.warmup_s),
    )
}

fn prediction_lines(report: &Report) -> Vec<(Style, String)> {
    let style = |place: Place| match place {
        Place::Inside => GOOD,
        Place::Below | Place::Above => BAD,
        Place::Unknown => OPEN,
    };
    let lines = predictions::lines(report).into_iter();
    let score = Some(predictions::score(report)).filter(|words| !words.is_empty());
    lines
        .map(|(place, words)| (style(place), words))
        .chain(score.map(|words| (DIM, words)))
        .collect()
}

/// The checks, a line for all arms of which the same was seen.
pub fn checks(report: &Report) -> Vec<String> {
    check_lines(&report.verdict)
        .into_iter()
        .map(|(_, words)| words.replace("  ", " "))
        .collect()
}

/// Known defects, early ends, restarts: a line each.
pub fn notes(report: &Report) -> Vec<String> {
    arms::notes(report)
        .into_iter()
        .map(|(_, words)| words)
        .collect()
}

/// What highwater itself took.
pub fn own(report: &Report) -> String {
    let own = &report.verdict.own;
    format!(
        "highwater itself: {} of one core, {}, {} a snapshot (longest {}), {} snapshots, {} missed.{}{}",
        written::percent(own.cpu),
        written::bytes(own.rss_bytes),
        written::nanoseconds(own.snapshot_ns_p50),
        written::nanoseconds(own.snapshot_ns_max),
        written::count(own.snapshots as f64),
        written::count(own.snapshots_missed as f64),
        super::stall::arms::cost(&report.verdict),
        heap::cost(&report.verdict),
    )
}

/// One line for all arms of which the same was seen. Failures stand out where they count: on the
/// arm to adopt, or on any when there is none.
fn check_lines(verdict: &RunVerdict) -> Vec<(Style, String)> {
    let mut groups: Vec<(&CheckOutcome, Vec<&str>)> = Vec::new();
    for check in &verdict.checks {
        let is_same = |other: &CheckOutcome| {
            let seen_matters = check.passed != Some(true);
            other.check == check.check
                && other.passed == check.passed
                && (!seen_matters || other.observed == check.observed)
        };
        match groups.iter_mut().find(|(other, _)| is_same(other)) {
            Some((_, arms)) => arms.push(&check.arm),
            None => groups.push((check, vec![&check.arm])),
        }
    }
    let adopt = verdict.adopt.as_ref().map(|adopt| adopt.arm.as_str());
    let line = |(check, arms): (&CheckOutcome, Vec<&str>)| {
        let counts = adopt.is_none_or(|adopt| arms.contains(&adopt));
        let who = if arms.len() == verdict.arms.len() {
            "all arms".to_string()
        } else {
            arms.join(", ")
        };
        match check.passed {
            Some(true) => (GOOD, format!("pass  {}: {who}", check.check)),
            Some(false) => {
                let style = if counts { BAD } else { Style::new() };
                (
                    style,
                    format!("FAIL  {}: {who}: {}", check.check, check.observed),
                )
            }
            None => (
                OPEN,
                format!("open  {}: {who}: {}", check.check, check.observed),
            ),
        }
    };
    groups.into_iter().map(line).collect()
}

/// Text under construction; every line is kept within the width.
struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn paragraph(&mut self, style: Style, words: &str) {
        for line in wrapped(&visible(words), self.width, "") {
            self.line(style, &line);
        }
        self.text.push('\n');
    }

    fn section(&mut self, title: &str, lines: Vec<(Style, String)>) {
        if lines.is_empty() {
            return;
        }
        self.line(BOLD, title);
        for (style, words) in lines {
            for line in wrapped(&visible(&words), self.width - 2, "      ") {
                self.line(style, &format!("  {line}"));
            }
        }
        self.text.push('\n');
    }

    fn block(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn line(&mut self, style: Style, line: &str) {
        self.text.push_str(&format!("{style}{line}{style:#}\n"));
    }
}

/// Words in lines of at most `width` columns; `indent` begins every line but the first. A word
/// longer than a line is cut.
fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let options = textwrap::Options::new(width)
        .subsequent_indent(indent)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options)
        .into_iter()
        .map(|line| line.into_owned())
        .collect()
}

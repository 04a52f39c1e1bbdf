//! The report as Markdown, as an operator would publish it: the answer and what to do, the set-up, who was in which
//! group, final metrics with their costs, growth over time, charts, checks, audit, events, and the commands.
//!
//! Names and words are escaped so that they are read as text: no markup, no table cell, no link, no
//! mention.

mod arms;
mod escape;
mod sections;

use super::pictures::Picture;
use super::{Report, factors, heap, predictions, stall, text};
use escape::sentence;

pub use escape::escaped;

/// The document without pictures.
pub fn render(report: &Report) -> String {
    render_with(report, &[])
}

/// The document; the pictures' files stand beside it.
pub fn render_with(report: &Report, pictures: &[Picture]) -> String {
    let mut page = Page::default();
    page.add(answer(report));
    page.add(sections::setup(report));
    page.section("Groups", sections::groups(report));
    page.section("Final metrics and what they cost", arms::table(report));
    page.section(heap::TITLE, arms::by_arm(report, heap::columns_and_causes));
    page.section(
        stall::arms::TITLE,
        arms::by_arm(report, stall::arms::columns),
    );
    page.add(arms::allocators(report).unwrap_or_default());
    page.section("Growth over time", sections::growth(report));
    page.section("Charts", sections::charts(pictures));
    page.list(factors::TITLE, factors::lines(&report.verdict.factors));
    page.section(predictions::TITLE, sections::predicted(report));
    page.list("Checks", text::checks(report));
    page.list("What weakens this", findings(report));
    page.list("Defects and accidents", text::notes(report));
    page.list("Conclusions", learnings(report));
    page.section("Events", sections::events(report));
    page.section("What to do", sections::advice(report));
    page.section("Do it again", sections::again(report));
    page.text.trim_end().to_string() + "\n"
}

/// Paragraphs with an empty line between them.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn add(&mut self, words: String) {
        if !words.is_empty() {
            self.text += &format!("{words}\n\n");
        }
    }

    fn section(&mut self, title: &str, words: String) {
        if !words.is_empty() {
            self.text += &format!("## {title}\n\n{words}\n\n");
        }
    }

    fn list(&mut self, title: &str, lines: Vec<String>) {
        let lines: Vec<String> = lines.iter().map(|line| sentence(line)).collect();
        if !lines.is_empty() {
            self.section(title, format!("- {}", lines.join("\n- ")));
        }
    }
}

fn answer(report: &Report) -> String {
    let verdict = &report.verdict;
    let mut parts = vec![
        format!("# {}", escaped(&report.summary.experiment)),
        sentence(&verdict.headline),
    ];
    parts.extend(
        verdict
            .needs
            .as_ref()
            .map(|needs| format!("To decide it: {}.", sentence(needs))),
    );
    parts.extend(verdict.adopt.as_ref().map(|adopt| sentence(&adopt.words)));
    let advice = &report.recommendation;
    parts.push(format!("**Recommendation.** {}", sentence(&advice.words)));
    parts.join("\n\n")
}

fn findings(report: &Report) -> Vec<String> {
    let findings = report.verdict.findings.iter();
    findings
        .map(|f| format!("{}: {}", f.what, f.effect))
        .collect()
}

fn learnings(report: &Report) -> Vec<String> {
    let adopt = report.verdict.adopt.as_ref().map(|adopt| &adopt.words);
    let all = report.verdict.learnings.iter();
    all.filter(|words| Some(*words) != adopt).cloned().collect()
}

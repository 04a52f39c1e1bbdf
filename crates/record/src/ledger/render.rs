//! Entries for people (terminal, Markdown) and programs (JSON). Pure; every text of an entry is foreign: it may come
//! from an experiment file, a log line, another person's pull request.

use std::fmt::Write;

use serde::Serialize;

use super::entry::{Entry, Predicted, SCHEMA};
use super::score::Score;
use units::wording::shown;
use units::written;

/// Longest text that is shown in full; an entry is read, not scrolled.
const TEXT_CHARS_MAX: usize = 4000;
/// Width of the goal in a list.
const GOAL_CHARS_MAX: usize = 72;

/// One line per entry: id, status, attempts, goal.
pub fn text_list(entries: &[Entry]) -> String {
    let width = entries
        .iter()
        .map(|entry| shown(&entry.id, 80).chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for entry in entries {
        let (id, status) = (shown(&entry.id, 80), entry.status.word());
        let attempts = match entry.attempts.len() {
            1 => "1 attempt".into(),
            n => format!("{n} attempts"),
        };
        let goal = shown(&one_line(&entry.goal), GOAL_CHARS_MAX);
        let _ = writeln!(out, "{id:<width$}  {status:<9}  {attempts:<11}  {goal}");
    }
    if let Some(score) = Score::of(entries) {
        let _ = writeln!(out, "\n{}", score.words());
    }
    out
}

/// One entry in full.
pub fn text(entry: &Entry) -> String {
    let mut out = format!(
        "{}  {}\n{}\n",
        shown(&entry.id, 80),
        entry.status.word(),
        paragraph(&entry.goal, "")
    );
    for (title, words) in texts(entry) {
        let _ = writeln!(out, "\n{title}\n{}", paragraph(words, "  "));
    }
    for (title, items) in lists(entry) {
        let _ = writeln!(out, "\n{title}");
        for item in items {
            let _ = writeln!(out, "  - {}", paragraph(&item, "    ").trim_start());
        }
    }
    out
}

/// Entries as one Markdown document, newest last.
pub fn markdown(entries: &[Entry]) -> String {
    let mut out = String::from("# Ledger\n");
    for entry in entries {
        let _ = write!(
            out,
            "\n## {}\n\n{} · {} · {}\n",
            escaped(&entry.goal),
            escaped(&entry.id),
            escaped(&entry.date),
            entry.status.word()
        );
        for (title, words) in texts(entry) {
            let _ = writeln!(out, "\n**{title}:** {}", escaped(words));
        }
        for (title, items) in lists(entry) {
            let _ = writeln!(out, "\n**{title}:**\n");
            for item in items {
                let _ = writeln!(out, "- {}", escaped(&item));
            }
        }
    }
    if let Some(score) = Score::of(entries) {
        let _ = writeln!(out, "\n{}", escaped(&score.words()));
    }
    out
}

/// `{"schema": "highwater.ledger/2", "entries": [...], "score": {...}}`; the score of these entries, null without a
/// prediction.
pub fn json(entries: &[Entry]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        entries: &'a [Entry],
        score: Option<Score>,
    }
    let document = Document {
        schema: SCHEMA,
        entries,
        score: Score::of(entries),
    };
    serde_json::to_string_pretty(&document).expect("texts and lists only")
}

/// The texts that are there, with their titles.
fn texts(entry: &Entry) -> impl Iterator<Item = (&'static str, &str)> {
    [
        ("Experiment", &entry.experiment),
        ("Hypothesis", &entry.hypothesis),
        ("Why", &entry.why),
        ("Evidence", &entry.evidence),
        ("Result", &entry.result),
    ]
    .into_iter()
    .map(|(title, words)| (title, words.as_str()))
    .filter(|(_, words)| !words.trim().is_empty())
}

/// The lists that are not empty, with their titles.
fn lists(entry: &Entry) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let join = |parts: &[&str]| {
        let said: Vec<&str> = parts
            .iter()
            .copied()
            .filter(|part| !part.is_empty())
            .collect();
        said.join(": ")
    };
    let verify = entry.verify.iter().map(|step| {
        let what = format!("[{}] {}", step.outcome.word(), step.step);
        join(&[&what, &step.observed])
    });
    let attempts = entry.attempts.iter().map(|attempt| {
        let when = match attempt.run.as_str() {
            "" => attempt.date.clone(),
            run => format!("{}, run {run}", attempt.date),
        };
        join(&[&when, &attempt.words])
    });
    [
        ("Changed", entry.changed.clone()),
        ("Attempts", attempts.collect()),
        ("Verify", verify.collect()),
        (
            "Predictions",
            entry.predictions.iter().map(prediction).collect(),
        ),
        ("Learnings", entry.learnings.clone()),
        ("Revert", entry.revert.clone()),
    ]
    .into_iter()
    .filter(|(_, items)| !items.is_empty())
}

/// "[inside] jemalloc, run 2026-11-27-app: 52.5 MiB measured, 52.7 MiB [47.0, 58.6] predicted".
fn prediction(one: &Predicted) -> String {
    let [value, lo, hi] =
        [one.predicted_bytes, one.lo_bytes, one.hi_bytes].map(|bytes| bytes as f64);
    let place = if one.is_inside() { "inside" } else { "outside" };
    format!(
        "[{place}] {}, run {}: {} measured, {} predicted",
        one.arm,
        one.run,
        written::bytes(one.measured_bytes as f64),
        written::bytes_interval(value, lo, hi)
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lines indented, control characters made visible.
fn paragraph(text: &str, indent: &str) -> String {
    let text: String = text.trim().chars().take(TEXT_CHARS_MAX).collect();
    let lines = text
        .lines()
        .map(|line| format!("{indent}{}", shown(line, TEXT_CHARS_MAX)));
    lines.collect::<Vec<_>>().join("\n")
}

/// Text that Markdown shows as it stands: one line, no markup, no HTML, no table, no heading.
fn escaped(text: &str) -> String {
    let line = shown(&one_line(text), TEXT_CHARS_MAX);
    let mut out = String::with_capacity(line.len());
    for (n, c) in line.chars().enumerate() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => out.extend(['\\', c]),
            '-' | '+' | '=' | '!' if n == 0 => out.extend(['\\', c]),
            // "1." and "1)" at the start would begin a list.
            '.' | ')' if out.chars().all(|before| before.is_ascii_digit()) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

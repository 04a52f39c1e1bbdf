//! OOM kills for a terminal.

use std::fmt::Write;

use super::{OomReport, rows, when};
use crate::COLUMNS;
use crate::visible::{shortened, visible};
use crate::wrapped::wrapped;
use oom::kill::Kill;
use units::written::{bytes, counted, seconds};
use verdict::oom::OomFinding;

const NAME_COLUMNS: usize = 10;
/// Findings in full; JSON has all.
const FINDINGS_SHOWN: usize = 10;
const TASKS_SHOWN: usize = 8;

/// The whole text, ending with a newline.
pub fn text(report: &OomReport) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}", filled(&searched(report), ""));
    for finding in report.findings.iter().take(FINDINGS_SHOWN) {
        let _ = writeln!(out);
        one(finding, &mut out);
    }
    let more = report.findings.len().saturating_sub(FINDINGS_SHOWN);
    if more > 0 {
        let _ = writeln!(
            out,
            "\n{} are in --json.",
            counted(more as u64, "older finding", "older findings")
        );
    }
    for note in &report.notes {
        let _ = writeln!(out, "\n{}", filled(note, ""));
    }
    out
}

/// How many, in what, from when to when.
fn searched(report: &OomReport) -> String {
    let reading = &report.reading;
    let kills = match report.kills() {
        0 => "No OOM kill".to_owned(),
        kills => counted(kills, "OOM kill", "OOM kills"),
    };
    let since = report.since_s.map_or_else(String::new, |since| {
        format!(" in the last {}", seconds(since))
    });
    let span = match (reading.first, reading.last) {
        (Some(first), Some(last)) => format!(", {} to {}", when(first), when(last)),
        _ => ", without times".to_owned(),
    };
    let earlier = match report.earlier {
        0 => String::new(),
        earlier => format!(
            " {} before that left out.",
            counted(earlier, "kill", "kills")
        ),
    };
    let lines = counted(reading.lines, "line", "lines");
    format!(
        "{kills}{since} in {} ({lines}{span}).{earlier}",
        reading.source
    )
}

fn filled(text: &str, indent: &str) -> String {
    wrapped(&visible(text), COLUMNS, indent)
}

fn one(finding: &OomFinding, out: &mut String) {
    let cause = finding.cause.word().replace('_', " ").to_uppercase();
    let _ = writeln!(
        out,
        "{}",
        filled(&format!("{cause}: {}.", finding.sentence), "")
    );
    for limitation in &finding.limitations {
        let _ = writeln!(out, "{}", filled(&format!("But: {limitation}."), "  "));
    }
    let _ = writeln!(
        out,
        "{}\n",
        filled(&format!("Next: {}", finding.next_step), "  ")
    );
    let indent = " ".repeat(NAME_COLUMNS + 2);
    for (name, text) in rows::rows(finding) {
        let _ = writeln!(
            out,
            "{}",
            filled(&format!("  {name:<NAME_COLUMNS$}{text}"), &indent)
        );
    }
    tasks(finding.last(), out);
}

fn tasks(kill: &Kill, out: &mut String) {
    if kill.tasks.count < 2 {
        return;
    }
    let _ = writeln!(
        out,
        "\n  {}, {} resident together; the largest:",
        counted(kill.tasks.count, "process", "processes"),
        bytes(kill.tasks.resident_bytes as f64)
    );
    for task in kill.tasks.largest.iter().take(TASKS_SHOWN) {
        let swap = match task.swap_bytes {
            0 => String::new(),
            swap => format!(", {} in swap", bytes(swap as f64)),
        };
        let is_killed = kill.victims.iter().any(|victim| victim.pid == task.pid);
        let adj = match task.oom_score_adj {
            0 => String::new(),
            // OOM_SCORE_ADJ_MIN: never.
            -1000 => ", oom_score_adj -1000: never killed".to_owned(),
            adj => format!(", oom_score_adj {adj}"),
        };
        let end = if is_killed { ", killed" } else { "" };
        let row = format!(
            "  {:>12}  {} (pid {}){swap}{adj}{end}",
            bytes(task.resident_bytes as f64),
            task.command,
            task.pid
        );
        let _ = writeln!(out, "{}", shortened(&row, COLUMNS));
    }
}

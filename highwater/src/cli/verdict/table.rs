//! The verdicts for people.

use std::io::{self, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::answer::Answer;
use crate::report::visible::{visible, visible_lines};
use crate::units::written;
use crate::verdict::series::SeriesVerdict;
use crate::verdict::{Estimate, Label};

/// What a row says, of a series or an arm.
struct Row<'a> {
    id: &'a str,
    label: Label,
    confidence: f64,
    level: Option<Estimate>,
    slope: Option<Estimate>,
    why: String,
}

/// Headline and findings, then one row for each series and arm, then the pairs in words. `arms_only` leaves
/// the processes of the arms out.
///
/// # Errors
/// `out` takes no more.
pub fn write(answer: &Answer, arms_only: bool, out: &mut impl Write) -> io::Result<()> {
    for sentence in &answer.headline {
        writeln!(out, "{}", visible(sentence))?;
    }
    for f in &answer.findings {
        let words = format!("audit: {}\n  {}; {}", f.what, f.effect, f.still);
        writeln!(out, "{}", visible_lines(&words))?;
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["", "label", "sure", "level", "per hour", "why"]);
    let whole = answer.series.is_empty() && !arms_only;
    let processes = answer.arms.iter().filter(|_| whole);
    let series = answer.pile.rows().iter().chain(&answer.series);
    for v in series.chain(processes.flat_map(|a| &a.verdict.processes)) {
        table.add_row(cells(&of_series(v)));
    }
    for a in &answer.arms {
        let arm = &a.verdict;
        let refused = if a.refused {
            "; refused by the audit"
        } else {
            ""
        };
        table.add_row(cells(&Row {
            id: &arm.arm,
            label: arm.label,
            confidence: arm.confidence,
            level: arm.level,
            slope: arm.slope_per_hour,
            why: with_needs(&arm.rule, arm.needs.as_deref()) + refused,
        }));
    }
    writeln!(out, "{table}")?;
    if let Some(words) = answer.pile.words() {
        writeln!(out, "{words}")?;
    }
    for p in &answer.pairs {
        writeln!(out, "{}", visible(&p.words))?;
    }
    Ok(())
}

fn of_series(v: &SeriesVerdict) -> Row<'_> {
    let mut why = with_needs(&v.rule, v.needs.as_deref());
    if let Some(left) = v.time_to_limit_s {
        why += &format!("; reaches its limit in {}", left_words(left));
    }
    Row {
        id: &v.id,
        label: v.label,
        confidence: v.confidence,
        level: v.level,
        slope: v.slope_per_hour,
        why,
    }
}

/// "3 h (2 h to 5 h)"; an end that never comes is said so.
fn left_words(left: Estimate) -> String {
    let at = |s: f64| match s.is_finite() {
        true => written::seconds(s),
        false => "never".to_owned(),
    };
    format!("{} ({} to {})", at(left.value), at(left.lo), at(left.hi))
}

fn with_needs(rule: &str, needs: Option<&str>) -> String {
    match needs {
        Some(needs) => format!("{rule}; needs {needs}"),
        None => rule.to_owned(),
    }
}

fn cells(row: &Row) -> [String; 6] {
    [
        visible(row.id).into_owned(),
        row.label.word().to_owned(),
        format!("{:.2}", row.confidence),
        size_of(row.level),
        slope_of(row.slope),
        visible(&row.why).into_owned(),
    ]
}

fn size_of(e: Option<Estimate>) -> String {
    e.map_or_else(String::new, |e| format!("{:.1} MiB", e.value / 1_048_576.0))
}

fn slope_of(e: Option<Estimate>) -> String {
    let mib = |v: f64| v / 1_048_576.0;
    e.map_or_else(String::new, |e| {
        format!(
            "{:+.3} MiB ({:+.3} to {:+.3})",
            mib(e.value),
            mib(e.lo),
            mib(e.hi)
        )
    })
}

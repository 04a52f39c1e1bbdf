//! The verdicts for people.

use std::io::{self, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;

use super::answer::Answer;
use report::visible::{visible, visible_lines};
use series::estimate::Estimate;
use units::written;
use verdict::Label;
use verdict::series::SeriesVerdict;

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
/// the processes of the arms out. In a pipe a row is a line; of a terminal `width` is its columns, and the reason
/// stands below the row.
///
/// # Errors
/// `out` takes no more.
pub fn write(
    answer: &Answer,
    arms_only: bool,
    width: Option<usize>,
    out: &mut impl Write,
) -> io::Result<()> {
    for sentence in &answer.headline {
        say(&visible(sentence), "", width, out)?;
    }
    for f in &answer.findings {
        say(
            &visible_lines(&format!("audit: {}", f.what)),
            "",
            width,
            out,
        )?;
        say(
            &visible_lines(&format!("{}; {}", f.effect, f.still)),
            "  ",
            width,
            out,
        )?;
    }
    let rows = rows_of(answer, arms_only);
    match width {
        None => wide_table(&rows, out)?,
        Some(width) => narrow_table(&rows, width, out)?,
    }
    if let Some(words) = answer.pile.words() {
        say(&words, "", width, out)?;
    }
    for p in &answer.pairs {
        say(&visible(&p.words), "", width, out)?;
    }
    Ok(())
}

/// A sentence, folded at the width of a terminal.
fn say(words: &str, indent: &str, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    match width {
        None => writeln!(out, "{indent}{words}"),
        Some(width) => {
            let folded = textwrap::Options::new(width)
                .initial_indent(indent)
                .subsequent_indent(if indent.is_empty() { "  " } else { indent });
            writeln!(out, "{}", textwrap::fill(words, folded))
        }
    }
}

const HEADER: [&str; 6] = ["", "label", "conf.", "level", "MiB/h [95 %]", "why"];

fn wide_table(rows: &[[String; 6]], out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(HEADER);
    for row in rows {
        table.add_row(row);
    }
    writeln!(out, "{table}")
}

/// The numbers in columns, and each reason below its row.
fn narrow_table(rows: &[[String; 6]], width: usize, out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(&HEADER[..5]);
    for row in rows {
        table.add_row(&row[..5]);
    }
    let text = table.to_string();
    let mut lines = text.lines();
    if let Some(header) = lines.next() {
        writeln!(out, "{}", header.trim_end())?;
    }
    for (line, row) in lines.zip(rows) {
        writeln!(out, "{}", line.trim_end())?;
        say(&row[5], "     ", Some(width), out)?;
    }
    Ok(())
}

fn rows_of(answer: &Answer, arms_only: bool) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    let whole = answer.series.is_empty() && !arms_only;
    let processes = answer.arms.iter().filter(|_| whole);
    let series = answer.pile.rows().iter().chain(&answer.series);
    for v in series.chain(processes.flat_map(|a| &a.verdict.processes)) {
        rows.push(cells(&of_series(v)));
    }
    for a in &answer.arms {
        let arm = &a.verdict;
        let refused = if a.refused {
            "; refused by the audit"
        } else {
            ""
        };
        rows.push(cells(&Row {
            id: &arm.arm,
            label: arm.label,
            confidence: arm.confidence,
            level: arm.level,
            slope: arm.slope_per_hour,
            why: with_needs(&arm.rule, arm.needs.as_deref()) + refused,
        }));
    }
    rows
}

fn of_series(v: &SeriesVerdict) -> Row<'_> {
    let mut why = with_needs(&v.rule, v.needs.as_deref());
    if let Some(end) = v.asymptote.filter(|_| v.label == Label::Plateauing) {
        why += &format!("; levels off at {}", size_of(Some(end)));
    }
    if let Some(period) = v.period_s.filter(|_| v.label == Label::Sawtooth) {
        why += &format!("; period {}", written::seconds(period));
    }
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
            "{:+.3} [{:+.3}, {:+.3}]",
            mib(e.value),
            mib(e.lo),
            mib(e.hi)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_columns_hold_the_table() {
        let row = |id: &str| {
            let why = "the level rises by 3 % or more over the window and still rises at its end"
                .to_owned();
            let slope = "+1234.567 [+1000.123, +1456.789]".to_owned();
            [
                id.to_owned(),
                "plateauing".to_owned(),
                "0.99".to_owned(),
                "1234.5 MiB".to_owned(),
                slope,
                why,
            ]
        };
        let rows = [row("api-1"), row("api-2")];
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        narrow_table(&rows, 80, &mut narrow).unwrap();
        wide_table(&rows, &mut wide).unwrap();
        let (narrow, wide) = (
            String::from_utf8(narrow).unwrap(),
            String::from_utf8(wide).unwrap(),
        );
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        assert_eq!(
            (wide.lines().count(), narrow.lines().count()),
            (3, 5),
            "{narrow}"
        );
        assert!(narrow.contains("\n     the level rises"), "{narrow}");
    }
}

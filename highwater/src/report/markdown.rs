//! The report as GitHub Markdown, for a pull request: the answer, the table of the arms, checks,
//! lessons.
//!
//! Names and words are escaped so that they are read as text: no markup, no table cell, no link, no
//! mention.

use super::visible::visible;
use super::{Report, column_scales, text};
use crate::analyse::cost::ArmCost;
use crate::units::written::{self, ByteScale, MISSING};
use crate::verdict::Estimate;
use crate::verdict::run::ArmRow;

/// The document.
pub fn render(report: &Report) -> String {
    let verdict = &report.verdict;
    let mut page = format!(
        "### {}\n\n{}\n\n",
        escaped(&report.summary.experiment),
        sentence(&verdict.headline)
    );
    let mut paragraph = |words: String| page += &format!("{words}\n\n");
    if let Some(needs) = &verdict.needs {
        paragraph(format!("To decide it: {}.", sentence(needs)));
    }
    if let Some(adopt) = &verdict.adopt {
        paragraph(sentence(&adopt.words));
    }
    paragraph(table(report));
    if let Some(table) = allocators(report) {
        paragraph(table);
    }
    let adopt = verdict.adopt.as_ref().map(|adopt| &adopt.words);
    let lists = [
        (
            "Checks",
            text::checks(report)
                .iter()
                .map(|line| sentence(line))
                .collect(),
        ),
        ("What weakens this", findings(report)),
        (
            "Defects and accidents",
            text::notes(report)
                .iter()
                .map(|note| sentence(note))
                .collect(),
        ),
        (
            "What it taught",
            verdict
                .learnings
                .iter()
                .filter(|l| Some(*l) != adopt)
                .map(|l| sentence(l))
                .collect(),
        ),
    ];
    for (title, lines) in lists
        .into_iter()
        .filter(|(_, lines): &(_, Vec<String>)| !lines.is_empty())
    {
        paragraph(format!("**{title}**\n\n- {}", lines.join("\n- ")));
    }
    paragraph(format!(
        "<sub>{} {}</sub>",
        escaped(&facts(report)),
        escaped(&text::own(report))
    ));
    page.trim_end().to_string() + "\n"
}

fn facts(report: &Report) -> String {
    let s = &report.summary;
    let cpus = s.machine.cpus;
    format!(
        "{}: {} replicas per arm, {}, warm-up of {} left out, {} with {cpus} CPUs and {}.",
        s.run,
        s.replicas,
        written::seconds(s.took_s),
        written::seconds(s.warmup_s),
        s.machine.cpu,
        written::bytes(s.machine.memory_bytes as f64),
    )
}

fn table(report: &Report) -> String {
    let rows = &report.verdict.arms;
    let scales = column_scales(&report.verdict);
    let mut lines = vec![
        format!(
            "| Arm | RSS {} | Trend | {}/h | x control | CPU user + system % | Faults/s \
             | p50 / p99 / max ms | Requests/s | Lazy / THP % |",
            scales.0.word, scales.1.word
        ),
        "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|".to_string(),
    ];
    lines.extend(
        rows.iter()
            .map(|row| format!("| {} |", cells(report, row, scales).join(" | "))),
    );
    lines.join("\n")
}

/// What is known of the arms' allocators; `None` where nothing is.
fn allocators(report: &Report) -> Option<String> {
    let rows = &report.verdict.arms;
    let known = |row: &ArmRow| !row.defects.is_empty() || !row.protections.is_empty();
    if !rows.iter().any(known) {
        return None;
    }
    let mut lines = vec![
        "| Arm | Allocator | Known defects | Stops |".to_string(),
        "|---|---|---|---|".to_string(),
    ];
    for row in rows {
        let plan = report.arms.iter().find(|plan| plan.name == row.arm);
        let allocator = plan.map_or("", |plan| &plan.allocator);
        let (defects, stops) = (row.defects.join(" "), row.protections.join(", "));
        let cells = [&row.arm, allocator, &defects, &stops].map(escaped);
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    Some(lines.join("\n"))
}

fn cells(report: &Report, row: &ArmRow, (level, slope): (ByteScale, ByteScale)) -> Vec<String> {
    let pair = report
        .verdict
        .pairs
        .iter()
        .find(|pair| pair.a == row.arm && pair.b != row.arm);
    let name = escaped(&row.arm);
    let cost = &row.cost;
    vec![
        if row.is_control {
            format!("{name} (control)")
        } else {
            name
        },
        estimate(row.memory.level, level.bytes, written::digits),
        row.memory.label.word().to_string(),
        estimate(row.memory.slope_per_hour, slope.bytes, written::signed),
        match row.is_control {
            true => "1".to_string(),
            false => estimate(pair.and_then(|pair| pair.ratio), 1.0, written::digits),
        },
        format!(
            "{} + {}",
            mean(cost.cpu_user, 0.01),
            mean(cost.cpu_system, 0.01)
        ),
        cost.minor_faults_per_second
            .map_or(MISSING.to_string(), |e| written::count(e.value)),
        latency(cost),
        cost.requests_per_second
            .map_or(MISSING.to_string(), |e| written::count(e.value)),
        format!(
            "{} / {}",
            share(cost.lazy_free_share),
            share(cost.huge_pages_share)
        ),
    ]
}

fn latency(cost: &ArmCost) -> String {
    let ms = |ns: u64| written::digits(ns as f64 / 1e6);
    cost.latency
        .as_ref()
        .map_or(MISSING.to_string(), |latency| {
            format!(
                "{} / {} / {}",
                ms(latency.p50_ns),
                ms(latency.p99_ns),
                ms(latency.max_ns)
            )
        })
}

fn share(share: Option<f64>) -> String {
    share.map_or(MISSING.to_string(), |share| written::short(share * 100.0))
}

fn mean(estimate: Option<Estimate>, unit: f64) -> String {
    estimate.map_or(MISSING.to_string(), |e| written::digits(e.value / unit))
}

/// "298 [274, 320]", brackets escaped.
fn estimate(estimate: Option<Estimate>, unit: f64, number: fn(f64) -> String) -> String {
    let Some(Estimate { value, lo, hi }) = estimate else {
        return MISSING.to_string();
    };
    let interval = written::interval(lo / unit, hi / unit).map(|interval| format!(" {interval}"));
    number(value / unit) + &interval.unwrap_or_default()
}

fn findings(report: &Report) -> Vec<String> {
    let findings = report.verdict.findings.iter();
    findings
        .map(|f| format!("{} {}", sentence(&f.what), sentence(&f.effect)))
        .collect()
}

/// Text with names between backquotes, which become code.
fn sentence(words: &str) -> String {
    let parts = words.split('`').enumerate().map(|(at, part)| match at % 2 {
        1 => format!("<code>{}</code>", escaped(part)),
        _ => escaped(part),
    });
    parts.collect()
}

/// Text as text: what Markdown, HTML or GitHub would read as something else becomes a character
/// reference.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let visible = visible(text);
    let mut before = ' ';
    for character in visible.chars() {
        let is_link = (character == ':' || character == '.') && before.is_alphanumeric();
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '#' | '@' | '~' | '\\' | '[' | ']' | '!' | '$' => {
                safe.push_str(&format!("&#{};", character as u32));
            }
            // "www.x" and "http://x" would become links; "2.0.9" and "p99 5.3 ms" would not.
            ':' | '.' if is_link && is_link_start(&safe) => {
                safe.push_str(&format!("&#{};", character as u32));
            }
            other => safe.push(other),
        }
        before = character;
    }
    safe
}

/// Whether what was written so far ends like the beginning of a link.
fn is_link_start(written: &str) -> bool {
    let end = written.to_ascii_lowercase();
    ["www", "http", "https", "ftp", "mailto", "xmpp"]
        .iter()
        .any(|start| end.ends_with(start))
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn nothing_of_a_name_is_markup() {
        let cases = [
            ("a|b", "a&#124;b"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("[x](https://y)", "&#91;x&#93;(https&#58;//y)"),
            ("www.example.org", "www&#46;example.org"),
            ("@everyone #1 `x`", "&#64;everyone &#35;1 &#96;x&#96;"),
            ("a\nb", "a&#92;nb"),
            ("mimalloc-2.0.9", "mimalloc-2.0.9"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected);
        }
    }
}

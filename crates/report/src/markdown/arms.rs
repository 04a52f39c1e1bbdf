//! The tables of the arms: final metrics with their costs, and what is known of the allocators.

use super::escape::escaped;
use crate::column::Column;
use crate::{Report, column_scales, heap};
use series::estimate::Estimate;
use units::written;
use units::written::{ByteScale, MISSING};
use verdict::cost::ArmCost;
use verdict::run::{ArmRow, RunVerdict};

pub fn table(report: &Report) -> String {
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

/// Of one arm's row.
type Columns = fn(&RunVerdict, &ArmRow) -> Vec<Column>;

/// Columns of every arm, as of its stalls or of its heap; empty unless the experiment watched for it.
pub fn by_arm(report: &Report, columns: Columns) -> String {
    let columns = |row: &ArmRow| columns(&report.verdict, row);
    let rows = &report.verdict.arms;
    let titles = rows.first().map(columns).unwrap_or_default();
    if titles.is_empty() {
        return String::new();
    }
    let titles: Vec<String> = titles.into_iter().map(|column| column.title).collect();
    let rule = |title: &String| if title == heap::CAUSE { "---|" } else { "--:|" };
    let rules: String = titles.iter().map(rule).collect();
    let mut lines = vec![
        format!("| Arm | {} |", titles.join(" | ")),
        format!("|---|{rules}"),
    ];
    for row in rows {
        let cells = columns(row)
            .into_iter()
            .map(|column| escaped(&column.text()));
        let cells: Vec<String> = [escaped(&row.arm)].into_iter().chain(cells).collect();
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines.join("\n")
}

/// What is known of the arms' allocators; `None` where nothing is.
pub fn allocators(report: &Report) -> Option<String> {
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

//! The table of the arms: memory and what it costs, side by side.

use maud::{Markup, html};

use super::{swatch, visible};
use crate::column::Column;
use crate::{Report, column_scales};
use series::latency::Latency;
use units::written;
use units::written::{ByteScale, MISSING};
use verdict::run::ArmRow;

pub fn table(report: &Report) -> Markup {
    let rows = &report.verdict.arms;
    let scales = column_scales(&report.verdict);
    html! {
        section aria-labelledby="arms" {
            h2 #arms { "Arms" }
            div.scroll tabindex="0" {
                table.arms.stack {
                    caption {
                        "Memory and its costs. Levels are at the end of the run, costs are means "
                        "after warm-up; under each number its 95 % interval over processes."
                    }
                    (head(scales))
                    tbody { @for row in rows { (line(report, row, scales)) } }
                }
            }
        }
    }
}

fn head(scales: (ByteScale, ByteScale)) -> Markup {
    html! {
        thead {
            tr {
                td rowspan="2" {}
                th scope="colgroup" colspan="6" { "Memory" }
                th.cost scope="colgroup" colspan="7" { "What it costs" }
            }
            tr {
                th scope="col" { "Trend" }
                th.number scope="col" { "RSS" br; span.unit { (scales.0.word) } }
                th.number scope="col" { "Growth" br; span.unit { (scales.1.word) "/h" } }
                th.number scope="col" { "Ratio" br; span.unit { "x control" } }
                th.number scope="col" { "Peak" br; span.unit { (scales.0.word) } }
                th.number scope="col" { "Lazy / THP" br; span.unit { "% of RSS" } }
                th.number.cost scope="col" { "User" br; span.unit { "% CPU" } }
                th.number scope="col" { "System" br; span.unit { "% CPU" } }
                th.number scope="col" { "Faults" br; span.unit { "per s" } }
                th.number scope="col" { "p50" br; span.unit { "ms" } }
                th.number scope="col" { "p99" br; span.unit { "ms" } }
                th.number scope="col" { "Max" br; span.unit { "ms" } }
                th.number scope="col" { "Requests" br; span.unit { "per s" } }
            }
        }
    }
}

fn notes(row: &ArmRow) -> Markup {
    html! {
        @if row.is_control { " " span.note { "control" } }
        @if let Some(why) = &row.aborted {
            " " span.note.bad title=(visible(why)) { "ended early" }
        }
        @if row.restarted > 0 { " " span.note.open { (row.restarted) " restarted" } }
        @if !row.defects.is_empty() {
            " " span.note.open title=(visible(&row.defects.join("\n"))) { (defects(row)) }
        }
    }
}

fn line(report: &Report, row: &ArmRow, scales: (ByteScale, ByteScale)) -> Markup {
    html! {
        tr {
            th scope="row" {
                // Notes stand beside the name and under it, never under the swatch.
                span.name { (swatch(report, &row.arm)) span { (visible(&row.arm)) (notes(row)) } }
            }
            td data-title="Trend" {
                (trend(row))
                @if let Some(needs) = &row.memory.needs {
                    span.interval.needs { "needs " (visible(needs)) }
                }
            }
            @for (at, column) in memory(report, row, scales).iter().chain(&costs(row)).enumerate() {
                td.number.cost[at == 5] data-title=(column.title) { (cell(column)) }
            }
        }
    }
}

/// The value, and its interval on a second line.
pub fn cell(column: &Column) -> Markup {
    html! {
        @match column.interval {
            Some((lo, hi)) => {
                span.value { (visible(&column.value)) }
                span.interval { (interval(lo, hi)) }
            }
            None => (visible(&column.value)),
        }
    }
}

fn interval(lo: f64, hi: f64) -> String {
    let separator = if lo < 0.0 || hi < 0.0 { " to " } else { "–" };
    format!("{}{separator}{}", short(lo), short(hi))
}

fn defects(row: &ArmRow) -> String {
    match row.defects.len() {
        1 => "known defect".to_owned(),
        n => format!("{n} known defects"),
    }
}

/// The label, with the rule behind it on hover.
pub fn trend(row: &ArmRow) -> Markup {
    let label = row.memory.label.word();
    html! { span class={ "label label-" (label) } title=(visible(&row.memory.rule)) { (label) } }
}

fn memory(report: &Report, row: &ArmRow, scales: (ByteScale, ByteScale)) -> Vec<Column> {
    let (level, slope) = scales;
    let pair = report
        .verdict
        .pairs
        .iter()
        .find(|pair| pair.a == row.arm && pair.b != row.arm);
    let ratio = match row.is_control {
        true => Column::plain("x control", Some("1".to_string())),
        false => Column::estimate(
            "x control",
            pair.and_then(|pair| pair.ratio),
            1.0,
            written::digits,
        ),
    };
    let peak = Some(row.rss_peak_bytes).filter(|peak| *peak > 0.0);
    let share =
        |share: Option<f64>| share.map_or(MISSING.to_string(), |s| written::short(s * 100.0));
    let shares = format!(
        "{} / {}",
        share(row.cost.lazy_free_share),
        share(row.cost.huge_pages_share)
    );
    vec![
        Column::estimate(
            &format!("RSS {}", level.word),
            row.memory.level,
            level.bytes,
            written::digits,
        ),
        Column::estimate(
            &format!("{}/h", slope.word),
            row.memory.slope_per_hour,
            slope.bytes,
            written::signed,
        ),
        ratio,
        Column::plain(
            &format!("Peak {}", level.word),
            peak.map(|peak| level.number(peak)),
        ),
        Column::plain("Lazy / THP %", Some(shares)),
    ]
}

fn costs(row: &ArmRow) -> Vec<Column> {
    let cost = &row.cost;
    let ms = |of: fn(&Latency) -> u64| {
        cost.latency
            .as_ref()
            .map(|l| written::digits(of(l) as f64 / 1e6))
    };
    vec![
        Column::estimate("User %", cost.cpu_user, 0.01, written::digits),
        Column::estimate("System %", cost.cpu_system, 0.01, written::digits),
        Column::estimate(
            "Faults/s",
            cost.minor_faults_per_second,
            1.0,
            written::count,
        ),
        Column::plain("p50 ms", ms(|l| l.p50_ns)),
        Column::plain("p99 ms", ms(|l| l.p99_ns)),
        Column::plain("Max ms", ms(|l| l.max_ns)),
        Column::estimate("Requests/s", cost.requests_per_second, 1.0, written::count),
    ]
}

/// An end of an interval, in as few characters as a second line should have.
fn short(value: f64) -> String {
    match value.abs() >= 10_000.0 {
        true => written::count(value).replace(' ', ""),
        false => written::digits(value),
    }
}

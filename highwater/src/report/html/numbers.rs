//! The numbers behind each chart as a table, for eyes that cannot use the chart and for scripts
//! turned off.

use maud::{Markup, html};

use super::{swatch, visible};
use crate::report::Report;
use crate::report::charts::{ArmBand, LatencyLine, Panel};
use crate::units::written::{self, ByteScale, MISSING};

/// Instants shown of each chart.
const COLUMNS: usize = 6;

/// Mean and range over processes of each arm at a few instants.
pub fn rss(report: &Report) -> Markup {
    let panel = &report.charts.rss;
    let scale = scale(panel);
    let caption = format!(
        "RSS in {}: mean over the processes of the arm, and their range",
        scale.word
    );
    panel_table(report, panel, &caption, |value| scale.number(value))
}

pub fn cpu(report: &Report) -> Markup {
    let caption = "CPU in % of one core, user and system: mean over processes, and their range";
    panel_table(report, &report.charts.cpu, caption, |value| {
        written::digits(value * 100.0)
    })
}

pub fn faults(report: &Report) -> Markup {
    let caption = "Minor faults per second: mean over processes, and their range";
    panel_table(report, &report.charts.faults, caption, written::count)
}

pub fn latency(report: &Report) -> Markup {
    let lines = &report.charts.latency;
    let times = instants(0.0, report.charts.took_s);
    let cell = |line: &LatencyLine, t: f64| {
        let near = line
            .points
            .iter()
            .min_by(|a, b| (a.0 - t).abs().total_cmp(&(b.0 - t).abs()));
        let ms = |ns: u64| written::digits(ns as f64 / 1e6);
        near.map_or(MISSING.to_string(), |p| {
            format!("{} / {} / {}", ms(p.1), ms(p.2), ms(p.3))
        })
    };
    let rows = lines.iter().map(|line| {
        let name = report.charts.arms.get(line.arm).map_or("", String::as_str);
        (name, times.iter().map(|t| (cell(line, *t), None)).collect())
    });
    table(
        report,
        "Latency in ms around that time: p50 / p99 / longest",
        &times,
        rows.collect(),
    )
}

/// RSS at quarters of the age that the processes reached: lowest, median, highest.
pub fn ages(report: &Report) -> Markup {
    let panel = &report.charts.rss;
    let scale = scale(panel);
    let oldest = report.charts.took_s;
    let ages: Vec<f64> = (1..=4)
        .map(|quarter| oldest * quarter as f64 / 4.0)
        .collect();
    let rows = report.charts.arms.iter().enumerate().map(|(arm, name)| {
        let cell = |age: &f64| {
            let mut values = at_age(panel, arm, *age);
            values.sort_by(f64::total_cmp);
            match (values.first(), values.get(values.len() / 2), values.last()) {
                (Some(low), Some(middle), Some(high)) => (
                    scale.number(*middle),
                    Some(range(scale.number(*low), scale.number(*high))),
                ),
                _ => (MISSING.to_string(), None),
            }
        };
        (name.as_str(), ages.iter().map(cell).collect())
    });
    let caption = format!(
        "RSS in {} by age of the process: median, and range",
        scale.word
    );
    table(report, &caption, &ages, rows.collect())
}

/// RSS of each process of an arm at the given age of its last incarnation that grew so old.
fn at_age(panel: &Panel, arm: usize, age: f64) -> Vec<f64> {
    let slack = 2.0
        * panel
            .t_s
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .fold(0.0, f64::max);
    let value = |line: &crate::report::charts::ProcessLine| {
        let reached = line
            .starts_s
            .iter()
            .enumerate()
            .rev()
            .find_map(|(at, start)| {
                let end = line.starts_s.get(at + 1).copied().unwrap_or(f64::MAX);
                let index = panel
                    .t_s
                    .partition_point(|t| *t <= start + age + slack / 2.0);
                let last = (0..index).rev().find(|i| line.values[*i].is_some())?;
                let t = panel.t_s[last];
                (t < end && t >= *start && (start + age - t).abs() <= slack)
                    .then(|| line.values[last])
            });
        reached.flatten()
    };
    panel
        .processes
        .iter()
        .filter(|line| line.arm == arm)
        .filter_map(value)
        .collect()
}

fn scale(panel: &Panel) -> ByteScale {
    let highest = panel
        .arms
        .iter()
        .flat_map(|arm| &arm.hi)
        .flatten()
        .copied()
        .fold(0.0, f64::max);
    ByteScale::of_column([highest])
}

fn panel_table(
    report: &Report,
    panel: &Panel,
    caption: &str,
    number: impl Fn(f64) -> String,
) -> Markup {
    let (Some(first), Some(last)) = (panel.t_s.first(), panel.t_s.last()) else {
        return html! { p.empty { "Nothing was recorded." } };
    };
    let times = instants(*first, *last);
    let cell = |arm: &ArmBand, t: f64| {
        let near = (0..panel.t_s.len())
            .filter(|at| arm.mean.get(*at).is_some_and(Option::is_some))
            .min_by(|a, b| {
                (panel.t_s[*a] - t)
                    .abs()
                    .total_cmp(&(panel.t_s[*b] - t).abs())
            });
        let at = near.filter(|at| (panel.t_s[*at] - t).abs() <= (last - first) / COLUMNS as f64);
        let Some(at) = at else {
            return (MISSING.to_string(), None);
        };
        let value = |of: &[Option<f64>]| of.get(at).copied().flatten();
        match (value(&arm.mean), value(&arm.lo), value(&arm.hi)) {
            (Some(mean), Some(lo), Some(hi)) if lo < hi => {
                (number(mean), Some(range(number(lo), number(hi))))
            }
            (mean, ..) => (mean.map_or(MISSING.to_string(), &number), None),
        }
    };
    let rows = panel.arms.iter().zip(&report.charts.arms);
    let rows =
        rows.map(|(arm, name)| (name.as_str(), times.iter().map(|t| cell(arm, *t)).collect()));
    table(report, caption, &times, rows.collect())
}

fn range(lo: String, hi: String) -> String {
    if lo == hi {
        String::new()
    } else {
        format!("{lo}–{hi}")
    }
}

fn instants(first: f64, last: f64) -> Vec<f64> {
    (0..COLUMNS)
        .map(|at| first + (last - first) * at as f64 / (COLUMNS - 1) as f64)
        .collect()
}

/// A row: the arm's name, and for each instant a value and what stands under it.
type Row<'a> = (&'a str, Vec<(String, Option<String>)>);

fn table(report: &Report, caption: &str, times: &[f64], rows: Vec<Row>) -> Markup {
    html! {
        details.numbers {
            summary { "Numbers" }
            div.scroll tabindex="0" {
                table {
                    caption { (caption) }
                    thead { tr {
                        th scope="col" { "Arm" }
                        @for t in times { th.number scope="col" { (written::seconds(t.round())) } }
                    } }
                    tbody { @for (name, cells) in rows {
                        tr {
                            th scope="row" { span.name { (swatch(report, name)) (visible(name)) } }
                            @for (value, under) in cells {
                                td.number {
                                    span.value { (value) }
                                    @if let Some(under) = under { span.interval { (under) } }
                                }
                            }
                        }
                    } }
                }
            }
        }
    }
}

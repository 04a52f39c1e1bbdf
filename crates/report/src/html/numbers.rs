//! The numbers behind each chart as a table, for eyes that cannot use the chart and for scripts
//! turned off.

use maud::{Markup, html};

use super::{swatch, visible};
use crate::Report;
use crate::charts::latency::pause_words;
use crate::charts::{ArmBand, HeapPanel, LatencyLine, Panel};
use series::latency::PAUSE_NS;
use series::latency::over_time::{NINES, class_of};
use units::written;
use units::written::{ByteScale, MISSING};

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

pub fn heap(report: &Report, part: &HeapPanel) -> Markup {
    let scale = scale(&part.panel);
    let caption = format!(
        "{} in {}: mean over the processes of the arm, and their range",
        part.title, scale.word
    );
    panel_table(report, &part.panel, &caption, |value| scale.number(value))
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
        let name = arm_name(report, line);
        (name, times.iter().map(|t| (cell(line, *t), None)).collect())
    });
    table(
        report,
        "Latency in ms around that time: p50 / p99 / longest",
        &times,
        rows.collect(),
    )
}

/// The percentiles that people ask for, and the pauses of each arm.
pub fn percentiles(report: &Report) -> Markup {
    let lines = &report.charts.latency;
    let ms =
        |ns: Option<u64>| ns.map_or(MISSING.to_string(), |ns| written::digits(ns as f64 / 1e6));
    html! {
        details.numbers {
            summary { "Numbers" }
            div.scroll tabindex="0" {
                table {
                    caption { "Latency in ms by percentile" }
                    thead { tr {
                        th scope="col" { "Arm" }
                        @for title in ["p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "longest", "requests"] {
                            th.number scope="col" { (title) }
                        }
                    } }
                    tbody { @for line in lines {
                        @let name = arm_name(report, line);
                        tr {
                            th scope="row" { span.name { (swatch(report, name)) (visible(name)) } }
                            @for rest in [0.5].iter().chain(&NINES).chain(&[0.0]) {
                                td.number { (ms(line.at_rest(*rest))) }
                            }
                            td.number { (written::count(line.requests as f64)) }
                        }
                    } }
                }
            }
        }
    }
}

/// The share of slow requests over time, and the pauses.
pub fn heat(report: &Report) -> Markup {
    let lines = &report.charts.latency;
    let times = instants(0.0, report.charts.took_s);
    let rows = lines.iter().map(|line| {
        let cells = times.iter().map(|t| (slow_share(line, *t), None));
        (arm_name(report, line), cells.collect())
    });
    let pauses = lines
        .iter()
        .filter_map(|line| Some((line, line.pauses.as_ref()?)));
    html! {
        (table(report, "Requests of 1 ms and more around that time, %", &times, rows.collect()))
        details.numbers { summary { "Pauses" } div.scroll tabindex="0" { table {
            caption {
                "Pauses: 1 ms and more in which requests waited and no session was answered; after warm-up"
            }
            thead { tr { th scope="col" { "Arm" } th scope="col" { "Pauses" } } }
            tbody { @for (line, pauses) in pauses {
                @let name = arm_name(report, line);
                tr {
                    th scope="row" { span.name { (swatch(report, name)) (visible(name)) } }
                    td { (pause_words(pauses)) }
                }
            } }
        } } }
    }
}

/// Of the column of the heat map at this time, and those beside it.
fn slow_share(line: &LatencyLine, t: f64) -> String {
    let at = (t / line.step_s.max(f64::MIN_POSITIVE)) as usize;
    let near = line
        .columns
        .iter()
        .skip(at.saturating_sub(1))
        .take(3)
        .flatten();
    let (mut all, mut slow) = (0, 0);
    for (class, count) in near {
        all += count;
        slow += if *class >= class_of(PAUSE_NS) {
            *count
        } else {
            0
        };
    }
    match all {
        0 => MISSING.to_string(),
        all => written::digits(100.0 * slow as f64 / all as f64),
    }
}

fn arm_name<'a>(report: &'a Report, line: &LatencyLine) -> &'a str {
    report.charts.arms.get(line.arm).map_or("", String::as_str)
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
    let value = |line: &crate::charts::ProcessLine| {
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

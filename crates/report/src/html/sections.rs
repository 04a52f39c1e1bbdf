//! The sections of the page, from the answer down to how to do it again.

use maud::{Markup, html};

use super::arms::cell;
use super::{numbers, swatch, visible};
use crate::column::Column;
use crate::factors;
use crate::heap;
use crate::pictures;
use crate::predictions;
use crate::stall::arms;
use crate::visible::visible_lines;
use crate::{Report, event_word, is_incident, text};
use units::written;
use verdict::run::{Adopt, ArmRow, RunVerdict};

/// Rows of the table of events at most; the run folder has all of them.
const EVENTS_MAX: usize = 1_000;

pub fn header(report: &Report) -> Markup {
    let s = &report.summary;
    html! {
        header {
            p.brand { "highwater" }
            p.facts {
                (visible(&s.run)) " · " (s.begun) " · " (report.arms_counted()) " of "
                (s.processes_counted()) " · " (written::seconds(s.took_s))
                @if s.ended_early() {
                    " of " (written::seconds(s.planned_s)) ": "
                    (visible(s.end.as_deref().unwrap_or("no end recorded")))
                }
            }
            button #theme type="button" hidden { "Dark" }
        }
    }
}

pub fn answer(report: &Report) -> Markup {
    let verdict = &report.verdict;
    html! {
        section aria-labelledby="answer" {
            h1 #answer { (visible(&report.summary.experiment)) }
            p.answer.undecided[!verdict.decided] { (quoted(&verdict.headline)) }
            @if let Some(needs) = &verdict.needs {
                p.needs { strong { "To decide it: " } (quoted(needs)) }
            }
            @if let Some(adopt) = &verdict.adopt { (adopted(adopt)) }
        }
    }
}

fn adopted(adopt: &Adopt) -> Markup {
    let (class, word) = match adopt.passed {
        Some(true) => ("good", "passes"),
        Some(false) => ("bad", "fails"),
        None => ("open", "open"),
    };
    html! { p.adopt { span class={ "outcome " (class) } { (word) } " " (quoted(&adopt.words)) } }
}

/// Text in which names stand between backquotes.
fn quoted(text: &str) -> Markup {
    let text = visible(text);
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

pub fn learnings(report: &Report) -> Markup {
    let adopt = report
        .verdict
        .adopt
        .as_ref()
        .map(|adopt| adopt.words.as_str());
    let said = |learning: &&String| Some(learning.as_str()) != adopt;
    let all: Vec<&String> = report.verdict.learnings.iter().filter(said).collect();
    html! {
        @if !all.is_empty() {
            section aria-labelledby="taught" {
                h2 #taught { "Conclusions" }
                ul { @for learning in all { li { (quoted(learning)) } } }
            }
        }
    }
}

pub fn findings(report: &Report) -> Markup {
    html! {
        @if !report.verdict.findings.is_empty() {
            section.findings aria-labelledby="findings" {
                h2 #findings { "What weakens this" }
                ul { @for finding in &report.verdict.findings {
                    li {
                        strong { (quoted(&finding.what)) ":" } " " (quoted(&finding.effect))
                        @if !finding.processes.is_empty() {
                            " " span.muted { (visible(&finding.processes.join(", "))) }
                        }
                    }
                } }
            }
        }
    }
}

pub fn charts(report: &Report) -> Markup {
    let charts = &report.charts;
    let cpu = stretch_caption("User and system, % of one core", charts.cpu.stretch_s);
    let faults = stretch_caption("Per second", charts.faults.stretch_s);
    html! {
        section.charts aria-labelledby="charts" {
            h2 #charts { "Over time" }
            div #legend.legend hidden role="group" aria-label="Arms shown in every chart" {}
            (figure("rss", "Resident memory", &rss_caption(report), numbers::rss(report)))
            (figure("ages", "Memory by age of the process", DOTS, numbers::ages(report)))
            @for part in &charts.heap {
                (figure(&format!("heap-{}", part.id), part.title, HEAP, numbers::heap(report, part)))
            }
            div.pair {
                (figure("cpu", "CPU", &cpu, numbers::cpu(report)))
                (figure("faults", "Minor faults", &faults, numbers::faults(report)))
            }
            @if !charts.latency.is_empty() {
                (figure("latency", "Latency", LATENCY, numbers::latency(report)))
                (figure("percentiles", "Latency by percentile", PERCENTILES, numbers::percentiles(report)))
                (figure("heat", "Every request", pictures::HEAT, numbers::heat(report)))
            }
        }
    }
}

const HEAP: &str = "By the heap probe, which reads one process per snapshot.";
const DOTS: &str = "One dot per process, a bar at the mean of its arm.";
const LATENCY: &str = "Quantiles of all requests of an arm in each stretch; logarithmic.";

const PERCENTILES: &str = "Of all requests of an arm, the start of the run included; both axes \
     logarithmic. Lines end at the longest request.";

fn figure(id: &str, title: &str, caption: &str, numbers: Markup) -> Markup {
    html! {
        figure class={ "chart-" (id) } {
            div.head { h3 { (title) } div.tools {} }
            figcaption { (caption) }
            div.chart id={ "chart-" (id) } {}
            (numbers)
        }
    }
}

fn rss_caption(report: &Report) -> String {
    let thinned = report.charts.rss.stretch_s.map(|stretch| {
        format!(
            " Lowest and highest reading of each {}.",
            written::seconds(stretch)
        )
    });
    format!(
        "Mean of each arm, band from its lowest to its highest process, a thin line for each process.{}",
        thinned.unwrap_or_default()
    )
}

fn stretch_caption(what: &str, stretch_s: Option<f64>) -> String {
    let mean = stretch_s.map(|stretch| format!(", means of {}", written::seconds(stretch)));
    format!("{what}{}.", mean.unwrap_or_default())
}

pub fn experiment(report: &Report) -> Markup {
    let s = &report.summary;
    let texts = [
        ("Hypothesis", &s.hypothesis),
        ("Why", &s.why),
        ("Evidence", &s.evidence),
    ];
    html! {
        section aria-labelledby="experiment" {
            h2 #experiment { "The experiment" }
            dl {
                @for (title, words) in texts {
                    @if !words.is_empty() { dt { (title) } dd { (visible_lines(words)) } }
                }
                dt { "Plan" }
                dd {
                    (report.arms_counted()) ", " (s.processes_counted()) " each, for "
                    (written::seconds(s.planned_s)) ", a snapshot every " (written::seconds(s.interval_s))
                    ", warm-up of " (written::seconds(s.warmup_s)) " left out, seed " (s.seed) "."
                }
                @if !s.manner.is_empty() { dt { "Processes" } dd { (s.manner) } }
                @if let Some(load) = &s.load { dt { "Load" } dd { code { (visible(load)) } } }
                dt { "End" }
                dd { (visible(s.end.as_deref().unwrap_or(text::NO_END))) }
            }
        }
    }
}

const PLAN_TITLES: [&str; 7] = [
    "Arm",
    "Allocator",
    "Proved in the processes",
    "Known defects",
    "Stops",
    "Environment",
    "Command",
];

pub fn plans(report: &Report) -> Markup {
    let of = |name: &str, lines: fn(&ArmRow) -> &Vec<String>| -> Vec<String> {
        let row = report.verdict.arms.iter().find(|row| row.arm == name);
        row.map(|row| lines(row).clone()).unwrap_or_default()
    };
    html! {
        section aria-labelledby="plans" {
            h2 #plans { "Arms as run" }
            div.scroll tabindex="0" { table.plans.stack {
                caption { "What was asked for, and what each process was proved to run" }
                thead { tr {
                    @for title in PLAN_TITLES {
                        th scope="col" { (title) }
                    }
                } }
                tbody { @for arm in &report.arms {
                    tr {
                        th scope="row" {
                            span.name { (swatch(report, &arm.name)) (visible(&arm.name)) }
                        }
                        td data-title="Allocator" { (visible(&arm.allocator)) }
                        td data-title="Proved" {
                            @for words in of(&arm.name, |row| &row.proved) { div { (visible(&words)) } }
                        }
                        td data-title="Known defects" {
                            @for words in of(&arm.name, |row| &row.defects) { div { (visible(&words)) } }
                        }
                        td data-title="Stops" {
                            @for words in of(&arm.name, |row| &row.protections) { div { (visible(&words)) } }
                        }
                        td data-title="Environment" {
                            @for variable in &arm.environment { div { code { (visible(variable)) } } }
                        }
                        td data-title="Command" { code { (visible(&arm.command)) } }
                    }
                } }
            } }
        }
    }
}

pub fn events(report: &Report) -> Markup {
    let incidents = report
        .events
        .iter()
        .filter(|event| is_incident(&event.kind))
        .count();
    let shown = report.events.len().min(EVENTS_MAX);
    html! {
        @if !report.events.is_empty() {
            section aria-labelledby="events" {
                h2 #events { "Events" }
                details open[incidents > 0 && report.events.len() <= 40] {
                    summary { (report.events.len()) " events, " (incidents) " of them incidents" }
                    div.scroll tabindex="0" { table.events.stack {
                        caption {
                            "What happened, in order"
                            @if shown < report.events.len() { " (the first " (shown) ")" }
                        }
                        thead { tr {
                            @for title in ["At", "Process", "Event", "Words"] {
                                th scope="col" { (title) }
                            }
                        } }
                        tbody { @for event in report.events.iter().take(EVENTS_MAX) {
                            tr.incident[is_incident(&event.kind)] {
                                td.number { (written::seconds(event.t_s)) }
                                td { (visible(&event.process)) }
                                td { (event_word(&event.kind)) }
                                td.words { (visible_lines(&event.words)) }
                            }
                        } }
                    } }
                }
            }
        }
    }
}

/// How often each arm's processes were held up, by cause; nothing unless the experiment watched for it.
pub fn stalls(report: &Report) -> Markup {
    let caption = "Busy periods held up for 1 ms or more, per process, by what held them.";
    by_arm(report, ("stalls", arms::TITLE, caption), arms::columns)
}

/// What the factors do; nothing without factors.
pub fn factors(report: &Report) -> Markup {
    let blocks = factors::blocks(&report.verdict.factors);
    html! {
        @if !blocks.is_empty() {
            section aria-labelledby="factors" {
                h2 #factors { (factors::TITLE) }
                @for (head, lines) in &blocks {
                    p { (visible(head)) }
                    ul { @for line in lines { li { (visible(line)) } } }
                }
            }
        }
    }
}

/// What the experiment predicted, beside what was measured; nothing without a prediction.
pub fn predicted(report: &Report) -> Markup {
    let outcomes = &report.verdict.predictions;
    html! {
        @if !outcomes.is_empty() {
            section aria-labelledby="predicted" {
                h2 #predicted { (predictions::TITLE) }
                div.scroll tabindex="0" { table.stack {
                    caption { (predictions::score(report)) }
                    thead { tr {
                        td {}
                        @for title in &predictions::TITLES[1..] { th scope="col" { (title) } }
                    } }
                    tbody { @for outcome in outcomes {
                        @let cells = predictions::cells(report, outcome);
                        tr {
                            th scope="row" { (swatch(report, &outcome.arm)) (visible(&outcome.arm)) }
                            @for (title, cell) in predictions::TITLES.iter().zip(&cells).skip(1) {
                                td data-title=(title) { (visible(cell)) }
                            }
                        }
                    } }
                } }
            }
        }
    }
}

/// What the arms' heaps hold; nothing unless the experiment looked with a probe.
pub fn heap(report: &Report) -> Markup {
    by_arm(
        report,
        ("heap", heap::TITLE, heap::CAPTION),
        heap::columns_and_causes,
    )
}

fn by_arm(
    report: &Report,
    (id, title, caption): (&str, &str, &str),
    columns: fn(&RunVerdict, &ArmRow) -> Vec<Column>,
) -> Markup {
    let rows = report.verdict.arms.iter();
    let rows: Vec<_> = rows
        .map(|row| (&row.arm, columns(&report.verdict, row)))
        .collect();
    let titles = rows.first().map_or(&[][..], |(_, columns)| columns);
    let class = |column: &Column| match column.title == heap::CAUSE {
        true => "words",
        false => "number",
    };
    html! {
        @if !titles.is_empty() {
            section aria-labelledby=(id) {
                h2 id=(id) { (title) }
                div.scroll tabindex="0" {
                    table.stack {
                        caption { (caption) }
                        thead { tr {
                            td {}
                            @for column in titles { th class=(class(column)) scope="col" { (column.title) } }
                        } }
                        tbody { @for (arm, columns) in &rows { tr {
                            th scope="row" { (visible(arm)) }
                            @for column in columns {
                                td class=(class(column)) data-title=(column.title) { (cell(column)) }
                            }
                        } } }
                    }
                }
            }
        }
    }
}

pub fn machine(report: &Report) -> Markup {
    let m = &report.summary.machine;
    let cpus = format!("{} ({} CPUs)", m.cpu, m.cpus);
    let memory = written::bytes(m.memory_bytes as f64);
    let facts = [
        ("CPU", cpus),
        ("Memory", memory),
        ("Kernel", m.kernel.clone()),
        ("Distribution", m.distribution.clone()),
        ("Transparent huge pages", m.transparent_huge_pages.clone()),
        (
            "highwater's own cost",
            text::own(report)
                .trim_start_matches("highwater itself: ")
                .to_string(),
        ),
    ];
    html! {
        section aria-labelledby="machine" {
            h2 #machine { "Machine and own cost" }
            dl { @for (title, words) in facts {
                @if !words.is_empty() { dt { (title) } dd { (visible(&words)) } }
            } }
        }
    }
}

pub fn reproduce(report: &Report) -> Markup {
    let extras = &report.extras;
    let s = &report.summary;
    html! {
        @if !extras.reproduce.is_empty() {
            section aria-labelledby="again" {
                h2 #again { "Do it again" }
                pre { (visible_lines(&extras.reproduce.join("\n"))) }
            }
        }
        @if !s.revert.is_empty() {
            section aria-labelledby="revert" {
                h2 #revert { "Take it back" }
                pre { (visible_lines(&s.revert.join("\n"))) }
            }
        }
        @if let Some(ledger) = &extras.ledger {
            section aria-labelledby="ledger" {
                h2 #ledger { "Ledger" }
                pre { (visible_lines(ledger)) }
            }
        }
    }
}

pub fn footer(report: &Report) -> Markup {
    html! {
        footer {
            p {
                "highwater " (report.summary.version) ". Charts by uPlot (MIT). "
                "This page makes no request to any network."
            }
        }
    }
}

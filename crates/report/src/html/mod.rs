//! `report.html`: one file that needs nothing else, no network, no server.
//!
//! The page is complete without scripts (every chart has its numbers in a table); the scripts draw
//! the charts from data that stands in the page as JSON. Its Content-Security-Policy allows exactly
//! the scripts and styles that were rendered here, by their hashes, and no request to anywhere.

mod arms;
mod checks;
mod data;
mod numbers;
mod sections;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::Report;
use super::visible::visible;

const UPLOT_JS: &str = include_str!("vendor/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("vendor/uPlot.min.css");
const PAGE_CSS: &str = concat!(
    include_str!("page/page.css"),
    include_str!("page/tables.css"),
    include_str!("page/charts.css"),
    include_str!("page/latency.css"),
    include_str!("page/narrow.css"),
);
/// In the order in which they build upon each other.
const PAGE_JS: &str = concat!(
    "\"use strict\";\n",
    include_str!("page/format.js"),
    include_str!("page/arms.js"),
    include_str!("page/chart.js"),
    include_str!("page/panels.js"),
    include_str!("page/distribution.js"),
    include_str!("page/heat.js"),
    include_str!("page/percentiles.js"),
    include_str!("page/main.js"),
);

/// The whole page.
pub fn render(report: &Report) -> String {
    let title = format!("{}: highwater", visible(&report.summary.experiment));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "highwater " (report.summary.version) };
                title { (title) }
                style { (PreEscaped(UPLOT_CSS)) }
                style { (PreEscaped(PAGE_CSS)) }
            }
            body { (body(report)) }
        }
    };
    page.into_string()
}

fn body(report: &Report) -> Markup {
    html! {
        a.skip href="#answer" { "To the answer" }
        (sections::header(report))
        main {
            (sections::answer(report))
            (arms::table(report))
            (sections::heap(report))
            (sections::stalls(report))
            (sections::learnings(report))
            (sections::findings(report))
            (sections::charts(report))
            (sections::factors(report))
            (sections::predicted(report))
            (checks::section(report))
            (sections::experiment(report))
            (sections::plans(report))
            (sections::events(report))
            (sections::machine(report))
            (sections::reproduce(report))
        }
        (sections::footer(report))
        script #data type="application/json" { (PreEscaped(data::json(report))) }
        script { (PreEscaped(UPLOT_JS)) }
        script { (PreEscaped(PAGE_JS)) }
    }
}

/// Nothing from anywhere, except the scripts and styles of this page by their hashes.
fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    format!(
        "default-src 'none'; script-src {} {}; style-src {} {}; base-uri 'none'; form-action 'none'",
        hash(UPLOT_JS),
        hash(PAGE_JS),
        hash(UPLOT_CSS),
        hash(PAGE_CSS),
    )
}

/// The class that gives an arm its colour: the control is drawn in the colour of the text.
fn colour_class(report: &Report, arm: &str) -> String {
    match arms_index(report, arm) {
        Some(_) if arm == report.summary.control => "arm arm-control".to_string(),
        Some(at) => format!("arm arm-{}", at % COLOURS),
        None => "arm".to_string(),
    }
}

/// Colours and dash patterns in `charts.css` and `arms.js`; their periods have no common divisor, so
/// that 40 arms differ in one or the other.
const COLOURS: usize = 8;
const DASHES: [&str; 5] = ["", "7 3", "2 3", "10 3 2 3", "14 4"];

/// Position among the arms other than the control.
fn arms_index(report: &Report, arm: &str) -> Option<usize> {
    let control = &report.summary.control;
    match arm == control {
        true => Some(0),
        false => report
            .charts
            .arms
            .iter()
            .filter(|name| *name != control)
            .position(|name| name == arm),
    }
}

/// A piece of the arm's line, as the charts draw it.
fn swatch(report: &Report, arm: &str) -> Markup {
    let at = arms_index(report, arm).unwrap_or(0);
    let dash = if arm == report.summary.control {
        ""
    } else {
        DASHES[at % DASHES.len()]
    };
    html! {
        svg class={ "swatch " (colour_class(report, arm)) } viewBox="0 0 28 8" width="28" height="8"
            aria-hidden="true" {
            line x1="1" y1="4" x2="27" y2="4" stroke="currentColor" stroke-width="2.5"
                stroke-dasharray=(dash) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendored_files_are_what_the_readme_says() {
        let readme = include_str!("vendor/README.md");
        let licence = include_str!("vendor/uPlot.LICENSE");
        for text in [UPLOT_JS, UPLOT_CSS, licence] {
            let hex: String = Sha256::digest(text)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert!(readme.contains(&hex), "the README lacks {hex}");
        }
    }

    #[test]
    fn the_scripts_draw_the_arms_as_the_tables_do() {
        let arms = include_str!("page/arms.js");
        assert!(arms.contains(&format!("const COLOURS = {COLOURS};")));
        let dashes = DASHES.map(|dash| format!("[{}]", dash.replace(' ', ", ")));
        assert!(arms.contains(&format!("const DASHES = [{}];", dashes.join(", "))));
    }

    #[test]
    fn no_script_ends_itself() {
        for text in [UPLOT_JS, PAGE_JS] {
            assert!(!text.to_lowercase().contains("</script"));
            assert!(!text.contains("<!--"));
        }
        for text in [UPLOT_CSS, PAGE_CSS] {
            assert!(!text.to_lowercase().contains("</style"));
        }
    }
}

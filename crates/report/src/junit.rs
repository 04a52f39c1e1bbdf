//! The checks as JUnit XML: a suite for each arm, a case for each check, and one for living to the
//! end.

use maud::{Markup, PreEscaped, html};

use super::Report;
use super::visible::visible;
use verdict::check::CheckOutcome;
use verdict::run::ArmRow;

/// The document.
///
/// A check that could not be judged is `skipped`; a failed one is a `failure` that says what was
/// seen. No character that XML forbids gets through: [`visible`] spells all of them.
pub fn render(report: &Report) -> String {
    let arms = &report.verdict.arms;
    let suites: Vec<(&ArmRow, Vec<&CheckOutcome>)> = arms
        .iter()
        .map(|row| (row, checks_of(report, row)))
        .collect();
    let tests = suites
        .iter()
        .map(|(_, checks)| checks.len() + 1)
        .sum::<usize>();
    let failures = suites
        .iter()
        .map(|(row, checks)| failures(row, checks))
        .sum::<usize>();
    let document = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites name=(visible(&report.summary.run)) tests=(tests) failures=(failures) {
            @for (row, checks) in &suites { (suite(report, row, checks)) }
        }
    };
    document.into_string() + "\n"
}

fn checks_of<'a>(report: &'a Report, row: &ArmRow) -> Vec<&'a CheckOutcome> {
    report
        .verdict
        .checks
        .iter()
        .filter(|check| check.arm == row.arm)
        .collect()
}

fn failures(row: &ArmRow, checks: &[&CheckOutcome]) -> usize {
    let failed = checks
        .iter()
        .filter(|check| check.passed == Some(false))
        .count();
    failed + usize::from(row.aborted.is_some())
}

fn suite(report: &Report, row: &ArmRow, checks: &[&CheckOutcome]) -> Markup {
    let open = checks.iter().filter(|check| check.passed.is_none()).count();
    let class = format!(
        "{}.{}",
        visible(&report.summary.experiment),
        visible(&row.arm)
    );
    html! {
        (PreEscaped("\n"))
        testsuite name=(visible(&row.arm)) tests=(checks.len() + 1) failures=(failures(row, checks))
            skipped=(open) timestamp=(report.summary.begun.trim_end_matches('Z'))
            time=(report.summary.took_s) {
            (PreEscaped("\n"))
            testcase classname=(class) name="lives to the end of the run" {
                @if let Some(why) = &row.aborted { failure message=(visible(why)) {} }
            }
            @for check in checks {
                (PreEscaped("\n"))
                testcase classname=(class) name=(visible(&check.check)) {
                    @match check.passed {
                        Some(true) => {},
                        Some(false) => failure message=(visible(&check.observed)) {},
                        None => skipped message=(visible(&check.observed)) {},
                    }
                }
            }
            (PreEscaped("\n"))
        }
    }
}

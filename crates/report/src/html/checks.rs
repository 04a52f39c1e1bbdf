//! The experiment's conditions: a row for each, failures first in view, what was seen on demand.

use maud::{Markup, html};

use super::{swatch, visible};
use crate::Report;
use verdict::check::CheckOutcome;

/// In the order in which they are to be seen, with the page's class and word.
const OUTCOMES: [(Option<bool>, &str, &str); 3] = [
    (Some(false), "bad", "fail"),
    (None, "open", "open"),
    (Some(true), "good", "pass"),
];

/// One condition with how it came out for each arm that it names.
struct Condition<'a> {
    words: &'a str,
    outcomes: Vec<&'a CheckOutcome>,
}

pub fn section(report: &Report) -> Markup {
    let conditions = conditions(&report.verdict.checks);
    html! {
        @if !conditions.is_empty() {
            section aria-labelledby="checks" {
                h2 #checks { "Checks" }
                div.scroll tabindex="0" { table.checks.stack {
                    caption { "The experiment's own conditions, the arms they name, and what was seen" }
                    thead { tr {
                        @for title in ["Condition", "Outcome", "Seen"] { th scope="col" { (title) } }
                    } }
                    tbody { @for condition in &conditions { (row(report, condition)) } }
                } }
            }
        }
    }
}

fn conditions(checks: &[CheckOutcome]) -> Vec<Condition<'_>> {
    let mut conditions: Vec<Condition> = Vec::new();
    for check in checks {
        match conditions.iter_mut().find(|c| c.words == check.check) {
            Some(condition) => condition.outcomes.push(check),
            None => conditions.push(Condition {
                words: &check.check,
                outcomes: vec![check],
            }),
        }
    }
    conditions
}

fn row(report: &Report, condition: &Condition) -> Markup {
    let all = condition.outcomes.len();
    html! {
        tr {
            th scope="row" { (visible(condition.words)) }
            td data-title="Outcome" {
                @for (passed, class, word) in OUTCOMES {
                    @let arms = with(condition, passed);
                    @if !arms.is_empty() {
                        div.result {
                            span class={ "outcome " (class) } { (word) }
                            @if arms.len() == all && all == report.arms.len() { "all arms" }
                            @else {
                                span.who { @for check in &arms {
                                    span.name { (swatch(report, &check.arm)) (visible(&check.arm)) }
                                } }
                            }
                        }
                    }
                }
            }
            td.seen data-title="Seen" { (seen(condition)) }
        }
    }
}

fn with<'a>(condition: &Condition<'a>, passed: Option<bool>) -> Vec<&'a CheckOutcome> {
    let outcomes = condition.outcomes.iter().copied();
    outcomes.filter(|check| check.passed == passed).collect()
}

/// What did not pass is seen at once; what passed for several arms, on demand.
fn seen(condition: &Condition) -> Markup {
    let several = condition.outcomes.len() > 1;
    let (passed, rest): (Vec<_>, Vec<_>) = condition
        .outcomes
        .iter()
        .partition(|check| check.passed == Some(true));
    html! {
        @for check in rest { (line(check, several)) }
        @if passed.len() == 1 { (line(passed[0], several)) }
        @else if !passed.is_empty() {
            details {
                summary { (passed.len()) " arms that pass" }
                @for check in passed { (line(check, true)) }
            }
        }
    }
}

fn line(check: &CheckOutcome, named: bool) -> Markup {
    html! {
        div { @if named { b { (visible(&check.arm)) } " " } (visible(&check.observed)) }
    }
}

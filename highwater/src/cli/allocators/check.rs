//! `highwater allocators check`: how a report of probes reads.

use allocators::{Answer, Finding, Outcome, Report};

/// `clean`, `3 defects`, or `no`, for the column of a table.
pub fn cell(report: Option<&Report>) -> String {
    let Some(report) = report else {
        return "no".to_owned();
    };
    match report.defects().count() {
        0 if report.deviations().next().is_some() => "no defect".to_owned(),
        0 => "clean".to_owned(),
        1 => "1 defect".to_owned(),
        count => format!("{count} defects"),
    }
}

/// The whole report in lines: the answer first, then what was found, then what misuse does.
pub fn words(report: &Report) -> String {
    let defects = report.defects().count();
    let tried = report
        .findings
        .iter()
        .filter(|f| f.outcome != Outcome::Untried)
        .count();
    let deviations = match report.deviations().count() {
        0 => String::new(),
        1 => ", 1 deviation".to_owned(),
        count => format!(", {count} deviations"),
    };
    let answer = match defects {
        0 if deviations.is_empty() => format!("all {tried} probes are clean"),
        0 => format!("no defect{deviations} in {tried} probes"),
        1 => format!("1 defect{deviations} in {tried} probes"),
        _ => format!("{defects} defects{deviations} in {tried} probes"),
    };
    let mut lines = vec![format!(
        "{}: {answer} ({:.1} s)",
        report.spec, report.seconds
    )];
    let unclean = |f: &&Finding| f.outcome != Outcome::Clean;
    lines.extend(report.findings.iter().filter(unclean).map(finding_line));
    let answers = report
        .protections
        .iter()
        .map(|p| match (p.misuse.as_str(), p.answer) {
            (misuse, Answer::Untried) => format!("{misuse} not tried"),
            ("order", Answer::Nothing) => "addresses can be foretold".to_owned(),
            ("order", _) => "addresses cannot be foretold".to_owned(),
            (misuse, answer) => format!("{misuse} {}", answered(answer)),
        });
    if !report.protections.is_empty() {
        lines.push(format!(
            "  on misuse: {}",
            answers.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.join("\n")
}

fn finding_line(finding: &Finding) -> String {
    let outcome = match finding.outcome {
        Outcome::Clean => "clean",
        Outcome::Defect => "DEFECT",
        Outcome::Crash => "CRASH",
        Outcome::Hang => "HANG",
        Outcome::Deviation => "deviation",
        Outcome::Untried => "not tried",
    };
    format!("  {:<12} {outcome}: {}", finding.probe, finding.words)
}

fn answered(answer: Answer) -> &'static str {
    match answer {
        Answer::Stops => "stops",
        Answer::Crashes => "crashes",
        Answer::Hangs => "hangs",
        Answer::Nothing => "unnoticed",
        Answer::Untried => "not tried",
    }
}

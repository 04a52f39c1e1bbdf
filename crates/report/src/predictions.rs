//! What the experiment file predicted of each arm, beside what was measured: the cells and lines of every format.

use crate::Report;
use units::written;
use units::written::MISSING;
use verdict::run::RunVerdict;
use verdict::run::predicted::{Outcome, Place, STARVED_SHARE};

pub const TITLE: &str = "Predicted and measured";
/// Above the cells of [`cells`], the arm's name first.
pub const TITLES: [&str; 6] = [
    "Arm",
    "Predicted",
    "Measured",
    "Prediction",
    "x control, predicted / measured",
    "Outcome",
];

/// What is compared, in a sentence.
pub fn caption(verdict: &RunVerdict) -> String {
    let all = &verdict.predictions;
    let first = all.first().and_then(|one| one.over_s);
    let time = match (all.iter().all(|one| one.over_s == first), first) {
        (true, Some(over_s)) => format!("its first {}", written::seconds(over_s)),
        (true, None) => "its whole life".to_owned(),
        (false, _) => "the time that its prediction is for".to_owned(),
    };
    format!(
        "Compared: the mean anonymous memory of a process over {time}; measured with its 95 % interval over processes."
    )
}

/// One arm's row, in the order of [`TITLES`].
pub fn cells(report: &Report, outcome: &Outcome) -> [String; 6] {
    let p = outcome.predicted;
    let measured = outcome.measured.map_or(MISSING.to_owned(), |m| {
        written::bytes_interval(m.value, m.lo, m.hi)
    });
    [
        outcome.arm.clone(),
        written::bytes_interval(p.value, p.lo, p.hi),
        measured,
        outcome.error().map_or(MISSING.to_owned(), too),
        ratios(report, outcome).map_or(MISSING.to_owned(), |(predicted, measured)| {
            format!("{predicted:.2} / {measured:.2}")
        }),
        place(outcome),
    ]
}

/// Where the measured mean lies, of how many processes where not of all, and why there is none.
fn place(outcome: &Outcome) -> String {
    let word = outcome.place().word();
    let (some, all) = (outcome.processes, outcome.processes_all);
    match outcome.why.as_str() {
        "" if some < all => format!("{word} ({some} of {all} processes)"),
        "" => word.to_owned(),
        why => format!("{word}: {why}"),
    }
}

/// A line for each arm.
pub fn lines(report: &Report) -> Vec<(Place, String)> {
    let line = |outcome: &Outcome| {
        let [arm, predicted, measured, error, _, place] = cells(report, outcome);
        let words = match outcome.measured {
            None => format!("{arm}: {predicted} predicted, {place}"),
            Some(_) => {
                let ratios = ratios(report, outcome).map(|(predicted, measured)| {
                    let control = &report.summary.control;
                    format!(
                        "; against {control} {predicted:.2}x predicted, {measured:.2}x measured"
                    )
                });
                format!(
                    "{arm}: {predicted} predicted, {measured} measured: {place}, predicted {error}{}",
                    ratios.unwrap_or_default()
                )
            }
        };
        (outcome.place(), words)
    };
    report.verdict.predictions.iter().map(line).collect()
}

/// What makes the comparison weaker: programs that shared the CPUs.
fn starved(verdict: &RunVerdict) -> Option<String> {
    let shares = verdict.predictions.iter().map(|one| one.starved_share);
    let most = shares.fold(0.0, f64::max);
    (most > STARVED_SHARE).then(|| {
        format!(
            " The processes waited for a CPU for up to {} of their time: an allocator that gives memory back by the \
             clock has less of it here than alone. Run fewer arms or replicas at once to see it as it is alone.",
            written::percent(most)
        )
    })
}

/// How many came true here, and in the ledger; empty without a prediction.
pub fn score(report: &Report) -> String {
    let all = &report.verdict.predictions;
    if all.is_empty() {
        return String::new();
    }
    let compared = all.iter().filter(|one| one.measured.is_some()).count();
    let inside = all
        .iter()
        .filter(|one| one.place() == Place::Inside)
        .count();
    let here = match compared {
        0 => "Nothing could be compared.".to_owned(),
        _ => format!(
            "{inside} of {compared} measured means lie within the predicted interval. {}",
            caption(&report.verdict)
        ),
    };
    let starved = starved(&report.verdict).unwrap_or_default();
    match &report.extras.score {
        None => here + &starved,
        Some(score) => format!("{here}{starved} {score}"),
    }
}

/// Memory against the control's, predicted and measured, of an arm that is not the control.
fn ratios(report: &Report, outcome: &Outcome) -> Option<(f64, f64)> {
    let control = &report.summary.control;
    let is_reference = |one: &&Outcome| {
        one.arm == *control && one.arm != outcome.arm && one.over_s == outcome.over_s
    };
    let mut all = report.verdict.predictions.iter();
    let reference = all.find(is_reference)?;
    let predicted = outcome.predicted.value / reference.predicted.value;
    let measured = outcome.measured?.value / reference.measured?.value;
    let are_finite = predicted.is_finite() && measured.is_finite();
    are_finite.then_some((predicted, measured))
}

/// "3.4 % too high".
fn too(share: f64) -> String {
    let word = if share < 0.0 { "too low" } else { "too high" };
    format!("{} {word}", written::percent(share.abs()))
}

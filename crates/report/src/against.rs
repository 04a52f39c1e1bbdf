//! One run against another, arm by arm: what changed since.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::Report;
use super::markdown::escaped;
use super::visible::shortened;
use series::estimate::Estimate;
use series::ratio::ratio;
use units::written;
use units::written::MISSING;
use verdict::Label;
use verdict::cost::ArmCost;
use verdict::run::ArmRow;

/// Name and version of the JSON form.
pub const SCHEMA: &str = "highwater.against/1";

/// Two runs compared. Ratios are `run` over `other`; below 1 the newer run needs less.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub run: String,
    pub other: String,
    /// In one sentence.
    pub headline: String,
    /// Arms of the same name, in the order of `run`.
    pub arms: Vec<ArmChange>,
    pub only_in_run: Vec<String>,
    pub only_in_other: Vec<String>,
    /// What makes the runs hard to compare: other machine, other duration.
    pub caveats: Vec<String>,
}

/// One arm in both runs; each ratio with its interval where both runs had two processes or more.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmChange {
    pub arm: String,
    pub label: Label,
    pub other_label: Label,
    pub rss: Option<Estimate>,
    /// Growth of `run` less that of `other`, bytes per hour.
    pub slope_change_per_hour: Option<f64>,
    pub cpu: Option<Estimate>,
    pub faults: Option<Estimate>,
    pub p99: Option<f64>,
}

/// Compares arms of the same name.
pub fn compare(run: &Report, other: &Report) -> Comparison {
    let find = |report: &'_ Report, arm: &str| report.verdict.arms.iter().any(|row| row.arm == arm);
    let missing = |from: &Report, there: &Report| -> Vec<String> {
        let names = from.verdict.arms.iter().map(|row| row.arm.clone());
        names.filter(|name| !find(there, name)).collect()
    };
    let same = |row: &ArmRow| {
        let before = other
            .verdict
            .arms
            .iter()
            .find(|before| before.arm == row.arm)?;
        Some(change(row, before))
    };
    let arms: Vec<ArmChange> = run.verdict.arms.iter().filter_map(same).collect();
    Comparison {
        run: run.summary.run.clone(),
        other: other.summary.run.clone(),
        headline: headline(&arms),
        only_in_run: missing(run, other),
        only_in_other: missing(other, run),
        caveats: caveats(run, other),
        arms,
    }
}

fn change(row: &ArmRow, before: &ArmRow) -> ArmChange {
    let of = |a: Option<Estimate>, b: Option<Estimate>| a.zip(b).and_then(|(a, b)| ratio(a, b));
    let p99 = |cost: &ArmCost| cost.latency.map(|l| l.p99_ns as f64).filter(|ns| *ns > 0.0);
    let slopes = row.memory.slope_per_hour.zip(before.memory.slope_per_hour);
    ArmChange {
        arm: row.arm.clone(),
        label: row.memory.label,
        other_label: before.memory.label,
        rss: of(row.memory.level, before.memory.level),
        slope_change_per_hour: slopes.map(|(now, then)| now.value - then.value),
        cpu: of(cpu(&row.cost), cpu(&before.cost)),
        faults: of(
            row.cost.minor_faults_per_second,
            before.cost.minor_faults_per_second,
        ),
        p99: p99(&row.cost)
            .zip(p99(&before.cost))
            .map(|(now, then)| now / then),
    }
}

/// User and system CPU added; their spreads add in quadrature.
fn cpu(cost: &ArmCost) -> Option<Estimate> {
    let (user, system) = cost.cpu_user.zip(cost.cpu_system)?;
    let value = user.value + system.value;
    let lo = value - (user.value - user.lo).hypot(system.value - system.lo);
    let hi = value + (user.hi - user.value).hypot(system.hi - system.value);
    Some(Estimate { value, lo, hi })
}

fn headline(arms: &[ArmChange]) -> String {
    let with = |wanted: &dyn Fn(&Estimate) -> bool| -> Vec<String> {
        let all = arms
            .iter()
            .filter(|arm| arm.rss.as_ref().is_some_and(wanted));
        all.map(|arm| format!("`{}`", arm.arm.replace('`', "'")))
            .collect()
    };
    let has_width = |r: &Estimate| r.lo < r.hi;
    let less = with(&|r| has_width(r) && r.hi < 1.0);
    let more = with(&|r| has_width(r) && r.lo > 1.0);
    let unsure = with(&|r| !has_width(r));
    let part = |arms: &[String], what: &str| match arms.len() {
        0 => None,
        1 => Some(format!("{} holds {what}", arms[0])),
        2..=4 => Some(format!("{} hold {what}", arms.join(", "))),
        n => Some(format!("{n} arms hold {what}")),
    };
    let parts: Vec<String> = [
        part(&less, "less memory than before"),
        part(&more, "more than before"),
    ]
    .into_iter()
    .flatten()
    .collect();
    match (arms.is_empty(), parts.is_empty()) {
        (true, _) => "The runs have no arm of the same name.".to_string(),
        (false, false) => format!("{}.", parts.join("; ")),
        (false, true) if unsure.len() == arms.len() => {
            "One process per arm: changes cannot be distinguished from chance.".to_string()
        }
        (false, true) => "No arm's memory changed by more than chance.".to_string(),
    }
}

fn caveats(run: &Report, other: &Report) -> Vec<String> {
    let (a, b) = (&run.summary, &other.summary);
    let mut caveats = Vec::new();
    if a.machine != b.machine {
        caveats.push("The runs were made on different machines or kernels.".to_string());
    }
    if (a.took_s - b.took_s).abs() > 0.05 * a.took_s.max(b.took_s) {
        let (now, then) = (written::seconds(a.took_s), written::seconds(b.took_s));
        caveats.push(format!(
            "The runs took {now} and {then}: levels are at different ages."
        ));
    }
    if a.load != b.load {
        caveats.push("The load differs.".to_string());
    }
    caveats
}

const TITLES: [&str; 6] = ["Arm", "Trend", "RSS", "Growth", "CPU", "p99"];

fn cells(arm: &ArmChange) -> [String; 5] {
    let trend = match arm.label == arm.other_label {
        true => arm.label.word().to_string(),
        false => format!("{}, was {}", arm.label.word(), arm.other_label.word()),
    };
    let times = |r: Option<Estimate>| {
        r.map_or(MISSING.to_string(), |r| written::ratio(r.value, r.lo, r.hi))
    };
    [
        trend,
        times(arm.rss),
        arm.slope_change_per_hour
            .map_or(MISSING.to_string(), written::bytes_per_hour),
        times(arm.cpu),
        arm.p99.map_or(MISSING.to_string(), |ratio| {
            written::ratio(ratio, ratio, ratio)
        }),
    ]
}

/// For a terminal of `width` columns.
pub fn text(comparison: &Comparison, width: usize) -> String {
    let width = width.clamp(40, 120);
    let paragraph = |words: &str| textwrap::fill(&super::visible::visible(words), width);
    let mut lines = vec![paragraph(&comparison.headline), String::new()];
    lines.push(paragraph(&format!(
        "{} against {}",
        comparison.run, comparison.other
    )));
    lines.push(String::new());
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table
        .set_width(width.clamp(40, 120) as u16)
        .set_header(TITLES);
    for arm in &comparison.arms {
        let rest = cells(arm).map(|text| Cell::new(text).set_alignment(CellAlignment::Left));
        table.add_row([Cell::new(shortened(&arm.arm, 24))].into_iter().chain(rest));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    lines.extend(table.lines().map(|line| line.trim_end().to_string()));
    lines.push(String::new());
    lines.extend(notes(comparison).iter().map(|note| paragraph(note)));
    lines.join("\n").trim_end().to_string() + "\n"
}

/// For a pull request.
pub fn markdown(comparison: &Comparison) -> String {
    let (run, other) = (escaped(&comparison.run), escaped(&comparison.other));
    let mut lines = vec![
        format!("**{}**", escaped(&comparison.headline)),
        String::new(),
        format!("{run} against {other}"),
        String::new(),
        format!("| {} |", TITLES.join(" | ")),
        "|---|---|--:|--:|--:|--:|".to_string(),
    ];
    for arm in &comparison.arms {
        lines.push(format!(
            "| {} | {} |",
            escaped(&arm.arm),
            cells(arm).join(" | ")
        ));
    }
    lines.push(String::new());
    lines.extend(
        notes(comparison)
            .iter()
            .map(|note| format!("- {}", escaped(note))),
    );
    lines.join("\n").trim_end().to_string() + "\n"
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = comparison.caveats.clone();
    let mut only = |arms: &[String], run: &str| {
        if !arms.is_empty() {
            notes.push(format!("Only in {run}: {}.", arms.join(", ")));
        }
    };
    only(&comparison.only_in_run, &comparison.run);
    only(&comparison.only_in_other, &comparison.other);
    notes
}

/// Schema `highwater.against/1`.
pub fn json(comparison: &Comparison) -> Value {
    let ratio = |r: Option<Estimate>| {
        let (lo, hi) = (r.map(|r| r.lo), r.map(|r| r.hi));
        json!({ "ratio": r.map(|r| r.value), "lo_ratio": lo, "hi_ratio": hi })
    };
    let arm = |arm: &ArmChange| {
        json!({
            "arm": arm.arm,
            "label": arm.label.word(),
            "other_label": arm.other_label.word(),
            "rss": ratio(arm.rss),
            "slope_change_bytes_per_hour": arm.slope_change_per_hour,
            "cpu": ratio(arm.cpu),
            "minor_faults": ratio(arm.faults),
            "latency_p99_ratio": arm.p99,
        })
    };
    json!({
        "schema": SCHEMA,
        "run": comparison.run,
        "other": comparison.other,
        "headline": comparison.headline,
        "arms": comparison.arms.iter().map(arm).collect::<Vec<_>>(),
        "only_in_run": comparison.only_in_run,
        "only_in_other": comparison.only_in_other,
        "caveats": comparison.caveats,
    })
}

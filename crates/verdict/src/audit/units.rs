//! Units that are mixed up: GB said where GiB is meant, stretches of readings 1000 times off.
//! For processes and arms see `scales`.

use super::readings::finding;
use super::scales::{odd_arms, odd_processes};
use super::{AuditInput, Check, Finding, ProcessFacts, Severity, Stated, counted, names};
use series::order::median;
use series::series::Point;

/// Numbers said in one unit and meant in another; processes, and arms, that are 1000 or 1024 times off the others;
/// processes whose readings become so midway.
pub fn units(input: &AuditInput) -> Vec<Finding> {
    let mut found: Vec<Finding> = input.stated.iter().filter_map(misnamed).collect();
    found.extend(midway(input));
    found.extend(odd_arms(input));
    let arms = input.by_arm();
    let odd = arms.iter().filter_map(|(arm, ps)| odd_processes(arm, ps));
    found.extend(odd);
    found
}

/// Processes whose readings are about 1000 times what they were, from one snapshot to the next and for good: what
/// wrote them changed the unit.
fn midway(input: &AuditInput) -> Vec<Finding> {
    let changed: Vec<(&ProcessFacts, f64)> = input
        .processes
        .iter()
        .filter_map(|p| jump(&p.rss).map(|t_s| (p, t_s)))
        .collect();
    if changed.is_empty() {
        return Vec::new();
    }
    let ids: Vec<String> = changed.iter().map(|(p, _)| p.id.clone()).collect();
    let mut arms: Vec<String> = changed.iter().map(|(p, _)| p.arm().to_owned()).collect();
    arms.retain(|arm| !arm.is_empty());
    arms.sort();
    arms.dedup();
    let mut f = finding(
        Check::Units,
        Severity::Refuses,
        format!(
            "{} about 1000 times another number from one snapshot to the next: {}",
            is_or_are(&ids),
            names(&ids)
        ),
        changed.iter().map(|(_, t_s)| *t_s).reduce(f64::min),
        "the unit of the readings changed midway",
        "the arm can be classified without them",
    );
    (f.arms, f.processes) = (arms, ids);
    vec![f]
}

fn is_or_are(ids: &[String]) -> String {
    let verb = if ids.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(ids.len()))
}

/// Readings on either side of a change of unit that are compared.
const SIDE: usize = 3;
/// They agree but for this factor, as a logarithm.
const JUMP_SLACK: f64 = 0.1;

fn jump(points: &[Point]) -> Option<f64> {
    let level = |part: &[Point]| median(&part.iter().map(|p| p.value).collect::<Vec<_>>());
    (SIDE..points.len().saturating_sub(SIDE - 1)).find_map(|at| {
        let near = points[at].value / points[at - 1].value;
        if near.ln().abs() < JUMP_AT_LEAST.ln() {
            return None;
        }
        let ratio = level(&points[at..at + SIDE]) / level(&points[at - SIDE..at]);
        let is_unit = [1000.0, 1024.0, 1e6, 1_048_576.0]
            .iter()
            .any(|times: &f64| (ratio.ln().abs() - times.ln()).abs() < JUMP_SLACK);
        is_unit.then(|| points[at].t_s)
    })
}

/// No reading is this many times the one before it by growth.
const JUMP_AT_LEAST: f64 = 500.0;

/// Powers of 1000 and 1024 by unit name.
fn factors(unit: &str) -> Option<(f64, f64)> {
    let power = match unit.to_ascii_lowercase().as_str() {
        "kb" | "kib" => 1,
        "mb" | "mib" => 2,
        "gb" | "gib" => 3,
        "tb" | "tib" => 4,
        _ => return None,
    };
    Some((1000f64.powi(power), 1024f64.powi(power)))
}

fn misnamed(s: &Stated) -> Option<Finding> {
    let (decimal, binary) = factors(&s.unit)?;
    let says_binary = s.unit.to_ascii_lowercase().contains('i');
    let (said, meant) = if says_binary {
        (binary, decimal)
    } else {
        (decimal, binary)
    };
    let off = |factor: f64| (s.value * factor / s.observed_bytes).ln().abs();
    // Between GB and GiB lie 7 %, between kB and KiB 2.4 %: a third of it must decide.
    let tolerance = (binary / decimal).ln() / 3.0;
    let wrong = off(meant) < tolerance && off(said) > 2.0 * tolerance;
    wrong.then(|| {
        let letter = &s.unit[..1];
        let other = if says_binary {
            format!("{letter}B")
        } else {
            format!("{letter}iB")
        };
        finding(
            Check::Units,
            Severity::Note,
            format!(
                "{}: {} {} is written, {} {other} is what was observed",
                s.what, s.value, s.unit, s.value
            ),
            None,
            "sizes differ from the published ones by the ratio of the units",
            "ratios between arms are not touched",
        )
    })
}

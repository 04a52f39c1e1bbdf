//! Units that differ between processes or arms: how far apart levels must be, and what the grain of the readings says.

use super::readings::finding;
use super::{AuditInput, Check, Finding, ProcessFacts, Severity, names};
use series::order::{mad, median};

/// What lies between two units: prefixes of 1000 and of 1024, and pages of 4 KiB that are read as bytes.
const FACTORS: [f64; 5] = [1000.0, 1024.0, 4096.0, 1e6, 1_048_576.0];

/// Levels of processes of one arm differ by so many deviations, as logarithms, between these two.
const DEVIATIONS: f64 = 3.0;
const APART_MIN: f64 = 0.05;
const APART_MAX: f64 = 0.4;

/// Levels of arms differ by half as much again for reasons of their own ...
const ARMS_APART: f64 = 0.4;
/// ... and by ten times, where the grain tells the unit.
const APART_BY_GRAIN: f64 = 2.3;

/// A resident set is a whole number of pages, but for what a table rounds off.
const PAGE: f64 = 4096.0;
const OFF_PAGE: f64 = 0.02;
/// Fewer different readings than this may be whole by chance.
const TELLING: usize = 8;

/// Whether this ratio, or its inverse, is what lies between two units, within `slack` on the logarithm.
fn is_factor(ratio: f64, slack: f64) -> bool {
    let near = |factor: f64| (ratio.ln().abs() - factor.ln()).abs() < slack;
    FACTORS.into_iter().any(near)
}

fn level(p: &ProcessFacts) -> f64 {
    median(&p.rss.iter().map(|r| r.value).collect::<Vec<_>>())
}

/// Processes that are the ratio of two units off the rest of their arm.
pub fn odd_processes(arm: &str, processes: &[&ProcessFacts]) -> Option<Finding> {
    let logs: Vec<f64> = processes.iter().map(|p| level(p).ln()).collect();
    let centre = median(&logs);
    let apart = (DEVIATIONS * mad(&logs)).clamp(APART_MIN, APART_MAX);
    let off = |log: &f64| is_factor((log - centre).exp(), apart);
    let odd = processes.iter().zip(&logs).filter(|(_, log)| off(log));
    let odd: Vec<String> = odd.map(|(p, _)| p.id.clone()).collect();
    if odd.is_empty() || 2 * odd.len() >= processes.len() {
        return None;
    }
    let mut f = finding(
        Check::Units,
        Severity::Refuses,
        format!(
            "about 1000 times off the rest of {arm}, or another ratio of two units: {}; are they in another unit?",
            names(&odd)
        ),
        None,
        "their unit differs from that of the others, unless they are really of that size",
        "the arm can be classified without them",
    );
    (f.arms, f.processes) = (vec![arm.to_owned()], odd);
    Some(f)
}

/// One arm, beside the others.
struct Beside<'a> {
    arm: &'a str,
    /// Level over that of the others.
    times: f64,
    /// The factor that the grain of the readings tells.
    grain: Option<f64>,
}

impl Beside<'_> {
    fn is_odd(&self) -> bool {
        self.grain.is_some() || is_factor(self.times, ARMS_APART)
    }
}

/// Arms that are the ratio of two units off the others. Of two nobody can say which it is.
pub fn odd_arms(input: &AuditInput) -> Option<Finding> {
    let arms = input.by_arm();
    let all: Vec<(&str, &Vec<&ProcessFacts>)> = arms.iter().map(|(a, ps)| (*a, ps)).collect();
    let odd: Vec<Beside> = (0..all.len())
        .filter_map(|at| beside(&all, at))
        .filter(Beside::is_odd)
        .collect();
    if odd.is_empty() {
        return None;
    }
    let by_grain = odd.iter().any(|b| b.grain.is_some());
    let mut f = finding(
        Check::Units,
        if by_grain {
            Severity::Refuses
        } else {
            Severity::Weakens
        },
        apart(&odd, all.len()),
        None,
        "if the unit differs between the arms, their ratio means nothing; if not, it is real",
        match (odd.len(), all.len()) {
            (2, 2) => "each arm's own growth, as a share",
            _ => "the other arms, and its growth as a share",
        },
    );
    f.arms = odd.iter().map(|b| b.arm.to_owned()).collect();
    Some(f)
}

fn beside<'a>(all: &[(&'a str, &Vec<&ProcessFacts>)], at: usize) -> Option<Beside<'a>> {
    let (arm, processes) = all[at];
    let log = |ps: &[&ProcessFacts]| median(&ps.iter().map(|p| level(p).ln()).collect::<Vec<_>>());
    let others: Vec<&(&str, &Vec<&ProcessFacts>)> =
        all.iter().filter(|other| other.0 != arm).collect();
    let levels: Vec<f64> = others.iter().map(|(_, ps)| log(ps)).collect();
    if levels.is_empty() {
        return None;
    }
    let times = (log(processes) - median(&levels)).exp();
    let whole = others.iter().all(|(_, ps)| pages(ps, 1.0));
    let grain = FACTORS.into_iter().find(|factor| {
        let near = (times.ln().abs() - factor.ln()).abs() < APART_BY_GRAIN;
        near && whole && told_in(processes, *factor, times > 1.0)
    });
    Some(Beside { arm, times, grain })
}

/// Whether the readings are what whole pages become in another unit.
fn told_in(processes: &[&ProcessFacts], factor: f64, larger: bool) -> bool {
    match larger {
        true => pages(processes, factor),
        false => pages(processes, 1.0 / factor) && !pages(processes, 1.0),
    }
}

/// Whether all readings are whole numbers of so many pages, and tell it.
fn pages(processes: &[&ProcessFacts], times: f64) -> bool {
    let values = || processes.iter().flat_map(|p| &p.rss).map(|r| r.value);
    let off = |v: f64| (v / (times * PAGE) - (v / (times * PAGE)).round()).abs();
    let mut seen: Vec<u64> = values().take(64 * TELLING).map(f64::to_bits).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.len() >= TELLING && values().all(|v| off(v) < OFF_PAGE)
}

/// "green is 1020 times the other arms", "green is 1/1020 of the other arms", as a question.
fn apart(odd: &[Beside], arms: usize) -> String {
    let grain = odd.iter().find(|b| b.grain.is_some());
    let why = match grain.and_then(|b| Some((b.arm, b.grain?))) {
        Some((arm, factor)) => {
            format!("the readings of {arm} are whole pages in a unit {factor:.0} times apart")
        }
        None => "that is what lies between two units".to_owned(),
    };
    let each = odd.iter().map(|b| match b.times > 1.0 {
        true => format!("{} is {:.0} times the other arms", b.arm, b.times),
        false => format!("{} is 1/{:.0} of the other arms", b.arm, 1.0 / b.times),
    });
    let what = match (odd, arms) {
        ([a, b], 2) => format!(
            "{} and {} are {:.0} times apart",
            a.arm,
            b.arm,
            a.times.max(b.times)
        ),
        _ => each.collect::<Vec<_>>().join("; "),
    };
    format!("{what}; {why}: is it told in another one, or really of that size?")
}

//! Who was in which arm, with which allocator.

use std::collections::{BTreeMap, BTreeSet};

use super::settled::founders;
use super::{AuditInput, Check, Finding, ProcessFacts, Severity, names};

/// An arm that loses or gains more than this share of its processes is not the arm that was planned.
const REFUSED_SHARE: f64 = 0.1;

/// Processes that moved from one arm to another. Those that founded an arm together did it no harm.
pub fn changes(input: &AuditInput) -> Vec<Finding> {
    let founders = founders(input);
    let mut touched: BTreeMap<&str, Vec<(&ProcessFacts, f64)>> = BTreeMap::new();
    let mut members: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for p in &input.processes {
        for (_, arm) in p.arms.iter().filter(|(_, arm)| !arm.is_empty()) {
            members.entry(arm).or_default().insert(&p.id);
        }
        let told: Vec<&(f64, String)> = p.arms.iter().filter(|(_, a)| !a.is_empty()).collect();
        for pair in told.windows(2).filter(|w| w[0].1 != w[1].1) {
            touched.entry(&pair[0].1).or_default().push((p, pair[1].0));
            if founders.get(p.id.as_str()) != Some(&pair[1].0) {
                touched.entry(&pair[1].1).or_default().push((p, pair[1].0));
            }
        }
    }
    touched
        .into_iter()
        .map(|(arm, moved)| {
            let over = input.processes.iter().all(|p| p.arm() != arm);
            moved_finding(arm, &moved, members[arm].len(), over)
        })
        .collect()
}

/// `over`: nobody is left in the arm, so there is no verdict on it to refuse.
fn moved_finding(arm: &str, moved: &[(&ProcessFacts, f64)], ever: usize, over: bool) -> Finding {
    let mut ids: Vec<String> = moved.iter().map(|(p, _)| p.id.clone()).collect();
    ids.dedup();
    let since = moved.iter().map(|(_, t)| *t).fold(f64::INFINITY, f64::min);
    let left = moved
        .iter()
        .filter(|(p, _)| p.first_arm() == arm && p.arm() != arm)
        .count();
    let share = ids.len() as f64 / ever.max(1) as f64;
    let refused = share > REFUSED_SHARE && !over;
    Finding {
        check: Check::Membership,
        severity: match (over, refused) {
            (true, _) => Severity::Note,
            (_, true) => Severity::Refuses,
            _ => Severity::Weakens,
        },
        arms: vec![arm.to_owned()],
        what: format!(
            "{} of the {ever} processes that were ever in {arm} changed arms ({left} left it): {}",
            ids.len(),
            names(&ids)
        ),
        processes: ids,
        since_s: Some(since),
        effect: if over {
            format!("{arm} ended before the run did, and has no verdict")
        } else if refused {
            format!("a verdict on {arm} over the whole window mixes two treatments and is refused")
        } else {
            "the processes that moved are left out".to_owned()
        },
        still: format!(
            "{arm} can be classified on the processes that stayed, or on the time before"
        ),
    }
}

/// Processes that belong to no arm.
pub fn unassigned(input: &AuditInput) -> Vec<Finding> {
    let ids: Vec<String> = input
        .processes
        .iter()
        .filter(|p| p.arm().is_empty())
        .map(|p| p.id.clone())
        .collect();
    if ids.is_empty() || ids.len() == input.processes.len() {
        return Vec::new();
    }
    vec![Finding {
        check: Check::Unassigned,
        severity: Severity::Note,
        arms: Vec::new(),
        what: format!("{} processes belong to no arm: {}", ids.len(), names(&ids)),
        processes: ids,
        since_s: None,
        effect: "they are left out of every arm".to_owned(),
        still: "each can be classified as a series of its own".to_owned(),
    }]
}

/// Two allocators in one arm, or one process that changed its allocator.
pub fn allocators(input: &AuditInput) -> Vec<Finding> {
    let mut found = Vec::new();
    for (arm, processes) in input.by_arm() {
        let mut who: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut since: Option<f64> = None;
        for p in &processes {
            let first = p.allocators.first().map_or("", |(_, name)| library(name));
            for (t_s, allocator) in p.allocators.iter().filter(|(_, a)| !a.is_empty()) {
                let ids = who.entry(library(allocator)).or_default();
                if ids.last() != Some(&p.id) {
                    ids.push(p.id.clone());
                }
                if library(allocator) != first {
                    since = Some(since.map_or(*t_s, |s| s.min(*t_s)));
                }
            }
        }
        if who.len() < 2 {
            continue;
        }
        let most = who.values().map(Vec::len).max().unwrap_or(0);
        let odd: Vec<String> = who
            .values()
            .filter(|ids| ids.len() < most)
            .flatten()
            .cloned()
            .collect();
        let all: Vec<String> = who
            .iter()
            .map(|(a, ids)| format!("{a} in {} ({})", ids.len(), names(ids)))
            .collect();
        found.push(Finding {
            check: Check::Allocators,
            severity: Severity::Refuses,
            arms: vec![arm.to_owned()],
            processes: odd,
            since_s: since,
            what: format!("{arm} runs {} allocators: {}", who.len(), all.join("; ")),
            effect: "the arm is not one treatment; its verdict is refused".to_owned(),
            still: "the processes that run the arm's own allocator can be classified".to_owned(),
        });
    }
    found
}

/// A library by one name: /lib is a link to /usr/lib, and a file that was replaced under a running program has its
/// name still.
fn library(name: &str) -> &str {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let under = |prefix| name.strip_prefix(prefix);
    let rest = under("/usr").filter(|rest| rest.starts_with("/lib"));
    rest.unwrap_or(name)
}

/// A control, or any arm, that is one process.
pub fn one_process(input: &AuditInput) -> Vec<Finding> {
    let arms = input.by_arm();
    if arms.len() < 2 {
        return Vec::new();
    }
    arms.into_iter()
        .filter(|(_, processes)| processes.len() == 1)
        .map(|(arm, processes)| {
            let control = input.control.as_deref() == Some(arm);
            let word = if control { "the control" } else { "the arm" };
            Finding {
                check: Check::OneProcess,
                severity: Severity::Weakens,
                arms: vec![arm.to_owned()],
                processes: vec![processes[0].id.clone()],
                since_s: None,
                what: format!("{word} {arm} is one process"),
                effect: "its spread is unknown: an outlier and an effect of the arm cannot be distinguished"
                    .to_owned(),
                still: "its own series can be classified; comparisons borrow the spread of other arms"
                    .to_owned(),
            }
        })
        .collect()
}

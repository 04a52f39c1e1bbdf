//! The readings themselves: looks that are missing, processes that hang, units that are mixed up.

use super::{AuditInput, Check, Finding, ProcessFacts, Severity, Stated, names, span};
use crate::analyse::order::median;
use crate::analyse::series::Point;

/// A gap of this many usual intervals is a hole.
const HOLE: f64 = 3.0;
/// A process that misses more than this share of the looks of its life is listed.
const MISSING_SHARE: f64 = 0.1;
/// A process whose CPU stands still, or whose RSS is one number, for this many looks hangs.
const STILL_LOOKS: usize = 8;

/// Holes in the looks, and processes that were not seen at many of them.
pub fn missing(input: &AuditInput) -> Vec<Finding> {
    let usual = input.interval_s();
    let mut found = Vec::new();
    let holes: Vec<(f64, f64)> = input
        .looks_s
        .windows(2)
        .map(|w| (w[0], w[1] - w[0]))
        .filter(|(_, gap)| *gap > HOLE * usual)
        .collect();
    if let Some((since, _)) = holes.first() {
        let each: Vec<String> = holes.iter().map(|(_, gap)| span(*gap)).collect();
        found.push(finding(
            Check::MissingLooks,
            Severity::Note,
            format!(
                "no look for {} (usual: every {})",
                each.join(", "),
                span(usual)
            ),
            Some(*since),
            "a restart or a peak inside a hole is not seen",
            "verdicts use the time, not the number, of looks",
        ));
    }
    let ids: Vec<String> = input
        .processes
        .iter()
        .filter(|p| misses(input, p))
        .map(|p| p.id.clone())
        .collect();
    if !ids.is_empty() {
        let mut f = finding(
            Check::MissingLooks,
            Severity::Weakens,
            format!("{} processes miss many looks: {}", ids.len(), names(&ids)),
            None,
            "their levels rest on fewer readings than those of the others",
            "they are judged on what was seen",
        );
        f.processes = ids;
        found.push(f);
    }
    found
}

fn misses(input: &AuditInput, p: &ProcessFacts) -> bool {
    let Some(first) = p.rss.first() else {
        return true;
    };
    let watched = |t: &&f64| **t >= first.t_s && p.until_s.is_none_or(|until| **t <= until);
    let due = input.looks_s.iter().filter(watched).count();
    due > STILL_LOOKS && ((due - p.rss.len().min(due)) as f64) > MISSING_SHARE * due as f64
}

/// Processes that stand still while others of the experiment move.
pub fn hung(input: &AuditInput) -> Vec<Finding> {
    let still: Vec<(&ProcessFacts, f64)> = input
        .processes
        .iter()
        .filter_map(|p| still_since(&p.cpu_s).or_else(|| frozen(p)).map(|t| (p, t)))
        .collect();
    // When most stand still, the service is idle, or the counter is dead.
    if still.is_empty() || 2 * still.len() > input.processes.len() {
        return Vec::new();
    }
    let ids: Vec<String> = still.iter().map(|(p, _)| p.id.clone()).collect();
    let mut arms: Vec<String> = still
        .iter()
        .map(|(p, _)| p.arm().to_owned())
        .filter(|a| !a.is_empty())
        .collect();
    arms.sort();
    arms.dedup();
    let since = still.iter().map(|(_, t)| *t).fold(f64::INFINITY, f64::min);
    let mut f = finding(
        Check::Hung,
        Severity::Weakens,
        format!("{} processes stand still: {}", ids.len(), names(&ids)),
        Some(since),
        "a hung process is perfectly flat, and pulls its arm there",
        "its arm can be judged without it",
    );
    (f.arms, f.processes) = (arms, ids);
    vec![f]
}

/// Since when a counter has not advanced.
fn still_since(counter: &[Point]) -> Option<f64> {
    let last = counter.last()?;
    let same = counter
        .iter()
        .rev()
        .take_while(|p| p.value == last.value)
        .count();
    (same >= STILL_LOOKS && same < counter.len()).then(|| counter[counter.len() - same].t_s)
}

/// Without CPU: an RSS that moved, and then is one number to the byte.
fn frozen(p: &ProcessFacts) -> Option<f64> {
    p.cpu_s.is_empty().then(|| still_since(&p.rss)).flatten()
}

/// Numbers said in one unit and meant in another, and processes that are 1000 or 1024 times off.
pub fn units(input: &AuditInput) -> Vec<Finding> {
    let mut found: Vec<Finding> = input.stated.iter().filter_map(misnamed).collect();
    for (arm, processes) in input.by_arm() {
        let level = |p: &&ProcessFacts| median(&p.rss.iter().map(|r| r.value).collect::<Vec<_>>());
        let levels: Vec<f64> = processes.iter().map(level).collect();
        let centre = median(&levels);
        let off: Vec<String> = processes
            .iter()
            .zip(&levels)
            .filter(|(_, l)| scaled(**l / centre))
            .map(|(p, _)| p.id.clone())
            .collect();
        if !off.is_empty() && 2 * off.len() < processes.len() {
            let mut f = finding(
                Check::Units,
                Severity::Refuses,
                format!("about 1000 times off the rest of {arm}: {}", names(&off)),
                None,
                "their unit differs from that of the others",
                "the arm can be judged without them",
            );
            (f.arms, f.processes) = (vec![arm.to_owned()], off);
            found.push(f);
        }
    }
    found
}

fn scaled(ratio: f64) -> bool {
    let near = |times: f64| (ratio / times).ln().abs() < 0.4 || (ratio * times).ln().abs() < 0.4;
    ratio > 0.0 && (near(1024.0) || near(1_048_576.0))
}

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
                "{}: {} {} is said, {} {other} is what was observed",
                s.what, s.value, s.unit, s.value
            ),
            None,
            "sizes differ from the published ones by the ratio of the units",
            "ratios between arms are not touched",
        )
    })
}

fn finding(
    check: Check,
    severity: Severity,
    what: String,
    since_s: Option<f64>,
    effect: &str,
    still: &str,
) -> Finding {
    Finding {
        check,
        severity,
        arms: Vec::new(),
        processes: Vec::new(),
        since_s,
        what,
        effect: effect.to_owned(),
        still: still.to_owned(),
    }
}

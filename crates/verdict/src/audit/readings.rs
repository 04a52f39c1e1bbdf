//! The readings themselves: snapshots that are missing, processes that hang.

use super::{AuditInput, Check, Finding, ProcessFacts, Severity, counted, names, span};
use series::order::median;
use series::series::Point;

/// A gap of this many usual intervals is a hole.
const HOLE: f64 = 3.0;
/// A process that misses more than this share of the snapshots of its life is listed.
const MISSING_SHARE: f64 = 0.1;
/// A process whose CPU stands still, or whose RSS is one number, for this many snapshots hangs.
const STILL_SNAPSHOTS: usize = 8;
/// And this many times as long as it, and the others, stood still before.
const STILL_TIMES: f64 = 4.0;
/// So many of its gaps, of this length but for a quarter, make a cadence of its own.
const REGULAR_SHARE: f64 = 0.8;

/// Holes in the snapshots, and processes that were not seen at many of them.
pub fn missing(input: &AuditInput) -> Vec<Finding> {
    let usual = input.interval_s();
    let mut found = Vec::new();
    let holes = holes(&input.snapshots_s, usual);
    if let Some((since, _)) = holes.first() {
        let each: Vec<String> = holes.iter().map(|(_, gap)| span(*gap)).collect();
        found.push(finding(
            Check::MissingSnapshots,
            Severity::Note,
            format!(
                "no snapshot for {} (usual: every {})",
                each.join(", "),
                span(usual)
            ),
            Some(*since),
            "a restart or a peak inside a hole is not seen",
            "verdicts use the time, not the number, of snapshots",
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
            Check::MissingSnapshots,
            Severity::Weakens,
            format!(
                "{} {} many snapshots: {}",
                counted(ids.len()),
                if ids.len() == 1 { "misses" } else { "miss" },
                names(&ids)
            ),
            None,
            "their levels rest on fewer readings than those of the others",
            "they are classified by what was recorded",
        );
        f.processes = ids;
        found.push(f);
    }
    found
}

/// So many gaps to either side say what is usual there: who looks may look at another pace from some day on.
const NEAR: usize = 5;

/// Beginning and length of the gaps that are long beside all others and beside those near them.
fn holes(snapshots_s: &[f64], usual: f64) -> Vec<(f64, f64)> {
    let gaps: Vec<f64> = snapshots_s.windows(2).map(|w| w[1] - w[0]).collect();
    let near = |at: usize| median(&gaps[at.saturating_sub(NEAR)..(at + NEAR + 1).min(gaps.len())]);
    let long = gaps
        .iter()
        .enumerate()
        .filter(|(_, gap)| **gap > HOLE * usual);
    long.filter(|(at, gap)| **gap > HOLE * near(*at))
        .map(|(at, gap)| (snapshots_s[at], *gap))
        .collect()
}

fn misses(input: &AuditInput, p: &ProcessFacts) -> bool {
    let Some(first) = p.rss.first() else {
        return true;
    };
    let watched = |t: &&f64| **t >= first.t_s && p.until_s.is_none_or(|until| **t <= until);
    let snapshots: Vec<f64> = input.snapshots_s.iter().filter(watched).copied().collect();
    let due = match (own_interval(p), snapshots.first().zip(snapshots.last())) {
        (Some(own), Some((from, to))) if own > 1.5 * input.interval_s() => {
            let holes = snapshots
                .windows(2)
                .map(|w| w[1] - w[0] - own)
                .filter(|over| *over > 0.0)
                .sum::<f64>();
            ((to - from - holes) / own).floor() as usize
        }
        _ => snapshots.len(),
    };
    due > STILL_SNAPSHOTS && ((due - p.rss.len().min(due)) as f64) > MISSING_SHARE * due as f64
}

/// The time between its readings, where it is read at a cadence of its own.
pub(super) fn own_interval(p: &ProcessFacts) -> Option<f64> {
    let gaps: Vec<f64> = p.rss.windows(2).map(|w| w[1].t_s - w[0].t_s).collect();
    let usual = median(&gaps);
    let near = gaps
        .iter()
        .filter(|gap| (**gap - usual).abs() <= 0.25 * usual)
        .count();
    (near as f64 >= REGULAR_SHARE * gaps.len() as f64 && !gaps.is_empty()).then_some(usual)
}

/// Processes that stand still while others of the experiment, and of their arm, move.
pub fn hung(input: &AuditInput) -> Vec<Finding> {
    let usual = usual_run(input);
    let still: Vec<(&ProcessFacts, f64)> = input
        .processes
        .iter()
        .filter(|p| !p.cpu_s.is_empty() || !is_coarse(&p.rss))
        .filter_map(|p| still_since(watched(p), usual).map(|t| (p, t)))
        .collect();
    // When most stand still, the service is idle, or the counter is dead; when most of an arm do, they are at rest.
    let most = |of: usize, all: usize| 2 * of > all;
    let at_rest = |arm: &str| {
        let of = still.iter().filter(|(p, _)| p.arm() == arm).count();
        most(
            of,
            input.processes.iter().filter(|p| p.arm() == arm).count(),
        )
    };
    if most(still.len(), input.processes.len()) {
        return Vec::new();
    }
    let still: Vec<_> = still.iter().filter(|(p, _)| !at_rest(p.arm())).collect();
    if still.is_empty() {
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
        format!(
            "{} {} still: {}",
            counted(ids.len()),
            if ids.len() == 1 { "stands" } else { "stand" },
            names(&ids)
        ),
        Some(since),
        "a hung process is perfectly flat, and pulls its arm there",
        "its arm can be classified without it",
    );
    (f.arms, f.processes) = (arms, ids);
    vec![f]
}

/// The CPU time; where it is unknown, an RSS that moved, and then is one number to the byte.
fn watched(p: &ProcessFacts) -> &[Point] {
    match p.cpu_s.is_empty() {
        true => &p.rss,
        false => &p.cpu_s,
    }
}

/// Whether most snapshots find what the last one found, and the others a grain more or less: a process at rest.
fn is_coarse(points: &[Point]) -> bool {
    let moves = points.windows(2).map(|w| (w[1].value - w[0].value).abs());
    let moved: Vec<f64> = moves.filter(|m| *m > 0.0).collect();
    let grain = moved.iter().copied().fold(f64::INFINITY, f64::min);
    2 * moved.len() < moved_snapshots(points) && median(&moved) < 1.5 * grain
}

/// Looks up to the last move.
fn moved_snapshots(points: &[Point]) -> usize {
    let last = points.windows(2).rposition(|w| w[0].value != w[1].value);
    last.map_or(0, |at| at + 1)
}

/// Lengths of the stretches of one number, in order.
fn runs(points: &[Point]) -> Vec<usize> {
    points
        .chunk_by(|a, b| a.value == b.value)
        .map(<[Point]>::len)
        .collect()
}

/// The longest stretch of one number that is usual among the processes, snapshots.
fn usual_run(input: &AuditInput) -> f64 {
    let longest = |p: &ProcessFacts| runs(watched(p)).into_iter().max().map(|n| n as f64);
    median(
        &input
            .processes
            .iter()
            .filter_map(longest)
            .collect::<Vec<_>>(),
    )
}

/// Since when it has not moved. Coarse readings stand still for long and move again: the last stretch must be far
/// longer than any before it, and than is usual for the others.
fn still_since(points: &[Point], usual: f64) -> Option<f64> {
    let runs = runs(points);
    let (last, before) = runs.split_last()?;
    let longest = *before.iter().max()?;
    let bar = (STILL_TIMES * longest as f64)
        .max(STILL_TIMES * usual)
        .max(STILL_SNAPSHOTS as f64);
    (*last as f64 >= bar).then(|| points[points.len() - last].t_s)
}

pub(super) fn finding(
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

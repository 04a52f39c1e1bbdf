//! Processes that founded an arm by moving into it together: from then on they are its members, and what they
//! were before is not its past.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{AuditInput, ProcessFacts, births};
use series::series::Point;

/// Moves within this share of the run (or two and a half snapshots) of the first into an arm found it.
const FOUNDING_SHARE: f64 = 0.02;

fn tolerance_s(input: &AuditInput) -> f64 {
    let snapshots = 2.5 * input.interval_s();
    snapshots.max(FOUNDING_SHARE * input.span_s())
}

/// When each arm had its first process.
fn beginnings(input: &AuditInput) -> BTreeMap<&str, f64> {
    let mut began: BTreeMap<&str, f64> = BTreeMap::new();
    for (t_s, arm) in input.processes.iter().flat_map(|p| &p.arms) {
        let first = began.entry(arm).or_insert(*t_s);
        *first = first.min(*t_s);
    }
    began
}

/// When a process moved into the arm that it is in at the end; `None` when it never was in another.
fn moved_at(p: &ProcessFacts) -> Option<f64> {
    let named: Vec<&(f64, String)> = p.arms.iter().filter(|(_, a)| !a.is_empty()).collect();
    let elsewhere = named.iter().rposition(|(_, a)| a != p.arm())?;
    named.get(elsewhere + 1).map(|(t_s, _)| *t_s)
}

/// Instants at which processes founded the arm that they are in at the end, by id. A process that is known
/// not to have been restarted then brings its past along, and founds nothing.
pub(super) fn founders(input: &AuditInput) -> BTreeMap<&str, f64> {
    let (began, slack) = (beginnings(input), tolerance_s(input));
    let first = input.snapshots_s.first().copied().unwrap_or(0.0);
    let reborn = |p: &ProcessFacts, at: f64| {
        let unknown = p.starts_s.is_empty() && p.hwm.len() < 2;
        let near = |t: &f64| (*t - at).abs() <= slack;
        unknown || births(p, first).iter().any(near) || p.starts_s.iter().any(near)
    };
    let of = |p| {
        let at = moved_at(p)?;
        let in_time = began.get(p.arm()).is_some_and(|b| at <= b + slack);
        (in_time && reborn(p, at)).then_some((p.id.as_str(), at))
    };
    input.processes.iter().filter_map(of).collect()
}

/// The same experiment with founders as members from the beginning of their arm.
pub(super) fn settled(input: &AuditInput) -> Cow<'_, AuditInput> {
    let (founders, slack) = (founders(input), tolerance_s(input));
    if founders.is_empty() {
        return Cow::Borrowed(input);
    }
    let mut out = input.clone();
    for p in &mut out.processes {
        if let Some(from) = founders.get(p.id.as_str()) {
            since(p, *from, slack);
        }
    }
    Cow::Owned(out)
}

fn since(p: &mut ProcessFacts, from_s: f64, slack: f64) {
    let arm = p.arm().to_owned();
    p.arms = vec![(from_s, arm)];
    p.starts_s.retain(|t| *t >= from_s - slack);
    for points in [
        &mut p.rss,
        &mut p.hwm,
        &mut p.cpu_s,
        &mut p.requests,
        &mut p.lazy_free,
        &mut p.huge_pages,
    ] {
        points.retain(|point: &Point| point.t_s >= from_s);
    }
    let now = p.allocators.iter().rposition(|(t, _)| *t <= from_s);
    p.allocators.drain(..now.unwrap_or(0));
}

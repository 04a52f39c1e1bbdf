//! The verdicts that survive: which series of which arm can still be judged.

use std::collections::BTreeMap;

use super::ages::{Life, lives};
use super::settled::settled;
use super::{AuditInput, Check, Finding, ProcessFacts, births};
use series::series::Series;

/// An arm with the series that are left of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Survivor {
    pub arm: String,
    /// Refused as it was meant; `processes` are those that never left it.
    pub refused: bool,
    pub processes: Vec<Series>,
}

/// Series per arm: processes that stayed in it all along (or since they founded it), without those
/// that hang or whose unit is wrong,
/// with their births as restarts.
pub fn survivors(input: &AuditInput, findings: &[Finding]) -> Vec<Survivor> {
    let input = &settled(input);
    let first = input.snapshots_s.first().copied().unwrap_or(0.0);
    let out: Vec<&String> = findings
        .iter()
        .filter(|f| matches!(f.check, Check::Hung | Check::Units | Check::Allocators))
        .flat_map(|f| &f.processes)
        .collect();
    let stayed = |p: &&&ProcessFacts| p.first_arm() == p.arm() && !out.contains(&&p.id);
    input
        .by_arm()
        .into_iter()
        .map(|(arm, ps)| Survivor {
            arm: arm.to_owned(),
            refused: findings
                .iter()
                .any(|f| f.severity == super::Severity::Refuses && f.arms.iter().any(|a| a == arm)),
            processes: ps
                .iter()
                .filter(stayed)
                .map(|p| series_of(p, first))
                .collect(),
        })
        .collect()
}

fn series_of(p: &ProcessFacts, first_snapshot_s: f64) -> Series {
    Series {
        id: p.id.clone(),
        points: p.rss.clone(),
        restarts_s: births(p, first_snapshot_s),
        limit: None,
    }
}

/// The same, of each process what was seen of it up to one age, in the life of which most was seen (of several, the
/// longest).
pub fn survivors_at(input: &AuditInput, findings: &[Finding], uptime_s: f64) -> Vec<Survivor> {
    let settled = settled(input);
    let first = settled.snapshots_s.first().copied().unwrap_or(0.0);
    let known: BTreeMap<&str, &ProcessFacts> = settled
        .processes
        .iter()
        .map(|p| (p.id.as_str(), p))
        .collect();
    let mut left = survivors(input, findings);
    for series in left.iter_mut().flat_map(|s| &mut s.processes) {
        if let Some(p) = known.get(series.id.as_str()) {
            keep_up_to(series, &lives(p, first), uptime_s);
        }
    }
    left
}

fn keep_up_to(series: &mut Series, lives: &[Life], uptime_s: f64) {
    let watched = |life: &Life| (life.watched_to_s(uptime_s), life.to_s - life.from_s);
    let order = |a: &&Life, b: &&Life| {
        let (a, b) = (watched(a), watched(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let Some(life) = lives.iter().max_by(order) else {
        return;
    };
    // The last reading belongs to the last life, and none before it to the next.
    let is_last = series.points.last().is_some_and(|p| p.t_s <= life.to_s);
    series.points.retain(|p| {
        let inside = p.t_s >= life.from_s && (p.t_s < life.to_s || is_last);
        inside && p.t_s <= life.born_s + uptime_s
    });
    series.restarts_s.clear();
}

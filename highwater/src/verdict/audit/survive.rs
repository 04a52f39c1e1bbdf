//! The verdicts that survive: which series of which arm can still be judged.

use super::{AuditInput, Check, Finding, ProcessFacts, births};
use crate::analyse::series::Series;

/// An arm with the series that are left of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Survivor {
    pub arm: String,
    /// Refused as it was meant; `processes` are those that never left it.
    pub refused: bool,
    pub processes: Vec<Series>,
}

/// Series per arm: processes that stayed in it all along, without those that hang or whose unit is wrong,
/// with their births as restarts.
pub fn survivors(input: &AuditInput, findings: &[Finding]) -> Vec<Survivor> {
    let first = input.looks_s.first().copied().unwrap_or(0.0);
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
            refused: findings.iter().any(|f| {
                f.severity == super::Severity::Refuses && f.arms.iter().any(|a| a == arm)
            }),
            processes: ps.iter().filter(stayed).map(|p| series_of(p, first)).collect(),
        })
        .collect()
}

fn series_of(p: &ProcessFacts, first_look_s: f64) -> Series {
    Series {
        id: p.id.clone(),
        points: p.rss.clone(),
        restarts_s: births(p, first_look_s),
        limit: None,
    }
}

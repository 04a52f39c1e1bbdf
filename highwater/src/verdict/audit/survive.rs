//! The verdicts that survive: which series of which arm can still be judged.

use super::settled::settled;
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

/// Series per arm: processes that stayed in it all along (or since they founded it), without those that hang or whose unit is wrong,
/// with their births as restarts.
pub fn survivors(input: &AuditInput, findings: &[Finding]) -> Vec<Survivor> {
    let input = &settled(input);
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

fn series_of(p: &ProcessFacts, first_look_s: f64) -> Series {
    Series {
        id: p.id.clone(),
        points: p.rss.clone(),
        restarts_s: births(p, first_look_s),
        limit: None,
    }
}

/// The part of a series that can be compared at equal uptime: its longest incarnation, up to `uptime_s`.
pub fn at_uptime(series: &Series, uptime_s: f64) -> Series {
    let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
        return series.clone();
    };
    let mut marks = vec![first.t_s];
    marks.extend(
        series
            .restarts_s
            .iter()
            .copied()
            .filter(|t| *t > first.t_s && *t < last.t_s),
    );
    marks.push(f64::INFINITY);
    let length = |w: &&[f64]| w[1].min(last.t_s) - w[0];
    let life = marks
        .windows(2)
        .max_by(|a, b| length(a).total_cmp(&length(b)));
    let Some(&[from, to]) = life else {
        return series.clone();
    };
    let inside = |t: f64| t >= from && t < to && t <= from + uptime_s;
    Series {
        points: series
            .points
            .iter()
            .filter(|p| inside(p.t_s))
            .copied()
            .collect(),
        restarts_s: Vec::new(),
        ..series.clone()
    }
}

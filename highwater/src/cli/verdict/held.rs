//! What was read of each process, cut to what was asked for.

use crate::analyse::series::{Point, Series};
use crate::observe::import::Row;
use crate::observe::import::time::parse_instant;
use crate::verdict::Rules;
use crate::verdict::audit::{AuditInput, ProcessFacts};
use crate::verdict::series::{SeriesVerdict, judge};

/// Everything read of one process.
#[derive(Debug, Default)]
pub struct Held {
    pub id: String,
    pub arms: Vec<(f64, String)>,
    pub points: Vec<Point>,
    pub hwm: Vec<Point>,
}

impl Held {
    pub fn take(&mut self, row: Row, arm: String) {
        // An empty group in a file is a group that nobody wrote down, not a change of arms.
        if self.arms.last().is_none_or(|(_, a)| *a != arm) && !arm.is_empty() {
            self.arms.push((row.t_s, arm));
        }
        self.points.push(Point {
            t_s: row.t_s,
            value: row.rss_bytes,
        });
        if let Some(value) = row.hwm_bytes.filter(|v| *v > 0.0) {
            self.hwm.push(Point {
                t_s: row.t_s,
                value,
            });
        }
    }
}

/// Drops what came after `until`: on the clock of the series, or seconds since its first reading when
/// that clock began later.
pub fn cut(series: &mut Series, until: f64) {
    let first = series
        .points
        .iter()
        .map(|p| p.t_s)
        .fold(f64::INFINITY, f64::min);
    let end = if until < first { first + until } else { until };
    series.points.retain(|p| p.t_s <= end);
    series.restarts_s.retain(|t| *t <= end);
}

/// The first `part` of a series, by its own time.
fn prefix(series: &Series, part: f64) -> Series {
    let times = || {
        series
            .points
            .iter()
            .map(|p| p.t_s)
            .filter(|t| t.is_finite())
    };
    let (lo, hi) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(f64::NEG_INFINITY, f64::max),
    );
    let mut short = series.clone();
    short.id = format!("{}@{part}", series.id);
    let end = lo + part * (hi - lo);
    short.points.retain(|p| p.t_s <= end);
    short.restarts_s.retain(|t| *t <= end);
    short
}

/// Judges series side by side on all cores, in order.
pub fn judge_batch(batch: &[Series], at: &[f64], rules: &Rules) -> Vec<SeriesVerdict> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = batch.len().div_ceil(cores).max(1);
    let of = |series: &Series| -> Vec<SeriesVerdict> {
        if at.is_empty() {
            return vec![judge(series, rules)];
        }
        at.iter()
            .map(|part| judge(&prefix(series, *part), rules))
            .collect()
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = batch
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().flat_map(of).collect::<Vec<_>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|p| p.join().unwrap_or_default())
            .collect()
    })
}

pub fn audit_input(held: &[Held], control: Option<String>, until: Option<&str>) -> AuditInput {
    let until = until.and_then(parse_instant);
    let first = held
        .iter()
        .flat_map(|h| &h.points)
        .map(|p| p.t_s)
        .fold(f64::INFINITY, f64::min);
    let end = until.map_or(f64::INFINITY, |u| if u < first { first + u } else { u });
    let clip = |points: &[Point]| {
        let usable = |p: &&Point| p.t_s <= end && p.value > 0.0;
        let mut kept: Vec<Point> = points.iter().filter(usable).copied().collect();
        kept.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        kept
    };
    let processes: Vec<ProcessFacts> = held
        .iter()
        .map(|h| ProcessFacts {
            id: h.id.clone(),
            arms: h.arms.iter().filter(|(t, _)| *t <= end).cloned().collect(),
            rss: clip(&h.points),
            hwm: clip(&h.hwm),
            ..ProcessFacts::default()
        })
        .filter(|p| !p.rss.is_empty())
        .collect();
    AuditInput {
        looks_s: looks_of(&processes),
        processes,
        control,
        ..AuditInput::default()
    }
}

/// Instants at which anything was read; readings closer than a twentieth of the usual interval of a
/// process are one look.
fn looks_of(processes: &[ProcessFacts]) -> Vec<f64> {
    let mut all: Vec<f64> = processes
        .iter()
        .flat_map(|p| &p.rss)
        .map(|p| p.t_s)
        .collect();
    all.sort_by(f64::total_cmp);
    let usual = processes
        .iter()
        .filter(|p| p.rss.len() > 2)
        .map(|p| (p.rss[p.rss.len() - 1].t_s - p.rss[0].t_s) / (p.rss.len() - 1) as f64)
        .fold(f64::INFINITY, f64::min);
    let mut looks: Vec<f64> = Vec::new();
    for t in all {
        if looks.last().is_none_or(|l| t - l > 0.05 * usual.min(1e12)) {
            looks.push(t);
        }
    }
    looks
}

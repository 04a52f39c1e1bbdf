//! Readings that are cut nowhere: one clock, and what the load does by the day.

use super::Rules;
use super::coarse::{Cycle, View};
use super::curve::{Opinion, conclude, opinion as opinion_of};
use super::cycles::Cycles;
use series::bins::{Bin, bins, grain, width_for};
use series::order::median;
use series::series::Point;

/// An opinion with the way of looking that had the most evidence.
pub struct Segmented {
    pub opinion: Opinion,
    pub incarnations: usize,
    /// The incarnation that alone was judged, for what ran before was another program.
    pub alone: Option<LastLife>,
    pub period_s: Option<f64>,
    /// Periodic enough, and wide enough, to be called a sawtooth when it does not grow.
    pub saw: bool,
}

/// The incarnation that runs now, or what is behind the last shift of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastLife {
    /// Its first reading, seconds of the series.
    pub since_s: f64,
    pub readings: usize,
    /// It began with a restart.
    pub is_restarted: bool,
}

/// Nothing can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Unseen {
    /// Because only what the last incarnation has shown counts.
    pub last_life: Option<LastLife>,
}

pub(super) type Seen = Result<Segmented, Unseen>;

/// No falls: one clock, which began at `birth_s`, perhaps with a cycle or two.
pub(super) fn one_life(points: &[Point], birth_s: f64, rules: &Rules) -> Seen {
    let width_s = width_for(points, &[]);
    let view = View {
        bins: &bins(points, &[], &[birth_s], width_s),
        by_uptime: true,
        width_s,
        grain: grain(points),
        ..View::default()
    };
    with_cycles(points, Cycles::of(points, &view), &view, rules)
}

pub(super) fn with_cycles(points: &[Point], found: Cycles, view: &View, rules: &Rules) -> Seen {
    let level = median(&points.iter().map(|p| p.value).collect::<Vec<_>>());
    let (swing, period_s) = (found.swing, found.taken.first().map(Cycle::length_s));
    let view = View {
        cycles: &found.taken,
        ..view.clone()
    };
    let opinion = found
        .coarse
        .and_then(|coarse| conclude(coarse, &view, rules));
    let opinion = opinion.ok_or_else(Unseen::default)?;
    Ok(Segmented {
        opinion: calmed(opinion, &view, rules),
        incarnations: 1,
        alone: None,
        period_s,
        saw: period_s.is_some() && swing >= rules.swing_share * level,
    })
}

/// Staircases have five steps at most, which is two excursions a round.
const EXCURSION_ROUNDS: usize = 6;
/// What takes more than this share of the bins is no excursion.
const EXCURSIONS_MAX: f64 = 0.25;

/// The opinion without the bins of jobs that held memory for a while: what went and came back says nothing of what
/// lasts, and its edges would be steps.
fn calmed(mut opinion: Opinion, view: &View, rules: &Rules) -> Opinion {
    let mut bins = view.bins.to_vec();
    for _ in 0..EXCURSION_ROUNDS {
        let away = |b: &Bin| {
            let mut all = opinion.excursions.iter();
            all.any(|(from, to)| (*from..*to).contains(&b.t_s))
        };
        bins.retain(|b| !away(b));
        let many = (bins.len() as f64) < (1.0 - EXCURSIONS_MAX) * view.bins.len() as f64;
        if opinion.excursions.is_empty() || many {
            break;
        }
        let rest = View {
            bins: &bins,
            ..view.clone()
        };
        let Some(calmer) = opinion_of(&rest, rules) else {
            break;
        };
        opinion = calmer;
    }
    opinion
}

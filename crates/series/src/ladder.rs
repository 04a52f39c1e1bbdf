//! A leak that comes in equal steps at equal distances (arenas, quantised readings, a batch each hour) is
//! growth, and looks like a few steps while there are few of them.

use super::fit::{Candidate, Fit};
use super::linear::Window;
use super::shapes::{Basis, Family, Shapes};

/// How far heights and distances of the rungs of a ladder may be from their mean, as a share of it.
const UNEVEN_MAX: f64 = 0.35;
/// A rung that is late by more than this share of the distance is not coming.
const LATE_MAX: f64 = 1.35;
/// Neighbouring distances and places, in bins, that are tried besides the fitted ones.
const NUDGES: [f64; 3] = [-0.5, 0.0, 0.5];

/// Ladders through the steps of the best staircase; empty when it has fewer than two steps, or uneven ones.
pub fn ladders(fit: &Fit, window: &Window) -> Shapes {
    let mut out = Shapes::default();
    let best = fit
        .candidates
        .iter()
        .filter(|c| c.family == Family::Steps)
        .max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight));
    let Some((from, gap)) = best.and_then(rungs) else {
        return out;
    };
    let bin = 1.0 / window.x.len() as f64;
    for shift in NUDGES {
        for stretch in NUDGES {
            let gap = gap + 0.5 * stretch * bin;
            let from = from + shift * bin;
            if gap > bin && from > 0.0 {
                out.add(Family::Ladder, &[Basis::Ladder { from, gap }]);
            }
        }
    }
    // A place for the first rung and a distance, each to about two bins, as for steps.
    let bins = window.x.len() as f64;
    let prior = Family::Ladder.prior_ln() - (0.25 * bins * bins * gap).max(1.0).ln();
    for shape in &mut out.shapes {
        shape.prior_ln = prior;
    }
    out
}

/// First rung and distance, when the steps are even and the next is not overdue.
fn rungs(best: &Candidate) -> Option<(f64, f64)> {
    let mut steps = best.steps.clone();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (first, last) = (steps.first()?.0, steps.last()?.0);
    let gap = (last - first) / (steps.len() as f64 - 1.0);
    let height = steps.iter().map(|s| s.1).sum::<f64>() / steps.len() as f64;
    let even = |value: f64, mean: f64| (value - mean).abs() <= UNEVEN_MAX * mean;
    let regular = steps.len() >= 2
        && steps.iter().all(|s| even(s.1, height))
        && steps.windows(2).all(|w| even(w[1].0 - w[0].0, gap))
        && first <= LATE_MAX * gap
        && 1.0 - last <= LATE_MAX * gap;
    regular.then_some((first, gap))
}

//! A second search between the grid points. When noise is small, the nearest time constant of a coarse grid
//! leaves a misfit that a richer family could win by; so the best shape of each family gets neighbours.

use std::collections::BTreeMap;

use super::fit::{Candidate, Fit};
use super::shapes::{Basis, Family, Shapes};

/// Families this far (in log weight) below the best cannot win by a better grid.
const HOPELESS_LN: f64 = 25.0;
/// Steps between neighbours of a logarithmic grid, as factors.
const FACTORS: [f64; 6] = [0.76, 0.84, 0.93, 1.08, 1.19, 1.31];
/// Steps between knots, in windows.
const SHIFTS: [f64; 6] = [-0.05, -0.03, -0.012, 0.012, 0.03, 0.05];
/// Steps between the beginnings of late fills and the middles of S-curves, in windows.
const LATE_SHIFTS: [f64; 6] = [-0.06, -0.03, -0.015, 0.015, 0.03, 0.06];

/// Neighbours of the best shape of every family that may still win; `near` is how near, from 1 (between the points
/// of the grid) down.
pub fn refine(fit: &Fit, near: f64) -> Shapes {
    let mut best: BTreeMap<Family, &Candidate> = BTreeMap::new();
    for c in &fit.candidates {
        let seen = best.entry(c.family).or_insert(c);
        if c.ln_weight > seen.ln_weight {
            *seen = c;
        }
    }
    let top = best
        .values()
        .map(|b| b.ln_weight)
        .fold(f64::NEG_INFINITY, f64::max);
    let mut fine = Shapes::default();
    for candidate in best.into_values() {
        if candidate.ln_weight >= top - HOPELESS_LN {
            neighbours(candidate, near, &mut fine);
        }
    }
    fine
}

fn neighbours(shape: &Candidate, near: f64, fine: &mut Shapes) {
    let parts: Vec<Basis> = shape.parts.iter().flatten().copied().collect();
    let variants: Vec<Vec<Basis>> = (0..parts.len())
        .map(|i| {
            // The knot of a broken line is shared by both of its columns.
            let shared = shape.family == Family::Broken;
            if shared && i > 0 {
                Vec::new()
            } else {
                varied(parts[i], near)
            }
        })
        .collect();
    let mut out: Vec<Vec<Basis>> = Vec::new();
    for (i, options) in variants.iter().enumerate() {
        for &option in options {
            let mut changed = parts.clone();
            changed[i] = option;
            if let (Family::Broken, Basis::Ramp(at)) = (shape.family, option) {
                changed[1] = Basis::Hinge(at);
            }
            out.push(changed);
        }
    }
    let share = (out.len() as f64 + 1.0).ln();
    for parts in out {
        fine.add(shape.family, &parts);
        if let Some(added) = fine.shapes.last_mut() {
            added.prior_ln = shape.prior_ln - share;
        }
    }
}

fn varied(basis: Basis, near: f64) -> Vec<Basis> {
    let knot = |x: f64, shifts: &[f64], make: &dyn Fn(f64) -> Basis| -> Vec<Basis> {
        let shifted = shifts.iter().map(|s| x + near * s);
        let inside = shifted.filter(|x| (0.02..0.97).contains(x));
        inside.map(make).collect()
    };
    let scaled = |x: f64, factors: &[f64], make: &dyn Fn(f64) -> Basis| -> Vec<Basis> {
        let times = factors.iter().map(|f| x * f.powf(near));
        times.map(make).collect()
    };
    match basis {
        Basis::Power(p) if p != 1.0 => scaled(p, &[0.85, 0.92, 1.08, 1.16], &Basis::Power),
        Basis::Log(t0) => scaled(t0, &[0.5, 0.7, 1.4, 2.0], &Basis::Log),
        Basis::Runaway(rate) => scaled(rate, &[0.8, 0.9, 1.1, 1.25], &Basis::Runaway),
        Basis::Saturation { half } => scaled(half, &FACTORS, &|half| Basis::Saturation { half }),
        Basis::Fill { tau } => scaled(tau, &FACTORS, &|tau| Basis::Fill { tau }),
        Basis::LateFill { from, tau } => {
            let mut all = knot(from, &LATE_SHIFTS, &|from| Basis::LateFill { from, tau });
            let make = |tau| Basis::LateFill { from, tau };
            all.extend(scaled(tau, &[0.7, 0.85, 1.18, 1.4], &make));
            all
        }
        Basis::Step(at) => knot(at, &SHIFTS, &Basis::Step),
        Basis::Hinge(from) => knot(from, &SHIFTS, &Basis::Hinge),
        Basis::Ramp(to) => knot(to, &SHIFTS, &Basis::Ramp),
        Basis::Logistic { mid, width } => {
            let mut all = knot(mid, &LATE_SHIFTS, &|mid| Basis::Logistic { mid, width });
            all.extend(scaled(width, &[0.75, 1.33], &|width| Basis::Logistic {
                mid,
                width,
            }));
            all
        }
        _ => Vec::new(),
    }
}

/// Time constants of the fill after a step.
const AFTER_STEP: [f64; 6] = [0.03, 0.055, 0.1, 0.17, 0.3, 0.5];

/// A step and a fill, with the step where the best steps of other families are: with little noise a grid of places
/// misses it by so much that no neighbour is tried.
pub fn steps_with_fills(fit: &Fit) -> Shapes {
    let mut out = Shapes::default();
    let mut places: Vec<f64> = Vec::new();
    for family in [Family::Step, Family::StepLine, Family::Steps] {
        let of = fit.candidates.iter().filter(|c| c.family == family);
        let Some(best) = of.max_by(|a, b| a.ln_weight.total_cmp(&b.ln_weight)) else {
            continue;
        };
        let largest = best
            .steps
            .iter()
            .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        places.extend(largest.map(|step| step.0));
    }
    places.sort_by(f64::total_cmp);
    places.dedup();
    for at in places {
        for tau in AFTER_STEP {
            out.add(Family::StepFill, &[Basis::Step(at), Basis::Fill { tau }]);
        }
    }
    // Each stands for one place of some sixty.
    let prior = Family::StepFill.prior_ln() - (60.0 * AFTER_STEP.len() as f64).ln();
    for shape in &mut out.shapes {
        shape.prior_ln = prior;
    }
    out
}

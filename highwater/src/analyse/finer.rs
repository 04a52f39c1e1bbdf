//! A second look between the grid points. When noise is small, the nearest time constant of a coarse grid
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

/// Neighbours of the best shape of every family that may still win.
pub fn finer(fit: &Fit) -> Shapes {
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
            neighbours(candidate, &mut fine);
        }
    }
    fine
}

fn neighbours(shape: &Candidate, fine: &mut Shapes) {
    let parts: Vec<Basis> = shape.parts.iter().flatten().copied().collect();
    let variants: Vec<Vec<Basis>> = (0..parts.len())
        .map(|i| {
            // The knot of a broken line is shared by both of its columns.
            let shared = shape.family == Family::Broken;
            if shared && i > 0 {
                Vec::new()
            } else {
                varied(parts[i])
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

fn varied(basis: Basis) -> Vec<Basis> {
    let knot = |x: f64, make: fn(f64) -> Basis| -> Vec<Basis> {
        SHIFTS
            .iter()
            .map(|s| x + s)
            .filter(|x| (0.02..0.97).contains(x))
            .map(make)
            .collect()
    };
    match basis {
        Basis::Power(p) if p != 1.0 => [0.85, 0.92, 1.08, 1.16]
            .iter()
            .map(|f| Basis::Power(p * f))
            .collect(),
        Basis::Log(t0) => [0.5, 0.7, 1.4, 2.0]
            .iter()
            .map(|f| Basis::Log(t0 * f))
            .collect(),
        Basis::Runaway(rate) => [0.8, 0.9, 1.1, 1.25]
            .iter()
            .map(|f| Basis::Runaway(rate * f))
            .collect(),
        Basis::Saturation { half } => FACTORS
            .iter()
            .map(|f| Basis::Saturation { half: half * f })
            .collect(),
        Basis::Fill { tau } => FACTORS
            .iter()
            .map(|f| Basis::Fill { tau: tau * f })
            .collect(),
        Basis::LateFill { from, tau } => {
            let mut all: Vec<Basis> = [-0.06, -0.03, -0.015, 0.015, 0.03, 0.06]
                .into_iter()
                .map(|s| from + s)
                .filter(|x| (0.02..0.95).contains(x))
                .map(|from| Basis::LateFill { from, tau })
                .collect();
            all.extend([0.7, 0.85, 1.18, 1.4].map(|f| Basis::LateFill { from, tau: tau * f }));
            all
        }
        Basis::Step(at) => knot(at, Basis::Step),
        Basis::Hinge(from) => knot(from, Basis::Hinge),
        Basis::Ramp(to) => knot(to, Basis::Ramp),
        Basis::Logistic { mid, width } => {
            let mut all: Vec<Basis> = [-0.06, -0.03, -0.015, 0.015, 0.03, 0.06]
                .map(|s| Basis::Logistic {
                    mid: mid + s,
                    width,
                })
                .to_vec();
            all.extend([0.75, 1.33].map(|f| Basis::Logistic {
                mid,
                width: width * f,
            }));
            all
        }
        _ => Vec::new(),
    }
}

//! The candidates that are staircases of several steps.

use statrs::function::gamma::ln_gamma;

use super::fit::{Candidate, FORGET_LN, Fit, Norms};
use super::linear::{Guess, dot};
use super::shapes::{Basis, Bounded, COLUMNS_MAX, Family, Shapes};
use super::solve::{Prepared, Solved};
use super::stairs::{Products, STEPS_MAX, Stair, stairs};

/// Two to [`STEPS_MAX`] steps at once, by greedy choice and exchange over the step columns.
pub(super) fn staircases(
    fit: &mut Fit,
    ready: &Prepared,
    norms: &Norms,
    (shapes, places): (&Shapes, &[usize]),
    (noise, base): (usize, f64),
) {
    let Some(columns) = shapes.stairs.clone() else {
        return;
    };
    let count = columns.len() as f64;
    let steps = &places[columns.clone()];
    let (own, with_y) = steps.iter().map(|at| ready.products(*at)).unzip();
    let with_all = |step: usize| ready.whitened.products(steps[step], steps);
    let products = Products::of(&with_all, own, with_y, dot(&ready.y, &ready.y));
    for stair in stairs(products, ready.y.len(), STEPS_MAX) {
        let width = stair.at.len();
        let solved = Solved {
            width,
            rss: stair.rss,
            logdet: stair.logdet,
            ..Solved::default()
        };
        let Some((ln_ml, sigma2, df)) = norms.marginal(ready, &solved) else {
            continue;
        };
        let k = width as f64;
        let ways_ln = ln_gamma(count + 1.0) - ln_gamma(k + 1.0) - ln_gamma(count - k + 1.0);
        // A neighbour of each step does nearly as well: about two places each are summed by the best.
        let prior = Family::Steps.prior_ln() - ((STEPS_MAX - 1) as f64).ln() - ways_ln
            + k * std::f64::consts::LN_2;
        let ln_weight = base + prior + ln_ml;
        if ln_weight < fit.ln_evidence - FORGET_LN {
            continue;
        }
        fit.saw(noise, ln_weight);
        fit.candidates.push(stair_candidate(
            ready,
            (shapes, places),
            &stair,
            columns.start,
            Fitted {
                noise,
                ln_weight,
                sigma2,
                df,
            },
        ));
    }
}

/// What goes and comes back within this share of the window is an excursion, not a shift of level.
const EXCURSION: f64 = 0.05;

/// What is left of an excursion that is over, at most, as a share of its height ...
const LEFT: f64 = 0.3;
/// ... and how long it lasts at most, in windows.
const PASSING: f64 = 0.08;

/// When the level went away and came back: two steps, one after the other.
fn excursions(steps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let passing = |w: &&[(f64, f64)]| {
        let (away, back) = (w[0].1, w[1].1);
        let over = (away + back).abs() < LEFT * away.abs().max(back.abs());
        over && w[1].0 - w[0].0 < PASSING
    };
    let pairs = steps.windows(2).filter(passing);
    pairs.map(|w| (w[0].0, w[1].0)).collect()
}

/// The shifts that last: steps that follow each other at once count by what is left of them together. With each,
/// how many of its steps go upwards without one that goes down.
fn lasting(steps: &[(f64, f64)]) -> Vec<((f64, f64), usize)> {
    let mut out: Vec<((f64, f64), usize)> = Vec::new();
    let mut began = f64::NEG_INFINITY;
    for &(at, by) in steps {
        let up = by > 0.0;
        match out.last_mut() {
            Some((last, ups)) if at - began < EXCURSION => {
                last.1 += by;
                *ups = if up { *ups + 1 } else { 0 };
            }
            _ => {
                began = at;
                out.push(((at, by), usize::from(up)));
            }
        }
    }
    out
}

/// A step has two sides; where this many in one direction follow each other at once, the rise is not sudden ...
const BENT_STEPS: usize = 3;
/// ... if it is this share of all rises.
const BENT_SHARE: f64 = 0.5;

/// Whether most of what rises does so in so many steps at once that it bends.
fn bends(shifts: &[((f64, f64), usize)]) -> bool {
    let all: f64 = shifts.iter().map(|(step, _)| step.1.max(0.0)).sum();
    let many = |(step, ups): &((f64, f64), usize)| *ups >= BENT_STEPS && step.1 >= BENT_SHARE * all;
    shifts.iter().any(many)
}

/// The next step is overdue when the last is longer ago than this many times the longest rest before it.
const NOT_LATE: f64 = 1.0;

/// As many steps as are tried, all upwards, the next not overdue.
fn in_portions(steps: &[(f64, f64)]) -> bool {
    let rests = steps.windows(2).map(|w| w[1].0 - w[0].0);
    let longest = rests.fold(0.0, f64::max);
    let now = steps.last().map_or(1.0, |last| 1.0 - last.0);
    steps.len() >= STEPS_MAX && steps.iter().all(|s| s.1 > 0.0) && now < NOT_LATE * longest
}

/// What came of one staircase under one noise.
pub(super) struct Fitted {
    pub noise: usize,
    pub ln_weight: f64,
    pub sigma2: f64,
    pub df: f64,
}

pub(super) fn stair_candidate(
    ready: &Prepared,
    (shapes, places): (&Shapes, &[usize]),
    stair: &Stair,
    first: usize,
    f: Fitted,
) -> Candidate {
    let zeros = stair.at.iter().zip(&stair.beta);
    let end = ready.y0
        + zeros
            .clone()
            .map(|(k, b)| b * (1.0 - ready.whitened.c0(places[first + k])))
            .sum::<f64>();
    let place = |k: &usize| match shapes.columns[first + k] {
        Basis::Step(x) => x,
        _ => 0.0,
    };
    let mut raw: Vec<(f64, f64)> = zeros.clone().map(|(k, b)| (place(k), *b)).collect();
    raw.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shifts = lasting(&raw);
    let bends = bends(&shifts);
    let steps: Vec<(f64, f64)> = shifts.into_iter().map(|(step, _)| step).collect();
    let largest = steps
        .iter()
        .map(|s| s.1)
        .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
    Candidate {
        family: Family::Steps,
        bounded: Bounded::Step,
        parts: [None; COLUMNS_MAX],
        prior_ln: 0.0,
        noise: f.noise,
        ln_weight: f.ln_weight,
        df: f.df,
        growth: Guess::default(),
        rise: Guess {
            mean: largest,
            se: (f.sigma2 * stair.variance).sqrt(),
        },
        bend: bends.then_some(Guess {
            mean: largest,
            se: (f.sigma2 * stair.variance).sqrt(),
        }),
        slope: Guess::default(),
        slope_fifth: Guess::default(),
        end: Guess {
            mean: end,
            se: (f.sigma2 * (ready.var0 + stair.variance)).sqrt(),
        },
        limit: Some(Guess {
            mean: end,
            se: (f.sigma2 * (ready.var0 + stair.variance)).sqrt(),
        }),
        excursions: excursions(&raw),
        portions: in_portions(&steps) && !bends,
        sawtooth: None,
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_soon_is_an_excursion_and_what_stays_or_lasts_is_none() {
        assert_eq!(excursions(&[(0.5, 0.4), (0.55, -0.38)]), [(0.5, 0.55)]);
        assert!(excursions(&[(0.5, 0.4), (0.55, -0.2)]).is_empty());
        assert!(excursions(&[(0.5, 0.4), (0.6, -0.4)]).is_empty());
        assert!(excursions(&[(0.5, 0.4), (0.55, 0.4)]).is_empty());
    }

    #[test]
    fn a_dip_is_no_shift_and_a_step_beside_it_is() {
        let close = |a: &[(f64, f64)], b: &[(f64, f64)]| {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(x, y)| x.0 == y.0 && (x.1 - y.1).abs() < 1e-12)
        };
        let of = |steps: &[(f64, f64)]| -> Vec<(f64, f64)> {
            lasting(steps).into_iter().map(|(step, _)| step).collect()
        };
        let dip = of(&[(0.5, -0.31), (0.52, 0.3)]);
        assert!(close(&dip, &[(0.5, -0.01)]), "{dip:?}");
        let long = [(0.2, 0.3), (0.4, -0.3), (0.8, 0.5)];
        assert!(close(&of(&long), &long) && !bends(&lasting(&long)));
        let bent = [(0.2, 0.3), (0.22, 0.2), (0.24, 0.1), (0.7, -0.1)];
        assert!(bends(&lasting(&bent)) && close(&of(&bent), &[(0.2, 0.6), (0.7, -0.1)]));
    }

    #[test]
    fn steps_in_numbers_are_portions_until_one_is_overdue() {
        let at = |places: [f64; 5]| places.map(|x| (x, 0.1 + x));
        assert!(in_portions(&at([0.1, 0.3, 0.4, 0.7, 0.8])));
        assert!(!in_portions(&at([0.1, 0.15, 0.2, 0.3, 0.4])));
        assert!(!in_portions(&[(0.3, 0.1), (0.7, 0.2)]));
    }
}

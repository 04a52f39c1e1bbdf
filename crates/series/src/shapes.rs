//! The shapes a memory curve can have, as columns of a least-squares fit, each with what it means for
//! the future: does it go on, bend, or stand still between steps?
//!
//! The clock `x` runs from 0 (the incarnation began) to 1 (the longest uptime seen). Every basis is 0 at 0
//! and, where it moves inside the window, 1 at 1, so that coefficients are rises in the unit of the values.

use std::f64::consts::TAU;

pub use super::basis::Basis;

/// What the bounded part of a shape is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bounded {
    /// None: the shape only grows, or only stands still.
    None,
    /// A fill whose bend is inside the window.
    Fill,
    /// A fill whose bend is not: it may yet be a leak or a plateau.
    Open,
    /// Shifts of level.
    Step,
    /// Part of a daily cycle.
    Day,
}

/// Names of the families, for evidence and priors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    Constant,
    Line,
    Power,
    Log,
    Fill,
    Saturation,
    FillLine,
    Hinge,
    Broken,
    Ramp,
    Logistic,
    Step,
    Steps,
    StepLine,
    StepFill,
    FillHinge,
    LateFill,
    TwoFills,
    Day,
    DayLine,
    DayFill,
    StepsLine,
    Ladder,
}

impl Family {
    /// The word used as a key of the evidence.
    pub fn word(self) -> &'static str {
        match self {
            Family::Constant => "constant",
            Family::Line => "line",
            Family::Power => "power",
            Family::Log => "log",
            Family::Fill => "fill",
            Family::Saturation => "saturation",
            Family::FillLine => "fill_line",
            Family::Hinge => "hinge",
            Family::Broken => "broken_line",
            Family::Ramp => "ramp",
            Family::Logistic => "logistic",
            Family::Step => "step",
            Family::Steps => "steps",
            Family::StepLine => "step_line",
            Family::StepFill => "step_fill",
            Family::FillHinge => "fill_hinge",
            Family::LateFill => "late_fill",
            Family::TwoFills => "two_fills",
            Family::Day => "day",
            Family::DayLine => "day_line",
            Family::DayFill => "day_fill",
            Family::StepsLine => "steps_line",
            Family::Ladder => "ladder",
        }
    }

    /// Log of the prior weight. Chosen so that labels start about even (flat 0.25, growing 0.35, plateauing 0.25,
    /// stepped 0.15): the data must decide.
    pub fn prior_ln(self) -> f64 {
        self.prior().ln()
    }

    fn prior(self) -> f64 {
        match self {
            Family::Constant => 0.22,
            Family::Line => 0.14,
            Family::Power => 0.06,
            Family::Log => 0.05,
            Family::Fill => 0.14,
            Family::Saturation => 0.03,
            Family::FillLine => 0.05,
            Family::Hinge => 0.05,
            Family::Broken => 0.02,
            Family::Ramp => 0.015,
            Family::Logistic => 0.03,
            Family::Step => 0.08,
            Family::Steps => 0.04,
            Family::StepLine => 0.04,
            Family::StepFill => 0.01,
            Family::FillHinge => 0.015,
            Family::LateFill => 0.02,
            Family::TwoFills => 0.03,
            Family::Day => 0.05,
            Family::DayLine => 0.06,
            Family::DayFill => 0.03,
            Family::StepsLine => 0.01,
            Family::Ladder => 0.03,
        }
    }
}

/// How many families there are.
pub const FAMILIES: usize = Family::Ladder as usize + 1;

/// Columns of one candidate, at most this many besides the nuisance.
pub const COLUMNS_MAX: usize = 3;

/// One candidate curve with its shape numbers fixed.
#[derive(Debug, Clone)]
pub struct Shape {
    pub family: Family,
    pub bounded: Bounded,
    /// Indices into [`Shapes::columns`].
    pub columns: [usize; COLUMNS_MAX],
    pub width: usize,
    pub prior_ln: f64,
}

/// The candidates for one window.
#[derive(Debug, Clone, Default)]
pub struct Shapes {
    pub columns: Vec<Basis>,
    pub shapes: Vec<Shape>,
    /// The columns of single steps, when staircases are to be tried too.
    pub stairs: Option<std::ops::Range<usize>>,
}

/// A fill whose time constant is below this share of the window has bent inside it (95 % of the way
/// takes three time constants; at 0.7 three quarters of the rise is seen).
pub const BENT: f64 = 0.7;
/// The same for a saturation, whose tail is longer: at 0.08 it is 7 % short of its asymptote.
pub const BENT_HALF: f64 = 0.1;

impl Shapes {
    fn column(&mut self, basis: Basis) -> usize {
        if let Some(i) = self.columns.iter().position(|b| *b == basis) {
            return i;
        }
        self.columns.push(basis);
        self.columns.len() - 1
    }

    /// Adds one candidate; what its bounded part is follows from its columns.
    pub fn add(&mut self, family: Family, parts: &[Basis]) {
        let bounded = bounded_of(family, parts);
        let mut columns = [0; COLUMNS_MAX];
        for (slot, basis) in columns.iter_mut().zip(parts) {
            *slot = self.column(*basis);
        }
        let width = parts.len();
        self.shapes.push(Shape {
            family,
            bounded,
            columns,
            width,
            prior_ln: 0.0,
        });
    }

    /// The columns of one shape.
    pub fn parts(&self, shape: &Shape) -> [Option<Basis>; COLUMNS_MAX] {
        let mut parts = [None; COLUMNS_MAX];
        for (part, column) in parts.iter_mut().zip(&shape.columns[..shape.width]) {
            *part = Some(self.columns[*column]);
        }
        parts
    }

    /// About a third of the candidates of every family, with the same weight in sum.
    pub fn sparse(&self) -> Shapes {
        let mut thin = Shapes::default();
        let mut places = vec![None; self.columns.len()];
        let mut seen = [0usize; FAMILIES];
        for shape in &self.shapes {
            let count = &mut seen[shape.family as usize];
            *count += 1;
            // Two-column families with a step are what costs most and decides least here.
            let every = match shape.family {
                Family::StepLine | Family::StepFill | Family::TwoFills | Family::FillHinge => 7,
                Family::Line | Family::Constant | Family::Day | Family::DayLine => 1,
                Family::Step => 2,
                _ => 3,
            };
            if *count % every == every / 2 || every == 1 {
                let mut kept = shape.clone();
                for column in &mut kept.columns[..shape.width] {
                    let new = places[*column].get_or_insert_with(|| {
                        thin.columns.push(self.columns[*column]);
                        thin.columns.len() - 1
                    });
                    *column = *new;
                }
                thin.shapes.push(kept);
            }
        }
        thin.spread_priors();
        thin
    }

    fn spread_priors(&mut self) {
        let mut counts = [0.0; FAMILIES];
        for s in &self.shapes {
            counts[s.family as usize] += 1.0;
        }
        for s in &mut self.shapes {
            s.prior_ln = (s.family.prior() / counts[s.family as usize]).ln();
        }
    }
}

/// Whether a curve has bent inside the window, by the last of its parts.
fn bounded_of(family: Family, parts: &[Basis]) -> Bounded {
    let bent = |inside: bool| if inside { Bounded::Fill } else { Bounded::Open };
    match (family, parts) {
        (Family::Day | Family::DayLine, _) => Bounded::Day,
        (_, [Basis::Step(_), ..]) => Bounded::Step,
        (Family::FillLine | Family::FillHinge | Family::Broken, _) => Bounded::Fill,
        (_, [Basis::Saturation { half }]) => bent(*half < BENT_HALF),
        (_, [.., Basis::Fill { tau }]) => bent(*tau < BENT),
        (_, [.., Basis::LateFill { from, tau }]) => bent(*tau < BENT * (1.0 - from)),
        (_, [.., Basis::Ramp(to)]) => bent(*to <= 0.88),
        (_, [.., Basis::Logistic { mid, width }]) => bent(mid + 1.5 * width < 0.9),
        _ => Bounded::None,
    }
}

/// Time constants from a hundredth of the window to three windows.
const TAUS: [f64; 11] = [
    0.012, 0.025, 0.045, 0.075, 0.12, 0.19, 0.3, 0.45, 0.64, 1.2, 2.5,
];
/// Beside what goes on. A start that is over within the first of 64 bins is one too: left to slower fills, it hides a
/// leak in noise with a memory.
const SHORT_TAUS: [f64; 7] = [0.006, 0.012, 0.025, 0.055, 0.11, 0.2, 0.36];
/// Beside part of a day's cycle.
const DAY_TAUS: [f64; 4] = [0.08, 0.2, 0.45, 1.2];
const KNOTS: [f64; 9] = [0.08, 0.2, 0.32, 0.44, 0.56, 0.66, 0.76, 0.86, 0.93];

/// The candidates that do not depend on the window; made once.
static TIMELESS: std::sync::LazyLock<Shapes> = std::sync::LazyLock::new(|| {
    let mut all = Shapes::default();
    all.add(Family::Constant, &[]);
    growing_shapes(&mut all);
    filling_shapes(&mut all);
    late_shapes(&mut all);
    all
});

/// A few candidates, for a handful of points (the floors of a saw): more would leave nothing to decide.
pub fn simple_shapes() -> Shapes {
    let mut all = Shapes::default();
    all.add(Family::Constant, &[]);
    all.add(Family::Line, &[Basis::Power(1.0)]);
    all.add(Family::Power, &[Basis::Power(0.5)]);
    for tau in [0.08, 0.2, 0.45] {
        all.add(Family::Fill, &[Basis::Fill { tau }]);
    }
    for from in [0.3, 0.6] {
        all.add(Family::Hinge, &[Basis::Hinge(from)]);
    }
    all.spread_priors();
    all
}

/// All candidates. `steps_at` are the instants between bins at which a step may lie; `day` is the length
/// of a day in windows when part of one could pass for a trend.
pub fn shapes(steps_at: &[f64], day: Option<f64>) -> Shapes {
    let mut all = TIMELESS.clone();
    let line = all.column(Basis::Power(1.0));
    let fills = [0.045, 0.12, 0.3].map(|tau| all.column(Basis::Fill { tau }));
    let first = all.columns.len();
    all.columns
        .extend(steps_at.iter().map(|at| Basis::Step(*at)));
    all.stairs = (steps_at.len() >= 6).then_some(first..all.columns.len());
    let mut push = |family, columns, width| {
        all.shapes.push(Shape {
            family,
            bounded: Bounded::Step,
            columns,
            width,
            prior_ln: 0.0,
        });
    };
    for i in 0..steps_at.len() {
        push(Family::Step, [first + i, 0, 0], 1);
        push(Family::StepLine, [first + i, line, 0], 2);
        if i % 4 == 0 {
            for fill in fills {
                push(Family::StepFill, [first + i, fill, 0], 2);
            }
        }
    }
    if let Some(length) = day {
        let omega = TAU / length;
        let (sine, cosine) = (Basis::Sine(omega), Basis::Cosine(omega));
        all.add(Family::Day, &[sine, cosine]);
        all.add(Family::DayLine, &[sine, cosine, Basis::Power(1.0)]);
        for tau in DAY_TAUS {
            all.add(Family::DayFill, &[sine, cosine, Basis::Fill { tau }]);
        }
    }
    all.spread_priors();
    all
}

fn growing_shapes(all: &mut Shapes) {
    all.add(Family::Line, &[Basis::Power(1.0)]);
    for p in [0.25, 0.4, 0.6, 0.8, 1.3, 1.8, 2.8] {
        all.add(Family::Power, &[Basis::Power(p)]);
    }
    for t0 in [0.003, 0.012, 0.05, 0.2, 0.6] {
        all.add(Family::Log, &[Basis::Log(t0)]);
    }
    for rate in [1.5, 3.0, 5.0] {
        all.add(Family::Power, &[Basis::Runaway(rate)]);
    }
    for &from in &KNOTS {
        all.add(Family::Hinge, &[Basis::Hinge(from)]);
        all.add(Family::Broken, &[Basis::Ramp(from), Basis::Hinge(from)]);
    }
}

fn filling_shapes(all: &mut Shapes) {
    for &tau in &TAUS {
        all.add(Family::Fill, &[Basis::Fill { tau }]);
    }
    for half in [0.005, 0.015, 0.04, 0.08, 0.16, 0.35] {
        all.add(Family::Saturation, &[Basis::Saturation { half }]);
    }
    for &tau in &SHORT_TAUS {
        all.add(Family::FillLine, &[Basis::Fill { tau }, Basis::Power(1.0)]);
        for from in [0.3, 0.5, 0.68, 0.84] {
            all.add(
                Family::FillHinge,
                &[Basis::Fill { tau }, Basis::Hinge(from)],
            );
        }
    }
    for &to in &KNOTS {
        all.add(Family::Ramp, &[Basis::Ramp(to)]);
    }
}

fn late_shapes(all: &mut Shapes) {
    for mid in [0.1, 0.22, 0.34, 0.46, 0.58, 0.7, 0.84] {
        for width in [0.03, 0.065, 0.14] {
            all.add(Family::Logistic, &[Basis::Logistic { mid, width }]);
        }
    }
    for from in [0.1, 0.22, 0.34, 0.46, 0.58, 0.7, 0.82] {
        for tau in [0.03, 0.08, 0.2] {
            let late = Basis::LateFill { from, tau };
            all.add(Family::LateFill, &[late]);
            for early in [0.03, 0.1] {
                if from > 0.15 {
                    all.add(Family::TwoFills, &[Basis::Fill { tau: early }, late]);
                }
            }
        }
    }
}

/// Linear functionals of the coefficients of a shape.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contrasts {
    /// Rise over the window of the part that has no bound.
    pub growth: [f64; COLUMNS_MAX],
    /// Rise (or fall) over the window of the bounded part.
    pub rise: [f64; COLUMNS_MAX],
    /// Slope at the end, per window.
    pub slope: [f64; COLUMNS_MAX],
    /// Slope over the last fifth, per window.
    pub slope_fifth: [f64; COLUMNS_MAX],
    /// Value at the end of the window.
    pub end: [f64; COLUMNS_MAX],
    /// Value in the end of time; `None` where a part has no bound.
    pub limit: Option<[f64; COLUMNS_MAX]>,
}

/// "Slope at the end" is anything between the derivative (over this last stretch, in windows) ...
const END_STRETCH: f64 = 0.03;
/// ... and the mean slope over the last fifth.
const LAST_FIFTH: f64 = 0.2;

impl Shapes {
    /// What a shape says at `now` (the current uptime, in windows).
    pub fn contrasts(&self, shape: &Shape, now: f64) -> Contrasts {
        let mut c = Contrasts {
            limit: Some([0.0; COLUMNS_MAX]),
            ..Contrasts::default()
        };
        for j in 0..shape.width {
            let basis = self.columns[shape.columns[j]];
            let turns = matches!(basis, Basis::Sine(_) | Basis::Cosine(_));
            if basis.unbounded() {
                // After a ramp only the second slope counts, carried over the whole window.
                c.growth[j] = match (shape.family, basis) {
                    (Family::Broken, Basis::Hinge(from)) => 1.0 / (1.0 - from),
                    _ => basis.pace().unwrap_or(1.0),
                };
                c.limit = None;
            } else {
                c.rise[j] = if turns { 0.0 } else { 1.0 };
                if let Some(limit) = &mut c.limit {
                    limit[j] = basis.at_infinity();
                }
            }
            // Where in its cycle it stands is no trend.
            if !turns && (shape.bounded != Bounded::Step || basis.unbounded()) {
                let mean = |stretch: f64| (basis.at(now) - basis.at(now - stretch)) / stretch;
                (c.slope[j], c.slope_fifth[j]) = match basis.pace() {
                    Some(pace) => (pace, pace),
                    None => (mean(END_STRETCH), mean(LAST_FIFTH)),
                };
            }
            c.end[j] = basis.at(now);
        }
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_basis_starts_at_zero_and_rises_to_one() {
        let all = shapes(&[0.3, 0.6], None);
        for basis in &all.columns {
            assert!(basis.at(0.0).abs() < 1e-9, "{basis:?}");
            assert!(
                (basis.at(1.0) - 1.0).abs() < 1e-9,
                "{basis:?} {}",
                basis.at(1.0)
            );
            assert!(basis.at_infinity() >= 1.0 - 1e-12, "{basis:?}");
        }
    }

    #[test]
    fn priors_add_up() {
        let all = shapes(&[0.5], Some(1.5));
        let sum: f64 = all.shapes.iter().map(|s| s.prior_ln.exp()).sum();
        assert!((sum - 1.0).abs() < 0.15, "{sum}");
    }
}

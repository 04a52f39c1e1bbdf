//! Which cycles of the load the readings have: the evidence decides.

use super::coarse::{CoarseFit, Cycle, DAY_S, View};
use series::period::{Period, periods};
use series::series::Point;
use series::square::{Square, square};

/// A period must explain this share of the detrended variance to be tried at all.
const PERIOD_SHARE_MIN: f64 = 0.2;
/// Evidence that a cycle must bring: the price of the best of some hundred frequencies, or parts of a turn.
const CYCLE_LN: f64 = 4.0;

/// A cycle shorter than this many bins is not fitted.
const FAST_BINS: f64 = 4.4;
/// Share that a cycle too fast for the bins must explain: noise with a memory explains less at one high
/// frequency.
const FAST_SHARE: f64 = 0.5;

const WEEK_S: f64 = 7.0 * DAY_S;
/// A week is looked for from so many of them on, by its weekends: its length is known beforehand.
const WEEKS_MIN: f64 = 1.4;
/// A length this near to a day or a week is one.
const NEAR: f64 = 0.04;
/// Fewer changes of level are a step, or a level that went and came back.
const EDGES_MIN: usize = 3;
/// Two levels by turns must explain this share of the variance to be tried at all.
const SQUARE_SHARE_MIN: f64 = 0.3;
/// Below this many bins a turn is as well told by waves.
const SQUARE_BINS_MIN: f64 = 7.0;

/// The cycles that the evidence wants, with the widest swing of one, and the coarse fit with them.
pub struct Cycles {
    pub taken: Vec<Cycle>,
    pub swing: f64,
    pub coarse: Option<CoarseFit>,
    /// The best log evidence so far.
    ahead: f64,
}

impl Cycles {
    /// Of what is one life: waves, and two levels by turns.
    pub fn of(points: &[Point], view: &View) -> Cycles {
        let found = periods(points, 2);
        let mut all = Cycles::none(view);
        if found.first().is_some_and(|p| p.share >= PERIOD_SHARE_MIN) {
            found.iter().for_each(|period| all.try_waves(period, view));
        }
        all.try_squares(&found, points, view);
        all
    }

    /// Of what falls suddenly, which waves do not: two levels by turns.
    pub fn square(points: &[Point], view: &View) -> Cycles {
        let mut all = Cycles::none(view);
        all.try_squares(&periods(points, 2), points, view);
        all
    }

    fn none(view: &View) -> Cycles {
        let coarse = CoarseFit::at(view, None);
        Cycles {
            ahead: evidence(&coarse),
            coarse,
            taken: Vec::new(),
            swing: 0.0,
        }
    }

    fn try_squares(&mut self, found: &[Period], points: &[Point], view: &View) {
        for (length_s, known) in lengths(found, points) {
            let fits = length_s >= SQUARE_BINS_MIN * view.width_s;
            let best = fits.then(|| square(view.bins, length_s, known)).flatten();
            if let Some(square) = best {
                self.try_square(square, view);
            }
        }
    }

    fn coarse_fit(&self, taken: &[Cycle], view: &View) -> Option<CoarseFit> {
        let view = View {
            cycles: taken,
            ..view.clone()
        };
        CoarseFit::at(&view, self.coarse.as_ref())
    }

    fn try_waves(&mut self, period: &Period, view: &View) {
        // Medians over a whole cycle have taken a fast one away; its share alone speaks for it.
        let fast = period.length_s < FAST_BINS * view.width_s;
        if fast && period.share <= FAST_SHARE {
            return;
        }
        let mut with = self.taken.clone();
        with.push(Cycle::Waves(period.length_s));
        let here = self.coarse_fit(&with, view);
        if fast || evidence(&here) > self.ahead + CYCLE_LN {
            if !fast {
                self.ahead = evidence(&here);
            }
            (self.taken, self.coarse) = (with, here);
            self.swing = self.swing.max(period.swing);
        }
    }

    /// Tries two levels by turns in place of the waves of that length.
    fn try_square(&mut self, square: Square, view: &View) {
        if square.share < SQUARE_SHARE_MIN || square.edges < EDGES_MIN {
            return;
        }
        let other = |c: &&Cycle| !near(c.length_s(), square.length_s);
        let mut with = vec![Cycle::Square(square)];
        with.extend(self.taken.iter().filter(other));
        let here = self.coarse_fit(&with, view);
        if evidence(&here) > self.ahead + CYCLE_LN {
            self.ahead = evidence(&here);
            (self.taken, self.coarse) = (with, here);
            self.swing = self.swing.max(square.swing);
        }
    }
}

fn evidence(coarse: &Option<CoarseFit>) -> f64 {
    coarse
        .as_ref()
        .map_or(f64::NEG_INFINITY, CoarseFit::ln_evidence)
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < NEAR
}

/// How long a turn of two levels may be: about as the periods that were found, or just a day or a week.
fn lengths(found: &[Period], points: &[Point]) -> Vec<(f64, bool)> {
    let known = |length_s: f64| {
        let calendar = [DAY_S, WEEK_S].into_iter().find(|c| near(length_s, *c));
        calendar.map_or((length_s, false), |c| (c, true))
    };
    let strong = found.iter().filter(|p| p.share >= PERIOD_SHARE_MIN);
    let mut lengths: Vec<(f64, bool)> = strong.map(|p| known(p.length_s)).collect();
    let ends = points.first().zip(points.last());
    let span_s = ends.map_or(0.0, |(first, last)| last.t_s - first.t_s);
    if span_s >= WEEKS_MIN * WEEK_S && !lengths.contains(&(WEEK_S, true)) {
        lengths.push((WEEK_S, true));
    }
    lengths
}

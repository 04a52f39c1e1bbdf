//! Trends: curves over the window, which is 0 to 1 long, in parts of the level.

use crate::dice::Dice;
use crate::family::{Direction, Maybe, Places, Range, Shape, Steps, or};

pub type Curve = Box<dyn Fn(f64) -> f64>;

/// A drawn trend.
pub struct Trend {
    pub parts: Vec<Curve>,
    /// Slope at the end in levels per window; of steps alone, the mean one.
    pub slope: f64,
    /// All parts are straight from one end of the window to the other.
    pub is_line: bool,
}

impl Trend {
    pub fn draw(shapes: &[Shape], days: f64, dice: &mut Dice) -> Trend {
        let parts: Vec<Curve> = shapes.iter().map(|s| curve(s, days, dice)).collect();
        let is_steps = |shape: &Shape| matches!(shape, Shape::Steps(_));
        // In spurts, or by day, the slope at the end is chance: the mean counts.
        let is_uneven = |shape: &Shape| matches!(shape, Shape::Busy { .. } | Shape::Rates { .. });
        let all_steps = shapes.iter().all(is_steps);
        let mut slope = 0.0;
        for (shape, f) in shapes.iter().zip(&parts) {
            slope += match shape {
                _ if is_uneven(shape) || (all_steps && is_steps(shape)) => f(1.0) - f(0.0),
                _ if is_steps(shape) => 0.0,
                _ => (f(1.0) - f(0.98)) / 0.02,
            };
        }
        Trend {
            parts,
            slope,
            is_line: shapes.iter().all(|s| matches!(s, Shape::Line { .. })),
        }
    }

    pub fn at(&self, x: f64) -> f64 {
        self.parts.iter().map(|f| f(x)).sum()
    }
}

fn curve(shape: &Shape, days: f64, dice: &mut Dice) -> Curve {
    match shape {
        Shape::Line { rise, from, to } => {
            let (by, from, to) = (rise.draw(dice), or(from, 0.0, dice), or(to, 1.0, dice));
            Box::new(move |x| by * ((x - from) / (to - from)).clamp(0.0, 1.0))
        }
        Shape::Power {
            rise,
            exponent,
            knee,
        } => {
            let (by, p, k) = (rise.draw(dice), exponent.draw(dice), or(knee, 0.0, dice));
            let base = k.powf(p);
            Box::new(move |x| by * ((x + k).powf(p) - base) / ((1.0 + k).powf(p) - base))
        }
        Shape::Log { rise, near } => {
            let (by, near) = (rise.draw(dice), near.draw(dice));
            Box::new(move |x| by * (x / near).ln_1p() / (1.0 / near).ln_1p())
        }
        Shape::Exponential { rise, rate } => {
            let (by, rate) = (rise.draw(dice), rate.draw(dice));
            Box::new(move |x| by * (rate * x).exp_m1() / rate.exp_m1())
        }
        Shape::Fill {
            rise,
            tau,
            order,
            from,
        } => {
            let (by, tau) = (rise.draw(dice), tau.draw(dice));
            let (order, from) = (or(order, 1.0, dice), or(from, 0.0, dice));
            Box::new(move |x| by * (1.0 - (-((x - from).max(0.0) / tau).powf(order)).exp()))
        }
        Shape::Hyperbola { rise, half, steep } => {
            let (by, half, p) = (rise.draw(dice), half.draw(dice), or(steep, 1.0, dice));
            Box::new(move |x| by * x.powf(p) / (x.powf(p) + half.powf(p)))
        }
        Shape::Sigmoid { rise, mid, width } => {
            let (by, mid, width) = (rise.draw(dice), mid.draw(dice), width.draw(dice));
            Box::new(move |x| by / (1.0 + (-(x - mid) / width).exp()))
        }
        Shape::Steps(spec) => steps(spec, dice),
        Shape::Rates {
            rise,
            count,
            rate,
            rest,
        } => rates(rise.draw(dice), count.count(dice), rate, rest, dice),
        Shape::Busy { rise, busy } => {
            let (by, busy, phase) = (rise.draw(dice), busy.draw(dice), dice.unit());
            let done = move |x: f64| {
                let at = x * days + phase;
                at.floor() * busy + at.fract().min(busy)
            };
            Box::new(move |x| by * (done(x) - done(0.0)) / (done(1.0) - done(0.0)))
        }
    }
}

/// Instants of `count` events in the window.
pub fn places(count: usize, how: Places, dice: &mut Dice) -> Vec<f64> {
    let part = 1.0 / count.max(1) as f64;
    let mut at: Vec<f64> = (0..count)
        .map(|i| match how {
            Places::Spread => part * (i as f64 + dice.between(0.2, 0.8)),
            Places::Even => part * (i as f64 + 0.5),
            Places::Random => dice.between(0.08, 0.9),
            Places::Rarer => 0.02 * 22f64.powf(i as f64 * part) * dice.between(0.9, 1.1),
        })
        .collect();
    at.sort_by(f64::total_cmp);
    at
}

fn steps(spec: &Steps, dice: &mut Dice) -> Curve {
    let at = places(spec.count.count(dice), spec.places, dice);
    let (uneven, shrink) = (or(&spec.uneven, 0.0, dice), or(&spec.shrink, 1.0, dice));
    let mut before = 0.0;
    let sized = |(i, at): (usize, &f64)| {
        let own = (1.0 - uneven) + uneven * dice.exponential();
        let size = own * shrink.powi(i as i32) * or(&spec.size, 1.0, dice);
        let by = match spec.direction {
            Direction::Down => -size,
            Direction::Either if dice.chance(0.5) => -0.5 * size,
            Direction::Alternating if i % 2 == 1 => -0.5 * before,
            Direction::ThereAndBack if i % 2 == 1 => -before,
            _ => size,
        };
        before = by;
        (*at, by)
    };
    let mut stairs: Vec<(f64, f64)> = at.iter().enumerate().map(sized).collect();
    if let Some(rise) = &spec.rise {
        let times = rise.draw(dice) / stairs.iter().map(|s| s.1).sum::<f64>();
        stairs.iter_mut().for_each(|s| s.1 *= times);
    }
    Box::new(move |x| stairs.iter().take_while(|s| s.0 <= x).map(|s| s.1).sum())
}

/// Stretches of the window, each at a rate of its own; with a rest, every second one is idle.
fn rates(by: f64, count: usize, rate: &Range, rest: &Maybe, dice: &mut Dice) -> Curve {
    let idle = or(rest, 0.0, dice);
    let stretch = |i: usize| match (rest, i % 2) {
        (None, _) => (1.0, rate.draw(dice)),
        (Some(_), 0) => ((1.0 - idle) * dice.between(0.4, 1.6), rate.draw(dice)),
        (Some(_), _) => (idle * dice.between(0.4, 1.6), 0.0),
    };
    let stretches: Vec<(f64, f64)> = (0..count).map(stretch).collect();
    let whole: f64 = stretches.iter().map(|s| s.0).sum();
    let done: f64 = stretches.iter().map(|s| s.0 * s.1).sum();
    Box::new(move |x| {
        let mut left = x * whole;
        let mut grown = 0.0;
        for (long, rate) in &stretches {
            grown += rate * left.clamp(0.0, *long);
            left -= long;
        }
        by * grown / done
    })
}

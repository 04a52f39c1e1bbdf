//! Noise of deviation 1 at the readings, and what it leaves to be seen: a curve is whitened by the noise's known
//! covariance, and the distance to its rivals is counted in standard errors.

use crate::dice::Dice;
use crate::family::{Noise, NoiseKind, or};

/// Drawn noise: a slow part (Ornstein-Uhlenbeck) and a fresh one.
pub struct Law {
    tail: Tail,
    /// Share of the slow part in the variance.
    slow: f64,
    /// Autocorrelation of the slow part over one `step`.
    phi: f64,
    step: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Tail {
    Normal,
    Uniform,
    Student,
    Upwards,
    Stretches,
}

impl Law {
    pub fn draw(spec: &Noise, readings: usize, dice: &mut Dice) -> Law {
        let kind = match spec.kind {
            NoiseKind::Any => dice.pick(&[
                NoiseKind::White,
                NoiseKind::White,
                NoiseKind::Heavy,
                NoiseKind::Memory,
                NoiseKind::Memory,
                NoiseKind::Mixed,
            ]),
            known => known,
        };
        let mixed = dice.between(0.3, 0.8);
        let (tail, slow) = match kind {
            NoiseKind::White => (dice.pick(&[Tail::Normal, Tail::Normal, Tail::Uniform]), 0.0),
            NoiseKind::Heavy => (
                dice.pick(&[Tail::Student, Tail::Student, Tail::Upwards]),
                0.0,
            ),
            NoiseKind::Stretches => (Tail::Stretches, 0.0),
            NoiseKind::Mixed => (Tail::Normal, mixed),
            NoiseKind::Memory | NoiseKind::Any => (Tail::Normal, 1.0),
        };
        let n = readings as f64;
        // Evenly on the logarithm of what is forgotten.
        let forgotten = dice.log_between(0.07, 0.7);
        let phi = or(&spec.phi, 1.0 - forgotten, dice);
        let tau = spec.tau.as_ref().map(|tau| tau.draw(dice));
        Law {
            tail,
            slow,
            phi: tau.map_or(phi, |tau| (-1.0 / (n * tau)).exp()),
            step: 1.0 / n,
        }
    }

    /// What the slow part keeps over a wait.
    fn kept(&self, wait: f64) -> f64 {
        self.phi.powf((wait / self.step).max(0.0))
    }

    pub fn at(&self, x: &[f64], dice: &mut Dice) -> Vec<f64> {
        let (mut slow, mut loud, mut last) = (dice.normal(), dice.normal(), x[0]);
        let mut out = Vec::with_capacity(x.len());
        for &at in x {
            let keep = self.kept(at - last);
            last = at;
            slow = keep * slow + (1.0 - keep * keep).sqrt() * dice.normal();
            let fresh = match self.tail {
                Tail::Normal => dice.normal(),
                Tail::Uniform => 12f64.sqrt() * (dice.unit() - 0.5),
                Tail::Student => dice.heavy(),
                Tail::Upwards => dice.exponential() - 1.0,
                Tail::Stretches => {
                    loud = 0.95 * loud + 0.31 * dice.normal();
                    (0.6 * loud - 0.36).exp() * dice.normal()
                }
            };
            out.push(self.slow.sqrt() * slow + (1.0 - self.slow).sqrt() * fresh);
        }
        out
    }

    /// A curve in units in which the noise is white and of deviation 1 (the innovations of a Kalman filter).
    pub fn whiten(&self, x: &[f64], curve: &[f64]) -> Vec<f64> {
        let fresh = (1.0 - self.slow).max(1e-6);
        let (mut expected, mut variance, mut last) = (0.0, self.slow, x[0]);
        let mut out = Vec::with_capacity(x.len());
        for (&at, &value) in x.iter().zip(curve) {
            let keep = self.kept(at - last);
            last = at;
            expected *= keep;
            variance = keep * keep * variance + self.slow * (1.0 - keep * keep);
            let all = variance + fresh;
            let surprise = value - expected;
            out.push(surprise / all.sqrt());
            expected += variance / all * surprise;
            variance -= variance * variance / all;
        }
        out
    }
}

/// Orthonormal axes of curves that explain nothing: levels, loads, rivals.
#[derive(Clone, Default)]
pub struct Space(Vec<Vec<f64>>);

impl Space {
    pub fn with(mut self, curves: impl IntoIterator<Item = Vec<f64>>) -> Space {
        for curve in curves {
            let whole = dot(&curve, &curve);
            let rest = self.rest(curve);
            let power = dot(&rest, &rest);
            if power > 1e-9 * whole {
                self.0.push(rest.iter().map(|v| v / power.sqrt()).collect());
            }
        }
        self
    }

    fn rest(&self, mut curve: Vec<f64>) -> Vec<f64> {
        for axis in &self.0 {
            let share = dot(&curve, axis);
            curve
                .iter_mut()
                .zip(axis)
                .for_each(|(c, a)| *c -= share * a);
        }
        curve
    }

    /// Length of what is left of a curve beside this space.
    pub fn distance(&self, curve: &[f64]) -> f64 {
        let rest = self.rest(curve.to_vec());
        dot(&rest, &rest).sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

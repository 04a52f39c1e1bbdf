//! What is left when the trend is taken away: noise with a memory (Ornstein-Uhlenbeck, which is AR(1)
//! for irregular spacing) plus noise without one, and the filter that makes it white.
//!
//! Whitening is the innovations form of a Kalman filter whose gains do not depend on the data, so one
//! pass serves every column: cost is linear in the number of bins.

use super::lanes::Lanes;

/// One hypothesis on the noise. Variances are shares of the total, so they add up to one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Correlation of the part with a memory between neighbouring bins.
    pub phi: f64,
    /// Share of the variance that has no memory.
    pub white: f64,
    /// Log of the prior weight.
    pub prior_ln: f64,
}

/// How many hypotheses there are.
pub const HYPOTHESES: usize = 9;

/// The hypotheses over which a verdict is averaged: from white to nearly a random walk. With at most
/// 64 bins neighbours are not told apart more finely than this.
pub fn hypotheses() -> Vec<Noise> {
    let mut all = vec![Noise {
        phi: 0.0,
        white: 1.0,
        prior_ln: 0.0,
    }];
    for phi in [0.35, 0.65, 0.82, 0.92, 0.96, 0.985] {
        // A short memory under much white noise is white noise; two mixtures stand for the rest.
        let shares: &[f64] = if phi == 0.82 || phi == 0.96 {
            &[0.0, 0.5]
        } else {
            &[0.0]
        };
        for &white in shares {
            all.push(Noise {
                phi,
                white,
                prior_ln: -(shares.len() as f64).ln(),
            });
        }
    }
    all
}

/// The filter for one hypothesis on one set of bins.
#[derive(Debug, Clone, Default)]
pub struct Whitener {
    gain: Vec<f64>,
    forget: Vec<f64>,
    scale: Vec<f64>,
    /// Log determinant of the correlation matrix.
    pub logdet: f64,
}

impl Whitener {
    /// `gap[i]` is the time from bin `i-1` to `i` in bin widths (infinite where an incarnation begins);
    /// `thin[i]` is how much noisier than usual the memoryless part is (usual count over count).
    pub fn new(noise: &Noise, gap: &[f64], thin: &[f64]) -> Whitener {
        let n = gap.len();
        let mut w = Whitener {
            gain: Vec::with_capacity(n),
            forget: Vec::with_capacity(n),
            scale: Vec::with_capacity(n),
            logdet: 0.0,
        };
        let lasting = 1.0 - noise.white;
        let mut variance = lasting;
        for i in 0..n {
            let forget = if gap[i].is_finite() {
                noise.phi.powf(gap[i].max(0.0))
            } else {
                0.0
            };
            if i > 0 {
                variance = forget * forget * variance + (1.0 - forget * forget) * lasting;
            }
            let total = variance + noise.white * thin[i] + 1e-9;
            let gain = variance / total;
            w.forget.push(if i > 0 { forget } else { 0.0 });
            w.gain.push(gain);
            w.scale.push(1.0 / total.sqrt());
            w.logdet += total.ln();
            variance *= 1.0 - gain;
        }
        w
    }

    /// Whitens a block of columns in place; returns the product of each with itself.
    #[inline(always)]
    pub fn apply_lanes(&self, block: &mut [Lanes]) -> Lanes {
        let (mut state, mut squares) = (Lanes::default(), Lanes::default());
        let steps = self.forget.iter().zip(&self.gain).zip(&self.scale);
        for (row, ((forget, gain), scale)) in block.iter_mut().zip(steps) {
            let ahead = state.times(*forget);
            let surprise = row.minus(ahead);
            let white = surprise.times(*scale);
            state = ahead.plus(surprise.times(*gain));
            squares = squares.plus(white.by(white));
            *row = white;
        }
        squares
    }

    /// Whitens one column into `out`.
    pub fn apply(&self, column: &[f64], out: &mut Vec<f64>) {
        out.clear();
        let mut state = 0.0;
        let steps = self.forget.iter().zip(&self.gain).zip(&self.scale);
        for (value, ((forget, gain), scale)) in column.iter().zip(steps) {
            let ahead = forget * state;
            let surprise = value - ahead;
            out.push(surprise * scale);
            state = ahead + gain * surprise;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_hypotheses_as_are_said() {
        assert_eq!(hypotheses().len(), HYPOTHESES);
    }

    #[test]
    fn an_autoregression_is_whitened_exactly() {
        let noise = Noise {
            phi: 0.8,
            white: 0.0,
            prior_ln: 0.0,
        };
        let w = Whitener::new(&noise, &[1.0; 5], &[1.0; 5]);
        let mut out = Vec::new();
        w.apply(&[1.0, 0.8, 0.64, 2.0, 1.6], &mut out);
        assert!((out[0] - 1.0).abs() < 1e-6 && out[1].abs() < 1e-6 && out[2].abs() < 1e-6);
        assert!((out[3] - (2.0 - 0.512) / 0.6).abs() < 1e-6, "{}", out[3]);
        let independent = (1.0f64 - 0.64).ln() * 4.0;
        assert!((w.logdet - independent).abs() < 1e-6);
    }

    #[test]
    fn the_memory_ends_where_an_incarnation_begins() {
        let noise = Noise {
            phi: 0.9,
            white: 0.0,
            prior_ln: 0.0,
        };
        let w = Whitener::new(&noise, &[1.0, 1.0, f64::INFINITY], &[1.0; 3]);
        let mut out = Vec::new();
        w.apply(&[5.0, 5.0, 1.0], &mut out);
        assert!((out[2] - 1.0).abs() < 1e-6);
    }
}

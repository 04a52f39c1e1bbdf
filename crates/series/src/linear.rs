//! The values that least squares works on: a window of readings, an estimate, the inner product.

/// What is fitted: bins on a clock from 0 to 1, values shifted and scaled to a range of about 1.
#[derive(Debug, Clone, Default)]
pub struct Window {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Time since the bin before, in bin widths; infinite where an incarnation begins.
    pub gap: Vec<f64>,
    /// Usual count of samples over the count of this bin.
    pub thin: Vec<f64>,
    /// Columns present in every candidate besides the intercept.
    pub nuisance: Vec<Vec<f64>>,
    /// Uptime now, on the same clock.
    pub now: f64,
    /// Standard deviation that no residual can be below (quantisation, and no real curve is exact).
    pub floor: f64,
    /// Deviation of the normal prior of a coefficient; 1 is the range of the data.
    pub reach: f64,
}

/// A number and its standard error, in scaled units.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Guess {
    pub mean: f64,
    pub se: f64,
}

/// Inner product with four running sums, so that it is not one long chain of additions.
#[inline(always)]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a4, b4) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a4
        .remainder()
        .iter()
        .zip(b4.remainder())
        .map(|(x, y)| x * y)
        .sum();
    for (x, y) in a4.zip(b4) {
        for k in 0..4 {
            sums[k] += x[k] * y[k];
        }
    }
    sums[0] + sums[1] + sums[2] + sums[3] + rest
}

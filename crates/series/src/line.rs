//! The straight line of least squares.

use super::series::Point;

/// Through the mean of the readings.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub slope: f64,
    /// Standard error of the slope, were the readings independent.
    pub slope_se: f64,
    /// Mean time and mean value.
    pub centre: (f64, f64),
    /// Variance of the readings around the line.
    pub noise2: f64,
    n: f64,
}

impl Line {
    /// `None`: fewer than three readings, or all at one time.
    pub fn of(points: &[Point]) -> Option<Line> {
        let n = points.len() as f64;
        let t0 = points.iter().map(|p| p.t_s).sum::<f64>() / n;
        let y0 = points.iter().map(|p| p.value).sum::<f64>() / n;
        let tt: f64 = points.iter().map(|p| (p.t_s - t0).powi(2)).sum();
        let ty: f64 = points.iter().map(|p| (p.t_s - t0) * (p.value - y0)).sum();
        let yy: f64 = points.iter().map(|p| (p.value - y0).powi(2)).sum();
        let slope = ty / tt;
        let noise2 = (yy - slope * ty).max(0.0) / (n - 2.0);
        (n > 2.0 && tt > 0.0).then_some(Line {
            slope,
            slope_se: (noise2 / tt).sqrt(),
            centre: (t0, y0),
            noise2,
            n,
        })
    }

    /// The line at a time, and its standard error there.
    pub fn at(&self, t_s: f64) -> (f64, f64) {
        let away = t_s - self.centre.0;
        let se2 = self.noise2 / self.n + (self.slope_se * away).powi(2);
        (self.centre.1 + self.slope * away, se2.sqrt())
    }
}

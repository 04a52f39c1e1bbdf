//! Medians in equal stretches of time: most of the noise and of the autocorrelation goes, the cost
//! becomes the same for ten samples and for a million.

use super::order::quantile;
use super::series::Point;

/// More stretches do not sharpen a verdict; the cost of one grows with them.
pub const BINS_MAX: usize = 64;

/// The median of one stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Median time of its samples, seconds on the clock of the series.
    pub t_s: f64,
    /// Seconds since the incarnation began.
    pub uptime_s: f64,
    pub value: f64,
    /// Samples in it.
    pub count: usize,
    /// Which incarnation, from 0.
    pub incarnation: usize,
}

/// Bins of `width_s` over every incarnation; `cuts` are indices at which a new one begins.
/// `births_s` gives the start time of each (first incarnation included).
pub fn bins(points: &[Point], cuts: &[usize], births_s: &[f64], width_s: f64) -> Vec<Bin> {
    let mut out = Vec::new();
    let mut from = 0;
    let ends = cuts.iter().copied().chain([points.len()]);
    for (incarnation, to) in ends.enumerate() {
        let life = &points[from..to];
        from = to;
        let Some(first) = life.first() else { continue };
        let born = births_s.get(incarnation).copied().unwrap_or(first.t_s);
        let stretch = |p: &Point| ((p.t_s - first.t_s) / width_s + 1e-9).floor();
        for group in life.chunk_by(|a, b| stretch(a) == stretch(b)) {
            out.push(median_of(group, born, incarnation));
        }
    }
    out
}

fn median_of(group: &[Point], born_s: f64, incarnation: usize) -> Bin {
    let mut values: Vec<f64> = group.iter().map(|p| p.value).collect();
    let t_s = group.iter().map(|p| p.t_s).sum::<f64>() / group.len() as f64;
    Bin {
        t_s,
        uptime_s: (t_s - born_s).max(0.0),
        value: quantile(&mut values, 0.5),
        count: group.len(),
        incarnation,
    }
}

/// The width that gives at most [`BINS_MAX`] bins over all incarnations together.
pub fn width_for(points: &[Point], cuts: &[usize]) -> f64 {
    let mut alive_s = 0.0;
    let mut from = 0;
    for to in cuts.iter().copied().chain([points.len()]) {
        if to > from {
            alive_s += points[to - 1].t_s - points[from].t_s;
        }
        from = to;
    }
    let lives = cuts.len() + 1;
    let room = BINS_MAX.saturating_sub(lives).max(8) as f64;
    (alive_s / room).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_becomes_few_bins_and_incarnations_are_not_mixed() {
        let points: Vec<Point> = (0..1000)
            .map(|i| Point {
                t_s: f64::from(i),
                value: f64::from(i % 500),
            })
            .collect();
        let b = bins(&points, &[500], &[0.0, 500.0], width_for(&points, &[500]));
        assert!(b.len() <= BINS_MAX, "{}", b.len());
        assert_eq!(b.iter().map(|b| b.count).sum::<usize>(), 1000);
        assert!(
            b.windows(2)
                .all(|w| w[1].incarnation > w[0].incarnation || w[1].value > w[0].value)
        );
        let second = b.iter().find(|b| b.incarnation == 1).unwrap();
        assert!(second.uptime_s < 20.0);
    }
}

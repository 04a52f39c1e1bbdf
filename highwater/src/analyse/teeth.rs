//! A saw: many sudden falls with climbs between them, as collectors and caches make.

use super::bins::Bin;
use super::incarnation::Fall;
use super::order::{mean_sd, median};
use super::series::Point;

/// Fewer falls may be restarts.
pub const TEETH_MIN: usize = 4;

/// The floors of a saw, one per tooth, as bins on the clock of the series. The first reading counts as
/// the floor of the first tooth when it lies as low as the others.
pub fn floors(points: &[Point], falls: &[Fall]) -> Vec<Bin> {
    let height = median(&falls.iter().map(|f| f.peak - f.floor).collect::<Vec<_>>());
    let bin = |t_s: f64, value: f64| Bin {
        t_s,
        uptime_s: t_s - points[0].t_s,
        value,
        count: 1,
        incarnation: 0,
    };
    let mut out = Vec::with_capacity(falls.len() + 1);
    if let (Some(first), Some(fall)) = (points.first(), falls.first())
        && first.value < fall.floor + 0.3 * height
    {
        out.push(bin(first.t_s, first.value));
    }
    out.extend(
        falls
            .iter()
            .map(|f| bin(points[f.after].t_s, points[f.after].value.min(f.floor))),
    );
    out
}

/// Median time between falls, and how uneven it is (deviation over mean).
pub fn rhythm(points: &[Point], falls: &[Fall]) -> Option<(f64, f64)> {
    let between: Vec<f64> = falls
        .windows(2)
        .map(|w| points[w[1].after].t_s - points[w[0].after].t_s)
        .collect();
    let (mean, sd) = mean_sd(&between);
    (between.len() >= 2 && mean > 0.0).then(|| (median(&between), sd / mean))
}

/// A series that is within this share of a tooth of its peaks half of the time has dips, not teeth.
const NEAR_PEAK: f64 = 0.2;

/// Whether what falls comes back at once and stays (reclaim, a short restart of a cache), so that the floors
/// say nothing of what lasts.
pub fn are_dips(points: &[Point], falls: &[Fall]) -> bool {
    let of = |pick: fn(&Fall) -> f64| median(&falls.iter().map(pick).collect::<Vec<_>>());
    let (peak, height) = (of(|f| f.peak), of(|f| f.peak - f.floor));
    let level = median(&points.iter().map(|p| p.value).collect::<Vec<_>>());
    level >= peak - NEAR_PEAK * height
}

/// How far the peaks differ, as a share of the height of a tooth: a collector falls at a threshold, an
/// operator restarts when it suits.
pub fn unevenness(falls: &[Fall]) -> f64 {
    let peaks: Vec<f64> = falls.iter().map(|f| f.peak).collect();
    let height = median(&falls.iter().map(|f| f.peak - f.floor).collect::<Vec<_>>());
    let high = peaks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = peaks.iter().copied().fold(f64::INFINITY, f64::min);
    (high - low) / height
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::incarnation::falls;

    #[test]
    fn dips_are_not_teeth() {
        let of = |value: fn(i32) -> f64| -> Vec<Point> {
            let point = |i| Point {
                t_s: f64::from(i),
                value: value(i),
            };
            (0..200).map(point).collect()
        };
        let dips = of(|i| if i % 40 == 39 { 60.0 } else { 100.0 });
        assert!(are_dips(&dips, &falls(&dips)));
        let saw = of(|i| 50.0 + f64::from(i % 20));
        assert!(!are_dips(&saw, &falls(&saw)));
    }

    #[test]
    fn floors_of_a_saw_and_its_rhythm() {
        let points: Vec<Point> = (0..200)
            .map(|i| Point {
                t_s: f64::from(i),
                value: 50.0 + f64::from(i / 20) + f64::from(i % 20),
            })
            .collect();
        let found = falls(&points);
        let low = floors(&points, &found);
        assert_eq!(low.len(), 10);
        assert_eq!((low[0].value, low[9].value), (50.0, 59.0));
        assert_eq!(rhythm(&points, &found), Some((20.0, 0.0)));
        assert!(unevenness(&found) > 0.4);
    }
}

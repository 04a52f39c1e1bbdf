//! Midmeans in equal stretches of time: most of the noise and of the autocorrelation goes, the cost
//! becomes the same for ten samples and for a million.

use super::order::{median, midmean};
use super::series::Point;

/// More stretches do not sharpen a verdict; the cost of one grows with them.
pub const BINS_MAX: usize = 64;

/// One stretch.
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

/// A move between neighbours of this many usual moves tears the bin that it falls into.
const TEAR_MOVES: f64 = 8.0;
/// And of this share of the range: grain and pages do not tear.
const TEAR_SHARE: f64 = 0.08;

/// Bins of `width_s` over every incarnation; `cuts` are indices at which a new one begins.
/// `births_s` gives the start time of each (first incarnation included).
pub fn bins(points: &[Point], cuts: &[usize], births_s: &[f64], width_s: f64) -> Vec<Bin> {
    let mut out = Vec::new();
    let mut from = 0;
    let tear = tear_of(points);
    let ends = cuts.iter().copied().chain([points.len()]);
    for (incarnation, to) in ends.enumerate() {
        let life = &points[from..to];
        from = to;
        let Some(first) = life.first() else { continue };
        let born = births_s.get(incarnation).copied().unwrap_or(first.t_s);
        let stretch = |p: &Point| ((p.t_s - first.t_s) / width_s + 1e-9).floor();
        for group in life.chunk_by(|a, b| stretch(a) == stretch(b)) {
            out.push(median_of(whole_side(group, tear), born, incarnation));
        }
    }
    out
}

/// The least move between neighbours that tears a bin, in the unit of the values.
fn tear_of(points: &[Point]) -> f64 {
    let moves: Vec<f64> = points
        .windows(2)
        .map(|w| (w[1].value - w[0].value).abs())
        .collect();
    let low = points.iter().map(|p| p.value).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|p| p.value).fold(0.0, f64::max);
    if moves.is_empty() {
        return f64::INFINITY;
    }
    (TEAR_MOVES * median(&moves)).max(TEAR_SHARE * (high - low))
}

/// The longer side of a bin that a step tears: a median over both sides is a level that never was, and
/// makes two steps of one.
fn whole_side(group: &[Point], tear: f64) -> &[Point] {
    let moved = |i: usize| (group[i].value - group[i - 1].value).abs();
    let Some(at) = (1..group.len()).max_by(|&i, &j| moved(i).total_cmp(&moved(j))) else {
        return group;
    };
    match (moved(at) > tear, at > group.len() - at) {
        (false, _) => group,
        (true, true) => &group[..at],
        (true, false) => &group[at..],
    }
}

/// Readings with more distinct values than this are not coarse.
const LEVELS_MAX: usize = 64;

/// The grain of coarse readings: the unit of which all differences are multiples, when there are few
/// distinct values. 0 when there is none.
pub fn grain(points: &[Point]) -> f64 {
    let mut levels: Vec<f64> = Vec::new();
    for p in points {
        let at = levels.partition_point(|l| *l < p.value);
        if levels.get(at) != Some(&p.value) {
            if levels.len() == LEVELS_MAX {
                return 0.0;
            }
            levels.insert(at, p.value);
        }
    }
    let moves = || levels.windows(2).map(|w| w[1] - w[0]);
    let least = moves().fold(f64::INFINITY, f64::min);
    let off = |m: f64| (m / least - (m / least).round()).abs();
    // Equal differences mean a grain. Any pair of numbers has one difference: of two levels it must be a unit
    // in which sizes are told, and divide them.
    let few = 4 * levels.len() <= points.len();
    let unit = |m: f64| m.log2().fract() == 0.0 || m.log10().fract() == 0.0;
    let pair = levels.len() == 2 && unit(least) && off(levels[0]) < 1e-6;
    let whole = levels.len() > 2 || pair;
    if few && whole && moves().all(|m| off(m) < 1e-3) {
        least
    } else {
        0.0
    }
}

fn median_of(group: &[Point], born_s: f64, incarnation: usize) -> Bin {
    let mut values: Vec<f64> = group.iter().map(|p| p.value).collect();
    let t_s = group.iter().map(|p| p.t_s).sum::<f64>() / group.len() as f64;
    Bin {
        t_s,
        uptime_s: (t_s - born_s).max(0.0),
        value: midmean(&mut values),
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
    fn a_step_inside_a_bin_stays_one_step() {
        let points: Vec<Point> = (0..128)
            .map(|i| Point {
                t_s: f64::from(i),
                value: if i < 63 { 10.0 } else { 20.0 } + 0.1 * f64::from(i % 3),
            })
            .collect();
        let b = bins(&points, &[], &[0.0], 2.0);
        assert_eq!(b.len(), 64);
        assert!(b.iter().all(|b| b.value < 10.5 || b.value > 19.5), "{b:?}");
    }

    #[test]
    fn two_levels_of_whole_mebibytes_have_a_grain_and_others_have_none() {
        let of = |low: f64, high: f64| -> Vec<Point> {
            let value = |i| if i < 20 { low } else { high };
            let point = |i| Point {
                t_s: f64::from(i),
                value: value(i),
            };
            (0..40).map(point).collect()
        };
        let mib = 1_048_576.0;
        assert_eq!(grain(&of(20.0 * mib, 21.0 * mib)), mib);
        assert_eq!(grain(&of(20.0 * mib, 23.0 * mib)), 0.0);
        assert_eq!(grain(&of(20.5 * mib, 21.5 * mib)), 0.0);
    }

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

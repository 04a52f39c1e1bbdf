//! Where a process was born again: a restart or an OOM kill starts a new clock.

use super::order::{median, nth, quantile};
use super::series::Point;

/// A fall of this share of the whole range, within two readings, may be a new incarnation.
pub const FALL_SHARE: f64 = 0.35;
/// Also it must be this share of the level before it, or noise on a flat line would fall too.
const FALL_LEVEL_SHARE: f64 = 0.08;
/// And this many typical moves between neighbours.
const FALL_MOVES: f64 = 8.0;
/// Of teeth a few readings long, this many.
const TOOTH_MOVES: f64 = 2.5;

/// One sudden fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fall {
    /// Index of the first reading after the fall.
    pub after: usize,
    /// The value before and after, in the unit of the series.
    pub peak: f64,
    pub floor: f64,
}

/// Sudden falls of a series that is in order. Cost is linear.
///
/// Short teeth make large moves usual, so a smaller multiple of the usual move also counts when falls
/// are sudden and rises are not: noise has as many of both.
pub fn falls(points: &[Point]) -> Vec<Fall> {
    if points.len() < 4 {
        return Vec::new();
    }
    let mut values: Vec<f64> = points.iter().map(|p| p.value).collect();
    let high = quantile(&mut values, 0.99);
    let lowest = (values.len() - 1) / 100;
    let range = high - nth(&mut values, lowest);
    let moves: Vec<f64> = points
        .windows(2)
        .map(|w| (w[1].value - w[0].value).abs())
        .collect();
    let usual = median(&moves);
    let mut sure = falls_of(points, (FALL_SHARE * range).max(FALL_MOVES * usual));
    sure.retain(|f| lasts(points, f));
    let bar = (FALL_SHARE * range).max(TOOTH_MOVES * usual);
    let teeth = falls_of(points, bar);
    let one_sided = teeth.len() >= 4 && 4 * sudden_rises(points, bar) <= teeth.len();
    if one_sided { teeth } else { sure }
}

/// A fall that lasts: the readings after it are lower than those before by a quarter of it. Noise with a
/// heavy tail comes back at once.
fn lasts(points: &[Point], fall: &Fall) -> bool {
    let near = |from: usize, to: usize| {
        median(&points[from..to].iter().map(|p| p.value).collect::<Vec<_>>())
    };
    let before = near(fall.after.saturating_sub(5), fall.after);
    let after = near(fall.after, (fall.after + 5).min(points.len()));
    before - after >= 0.25 * (fall.peak - fall.floor)
}

/// Whether a climb leads to or from a fall, of at least this share of it: what a restart undoes is growth,
/// and a step down comes out of a level.
const CLIMB_SHARE: f64 = 0.4;

/// Falls as restarts: each must follow or precede a climb of its own size.
pub fn climbs_around(points: &[Point], falls: &[Fall]) -> bool {
    let cuts: Vec<usize> = falls.iter().map(|f| f.after).collect();
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([points.len()]);
    let climbs: Vec<f64> = begins
        .zip(ends)
        .map(|(from, to)| climb(&points[from..to]))
        .collect();
    falls
        .iter()
        .enumerate()
        .all(|(i, f)| climbs[i].max(climbs[i + 1]) >= CLIMB_SHARE * (f.peak - f.floor))
}

fn climb(life: &[Point]) -> f64 {
    let fifth = life.len().div_ceil(5).min(life.len());
    let of = |part: &[Point]| median(&part.iter().map(|p| p.value).collect::<Vec<_>>());
    of(&life[life.len() - fifth..]) - of(&life[..fifth])
}

fn sudden_rises(points: &[Point], bar: f64) -> usize {
    points
        .windows(2)
        .filter(|w| w[1].value - w[0].value >= bar)
        .count()
}

fn falls_of(points: &[Point], least: f64) -> Vec<Fall> {
    let mut found: Vec<Fall> = Vec::new();
    let mut i = 0;
    while i + 1 < points.len() {
        let before = points[i].value;
        let reach = (i + 1..=(i + 2).min(points.len() - 1))
            .min_by(|&a, &b| points[a].value.total_cmp(&points[b].value));
        let Some(low) = reach else { break };
        let drop = before - points[low].value;
        if drop >= least.max(FALL_LEVEL_SHARE * before) {
            // Of a fall over two steps the first reading below the middle begins the new life.
            let middle = before - drop / 2.0;
            let after = if points[i + 1].value < middle {
                i + 1
            } else {
                low
            };
            let peak = before.max(points[after - 1].value);
            found.push(Fall {
                after,
                peak,
                floor: points[low].value,
            });
            i = low;
        } else {
            i += 1;
        }
    }
    found
}

/// Indices at which a new incarnation begins, from known restart times (seconds).
pub fn cuts_at(points: &[Point], restarts_s: &[f64]) -> Vec<usize> {
    let mut cuts: Vec<usize> = restarts_s
        .iter()
        .filter(|t| t.is_finite())
        .map(|&t| points.partition_point(|p| p.t_s < t))
        .filter(|&i| i > 0 && i < points.len())
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: impl Iterator<Item = f64>) -> Vec<Point> {
        values
            .enumerate()
            .map(|(i, value)| Point {
                t_s: i as f64,
                value,
            })
            .collect()
    }

    #[test]
    fn falls_of_a_saw_are_found_and_noise_is_not() {
        let saw = line((0..100).map(|i| 100.0 + f64::from(i % 20) * 10.0));
        assert_eq!(
            falls(&saw).iter().map(|f| f.after).collect::<Vec<_>>(),
            [20, 40, 60, 80]
        );
        let noise = line((0..100).map(|i| 100.0 + f64::from(i * i * 7919 % 101) / 8.0));
        assert!(falls(&noise).is_empty());
        assert!(falls(&line((0..9).map(|_| 5.0))).is_empty());
    }

    #[test]
    fn known_restarts_become_cuts_inside_the_window_only() {
        let p = line((0..10).map(f64::from));
        assert_eq!(cuts_at(&p, &[4.5, -3.0, 99.0, 4.6, f64::NAN]), [5]);
    }
}

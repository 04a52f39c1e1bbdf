//! A saw: many sudden falls with climbs between them, as collectors and caches make.

use super::bins::Bin;
use super::fit::ln_sum;
use super::incarnation::Fall;
use super::order::{mean_sd, median, midmean};
use super::series::Point;
use super::student::normal_cdf;

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

/// More floors do not sharpen a verdict: what is worked out for each pair of them would not fit into memory.
pub const FLOORS_MAX: usize = 256;

/// Floors that follow one another in one, so many that [`FLOORS_MAX`] are left; and how many those are.
pub fn gathered(floors: Vec<Bin>) -> (Vec<Bin>, usize) {
    let each = floors.len().div_ceil(FLOORS_MAX).max(1);
    let one = |group: &[Bin]| {
        let mut values: Vec<f64> = group.iter().map(|floor| floor.value).collect();
        Bin {
            value: midmean(&mut values),
            count: group.len(),
            ..group[group.len() / 2]
        }
    };
    match each {
        1 => (floors, 1),
        _ => (floors.chunks(each).map(one).collect(), each),
    }
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

/// Whether most readings between falls lie near the floors: jobs that come and go, not climbs.
pub fn are_bursts(points: &[Point], falls: &[Fall]) -> bool {
    let middle = |w: &[Fall]| {
        let values: Vec<f64> = points[w[0].after..w[1].after]
            .iter()
            .map(|p| p.value)
            .collect();
        (median(&values) - w[0].floor) / (w[1].peak - w[0].floor)
    };
    median(&falls.windows(2).map(middle).collect::<Vec<_>>()) < NEAR_PEAK
}

/// Teeth must make the readings quieter by this share of their variance than one line does: the falls of heavy-tailed
/// noise are outliers, and its readings between them climb nowhere.
const TEETH_SHARE: f64 = 0.3;

/// Whether the readings climb from fall to fall: each climb is a line of its own.
pub fn climb_between(points: &[Point], falls: &[Fall]) -> bool {
    let ends = falls.iter().map(|f| f.after).chain([points.len()]);
    let (mut from, mut squares, mut free) = (0, 0.0, 0.0);
    for to in ends {
        let climb = &points[from..to];
        if climb.len() > 2 {
            squares += off_line(climb);
            free += climb.len() as f64 - 2.0;
        }
        from = to;
    }
    let whole = off_line(points) / (points.len() as f64 - 2.0).max(1.0);
    free <= 0.0 || squares / free < (1.0 - TEETH_SHARE) * whole
}

/// Sum of squares about the best line.
fn off_line(points: &[Point]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (t, y) = (mean(|p| p.t_s), mean(|p| p.value));
    let (mut tt, mut ty, mut yy) = (0.0, 0.0, 0.0);
    for p in points {
        let (dt, dy) = (p.t_s - t, p.value - y);
        tt += dt * dt;
        ty += dt * dy;
        yy += dy * dy;
    }
    (yy - ty * ty / tt.max(f64::MIN_POSITIVE)).max(0.0)
}

/// Spreads of the logarithm of a tooth that a collector's threshold leaves: a fixed size, and thresholds that
/// follow the load. All are as likely.
const SAW_SPREADS: [f64; 4] = [0.02, 0.06, 0.13, 0.25];
/// The same of lives between restarts, which end when it suits somebody.
const LIVES_SPREAD: f64 = 0.6;
/// Odds of a collector against restarts before the heights are seen: one that has one to three teeth in all the
/// readings is slow for a collector.
const SAW_ODDS: f64 = 0.35;

/// Probability that the climbs before these falls were ended by a threshold and not by restarts: a collector
/// falls at about one height, an operator restarts when it suits. `now` is the height of the climb that has
/// not ended. Both kinds are normal on the logarithm of the height, about a height that is not known.
pub fn by_threshold(falls: &[Fall], now: f64) -> f64 {
    let heights: Vec<f64> = falls.iter().map(|f| f.peak - f.floor).collect();
    heights_by_threshold(&heights, now)
}

/// The same, of the heights of falls.
pub fn heights_by_threshold(heights: &[f64], now: f64) -> f64 {
    let logs: Vec<f64> = heights
        .iter()
        .map(|height| height.max(f64::MIN_POSITIVE).ln())
        .collect();
    let (mean, sd) = mean_sd(&logs);
    let free = logs.len().saturating_sub(1) as f64;
    // Logarithms: of some hundred heights the likelihoods themselves are no numbers any more.
    let ln_likely = |spread: f64| {
        let ln_heights = -0.5 * free * (sd / spread).powi(2) - free * spread.ln();
        let wide = spread * (1.0 + 1.0 / (free + 1.0)).sqrt();
        let below = normal_cdf((mean - now.max(f64::MIN_POSITIVE).ln()) / wide);
        ln_heights + below.max(f64::MIN_POSITIVE).ln()
    };
    let ln_saw = ln_sum(SAW_SPREADS.map(ln_likely).into_iter()) - (SAW_SPREADS.len() as f64).ln();
    let ln_odds = SAW_ODDS.ln() + ln_saw - ln_likely(LIVES_SPREAD);
    1.0 / (1.0 + (-ln_odds).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incarnation::falls;

    #[test]
    fn ten_thousand_floors_become_few_and_keep_their_rise() {
        let floor = |at: usize| Bin {
            t_s: at as f64,
            uptime_s: at as f64,
            value: 100.0 + at as f64,
            count: 1,
            incarnation: 0,
        };
        let (few, each) = gathered((0..10_000).map(floor).collect());
        assert_eq!((few.len(), each), (250, 40));
        assert!(
            few.iter()
                .all(|bin| (bin.value - 100.0 - bin.t_s).abs() <= 1.0),
            "{few:?}"
        );
        assert_eq!(few.iter().map(|bin| bin.count).sum::<usize>(), 10_000);
        let (same, each) = gathered((0..FLOORS_MAX).map(floor).collect());
        assert_eq!((same.len(), each), (FLOORS_MAX, 1));
    }

    #[test]
    fn a_thousand_teeth_of_one_height_are_a_saws_as_ten_are() {
        let fall = |at: usize| Fall {
            after: at,
            peak: 100.0 + (at * 7919 % 7) as f64,
            floor: 50.0,
        };
        let of = |count: usize| by_threshold(&(1..=count).map(fall).collect::<Vec<_>>(), 20.0);
        assert!(of(10) > 0.9 && of(1_000) > 0.9, "{} {}", of(10), of(1_000));
        let wild = |at: usize| Fall {
            peak: 50.0 + f64::from(1 + (at * 7919 % 97) as u32),
            ..fall(at)
        };
        let wild = by_threshold(&(1..=1_000).map(wild).collect::<Vec<_>>(), 20.0);
        assert!(wild < 0.1, "{wild}");
    }

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
    fn outliers_downwards_are_not_teeth() {
        let point = |i: i32| Point {
            t_s: f64::from(i),
            value: if i % 50 == 49 {
                80.0
            } else {
                100.0 + f64::from(i * 7919 % 17)
            },
        };
        let points: Vec<Point> = (0..400).map(point).collect();
        let fall = |i: usize| Fall {
            after: i,
            peak: 108.0,
            floor: 80.0,
        };
        let outliers: Vec<Fall> = (49..400).step_by(50).map(fall).collect();
        assert!(!climb_between(&points, &outliers));
        let saw = |i: i32| Point {
            t_s: f64::from(i),
            value: 50.0 + f64::from(i % 20) + f64::from(i * 7919 % 17) / 4.0,
        };
        let points: Vec<Point> = (0..200).map(saw).collect();
        let teeth: Vec<Fall> = (20..200).step_by(20).map(fall).collect();
        assert!(climb_between(&points, &teeth));
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
    }

    #[test]
    fn even_teeth_are_a_threshold_and_uneven_ones_are_restarts() {
        let of = |heights: &[f64]| -> Vec<Fall> {
            let fall = |h: &f64| Fall {
                after: 1,
                peak: 100.0 + h,
                floor: 100.0,
            };
            heights.iter().map(fall).collect()
        };
        assert!(by_threshold(&of(&[50.0, 51.0]), 20.0) > 0.7);
        assert!(by_threshold(&of(&[50.0, 51.0, 49.0]), 20.0) > 0.9);
        assert!(by_threshold(&of(&[50.0, 110.0]), 20.0) < 0.15);
        // A climb that goes on above the last peak was not ended by a threshold there.
        assert!(by_threshold(&of(&[50.0, 51.0]), 120.0) < 0.05);
        let one = by_threshold(&of(&[50.0]), 20.0);
        assert!((0.2..0.35).contains(&one), "{one}");
    }
}

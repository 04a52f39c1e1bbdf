//! The rules that people use, as forecasts of a level: a centre, a deviation, and whether they call it growing.

use series::line::Line;
use series::mixture::{Mixture, Part};
use series::order::{mad, median};
use series::series::Point;

/// What a rule says of the time after the readings.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Of the level; empty of a rule that only calls.
    pub level: Mixture,
    pub grows: bool,
}

/// A rule: the readings, and the seconds after the last one that are asked for.
pub type Rule = fn(&[Point], f64) -> Said;

pub const RULES: [(&str, Rule); 6] = [
    ("stays as it is", stays),
    ("least squares, p < 0.05", least_squares),
    ("predict_linear of the last quarter", predict_linear),
    ("Mann-Kendall, p < 0.05, Sen's slope", mann_kendall),
    ("last fifth over first fifth by 3 %", fifths),
    ("last over first by 10 %", last_over_first),
];

/// A rise that counts, as a share of the level.
pub const RISE: f64 = 0.03;
/// Of a normal distribution.
const BOTH_SIDES: f64 = 1.96;
/// A sum over pairs: more readings are thinned.
const PAIRS_OF: usize = 200;

fn normal(mean: f64, se: f64) -> Mixture {
    Mixture::new(vec![Part {
        weight: 1.0,
        mean,
        se,
        df: 1e3,
    }])
}

/// The last eighth of the readings.
pub fn last_eighth(points: &[Point]) -> Vec<f64> {
    let from = points.len() - points.len().div_ceil(8);
    points[from..].iter().map(|p| p.value).collect()
}

fn stays(points: &[Point], _: f64) -> Said {
    let values = last_eighth(points);
    Said {
        level: normal(median(&values), mad(&values)),
        grows: false,
    }
}

fn of_line(points: &[Point], after_s: f64) -> Said {
    let (Some(line), Some(last)) = (Line::of(points), points.last()) else {
        return Said::default();
    };
    let (mean, se) = line.at(last.t_s + after_s);
    Said {
        level: normal(mean, se),
        grows: line.slope > BOTH_SIDES * line.slope_se,
    }
}

fn least_squares(points: &[Point], after_s: f64) -> Said {
    of_line(points, after_s)
}

/// As in PromQL, over the last quarter of the time.
fn predict_linear(points: &[Point], after_s: f64) -> Said {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Said::default();
    };
    let from_s = last.t_s - 0.25 * (last.t_s - first.t_s);
    let from = points.partition_point(|p| p.t_s < from_s);
    let said = of_line(&points[from..], after_s);
    let rise = said.level.mean() / median(&last_eighth(points)) - 1.0;
    Said {
        grows: rise >= RISE,
        ..said
    }
}

/// Sen's slope with the interval that follows from Kendall's variance (Gilbert 1987, section 16.4).
fn mann_kendall(points: &[Point], after_s: f64) -> Said {
    let thin: Vec<&Point> = points.iter().step_by(points.len() / PAIRS_OF + 1).collect();
    let (Some(last), n) = (points.last(), thin.len() as f64) else {
        return Said::default();
    };
    let (mut sum, mut slopes) = (0.0, Vec::new());
    for (at, one) in thin.iter().enumerate() {
        for other in &thin[at + 1..] {
            let rise = other.value - one.value;
            sum += if rise == 0.0 { 0.0 } else { rise.signum() };
            slopes.push(rise / (other.t_s - one.t_s));
        }
    }
    if slopes.is_empty() {
        return Said::default();
    }
    slopes.sort_by(f64::total_cmp);
    let mut values: Vec<f64> = thin.iter().map(|p| p.value).collect();
    values.sort_by(f64::total_cmp);
    let of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties = values
        .chunk_by(|a, b| a == b)
        .map(|tied| of(tied.len() as f64));
    let deviation = ((of(n) - ties.sum::<f64>()).max(0.0) / 18.0).sqrt();
    let rank = |off: f64| {
        let at = 0.5 * (slopes.len() as f64 + off * BOTH_SIDES * deviation);
        slopes[(at.max(0.0) as usize).min(slopes.len() - 1)]
    };
    let slope = median(&slopes);
    let se = (rank(1.0) - rank(-1.0)) / (2.0 * BOTH_SIDES);
    let left: Vec<f64> = thin.iter().map(|p| p.value - slope * p.t_s).collect();
    let middle_s = median(&thin.iter().map(|p| p.t_s).collect::<Vec<_>>());
    let t_s = last.t_s + after_s;
    Said {
        level: normal(median(&left) + slope * t_s, (se * (t_s - middle_s)).abs()),
        grows: sum > BOTH_SIDES * deviation,
    }
}

fn fifths(points: &[Point], _: f64) -> Said {
    let k = points.len().div_ceil(5);
    let mean = |part: &[Point]| part.iter().map(|p| p.value).sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&points[..k]), mean(&points[points.len() - k..]));
    Said {
        grows: last > (1.0 + RISE) * first,
        ..Said::default()
    }
}

fn last_over_first(points: &[Point], _: f64) -> Said {
    let (first, last) = (points.first(), points.last());
    let grows = first
        .zip(last)
        .is_some_and(|(a, b)| b.value > 1.1 * a.value);
    Said {
        grows,
        ..Said::default()
    }
}

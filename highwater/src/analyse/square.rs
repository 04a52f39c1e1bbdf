//! A cycle of two levels: working days and weekends, office hours and nights. Two harmonics leave its edges, which
//! then look like steps; one column that is 1 in a part of each turn has none left.

use super::period::{grid, project};
use super::series::Point;

/// When in each turn the level is the other one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Square {
    pub length_s: f64,
    /// Where the part begins and how long it is, in turns since the first reading.
    pub from: f64,
    pub part: f64,
    /// Difference of the two levels, in the unit of the values.
    pub swing: f64,
    /// How often the level changes within the window.
    pub edges: usize,
    /// Share of the variance about a line that it explains.
    pub share: f64,
}

impl Square {
    /// 1 within the part, 0 outside it.
    pub fn at(&self, since_first_s: f64) -> f64 {
        let phase = (since_first_s / self.length_s - self.from).rem_euclid(1.0);
        f64::from(u8::from(phase < self.part))
    }
}

/// Resolution of a turn: a quarter of a day of a week.
const CELLS: usize = 28;
/// Neither part is shorter than this many cells: what is shorter is a spike.
const PART_MIN: usize = 3;
/// A part with less than this left of it beside a line says nothing.
const NEW_MIN: f64 = 1e-6;

/// What falls into one cell of the turn.
#[derive(Clone, Copy, Default)]
struct Cell {
    count: f64,
    /// Sums of the unit line, and of what a line leaves of the values.
    line: f64,
    rest: f64,
}

/// The best square cycle of this length, if there is any; a line is taken away first.
pub fn square(points: &[Point], length_s: f64) -> Option<Square> {
    let (first, last) = (points.first()?, points.last()?);
    let span_s = last.t_s - first.t_s;
    if points.len() < CELLS || span_s <= 0.0 || length_s <= 0.0 {
        return None;
    }
    let (t, mut y) = grid(points, span_s);
    let n = y.len() as f64;
    let line = unit_line(&t)?;
    let ones = vec![1.0 / n.sqrt(); y.len()];
    project(&mut y, &ones);
    project(&mut y, &line);
    let total: f64 = y.iter().map(|v| v * v).sum();
    let mut cells = [Cell::default(); CELLS];
    for ((t, line), y) in t.iter().zip(&line).zip(&y) {
        let phase = (t * span_s / length_s).fract();
        let cell = &mut cells[((phase * CELLS as f64) as usize).min(CELLS - 1)];
        cell.count += 1.0;
        cell.line += line;
        cell.rest += y;
    }
    let (gain, swing, from, part) = best_part(&cells, n)?;
    let mut found = Square {
        length_s,
        from: from as f64 / CELLS as f64,
        part: part as f64 / CELLS as f64,
        swing,
        edges: 0,
        share: if total > 0.0 { gain / total } else { 0.0 },
    };
    let levels: Vec<f64> = t.iter().map(|t| found.at(t * span_s)).collect();
    found.edges = levels.windows(2).filter(|w| w[0] != w[1]).count();
    Some(found)
}

/// What the best part of a turn explains of the squares, the height of its level, its first cell and how many it has.
fn best_part(cells: &[Cell; CELLS], n: f64) -> Option<(f64, f64, usize, usize)> {
    let mut best: Option<(f64, f64, usize, usize)> = None;
    for from in 0..CELLS {
        let mut sum = Cell::default();
        for part in 1..=CELLS - PART_MIN {
            let cell = cells[(from + part - 1) % CELLS];
            sum.count += cell.count;
            sum.line += cell.line;
            sum.rest += cell.rest;
            let own = sum.count - sum.count * sum.count / n - sum.line * sum.line;
            if part < PART_MIN || own < NEW_MIN * n {
                continue;
            }
            let gain = sum.rest * sum.rest / own;
            if best.is_none_or(|b| gain > b.0) {
                best = Some((gain, (sum.rest / own).abs(), from, part));
            }
        }
    }
    best
}

/// A line with mean 0 and length 1 over these instants.
fn unit_line(t: &[f64]) -> Option<Vec<f64>> {
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    let length = t.iter().map(|t| (t - mean).powi(2)).sum::<f64>().sqrt();
    (length > 0.0).then(|| t.iter().map(|t| (t - mean) / length).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: f64 = 86_400.0;

    fn weeks(days: f64, leak: f64) -> Vec<Point> {
        let at = |i: u32| {
            let t_s = f64::from(i) * days * DAY_S / 500.0;
            let weekend = (t_s / DAY_S + 2.0) % 7.0 >= 5.0;
            let wobble = f64::from(i * 7919 % 17) / 17.0 - 0.5;
            Point {
                t_s,
                value: 100.0 - 12.0 * f64::from(u8::from(weekend)) + leak * t_s / DAY_S + wobble,
            }
        };
        (0..500).map(at).collect()
    }

    #[test]
    fn weekends_are_found_beside_a_leak() {
        for leak in [0.0, 1.5] {
            let found = square(&weeks(21.0, leak), 7.0 * DAY_S).unwrap();
            assert!((found.swing - 12.0).abs() < 1.0, "{found:?}");
            let part = found.part.min(1.0 - found.part);
            assert!((part - 2.0 / 7.0).abs() < 0.04, "{found:?}");
            assert!(
                found.share > 0.9 && (5..=7).contains(&found.edges),
                "{found:?}"
            );
        }
    }

    #[test]
    fn two_edges_are_counted_as_two() {
        let found = square(&weeks(7.0, 0.0), 7.0 * DAY_S).unwrap();
        assert_eq!(found.edges, 2, "{found:?}");
    }

    #[test]
    fn too_little_is_none() {
        assert_eq!(square(&[], DAY_S), None);
        assert_eq!(square(&weeks(21.0, 0.0)[..20], DAY_S), None);
        let still = vec![
            Point {
                t_s: 5.0,
                value: 1.0
            };
            60
        ];
        assert_eq!(square(&still, DAY_S), None);
    }
}

//! Thinning: many readings to few points, none of the extremes lost.

use series::series::{Point, Series};

/// The times that all lines of a panel share.
#[derive(Debug, Clone, PartialEq)]
pub enum Grid {
    /// Few enough snapshots: every one of them.
    Snapshots(Vec<f64>),
    /// Equal stretches of the run.
    Stretches {
        from_s: f64,
        step_s: f64,
        count: usize,
    },
}

impl Grid {
    /// Every snapshot when there are at most `points`, otherwise stretches of two points each.
    pub fn new<'a>(series: impl Iterator<Item = &'a Series>, points: usize) -> Grid {
        let mut times: Vec<f64> = series
            .flat_map(|s| s.points.iter().map(|p| p.t_s))
            .collect();
        times.retain(|t| t.is_finite());
        times.sort_by(f64::total_cmp);
        times.dedup();
        let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
            return Grid::Snapshots(Vec::new());
        };
        if times.len() <= points {
            return Grid::Snapshots(times);
        }
        let count = points / 2;
        Grid::Stretches {
            from_s: first,
            step_s: (last - first) / count as f64,
            count,
        }
    }

    /// When thinned, two times for each stretch, at its first and third quarter.
    pub fn times(&self) -> Vec<f64> {
        match self {
            Grid::Snapshots(times) => times.clone(),
            Grid::Stretches {
                from_s,
                step_s,
                count,
            } => {
                let quarter = |i: usize| from_s + step_s * (i as f64 * 0.5 + 0.25);
                (0..2 * count).map(quarter).collect()
            }
        }
    }

    pub fn middles(&self) -> Vec<f64> {
        match self {
            Grid::Snapshots(times) => times.clone(),
            Grid::Stretches {
                from_s,
                step_s,
                count,
            } => (0..*count)
                .map(|i| from_s + step_s * (i as f64 + 0.5))
                .collect(),
        }
    }

    pub fn stretch_s(&self) -> Option<f64> {
        match self {
            Grid::Snapshots(_) => None,
            Grid::Stretches { step_s, .. } => Some(*step_s),
        }
    }

    /// One value per time: the readings themselves, or the lowest and highest of each stretch in
    /// the order in which they came.
    pub fn extremes(&self, points: &[Point]) -> Vec<Option<f64>> {
        match self {
            Grid::Snapshots(times) => at_snapshots(times, points),
            Grid::Stretches { .. } => self
                .fold(points)
                .iter()
                .flat_map(|s| s.in_order())
                .collect(),
        }
    }

    /// One value per time: the readings themselves, or the mean of each stretch, twice.
    pub fn means(&self, points: &[Point]) -> Vec<Option<f64>> {
        match self {
            Grid::Snapshots(times) => at_snapshots(times, points),
            Grid::Stretches { .. } => self
                .fold(points)
                .iter()
                .flat_map(|s| [s.mean(), s.mean()])
                .collect(),
        }
    }

    /// One mean per stretch, multiplied by `scale`.
    pub fn stretch_means(&self, points: &[Point], scale: f64) -> Vec<Option<f64>> {
        self.fold(points)
            .iter()
            .map(|s| s.mean().map(|mean| mean * scale))
            .collect()
    }

    fn fold(&self, points: &[Point]) -> Vec<Stretch> {
        let Grid::Stretches {
            from_s,
            step_s,
            count,
        } = self
        else {
            return Vec::new();
        };
        let mut stretches = vec![Stretch::default(); *count];
        for point in points.iter().filter(|p| p.value.is_finite()) {
            let at = ((point.t_s - from_s) / step_s).clamp(0.0, *count as f64 - 1.0);
            stretches[at as usize].add(point);
        }
        stretches
    }
}

fn at_snapshots(times: &[f64], points: &[Point]) -> Vec<Option<f64>> {
    let mut values = vec![None; times.len()];
    for point in points.iter().filter(|p| p.value.is_finite()) {
        if let Ok(at) = times.binary_search_by(|t| t.total_cmp(&point.t_s)) {
            values[at] = Some(point.value);
        }
    }
    values
}

/// The readings of one line within one stretch.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    lowest: Option<Point>,
    highest: Option<Point>,
    sum: f64,
    count: f64,
}

impl Stretch {
    fn add(&mut self, point: &Point) {
        if self.lowest.is_none_or(|lowest| point.value < lowest.value) {
            self.lowest = Some(*point);
        }
        if self
            .highest
            .is_none_or(|highest| point.value > highest.value)
        {
            self.highest = Some(*point);
        }
        self.sum += point.value;
        self.count += 1.0;
    }

    fn in_order(&self) -> [Option<f64>; 2] {
        match (self.lowest, self.highest) {
            (Some(low), Some(high)) if low.t_s <= high.t_s => [Some(low.value), Some(high.value)],
            (low, high) => [high.map(|p| p.value), low.map(|p| p.value)],
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::POINTS_MAX;

    fn line(values: &[f64]) -> Series {
        let point = |(at, value): (usize, &f64)| Point {
            t_s: at as f64,
            value: *value,
        };
        Series {
            points: values.iter().enumerate().map(point).collect(),
            ..Series::default()
        }
    }

    #[test]
    fn few_snapshots_stay_as_they_are() {
        let series = line(&[1.0, 5.0, 2.0]);
        let grid = Grid::new([&series].into_iter(), 10);
        assert_eq!(grid.times(), [0.0, 1.0, 2.0]);
        assert_eq!(
            grid.extremes(&series.points),
            [Some(1.0), Some(5.0), Some(2.0)]
        );
    }

    #[test]
    fn a_spike_and_a_dip_of_one_snapshot_survive_thinning() {
        let mut values = vec![100.0; 13_000];
        values[7_001] = 900.0;
        values[7_002] = 3.0;
        let series = line(&values);
        let grid = Grid::new([&series].into_iter(), POINTS_MAX);
        let thinned = grid.extremes(&series.points);
        assert_eq!(thinned.len(), POINTS_MAX);
        assert_eq!(thinned.len(), grid.times().len());
        assert!(thinned.contains(&Some(900.0)) && thinned.contains(&Some(3.0)));
        let spike = thinned
            .iter()
            .position(|v| *v == Some(900.0))
            .expect("it is there");
        assert!((grid.times()[spike] - 7_001.0).abs() <= grid.stretch_s().expect("thinned"));
    }

    #[test]
    fn lowest_and_highest_keep_their_order() {
        let up = line(&[1.0, 2.0, 3.0, 4.0]);
        let grid = Grid::Stretches {
            from_s: 0.0,
            step_s: 3.0,
            count: 1,
        };
        assert_eq!(grid.extremes(&up.points), [Some(1.0), Some(4.0)]);
        let down = line(&[4.0, 3.0, 2.0, 1.0]);
        assert_eq!(grid.extremes(&down.points), [Some(4.0), Some(1.0)]);
    }

    #[test]
    fn gaps_and_values_that_are_no_numbers_stay_gaps() {
        let series = line(&[1.0, f64::NAN, 3.0]);
        let grid = Grid::new([&series].into_iter(), 10);
        assert_eq!(grid.extremes(&series.points), [Some(1.0), None, Some(3.0)]);
        let grid = Grid::Stretches {
            from_s: 0.0,
            step_s: 1.0,
            count: 5,
        };
        assert_eq!(grid.means(&series.points)[2..4], [None, None]);
    }
}

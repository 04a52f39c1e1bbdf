//! What the charts show, thinned to what a screen can show: extremes kept, sizes bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::analyse::arms::{ArmSeries, ReplicaSeries, arm_names, arm_series, seconds_between};
use crate::analyse::latency::latency_over_time;
use crate::analyse::series::{Point, Series};
use crate::observe::metric;
use crate::record::run::Run;

/// Points of one line at most; twice the pixels of a wide chart would be enough.
pub const POINTS_MAX: usize = 1_500;
/// Points of all lines of one chart together: keeps the page small for hundreds of processes.
const POINTS_ALL: usize = 240_000;
/// A line keeps at least this many, however many lines there are.
const POINTS_MIN: usize = 200;
/// Rates and latencies are means over this many stretches of the run: single looks are noise.
const STRETCHES: usize = 120;
/// Histograms need more requests for a p99.
const LATENCY_STRETCHES: usize = 60;

/// All charts of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Charts {
    pub arms: Vec<String>,
    pub took_s: f64,
    /// RSS, bytes: each process, and mean and range over the processes of each arm.
    pub rss: Panel,
    /// User and system CPU together, share of one core.
    pub cpu: Panel,
    /// Minor faults per second.
    pub faults: Panel,
    pub latency: Vec<LatencyLine>,
}

/// One quantity over the run: lines that share their times.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panel {
    /// Seconds since the run began.
    pub t_s: Vec<f64>,
    /// When thinned: each two points are the lowest and highest reading of a stretch this long.
    pub stretch_s: Option<f64>,
    pub arms: Vec<ArmBand>,
    /// Empty where only arms are shown.
    pub processes: Vec<ProcessLine>,
}

/// Mean, lowest and highest over the processes of an arm; `None` where none was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArmBand {
    pub mean: Vec<Option<f64>>,
    pub lo: Vec<Option<f64>>,
    pub hi: Vec<Option<f64>>,
}

/// One replica.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessLine {
    pub arm: usize,
    pub id: String,
    /// Starts of its incarnations, seconds since the run began.
    pub starts_s: Vec<f64>,
    pub values: Vec<Option<f64>>,
}

/// Latency of one arm: (middle of the stretch in seconds, p50, p99, max in nanoseconds).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyLine {
    pub arm: usize,
    pub points: Vec<(f64, u64, u64, u64)>,
}

impl Charts {
    pub fn build(run: &Run) -> Charts {
        let arms = arm_names(run);
        let took_s = seconds_between(run.begun, run.last);
        let series = |metric| arm_series(run, metric, Duration::ZERO);
        let latency = |(arm, name): (usize, &String)| LatencyLine {
            arm,
            points: latency_over_time(run, name, LATENCY_STRETCHES)
                .iter()
                .map(|p| (p.t_s, p.latency.p50_ns, p.latency.p99_ns, p.latency.max_ns))
                .collect(),
        };
        Charts {
            rss: rss_panel(run, &series(metric::RSS.name)),
            cpu: rate_panel(run, &cpu(run), 1e-9),
            faults: rate_panel(run, &series(metric::MINOR_FAULTS.name), 1.0),
            latency: arms
                .iter()
                .enumerate()
                .map(latency)
                .filter(|l| !l.points.is_empty())
                .collect(),
            arms,
            took_s,
        }
    }
}

fn rss_panel(run: &Run, arms: &[ArmSeries]) -> Panel {
    let replicas = || arms.iter().flat_map(|arm| &arm.replicas);
    let lines = replicas().count().max(1);
    let points = (POINTS_ALL / lines).clamp(POINTS_MIN, POINTS_MAX);
    let grid = Grid::new(replicas().map(|replica| &replica.joined), points);
    let mut panel = Panel {
        t_s: grid.times(),
        stretch_s: grid.stretch_s(),
        ..Panel::default()
    };
    for (arm, series) in arms.iter().enumerate() {
        let extremes: Vec<Vec<Option<f64>>> = series
            .replicas
            .iter()
            .map(|replica| grid.extremes(&replica.joined.points))
            .collect();
        let means: Vec<Vec<Option<f64>>> = series
            .replicas
            .iter()
            .map(|replica| grid.means(&replica.joined.points))
            .collect();
        panel.arms.push(ArmBand {
            mean: mean_of(&means),
            ..range_of(&extremes)
        });
        for (replica, values) in series.replicas.iter().zip(extremes) {
            let starts_s = starts(run, &arms[arm].arm, replica.replica);
            panel.processes.push(ProcessLine {
                arm,
                id: replica.id.clone(),
                starts_s,
                values,
            });
        }
    }
    panel
}

fn starts(run: &Run, arm: &str, replica: u32) -> Vec<f64> {
    let subjects = crate::analyse::arms::subjects(run, arm);
    let incarnations = subjects
        .get(&replica)
        .map(Vec::as_slice)
        .unwrap_or_default();
    incarnations
        .iter()
        .map(|process| seconds_between(run.begun, process.started))
        .collect()
}

/// Means over stretches of at least two looks, for each arm; values are multiplied by `scale`.
fn rate_panel(run: &Run, arms: &[ArmSeries], scale: f64) -> Panel {
    let took_s = seconds_between(run.begun, run.last);
    let looks = took_s / run.experiment.interval.as_secs_f64().max(f64::MIN_POSITIVE);
    let count = STRETCHES.min((looks / 2.0) as usize).max(1);
    if took_s <= 0.0 {
        return Panel::default();
    }
    let grid = Grid::Stretches {
        from_s: 0.0,
        step_s: took_s / count as f64,
        count,
    };
    let band = |arm: &ArmSeries| {
        let means = |replica: &ReplicaSeries| grid.stretch_means(&replica.joined.points, scale);
        let all: Vec<Vec<Option<f64>>> = arm.replicas.iter().map(means).collect();
        ArmBand {
            mean: mean_of(&all),
            ..range_of(&all)
        }
    };
    Panel {
        t_s: grid.middles(),
        stretch_s: grid.stretch_s(),
        arms: arms.iter().map(band).collect(),
        processes: Vec::new(),
    }
}

/// User and system CPU of each replica added, nanoseconds per second.
fn cpu(run: &Run) -> Vec<ArmSeries> {
    let mut sums = arm_series(run, metric::CPU_USER.name, Duration::ZERO);
    let system = arm_series(run, metric::CPU_SYSTEM.name, Duration::ZERO);
    for (sum, other) in sums.iter_mut().zip(&system) {
        for (sum, other) in sum.replicas.iter_mut().zip(&other.replicas) {
            let other: BTreeMap<u64, f64> = other
                .joined
                .points
                .iter()
                .map(|p| (p.t_s.to_bits(), p.value))
                .collect();
            for point in &mut sum.joined.points {
                point.value += other.get(&point.t_s.to_bits()).copied().unwrap_or(0.0);
            }
        }
    }
    sums
}

/// The times that all lines of a panel share.
#[derive(Debug, Clone, PartialEq)]
enum Grid {
    /// Few enough looks: every one of them.
    Looks(Vec<f64>),
    /// Equal stretches of the run.
    Stretches {
        from_s: f64,
        step_s: f64,
        count: usize,
    },
}

impl Grid {
    /// Every look when there are at most `points`, otherwise stretches of two points each.
    fn new<'a>(series: impl Iterator<Item = &'a Series>, points: usize) -> Grid {
        let mut times: Vec<f64> = series
            .flat_map(|s| s.points.iter().map(|p| p.t_s))
            .collect();
        times.retain(|t| t.is_finite());
        times.sort_by(f64::total_cmp);
        times.dedup();
        let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else {
            return Grid::Looks(Vec::new());
        };
        if times.len() <= points {
            return Grid::Looks(times);
        }
        let count = points / 2;
        Grid::Stretches {
            from_s: first,
            step_s: (last - first) / count as f64,
            count,
        }
    }

    /// When thinned, two times for each stretch, at its first and third quarter.
    fn times(&self) -> Vec<f64> {
        match self {
            Grid::Looks(times) => times.clone(),
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

    fn middles(&self) -> Vec<f64> {
        match self {
            Grid::Looks(times) => times.clone(),
            Grid::Stretches {
                from_s,
                step_s,
                count,
            } => (0..*count)
                .map(|i| from_s + step_s * (i as f64 + 0.5))
                .collect(),
        }
    }

    fn stretch_s(&self) -> Option<f64> {
        match self {
            Grid::Looks(_) => None,
            Grid::Stretches { step_s, .. } => Some(*step_s),
        }
    }

    /// One value per time: the readings themselves, or the lowest and highest of each stretch in the order
    /// in which they came.
    fn extremes(&self, points: &[Point]) -> Vec<Option<f64>> {
        match self {
            Grid::Looks(times) => at_looks(times, points),
            Grid::Stretches { .. } => self
                .fold(points)
                .iter()
                .flat_map(|s| s.in_order())
                .collect(),
        }
    }

    /// One value per time: the readings themselves, or the mean of each stretch, twice.
    fn means(&self, points: &[Point]) -> Vec<Option<f64>> {
        match self {
            Grid::Looks(times) => at_looks(times, points),
            Grid::Stretches { .. } => self
                .fold(points)
                .iter()
                .flat_map(|s| [s.mean(), s.mean()])
                .collect(),
        }
    }

    /// One mean per stretch, multiplied by `scale`.
    fn stretch_means(&self, points: &[Point], scale: f64) -> Vec<Option<f64>> {
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

fn at_looks(times: &[f64], points: &[Point]) -> Vec<Option<f64>> {
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

fn mean_of(lines: &[Vec<Option<f64>>]) -> Vec<Option<f64>> {
    across(lines, |values| {
        values.iter().sum::<f64>() / values.len() as f64
    })
}

fn range_of(lines: &[Vec<Option<f64>>]) -> ArmBand {
    let lowest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    ArmBand {
        mean: Vec::new(),
        lo: across(lines, lowest),
        hi: across(lines, highest),
    }
}

/// At each time, one number of the values that are there.
fn across(lines: &[Vec<Option<f64>>], number: impl Fn(&[f64]) -> f64) -> Vec<Option<f64>> {
    let times = lines.iter().map(Vec::len).max().unwrap_or(0);
    let at = |at: usize| {
        let values: Vec<f64> = lines.iter().filter_map(|line| *line.get(at)?).collect();
        (!values.is_empty()).then(|| number(&values))
    };
    (0..times).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn few_looks_stay_as_they_are() {
        let series = line(&[1.0, 5.0, 2.0]);
        let grid = Grid::new([&series].into_iter(), 10);
        assert_eq!(grid.times(), [0.0, 1.0, 2.0]);
        assert_eq!(
            grid.extremes(&series.points),
            [Some(1.0), Some(5.0), Some(2.0)]
        );
    }

    #[test]
    fn a_spike_and_a_dip_of_one_look_survive_thinning() {
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

    #[test]
    fn means_and_ranges_are_over_the_processes_that_are_there() {
        let lines = [vec![Some(1.0), None], vec![Some(3.0), Some(8.0)]];
        assert_eq!(mean_of(&lines), [Some(2.0), Some(8.0)]);
        let band = range_of(&lines);
        assert_eq!(
            (band.lo, band.hi),
            (vec![Some(1.0), Some(8.0)], vec![Some(3.0), Some(8.0)])
        );
    }
}

//! What the charts show, thinned to what a screen can show: extremes kept, sizes bounded.

pub(super) mod grid;
pub mod latency;

use std::collections::BTreeMap;
use std::time::Duration;

use grid::Grid;
pub use latency::LatencyLine;
use observe::metric;
use record::run::Run;
use series::arms::{ArmSeries, ReplicaSeries, arm_names, arm_series, seconds_between};

/// Points of one line at most; twice the pixels of a wide chart would be enough.
pub const POINTS_MAX: usize = 1_500;
/// Points of all lines of one chart together: keeps the page small for hundreds of processes.
const POINTS_ALL: usize = 240_000;
/// A line keeps at least this many, however many lines there are.
const POINTS_MIN: usize = 200;
/// Rates and latencies are means over this many stretches of the run: single snapshots are noise.
const STRETCHES: usize = 120;
/// Nor are they fewer, where there are so many readings: one that is late by minutes does not take the shape from all
/// lines.
const STRETCHES_MIN: usize = 12;

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
    /// Parts of the heap as the probe read them, bytes; of a run without it none.
    pub heap: Vec<HeapPanel>,
    pub latency: Vec<LatencyLine>,
}

/// A part of the heap: why resident memory is what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapPanel {
    /// A word for it that can stand in an identifier.
    pub id: &'static str,
    pub title: &'static str,
    pub panel: Panel,
}

const HEAP: [(&str, &str, metric::Metric); 3] = [
    ("live", "Live heap", metric::LIVE_HEAP),
    ("held", "Held by the allocator", metric::ALLOCATOR_HELD),
    ("fragmentation", "Fragmentation", metric::FRAGMENTATION),
];

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

impl Charts {
    pub fn build(run: &Run) -> Charts {
        let arms = arm_names(run);
        let took_s = seconds_between(run.begun, run.last);
        let series = |metric| arm_series(run, metric, Duration::ZERO);
        Charts {
            rss: rss_panel(run, &series(metric::RSS.name)),
            cpu: rate_panel(run, &cpu(run), 1e-9),
            faults: rate_panel(run, &series(metric::MINOR_FAULTS.name), 1.0),
            heap: heap_panels(run),
            latency: latency::lines(run, &arms),
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
    let subjects = series::arms::subjects(run, arm);
    let incarnations = subjects
        .get(&replica)
        .map(Vec::as_slice)
        .unwrap_or_default();
    incarnations
        .iter()
        .map(|process| seconds_between(run.begun, process.started))
        .collect()
}

/// The probe reads one process a snapshot, and a large one rarely: a stretch is as long as the longest time between two
/// readings of a process, so that a line breaks only where readings are missing.
fn heap_panels(run: &Run) -> Vec<HeapPanel> {
    let took_s = seconds_between(run.begun, run.last);
    let longest_s = |replica: &ReplicaSeries| {
        let between = replica.joined.points.windows(2);
        between
            .map(|pair| pair[1].t_s - pair[0].t_s)
            .reduce(f64::max)
    };
    let panel = |(id, title, metric): (&'static str, &'static str, metric::Metric)| {
        let arms = arm_series(run, metric.name, Duration::ZERO);
        let replicas = || arms.iter().flat_map(|arm| &arm.replicas);
        let longest_s = replicas().filter_map(longest_s).reduce(f64::max)?;
        let readings = replicas().map(|replica| replica.joined.points.len());
        let least = readings.filter(|count| *count > 0).min()?;
        let count = (took_s / longest_s) as usize;
        let panel = stretched(
            run,
            &arms,
            1.0,
            count.clamp(STRETCHES_MIN.min(least), STRETCHES),
        );
        Some(HeapPanel { id, title, panel })
    };
    HEAP.into_iter().filter_map(panel).collect()
}

/// Means over stretches of at least two snapshots, for each arm; values are multiplied by `scale`.
fn rate_panel(run: &Run, arms: &[ArmSeries], scale: f64) -> Panel {
    let took_s = seconds_between(run.begun, run.last);
    let snapshots = took_s / run.experiment.interval.as_secs_f64().max(f64::MIN_POSITIVE);
    let count = STRETCHES.min((snapshots / 2.0) as usize).max(1);
    stretched(run, arms, scale, count)
}

fn stretched(run: &Run, arms: &[ArmSeries], scale: f64, count: usize) -> Panel {
    let took_s = seconds_between(run.begun, run.last);
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

//! Pauses of an arm: stretches in which requests waited and no session was answered, and whether they come at a period.
//!
//! A load program that prints its pauses gives them to the microsecond. Of one that prints histograms only, each
//! interval with a request over [`PAUSE_NS`] counts; then neither lengths nor periods are finer than the interval.

use std::time::Duration;

use super::beat::beat;
use super::rhythm::{Rhythm, rhythm};
use super::{PAUSE_NS, arm_rows, arm_rows_of, parse_histogram};
use crate::arms::seconds_between;
use observe::load_lines::PAUSE_METRIC;
use observe::snapshot::HistogramRow;
use record::run::Run;

/// Pauses are also looked at by their length, in bands from one of these to twice that, milliseconds: those that come
/// at a period are of one length, while a busy machine adds others of any length.
const BANDS_MS: [f64; 8] = [1.0, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0];

/// Slow intervals say something of a period when they are at most one in so many.
const SPARSE: usize = 4;

/// What the pauses of an arm have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmPauses {
    pub count: usize,
    /// Over all processes.
    pub per_minute: f64,
    /// Median and longest, seconds; of intervals, the longest latency in it.
    pub length_s: f64,
    pub longest_s: f64,
    /// The longest that one process was watched: a period up to that was seen or is excluded.
    pub watched_s: f64,
    /// Times are those of pauses, not of intervals with slow requests.
    pub is_exact: bool,
    /// Recorded intervals of all processes.
    pub intervals: usize,
    pub rhythm: Option<Rhythm>,
    /// Of those that keep the rhythm, the median length.
    pub rhythm_length_s: f64,
    /// The rhythm is a clock's, among many other pauses: its gaps are the slots of that clock, not all gaps.
    pub is_beat: bool,
}

/// A period, of pauses of which length, and whether it is a clock's among others.
type Found = (Rhythm, f64, bool);

/// One of them, seconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pause {
    start_s: f64,
    length_s: f64,
}

/// Pauses from `after` on, counted from the first start of each replica; `None` when no request was recorded.
pub fn arm_pauses(run: &Run, arm: &str, after: Duration) -> Option<ArmPauses> {
    let rows = arm_rows(run, arm, after);
    let seconds = |rows: &Vec<&HistogramRow>| {
        rows.iter()
            .map(|row| seconds_between(row.start, row.end).max(0.0))
            .sum::<f64>()
    };
    let watched: Vec<f64> = rows.iter().map(seconds).collect();
    let all_s: f64 = watched.iter().sum();
    if all_s <= 0.0 {
        return None;
    }
    let exact = arm_rows_of(run, arm, after, PAUSE_METRIC);
    // A load that prints pauses and printed none for this arm has none to print.
    let mut all = run.processes.iter().flat_map(|process| &process.histograms);
    let is_exact = all.any(|row| row.metric == PAUSE_METRIC);
    let replicas: Vec<Vec<Pause>> = match is_exact {
        true => exact.iter().map(|rows| joined(run, rows)).collect(),
        false => rows.iter().map(|rows| intervals(run, rows)).collect(),
    };
    let lengths: Vec<f64> = replicas.iter().flatten().map(|p| p.length_s).collect();
    let intervals_all: usize = rows.iter().map(Vec::len).sum();
    // Intervals next to each other have the interval's own period.
    let found = match is_exact || lengths.len() * SPARSE <= intervals_all {
        true => best_rhythm(&replicas, is_exact),
        false => None,
    };
    let found = found.or_else(|| is_exact.then(|| best_beat(&replicas)).flatten());
    Some(ArmPauses {
        count: lengths.len(),
        per_minute: lengths.len() as f64 * 60.0 / all_s,
        length_s: median_length(replicas.iter().flatten()),
        longest_s: lengths.iter().copied().fold(0.0, f64::max),
        watched_s: watched.into_iter().fold(0.0, f64::max),
        is_exact,
        intervals: intervals_all,
        rhythm: found.map(|found| found.0),
        rhythm_length_s: found.map_or(0.0, |found| found.1),
        is_beat: found.is_some_and(|found| found.2),
    })
}

/// Recorded pauses of one replica in order; those that overlap are one.
fn joined(run: &Run, rows: &[&HistogramRow]) -> Vec<Pause> {
    let place = |row: &&HistogramRow| {
        let start = seconds_between(run.begun, row.start);
        (start, seconds_between(run.begun, row.end).max(start))
    };
    let mut spans: Vec<(f64, f64)> = rows.iter().map(place).collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    let pause = |(start_s, end_s)| Pause {
        start_s,
        length_s: end_s - start_s,
    };
    joined.into_iter().map(pause).collect()
}

/// Intervals with a slow request.
fn intervals(run: &Run, rows: &[&HistogramRow]) -> Vec<Pause> {
    let slow = |row: &&HistogramRow| {
        let one = parse_histogram(&row.histogram).ok()?;
        (!one.is_empty() && one.max() >= PAUSE_NS).then(|| Pause {
            start_s: seconds_between(run.begun, row.start),
            length_s: one.max() as f64 / 1e9,
        })
    };
    rows.iter().filter_map(slow).collect()
}

/// All lengths, and the bands of [`BANDS_MS`], seconds.
fn bands() -> impl Iterator<Item = (f64, f64)> {
    let bands = BANDS_MS.map(|ms| (ms / 1e3, 2.0 * ms / 1e3));
    std::iter::once((0.0, f64::INFINITY)).chain(bands)
}

fn of_band(pauses: &[Pause], (lo, hi): (f64, f64)) -> Vec<Pause> {
    let inside = |pause: &&Pause| (lo..hi).contains(&pause.length_s);
    pauses.iter().filter(inside).copied().collect()
}

/// The period that most pauses keep, among all of them and among those of each band of lengths.
fn best_rhythm(replicas: &[Vec<Pause>], by_length: bool) -> Option<Found> {
    let tried = 1 + BANDS_MS.len();
    let bands = bands().take(if by_length { tried } else { 1 });
    let found = bands.filter_map(|band| {
        let chosen: Vec<Vec<Pause>> = replicas.iter().map(|r| of_band(r, band)).collect();
        let gaps: Vec<f64> = chosen
            .iter()
            .flat_map(|pauses| pauses.windows(2).map(|w| w[1].start_s - w[0].start_s))
            .collect();
        let found = rhythm(&gaps, tried)?;
        Some((found, median_length(chosen.iter().flatten()), false))
    });
    // Which share keeps it counts: a busy machine's many pauses have a gap that is merely common.
    let kept = |found: &Rhythm| found.kept as f64 * (found.kept as f64 / found.gaps as f64);
    found.max_by(|a, b| kept(&a.0).total_cmp(&kept(&b.0)))
}

/// The clearest clock among the pauses of one replica and band: each replica has a phase of its own.
fn best_beat(replicas: &[Vec<Pause>]) -> Option<Found> {
    let tried = replicas.len() * (1 + BANDS_MS.len());
    let sets = replicas
        .iter()
        .flat_map(|pauses| bands().map(|band| of_band(pauses, band)));
    let found = sets.filter_map(|pauses| {
        let times: Vec<f64> = pauses.iter().map(|pause| pause.start_s).collect();
        Some((beat(&times, tried)?, pauses))
    });
    let (beat, pauses) = found.min_by(|a, b| a.0.chance.total_cmp(&b.0.chance))?;
    let on_it = pauses.iter().filter(|p| beat.at_s.contains(&p.start_s));
    Some((beat.rhythm, median_length(on_it), true))
}

fn median_length<'a>(pauses: impl Iterator<Item = &'a Pause>) -> f64 {
    let mut lengths: Vec<f64> = pauses.map(|pause| pause.length_s).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).copied().unwrap_or(0.0)
}

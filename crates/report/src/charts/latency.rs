//! What the charts of latency show: quantiles over time, the heat map, the percentiles, and the pauses in words.

use record::run::Run;
use series::latency::over_time::{CLASSES_PER_DECADE, over_time};
use series::latency::pauses::{ArmPauses, arm_pauses};
use units::written;

/// Histograms need more requests for a p99 than readings for a mean.
const STRETCHES: usize = 60;
/// Classes of the heat map, from the fastest: those above are counted in the highest, those below in the lowest.
const CLASS_MIN: i32 = 30;
const CLASS_MAX: i32 = 119;

/// Latency of one arm.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyLine {
    pub arm: usize,
    /// (middle of the stretch in seconds, p50, p99, max in nanoseconds)
    pub points: Vec<(f64, u64, u64, u64)>,
    /// Length of a column of the heat map, seconds; the first begins with the run.
    pub step_s: f64,
    /// For each column, the classes of latency that occurred, and their requests.
    pub columns: Vec<Vec<(i32, u64)>>,
    /// (1 - quantile, nanoseconds), ever closer to the longest, whose first number is 0.
    pub quantiles: Vec<(f64, u64)>,
    pub requests: u64,
    /// After warm-up.
    pub pauses: Option<ArmPauses>,
}

/// One for each arm that has a request.
pub fn lines(run: &Run, arms: &[String]) -> Vec<LatencyLine> {
    let line = |(arm, name): (usize, &String)| {
        let over = over_time(run, name, STRETCHES);
        let points = over
            .points
            .iter()
            .map(|p| (p.t_s, p.latency.p50_ns, p.latency.p99_ns, p.latency.max_ns));
        let column = |classes: &std::collections::BTreeMap<i32, u64>| {
            let mut column: Vec<(i32, u64)> = Vec::new();
            for (class, count) in classes {
                let class = (*class).clamp(CLASS_MIN, CLASS_MAX);
                match column.last_mut() {
                    Some(last) if last.0 == class => last.1 += count,
                    _ => column.push((class, *count)),
                }
            }
            column
        };
        LatencyLine {
            arm,
            points: points.collect(),
            step_s: over.step_s,
            columns: over.columns.iter().map(column).collect(),
            quantiles: over.quantiles,
            requests: over.requests,
            pauses: arm_pauses(run, name, run.experiment.warmup),
        }
    };
    let lines = arms.iter().enumerate().map(line);
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// The lower end of a class, nanoseconds.
pub fn class_ns(class: i32) -> f64 {
    10_f64.powf(f64::from(class) / CLASSES_PER_DECADE)
}

impl LatencyLine {
    /// Latency that all but this share of the requests stay below, nanoseconds; `None` when there are too few requests
    /// to tell.
    pub fn at_rest(&self, rest: f64) -> Option<u64> {
        let found = self.quantiles.iter().find(|q| q.0 == rest);
        found.map(|q| q.1)
    }
}

/// When they come, in a sentence: what has no pause says how long it was watched, and what that excludes.
pub fn pause_words(pauses: &ArmPauses) -> String {
    let watched = written::seconds(pauses.watched_s);
    if pauses.count == 0 {
        return format!(
            "No pause in {watched} a process: a period of up to {watched} is excluded, a longer one is not."
        );
    }
    let all = match pauses.is_exact {
        true => format!(
            "{} pauses a minute and process, half of them up to {}, the longest {}",
            written::digits(pauses.per_minute),
            ms(pauses.length_s),
            ms(pauses.longest_s)
        ),
        false => format!(
            "{} of {} recorded intervals have a request of 1 ms or more, the longest {}",
            pauses.count,
            pauses.intervals,
            ms(pauses.longest_s)
        ),
    };
    format!("{all}; {}.", rhythm_words(pauses, &watched))
}

fn rhythm_words(pauses: &ArmPauses, watched: &str) -> String {
    let Some(found) = &pauses.rhythm else {
        return match pauses.is_exact {
            true => format!("no period of up to {watched} shows"),
            false => "the load prints no pauses, and a period does not show".to_owned(),
        };
    };
    let (length, gaps) = match (pauses.is_beat, pauses.is_exact) {
        (true, _) => {
            let count = format!(
                "{} of one process, of {}, come ",
                found.kept + 1,
                ms(pauses.rhythm_length_s)
            );
            (count, "steps of a clock")
        }
        (false, true) => (
            format!("those of {} come ", ms(pauses.rhythm_length_s)),
            "gaps",
        ),
        (false, false) => (String::new(), "gaps"),
    };
    format!(
        "{length}every {} ({} to {}) in {} of {} {gaps}",
        seconds(found.period_s),
        seconds(found.lo_s),
        seconds(found.hi_s),
        found.kept,
        found.gaps
    )
}

fn ms(s: f64) -> String {
    written::nanoseconds(s * 1e9)
}

/// Periods of seconds have decimals, long ones do not.
fn seconds(s: f64) -> String {
    match s < 100.0 {
        true => format!("{} s", written::digits(s)),
        false => written::seconds(s),
    }
}

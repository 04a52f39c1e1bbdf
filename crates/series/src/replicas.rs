//! Numbers of an arm from its replicas: the rate of a counter, a mean with its interval.

use std::time::Duration;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::arms::{rise, seconds_between};
use super::series::Point;
use crate::estimate::Estimate;
use record::run::Process;

/// Mean over processes with its 95 % t interval over processes. With one process there is no
/// interval: `lo` and `hi` are then the value itself. Values that are not finite are left out.
pub fn over_processes(values: &[f64]) -> Option<Estimate> {
    let values: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    let n = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let half = match values.len() {
        1 => 0.0,
        _ => {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            StudentsT::new(0.0, 1.0, n - 1.0).map_or(0.0, |t| t.inverse_cdf(0.975))
                * (variance / n).sqrt()
        }
    };
    Some(Estimate {
        value: mean,
        lo: mean - half,
        hi: mean + half,
    })
}

/// Rise per second of a counter over all incarnations of one replica.
pub fn replica_rate(incarnations: &[&Process], metric: &str, warmup: Duration) -> Option<f64> {
    let rises = incarnations
        .iter()
        .filter_map(|process| counter_rise(process, metric, warmup));
    let (rise, seconds) = rises.fold((0.0, 0.0), |(r, s), (rise, seconds)| {
        (r + rise, s + seconds)
    });
    (seconds > 0.0).then(|| rise / seconds)
}

fn counter_rise(process: &Process, metric: &str, warmup: Duration) -> Option<(f64, f64)> {
    let readings = process.samples.get(metric)?.iter();
    let points = readings
        .map(|(time, value)| Point {
            t_s: seconds_between(process.started, *time),
            value: *value,
        })
        .filter(|point| point.t_s >= warmup.as_secs_f64());
    rise(&points.collect::<Vec<_>>())
}

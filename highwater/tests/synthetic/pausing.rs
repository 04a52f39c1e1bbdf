//! A game server's history: an arm that stands still for 6 ms every 12 s, one that does so at random, one that never
//! does.

use hdrhistogram::Histogram;
use observe::snapshot::{HistogramRow, Role};
use record::run::{Process, Run};

use super::{Curve, Dice, MIB, Plan, Synthetic, at, encode};

pub const PERIOD_S: f64 = 12.0;
const LENGTH_S: f64 = 0.006;
const REQUESTS: u64 = 400;

/// Two processes of each arm for five minutes, a load line a second.
pub fn pausing() -> Run {
    let flat = |level: f64| Curve::Saw {
        base: level * MIB,
        height: 0.0,
        period_s: 1.0,
    };
    let arm = |name: &str, level: f64| Synthetic::new(name, name, flat(level));
    let plan = Plan {
        name: "treasure".into(),
        arms: vec![
            arm("jemalloc", 160.0),
            arm("mimalloc", 38.0),
            arm("snmalloc", 32.0),
        ],
        replicas: 2,
        duration_s: 300.0,
        interval_s: 1.0,
        seed: 3,
        with_latency: true,
    };
    let mut run = plan.run();
    let mut dice = Dice(17);
    for process in run.processes.iter_mut().filter(|p| p.role == Role::Load) {
        process.histograms = match process.arm.as_str() {
            "jemalloc" => rows(process, &mut dice, 0.45, |dice, _| dice.uniform() * 17.0),
            "mimalloc" => rows(process, &mut dice, 0.3, |_, _| PERIOD_S),
            _ => rows(process, &mut dice, 0.25, |_, _| f64::INFINITY),
        };
    }
    run
}

/// Lines of a second each, and the pauses between them; `gap` gives the time to the next one.
fn rows(
    process: &Process,
    dice: &mut Dice,
    median_ms: f64,
    gap: impl Fn(&mut Dice, f64) -> f64,
) -> Vec<HistogramRow> {
    let mut rows = Vec::new();
    let mut pause_s = 4.3 + gap(dice, 0.0);
    for second in 5..299 {
        let start_s = f64::from(second);
        let mut histogram = Histogram::<u64>::new(3).expect("3 digits");
        for _ in 0..REQUESTS {
            let ms = median_ms * (0.35 * dice.normal()).exp();
            let ms = ms.min(0.9);
            histogram.record((ms * 1e6) as u64).expect("auto-resizing");
        }
        while pause_s < start_s + 1.0 {
            let length_s = LENGTH_S * (0.97 + 0.06 * dice.uniform());
            for waiting in 1..=4 {
                let ns = length_s * 1e9 * f64::from(waiting) / 4.0;
                histogram.record(ns as u64).expect("auto-resizing");
            }
            rows.push(row(process, "pause", 0, (pause_s, pause_s + length_s)));
            pause_s += gap(dice, pause_s);
        }
        let span = (start_s, start_s + 1.0);
        rows.push(HistogramRow {
            histogram: encode(&histogram),
            ..row(process, "latency", REQUESTS, span)
        });
    }
    rows
}

fn row(process: &Process, metric: &str, requests: u64, (from_s, to_s): (f64, f64)) -> HistogramRow {
    let mut length = Histogram::<u64>::new(3).expect("3 digits");
    let ns = (to_s - from_s) * 1e9;
    length.record(ns as u64).expect("auto-resizing");
    HistogramRow {
        process: process.id,
        start: at(from_s),
        end: at(to_s),
        metric: metric.into(),
        requests,
        errors: 0,
        dropped: 0,
        histogram: encode(&length),
    }
}

//! The numbers of the charts as JSON inside the page.

use serde::Serialize;

use crate::charts::latency::pause_words;
use crate::charts::{ArmBand, HeapPanel, Panel};
use crate::visible::{shortened, visible};
use crate::{Report, event_word, is_incident};

/// Incidents marked on a chart at most; the table of events has them all.
const MARKS_MAX: usize = 400;

#[derive(Serialize)]
struct Data {
    /// Times and values are whole numbers; `*_scale` is what one of them means.
    arms: Vec<Arm>,
    took_s: f64,
    rss: PanelData,
    cpu: PanelData,
    faults: PanelData,
    heap: Vec<HeapPart>,
    latency: Vec<Latency>,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct Arm {
    name: String,
    control: bool,
}

#[derive(Serialize)]
struct PanelData {
    /// Milliseconds since the run began.
    t_ms: Vec<i64>,
    stretch_s: Option<f64>,
    /// What 1 means in the unit of the panel (bytes, cores, faults per second).
    scale: f64,
    arms: Vec<Band>,
    processes: Vec<Line>,
}

#[derive(Serialize)]
struct HeapPart {
    id: &'static str,
    title: &'static str,
    panel: PanelData,
}

#[derive(Serialize)]
struct Band {
    mean: Vec<Option<i64>>,
    lo: Vec<Option<i64>>,
    hi: Vec<Option<i64>>,
}

#[derive(Serialize)]
struct Line {
    arm: usize,
    id: String,
    starts_s: Vec<f64>,
    values: Vec<Option<i64>>,
}

#[derive(Serialize)]
struct Latency {
    arm: usize,
    t_ms: Vec<i64>,
    /// Microseconds.
    p50_us: Vec<u64>,
    p99_us: Vec<u64>,
    max_us: Vec<u64>,
    step_ms: f64,
    /// Each: class, requests, class, requests ...
    columns: Vec<Vec<i64>>,
    /// (1 - quantile, microseconds)
    quantiles: Vec<(f64, f64)>,
    requests: u64,
    pauses: Option<String>,
}

#[derive(Serialize)]
struct Mark {
    t_s: f64,
    words: String,
}

/// JSON that can stand in a script element: no `<` can end it, no `&` or line separator is read
/// otherwise.
pub fn json(report: &Report) -> String {
    let json = serde_json::to_string(&data(report)).unwrap_or_else(|_| "null".to_string());
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn data(report: &Report) -> Data {
    let charts = &report.charts;
    let arm = |name: &String| Arm {
        name: visible(name).into_owned(),
        control: *name == report.summary.control,
    };
    let latency = charts.latency.iter().map(|line| Latency {
        arm: line.arm,
        t_ms: line.points.iter().map(|p| (p.0 * 1e3) as i64).collect(),
        p50_us: line.points.iter().map(|p| p.1 / 1_000).collect(),
        p99_us: line.points.iter().map(|p| p.2 / 1_000).collect(),
        max_us: line.points.iter().map(|p| p.3 / 1_000).collect(),
        step_ms: line.step_s * 1e3,
        columns: line.columns.iter().map(|column| flat(column)).collect(),
        quantiles: line.quantiles.iter().map(rounded).collect(),
        requests: line.requests,
        pauses: line.pauses.as_ref().map(pause_words),
    });
    Data {
        arms: charts.arms.iter().map(arm).collect(),
        took_s: charts.took_s,
        rss: panel(&charts.rss, 1024.0),
        cpu: panel(&charts.cpu, 1e-4),
        faults: panel(&charts.faults, 0.01),
        heap: charts.heap.iter().map(heap_part).collect(),
        latency: latency.collect(),
        marks: marks(report),
    }
}

fn flat(column: &[(i32, u64)]) -> Vec<i64> {
    let pair = |(class, count): &(i32, u64)| [i64::from(*class), *count as i64];
    column.iter().flat_map(pair).collect()
}

/// As many digits as a pixel needs.
fn rounded((rest, ns): &(f64, u64)) -> (f64, f64) {
    let short = |value: f64, digits: i32| {
        let unit = 10_f64.powi(value.abs().max(1e-12).log10().floor() as i32 - digits);
        (value / unit).round() * unit
    };
    (short(*rest, 5), (*ns as f64 / 100.0).round() / 10.0)
}

fn marks(report: &Report) -> Vec<Mark> {
    let incidents = report
        .events
        .iter()
        .filter(|event| is_incident(&event.kind));
    let mark = |event: &crate::EventLine| {
        let words = event.words.lines().next().unwrap_or("");
        let who = if event.process.is_empty() {
            &event.arm
        } else {
            &event.process
        };
        let words = format!("{} {}: {words}", event_word(&event.kind), who);
        Mark {
            t_s: event.t_s,
            words: shortened(&words, 160),
        }
    };
    incidents.take(MARKS_MAX).map(mark).collect()
}

fn heap_part(part: &HeapPanel) -> HeapPart {
    HeapPart {
        id: part.id,
        title: part.title,
        panel: panel(&part.panel, 1024.0),
    }
}

fn panel(panel: &Panel, scale: f64) -> PanelData {
    let whole = |values: &[Option<f64>]| -> Vec<Option<i64>> {
        values
            .iter()
            .map(|value| value.map(|value| (value / scale).round() as i64))
            .collect()
    };
    let band = |band: &ArmBand| Band {
        mean: whole(&band.mean),
        lo: whole(&band.lo),
        hi: whole(&band.hi),
    };
    let process = |line: &crate::charts::ProcessLine| Line {
        arm: line.arm,
        id: visible(&line.id).into_owned(),
        starts_s: line.starts_s.clone(),
        values: whole(&line.values),
    };
    PanelData {
        t_ms: panel.t_s.iter().map(|t| (t * 1e3).round() as i64).collect(),
        stretch_s: panel.stretch_s,
        scale,
        arms: panel.arms.iter().map(band).collect(),
        processes: panel.processes.iter().map(process).collect(),
    }
}

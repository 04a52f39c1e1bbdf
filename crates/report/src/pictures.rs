//! The charts of a run as files: SVG, and the same as PNG.

use super::Report;
use super::charts::{ArmBand, Panel};
use super::incidents::marks;
use super::plot::over_time::{Sheet, svg};
use super::plot::{Drawn, PANELS_MAX, heat, png};
use units::written;
use units::written::ByteScale;

/// One chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Name of its files, without the ending.
    pub name: String,
    pub title: &'static str,
    /// What is to be seen.
    pub caption: String,
    pub svg: String,
}

impl Picture {
    /// # Errors
    /// What goes wrong while drawing, in words.
    pub fn png(&self) -> Drawn<Vec<u8>> {
        png(&self.svg, &[]).map(|picture| picture.bytes)
    }
}

/// One quantity and how it is shown.
struct Kind<'a> {
    name: &'a str,
    title: &'static str,
    unit: &'a str,
    scale: f64,
    panel: &'a Panel,
    has_bands: bool,
    words: String,
}

pub const HEAT: &str = "Requests by time and latency, all processes of an arm together: the stronger the colour, the \
    larger their share of that moment. A stripe that returns is a pause that returns.";
const RANGE: &str =
    "Thick: mean of each arm; shade: its lowest to highest process; thin: each process.";

/// Every chart for which something was read; the names of their files begin with `prefix`.
///
/// # Errors
/// What goes wrong while drawing, in words.
pub fn pictures(report: &Report, prefix: &str) -> Drawn<Vec<Picture>> {
    let marks = marks(report);
    let latency = latency(report);
    let kinds = kinds(report, &latency);
    let is_read = |kind: &&Kind| {
        let mut bands = kind.panel.arms.iter();
        bands.any(|band| band.mean.iter().any(Option::is_some))
    };
    let numbered = match marks.is_empty() {
        true => "",
        false => " Numbers are those of the events below.",
    };
    let draw = |kind: &Kind| {
        let sheet = Sheet {
            title: kind.title,
            unit: kind.unit,
            scale: kind.scale,
            arms: &report.charts.arms,
            panel: kind.panel,
            has_bands: kind.has_bands,
            marks: &marks,
            took_s: report.charts.took_s,
        };
        Ok(Picture {
            name: format!("{prefix}{}", kind.name),
            title: kind.title,
            caption: format!("{}{numbered}", kind.words),
            svg: svg(&sheet)?,
        })
    };
    let over_time = kinds.iter().filter(is_read).map(draw);
    over_time.chain(heat(report, prefix)).collect()
}

/// Every request, where the load recorded any.
fn heat(report: &Report, prefix: &str) -> Option<Drawn<Picture>> {
    let lines = &report.charts.latency;
    let title = "Every request";
    let sheet = heat::Sheet {
        title,
        arms: &report.charts.arms,
        lines,
        took_s: report.charts.took_s,
    };
    let first = match lines.len() > PANELS_MAX {
        true => format!(" The first {PANELS_MAX} arms."),
        false => String::new(),
    };
    let drawn = || {
        Ok(Picture {
            name: format!("{prefix}heat"),
            title,
            caption: format!("{HEAT}{first}"),
            svg: heat::svg(&sheet)?,
        })
    };
    (!lines.is_empty()).then(drawn)
}

fn kinds<'a>(report: &'a Report, latency: &'a Panel) -> [Kind<'a>; 4] {
    let charts = &report.charts;
    let highest = charts
        .rss
        .arms
        .iter()
        .flat_map(|band| band.hi.iter().flatten());
    let scale = ByteScale::of(highest.copied().fold(0.0, f64::max));
    let means = |panel: &Panel| match panel.stretch_s {
        Some(s) => format!("Means of {}.", written::seconds(s)),
        None => "Means.".to_owned(),
    };
    let rate = |name, title, unit, scale, panel: &'a Panel| Kind {
        name,
        title,
        unit,
        scale,
        panel,
        has_bands: true,
        words: means(panel),
    };
    [
        Kind {
            words: RANGE.into(),
            ..rate(
                "memory",
                "Resident memory",
                scale.word,
                scale.bytes,
                &charts.rss,
            )
        },
        rate(
            "cpu",
            "CPU, user and system",
            "% of one core",
            0.01,
            &charts.cpu,
        ),
        rate(
            "faults",
            "Minor page faults",
            "per second",
            1.0,
            &charts.faults,
        ),
        Kind {
            has_bands: false,
            words: "Of all requests of an arm.".into(),
            ..rate("latency", "Latency, p99", "ms", 1e6, latency)
        },
    ]
}

/// The p99 of the arms as a panel: one set of times for all.
fn latency(report: &Report) -> Panel {
    let lines = &report.charts.latency;
    let mut times: Vec<f64> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|p| p.0))
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let band = |arm: usize| {
        let own: Vec<_> = lines
            .iter()
            .filter(|line| line.arm == arm)
            .flat_map(|l| &l.points)
            .collect();
        let at = |t: &f64| {
            own.iter()
                .find(|point| point.0 == *t)
                .map(|point| point.2 as f64)
        };
        ArmBand {
            mean: times.iter().map(at).collect(),
            ..ArmBand::default()
        }
    };
    Panel {
        arms: (0..report.charts.arms.len()).map(band).collect(),
        t_s: times,
        ..Panel::default()
    }
}

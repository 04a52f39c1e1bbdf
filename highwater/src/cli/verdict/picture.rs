//! `--plot FILE`: the series that were judged, drawn into a file beside the verdicts.

use std::path::Path;

use anyhow::Result;

use super::given::Given;
use crate::cli::exit::Usage;
use crate::cli::pictures;
use report::plot::{PANELS_MAX, Panel, svg};
use series::series::Series;
use verdict::series::SeriesVerdict;
use verdict::trace::trace;

/// The forecast reaches half a window ahead; to the limit if that is less than this many windows away.
const AHEAD: f64 = 0.5;
const AHEAD_MAX: f64 = 1.5;

/// # Errors
/// More series than a sheet holds.
pub fn check_room(count: usize) -> Result<()> {
    if count > PANELS_MAX {
        let words = format!(
            "--plot: {count} series, a picture holds {PANELS_MAX}; choose with --only ID,..."
        );
        return Err(Usage(words).into());
    }
    Ok(())
}

/// Draws these series with their verdicts.
///
/// # Errors
/// More series than a sheet holds, or the file cannot be written.
pub fn draw(given: &Given, path: &Path, series: &[(Series, SeriesVerdict)]) -> Result<()> {
    check_room(series.len())?;
    let panels: Vec<Panel> = series
        .iter()
        .map(|(series, verdict)| Panel {
            series,
            verdict,
            // Of a handful of readings nothing was fitted, and nothing is drawn.
            trace: match verdict.evidence.contains_key("bins") {
                true => trace(series, ahead_s(verdict), &given.rules),
                false => None,
            },
        })
        .collect();
    let sheet = svg(&panels).map_err(anyhow::Error::msg)?;
    pictures::write(path, &sheet)
}

fn ahead_s(verdict: &SeriesVerdict) -> f64 {
    let window_s = verdict.evidence.get("window_s").copied().unwrap_or(0.0);
    let to_limit = verdict.time_to_limit_s.map(|e| 1.05 * e.value);
    let near = to_limit
        .filter(|s| *s <= AHEAD_MAX * window_s)
        .unwrap_or(0.0);
    near.max(AHEAD * window_s)
}

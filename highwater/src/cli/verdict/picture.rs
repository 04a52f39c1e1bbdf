//! `--plot FILE`: the series that were judged, drawn into a file beside the verdicts.

use std::path::Path;

use anyhow::{Context, Result};

use super::given::{Format, Given, format_of};
use super::letters;
use crate::cli::exit::Usage;
use crate::cli::out::say;
use report::plot::{PANELS_MAX, Panel, png, svg};
use series::series::Series;
use verdict::series::SeriesVerdict;
use verdict::trace::trace;

/// The forecast reaches half a window ahead; to the limit if that is less than this many windows away.
const AHEAD: f64 = 0.5;
const AHEAD_MAX: f64 = 1.5;

/// Fonts for so many scripts are looked for.
const SCRIPTS_MAX: usize = 4;

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
    let format = format_of(path)?;
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
    let bytes = match format {
        Format::Svg => sheet.into_bytes(),
        Format::Png => pixels(&sheet)?,
    };
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// As PNG; letters that our fonts lack are looked for on this machine.
fn pixels(sheet: &str) -> Result<Vec<u8>> {
    let mut fonts = Vec::new();
    let mut picture = png(sheet, &fonts).map_err(anyhow::Error::msg)?;
    for _ in 0..SCRIPTS_MAX {
        let lacking = std::mem::take(&mut picture.lacking);
        fonts.extend(letters::fonts_with(&lacking));
        if lacking.is_empty() || fonts.is_empty() {
            picture.lacking = lacking;
            break;
        }
        picture = png(sheet, &fonts).map_err(anyhow::Error::msg)?;
        if picture.lacking == lacking {
            break;
        }
    }
    if !picture.lacking.is_empty() {
        let words = letters::words(&picture.lacking);
        say!("highwater: --plot: {words}");
    }
    Ok(picture.bytes)
}

fn ahead_s(verdict: &SeriesVerdict) -> f64 {
    let window_s = verdict.evidence.get("window_s").copied().unwrap_or(0.0);
    let to_limit = verdict.time_to_limit_s.map(|e| 1.05 * e.value);
    let near = to_limit
        .filter(|s| *s <= AHEAD_MAX * window_s)
        .unwrap_or(0.0);
    near.max(AHEAD * window_s)
}

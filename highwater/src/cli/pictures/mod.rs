//! `--plot FILE`: a picture of ours as a file, SVG or PNG by its ending.

mod letters;

use std::path::Path;

use anyhow::{Context, Result};

use super::exit::Usage;
use super::out::say;
use report::plot::png;

/// Fonts for so many scripts are looked for.
const SCRIPTS_MAX: usize = 4;

/// How the picture is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
}

/// Finds out before the work what would fail after it.
///
/// # Errors
/// The file ends in neither .svg nor .png, or its folder is not there.
pub fn check(path: &Path) -> Result<()> {
    format_of(path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            let words = format!("--plot {}: its folder is not there", path.display());
            Err(Usage(words).into())
        }
        _ => Ok(()),
    }
}

/// Writes the sheet, an SVG.
///
/// # Errors
/// The file has another ending, or cannot be written.
pub fn write(path: &Path, sheet: &str) -> Result<()> {
    let bytes = match format_of(path)? {
        Format::Svg => sheet.as_bytes().to_vec(),
        Format::Png => pixels(sheet)?,
    };
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

fn format_of(path: &Path) -> Result<Format> {
    let ending = path.extension().map(|e| e.to_ascii_lowercase());
    match ending.as_ref().and_then(|e| e.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        _ => {
            let words = format!(
                "--plot {}: name a file that ends in .svg or .png",
                path.display()
            );
            Err(Usage(words).into())
        }
    }
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

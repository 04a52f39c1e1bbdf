//! A picture of memory series: readings, the fitted curve with its interval, the forecast, the limit. As SVG, or
//! the same as PNG. Pure: what is drawn is given, bytes come back.

mod fonts;
pub mod front;
pub mod heat;
mod mesh;
pub mod over_time;
mod panel;
mod png;

use plotters::coord::Shift;
use plotters::prelude::*;

use series::series::Series;
use verdict::series::SeriesVerdict;
use verdict::trace::Trace;

pub use png::png;

/// More small pictures than this on one sheet cannot be read.
pub const PANELS_MAX: usize = 24;

/// One series with what was said of it.
pub struct Panel<'a> {
    pub series: &'a Series,
    pub verdict: &'a SeriesVerdict,
    pub trace: Option<Trace>,
}

/// What goes wrong while drawing is our own bug or a size that cannot be: in words.
pub type Drawn<T> = Result<T, String>;

const WHITE_SHEET: RGBColor = WHITE;
const INK: RGBColor = RGBColor(40, 44, 52);
const PALE_INK: RGBColor = RGBColor(110, 116, 126);
const READINGS: RGBColor = RGBColor(120, 144, 176);
const CURVE: RGBColor = RGBColor(194, 65, 12);
const LIMIT: RGBColor = RGBColor(185, 28, 28);
/// Of arms. They stay apart for most eyes, and in grey; after eight they come again.
const COLOURS: [RGBColor; 8] = [
    RGBColor(11, 98, 168),
    RGBColor(189, 74, 0),
    RGBColor(15, 122, 90),
    RGBColor(163, 58, 130),
    RGBColor(122, 98, 0),
    RGBColor(90, 80, 170),
    RGBColor(170, 40, 50),
    RGBColor(60, 70, 80),
];
const FAMILY: &str = "sans-serif";
/// Height of the line of explanations at the foot.
const FOOT: u32 = 26;

/// Draws up to [`PANELS_MAX`] series on one sheet.
///
/// # Errors
/// No series, or more than fit; the words say how many.
pub fn svg(panels: &[Panel]) -> Drawn<String> {
    if panels.is_empty() || panels.len() > PANELS_MAX {
        return Err(format!(
            "{} series; a picture holds 1 to {PANELS_MAX}: choose with --only ID,...",
            panels.len()
        ));
    }
    let (columns, (wide, high)) = match panels.len() {
        1 => (1, (960, 480)),
        2..=4 => (2, (640, 340)),
        _ => (3, (480, 270)),
    };
    let rows = panels.len().div_ceil(columns);
    let size = (wide * columns as u32, high * rows as u32 + FOOT);
    let mut text = String::new();
    {
        let sheet = SVGBackend::with_string(&mut text, size).into_drawing_area();
        sheet.fill(&WHITE_SHEET).map_err(words)?;
        let (cells, foot) = sheet.split_vertically(high * rows as u32);
        let cells = cells.split_evenly((rows, columns));
        for (cell, panel) in cells.iter().zip(panels) {
            panel::draw(cell, panel)?;
        }
        explain(&foot, panels)?;
        sheet.present().map_err(words)?;
    }
    Ok(text)
}

fn words<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What each line is, once for all panels.
fn explain(foot: &Area, panels: &[Panel]) -> Drawn<()> {
    let style = (FAMILY, 14).into_font().color(&PALE_INK);
    let has_limit = panels.iter().any(|p| p.series.limit.is_some());
    let mut entries = vec![
        (READINGS, 1, "readings"),
        (CURVE, 1, "fitted level, with its 95 % interval"),
        (CURVE, 3, "where it leads, if it goes on like this"),
    ];
    if has_limit {
        entries.push((LIMIT, 1, "limit"));
    }
    let mut x = 16;
    for (color, dashes, entry) in entries {
        let length = 18 / dashes;
        for dash in 0..dashes {
            let (from, to) = (
                x + dash * length,
                x + (dash + 1) * length - 2 * (dashes - 1) / 2,
            );
            let line = PathElement::new(vec![(from, 12), (to, 12)], color.stroke_width(2));
            foot.draw(&line).map_err(words)?;
        }
        let label = Text::new(entry, (x + 24, 6), style.clone());
        foot.draw(&label).map_err(words)?;
        x += 48 + (entry.len() as f64 * 5.6) as i32;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use series::series::Point;
    use verdict::Rules;
    use verdict::series::judge;
    use verdict::trace::trace;

    fn series(id: &str, value: impl Fn(f64) -> f64) -> Series {
        let points = (0..500)
            .map(|i| Point {
                t_s: 1_795_000_000.0 + 60.0 * f64::from(i),
                value: value(f64::from(i) / 500.0) * 1_048_576.0,
            })
            .collect();
        Series {
            id: id.to_owned(),
            points,
            limit: Some(300.0 * 1_048_576.0),
            ..Series::default()
        }
    }

    fn sheet(all: &[Series]) -> Drawn<String> {
        let rules = Rules::default();
        let verdicts: Vec<SeriesVerdict> = all.iter().map(|s| judge(s, &rules)).collect();
        let panels = all.iter().zip(&verdicts).map(|(series, verdict)| Panel {
            series,
            verdict,
            trace: trace(series, 15_000.0, &rules),
        });
        svg(&panels.collect::<Vec<_>>())
    }

    #[test]
    fn a_picture_holds_the_id_the_label_the_unit_and_the_limit() {
        let text = sheet(&[series("api/0", |x| 100.0 + 80.0 * x)]).unwrap();
        for part in [
            "api/0",
            "growing",
            "MiB",
            "hours since",
            "limit",
            "polyline",
            "polygon",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let picture = png(&text, &[]).unwrap();
        assert!(picture.bytes[1..4] == *b"PNG" && picture.lacking.is_empty());
    }

    #[test]
    fn names_of_others_stay_text() {
        let text = sheet(&[series("<script>&\"'\u{1b}[31m", |_| 100.0)]).unwrap();
        assert!(
            !text.contains("<script>") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(png(&text, &[]).is_ok());
        let text = sheet(&[series("服务", |_| 100.0)]).unwrap();
        let lacking = png(&text, &[]).unwrap().lacking;
        assert!(text.contains("服务") && lacking.into_iter().eq(['服']));
    }

    #[test]
    fn odd_series_are_drawn_too() {
        let odd = [
            series("nothing", |_| f64::NAN),
            series("one value", |_| 100.0),
            series("huge", |x| 1e12 * (1.0 + x)),
            Series::default(),
        ];
        assert!(sheet(&odd).unwrap().contains("insufficient"));
        assert!(sheet(&[]).is_err());
        let many: Vec<Series> = (0..=PANELS_MAX)
            .map(|i| series(&i.to_string(), |_| 1.0))
            .collect();
        assert!(sheet(&many).unwrap_err().contains("25 series"));
    }
}

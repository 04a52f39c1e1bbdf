//! Every request of every arm: one map each, time to the right, latency upwards, dark where many were.

use plotters::prelude::*;
use plotters::style::FontStyle;

use super::panel::time_unit;
use super::{Area, Drawn, FAMILY, INK, PALE_INK, PANELS_MAX, words};
use crate::charts::latency::{LatencyLine, class_ns};
use crate::visible::shortened;
use series::latency::over_time::CLASSES_PER_DECADE;
use units::written;

const CELL: (u32, u32) = (540, 240);
const HEAD: u32 = 40;
const FOOT: u32 = 34;
const NAME_MAX: usize = 48;
/// The palest colour is one request in ten to this power.
const RARE: f64 = 5.0;
/// Shades that an eye still tells apart; neighbours in time of one shade are one rectangle.
const SHADES: usize = 16;
/// From few to all, as on the page.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0xdc, 0xea, 0xf7),
    RGBColor(0x9c, 0xc3, 0xe6),
    RGBColor(0x3f, 0x86, 0xc4),
    RGBColor(0x0d, 0x4f, 0x8b),
    RGBColor(0x06, 0x26, 0x4a),
];

/// What is drawn: the lines of up to [`PANELS_MAX`] arms, the rest is left to the page.
pub struct Sheet<'a> {
    pub title: &'a str,
    pub arms: &'a [String],
    pub lines: &'a [LatencyLine],
    pub took_s: f64,
}

/// # Errors
/// What goes wrong while drawing, in words.
pub fn svg(sheet: &Sheet) -> Drawn<String> {
    let lines = &sheet.lines[..sheet.lines.len().min(PANELS_MAX)];
    let columns = lines.len().clamp(1, 2);
    let rows = lines.len().div_ceil(columns).max(1);
    let high = HEAD + CELL.1 * rows as u32;
    let mut text = String::new();
    {
        let size = (CELL.0 * 2, high + FOOT);
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(words)?;
        let style = (FAMILY, 20).into_font().style(FontStyle::Bold).color(&INK);
        area.draw(&Text::new(sheet.title, (18, 10), style))
            .map_err(words)?;
        let (body, foot) = area.split_vertically(high);
        let (_, body) = body.split_vertically(HEAD);
        let classes = classes(lines);
        for (cell, line) in body.split_evenly((rows, columns)).iter().zip(lines) {
            map(cell, sheet, line, classes)?;
        }
        key(&foot)?;
        area.present().map_err(words)?;
    }
    Ok(text)
}

/// The classes that occur anywhere: all maps share them.
fn classes(lines: &[LatencyLine]) -> (i32, i32) {
    let all = lines.iter().flat_map(|line| line.columns.iter().flatten());
    let (low, high) = all.fold((i32::MAX, i32::MIN), |(low, high), (class, _)| {
        (low.min(*class), high.max(*class))
    });
    match low <= high {
        true => (low, high + 1),
        false => (0, CLASSES_PER_DECADE as i32),
    }
}

fn map(cell: &Area, sheet: &Sheet, line: &LatencyLine, (low, high): (i32, i32)) -> Drawn<()> {
    let name = sheet.arms.get(line.arm).map_or("", String::as_str);
    let style = (FAMILY, 15).into_font().style(FontStyle::Bold).color(&INK);
    let name = Text::new(shortened(name, NAME_MAX), (62, 2), style);
    cell.draw(&name).map_err(words)?;
    let (unit_s, unit) = time_unit(sheet.took_s);
    let to = (sheet.took_s / unit_s).max(f64::MIN_POSITIVE);
    let mut chart = ChartBuilder::on(&cell.margin(22, 8, 6, 14))
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..to, f64::from(low)..f64::from(high))
        .map_err(words)?;
    let font = || (FAMILY, 14).into_font().color(&PALE_INK);
    let decade = |class: &f64| match class.rem_euclid(CLASSES_PER_DECADE) < 0.5 {
        true => written::nanoseconds(class_ns(class.round() as i32)),
        false => String::new(),
    };
    let digits = usize::from(to < 6.0);
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(INK.mix(0.4))
        .label_style(font())
        .axis_desc_style(font())
        .x_desc(format!("{unit} since the run began"))
        .x_labels(6)
        .y_labels((f64::from(high - low) / CLASSES_PER_DECADE) as usize + 2)
        .x_label_formatter(&|t| format!("{t:.digits$}"))
        .y_label_formatter(&decade)
        .draw()
        .map_err(words)?;
    let rectangles = rectangles(line).into_iter().map(|found| {
        let from = (found.from as f64 * line.step_s / unit_s).min(to);
        let end = (found.to as f64 * line.step_s / unit_s).min(to);
        let (bottom, top) = (f64::from(found.class), f64::from(found.class + 1));
        Rectangle::new([(from, top), (end, bottom)], colour(found.shade).filled())
    });
    chart.draw_series(rectangles).map(|_| ()).map_err(words)
}

/// Neighbouring columns in which a class has the same shade.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stripe {
    class: i32,
    shade: usize,
    /// Columns, the last excluded.
    from: usize,
    to: usize,
}

fn rectangles(line: &LatencyLine) -> Vec<Stripe> {
    let mut open: std::collections::BTreeMap<i32, Stripe> = std::collections::BTreeMap::new();
    let mut done = Vec::new();
    for (at, column) in line.columns.iter().enumerate() {
        let all: u64 = column.iter().map(|(_, count)| count).sum();
        for (class, count) in column {
            let shade = shade(*count as f64 / all.max(1) as f64);
            let fresh = Stripe {
                class: *class,
                shade,
                from: at,
                to: at + 1,
            };
            match open.get_mut(class) {
                Some(last) if last.to == at && last.shade == shade => last.to = at + 1,
                _ => done.extend(open.insert(*class, fresh)),
            }
        }
    }
    done.extend(open.into_values());
    done
}

/// 0 for one request in 100,000 or fewer, the highest for all.
fn shade(share: f64) -> usize {
    let level = (1.0 + share.max(f64::MIN_POSITIVE).log10() / RARE).clamp(0.0, 1.0);
    (level * (SHADES - 1) as f64).round() as usize
}

fn colour(shade: usize) -> RGBColor {
    let at = shade as f64 / (SHADES - 1) as f64 * (COLOURS.len() - 1) as f64;
    let (lower, upper) = (COLOURS[at.floor() as usize], COLOURS[at.ceil() as usize]);
    let part = at - at.floor();
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    RGBColor(
        mix(lower.0, upper.0),
        mix(lower.1, upper.1),
        mix(lower.2, upper.2),
    )
}

/// What the colours mean.
fn key(foot: &Area) -> Drawn<()> {
    let font = || (FAMILY, 14).into_font().color(&PALE_INK);
    let few = "1 in 100,000 of a moment's requests";
    foot.draw(&Text::new(few, (18, 9), font())).map_err(words)?;
    let left = 18 + (few.len() as f64 * 6.6) as i32;
    for shade in 0..SHADES {
        let x = left + 10 * shade as i32;
        let block = Rectangle::new([(x, 10), (x + 10, 22)], colour(shade).filled());
        foot.draw(&block).map_err(words)?;
    }
    let end = left + 10 * SHADES as i32 + 8;
    foot.draw(&Text::new("all", (end, 9), font()))
        .map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(columns: Vec<Vec<(i32, u64)>>) -> LatencyLine {
        LatencyLine {
            step_s: 1.0,
            columns,
            ..LatencyLine::default()
        }
    }

    #[test]
    fn neighbours_of_one_shade_are_one_stripe() {
        let one = |class| vec![(class, 10)];
        let found = rectangles(&line(vec![one(60), one(60), vec![], one(60), one(61)]));
        let spans: Vec<_> = found.iter().map(|s| (s.class, s.from, s.to)).collect();
        assert_eq!(spans, [(60, 0, 2), (60, 3, 4), (61, 4, 5)]);
    }

    #[test]
    fn shades_go_from_one_in_a_hundred_thousand_to_all() {
        assert_eq!((shade(0.0), shade(1e-5), shade(1.0)), (0, 0, SHADES - 1));
        assert_eq!(colour(0), COLOURS[0]);
        assert_eq!(colour(SHADES - 1), COLOURS[4]);
    }

    #[test]
    fn nothing_and_much_are_drawn() {
        for lines in [
            vec![],
            vec![line(vec![])],
            vec![line(vec![vec![(60, 1)]]); 40],
        ] {
            let arms = ["<b>".to_owned()];
            let sheet = Sheet {
                title: "Every request",
                arms: &arms,
                lines: &lines,
                took_s: 5.0,
            };
            let text = svg(&sheet).unwrap();
            assert!(!text.contains("<b>") && text.contains("Every request"));
        }
    }
}

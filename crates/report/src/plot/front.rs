//! Settings of allocators by what they take: CPU time to the right, memory upwards, the front of each as a line.

use plotters::prelude::*;
use plotters::style::FontStyle;

use super::{Area, COLOURS, Drawn, FAMILY, INK, PALE_INK, words};
use crate::visible::shortened;
use units::written::ByteScale;

const SIZE: (u32, u32) = (960, 560);
const HEAD: u32 = 44;
const LEGEND_LINE: i32 = 20;
const NAME_MAX: usize = 40;
/// An axis reaches beyond its values by this share of their range.
const MARGIN: f64 = 0.08;

/// CPU time of the allocator in times today's, and mean memory in bytes.
pub type Point = (f64, f64);

/// What was tried on one allocator.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    pub name: String,
    pub points: Vec<Point>,
    /// Those that were replayed again, the least memory first.
    pub front: Vec<Point>,
}

/// # Errors
/// What goes wrong while drawing, in words. `today`: the recorded arm.
pub fn svg(title: &str, today: Option<Point>, tried: &[Tried]) -> Drawn<String> {
    let all: Vec<Point> = tried
        .iter()
        .flat_map(|one| one.points.iter().chain(&one.front))
        .chain(&today)
        .copied()
        .filter(|(cpu, bytes)| cpu.is_finite() && bytes.is_finite())
        .collect();
    let scale = ByteScale::of_column(all.iter().map(|point| point.1));
    let in_unit = |point: &Point| (point.0, point.1 / scale.bytes);
    let (xs, ys) = (
        range(all.iter().map(|point| point.0)),
        range(all.iter().map(|point| point.1 / scale.bytes)),
    );
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(words)?;
        let style = (FAMILY, 20).into_font().style(FontStyle::Bold).color(&INK);
        area.draw(&Text::new(title, (18, 10), style))
            .map_err(words)?;
        legend(&area, today.is_some(), tried)?;
        let (_, body) = area.split_vertically(HEAD + LEGEND_LINE as u32 * (tried.len() as u32 + 1));
        let mut chart = ChartBuilder::on(&body.margin(6, 12, 6, 18))
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(xs, ys)
            .map_err(words)?;
        let font = || (FAMILY, 14).into_font().color(&PALE_INK);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.1))
            .axis_style(INK.mix(0.4))
            .label_style(font())
            .axis_desc_style(font())
            .x_desc("CPU time of the allocator, times today's")
            .y_desc(format!("mean anonymous memory, {}", scale.word))
            .x_label_formatter(&|value| format!("{value:.2}"))
            .y_label_formatter(&|value| units::written::short(*value))
            .draw()
            .map_err(words)?;
        for (at, one) in tried.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let dot = |point: &Point| Circle::new(in_unit(point), 3, colour.mix(0.35).filled());
            chart
                .draw_series(one.points.iter().map(dot))
                .map_err(words)?;
            let line = LineSeries::new(one.front.iter().map(in_unit), colour.stroke_width(2));
            chart.draw_series(line).map_err(words)?;
            let mark = |point: &Point| Circle::new(in_unit(point), 5, colour.filled());
            chart
                .draw_series(one.front.iter().map(mark))
                .map_err(words)?;
        }
        let cross = |point: &Point| Cross::new(in_unit(point), 7, INK.stroke_width(3));
        chart.draw_series(today.iter().map(cross)).map_err(words)?;
        area.present().map_err(words)?;
    }
    Ok(text)
}

fn legend(area: &Area, has_today: bool, tried: &[Tried]) -> Drawn<()> {
    let style = (FAMILY, 14).into_font().color(&INK);
    let mut y = HEAD as i32;
    for (at, one) in tried.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        area.draw(&Circle::new((26, y + 7), 5, colour.filled()))
            .map_err(words)?;
        let entry = format!(
            "{}: {} settings tried, those with the least memory for their CPU as a line",
            shortened(&one.name, NAME_MAX),
            one.points.len()
        );
        area.draw(&Text::new(entry, (40, y), style.clone()))
            .map_err(words)?;
        y += LEGEND_LINE;
    }
    if has_today {
        area.draw(&Cross::new((26, y + 7), 6, INK.stroke_width(3)))
            .map_err(words)?;
        area.draw(&Text::new("today: as it was recorded", (40, y), style))
            .map_err(words)?;
    }
    Ok(())
}

/// From the least to the largest, with a margin; never empty.
fn range(values: impl Iterator<Item = f64> + Clone) -> std::ops::Range<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    if low > high {
        return 0.0..1.0;
    }
    let margin = match high - low {
        width if width > 0.0 => width * MARGIN,
        _ => (high.abs() * MARGIN).max(f64::MIN_POSITIVE),
    };
    (low - margin).max(0.0)..high + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn a_front_is_drawn_with_its_names() {
        let tried = Tried {
            name: "jemalloc@5.3.0".to_owned(),
            points: vec![(1.0, 50.0 * MIB), (1.4, 40.0 * MIB), (1.5, 60.0 * MIB)],
            front: vec![(1.4, 40.0 * MIB), (1.0, 50.0 * MIB)],
        };
        let drawn = svg("Settings", Some((1.0, 55.0 * MIB)), &[tried]).expect("a picture");
        for words in [
            "jemalloc@5.3.0: 3 settings tried",
            "today",
            "anonymous memory, MiB",
            "times today",
        ] {
            assert!(drawn.contains(words), "no {words:?}");
        }
        // Three tried, two of them again as marks, and one in the legend.
        assert_eq!(drawn.matches("<circle").count(), 6, "{drawn}");
    }

    #[test]
    fn hostile_names_and_numbers_that_are_none_draw_no_markup() {
        let tried = Tried {
            name: "<script>alert(1)</script>".to_owned(),
            points: vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
            front: Vec::new(),
        };
        let drawn = svg("<b>", None, &[tried]).expect("a picture");
        assert!(
            !drawn.contains("<script>") && !drawn.contains("<b>"),
            "{drawn}"
        );
        assert!(svg("t", None, &[]).is_ok());
        assert!(svg("t", Some((0.0, 0.0)), &[]).is_ok());
    }
}

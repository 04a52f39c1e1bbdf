//! A quantity of all arms over the run: mean and range of each arm, a thin line for each process, and the events
//! that matter, numbered as in the report's list.

use plotters::prelude::*;
use plotters::style::FontStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::mesh::{Chart, Mesh};
use super::panel::time_unit;
use super::{Area, COLOURS, Drawn, FAMILY, INK, PALE_INK, words};
use crate::charts;
use crate::visible::{drawn_columns, shortened};

const SIZE: (u32, u32) = (1080, 520);
/// Lines of more processes than this are a grey mass; the range shows where they are.
const PROCESSES_MAX: usize = 48;
/// A gap of this many usual steps stays a gap.
const GAP_STEPS: f64 = 5.0;
/// Names in the legend.
const NAME_MAX: usize = 26;
/// The axis of values shows at least this share of the highest, so that what is flat looks flat.
const SPAN_MIN: f64 = 0.25;
/// The axis of values begins at zero when the lowest value is below this share of the highest.
const ZERO_BELOW: f64 = 0.5;

/// Values and seconds beyond these are no readings, and no axis can count them.
const VALUE_MAX: f64 = 1e15;
const SECONDS_MAX: f64 = 1e10;

/// What is drawn.
pub struct Sheet<'a> {
    pub title: &'a str,
    /// What the numbers of the axis are.
    pub unit: &'a str,
    /// What one of the unit is in the panel's values.
    pub scale: f64,
    pub arms: &'a [String],
    pub panel: &'a charts::Panel,
    /// The range of each arm is filled.
    pub has_bands: bool,
    pub marks: &'a [Mark],
    pub took_s: f64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub t_s: f64,
    /// "3", or "3-5" where events stand too close to be told apart.
    pub number: String,
    /// `None`: of the run as a whole.
    pub arm: Option<usize>,
}

/// # Errors
/// What goes wrong while drawing, in words.
pub fn svg(sheet: &Sheet) -> Drawn<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(words)?;
        let title = (FAMILY, 20).into_font().style(FontStyle::Bold).color(&INK);
        let title = Text::new(sheet.title, (18, 10), title);
        area.draw(&title).map_err(words)?;
        let rows = legend(&area, sheet)?;
        draw(&area, sheet, 44 + 22 * rows)?;
        area.present().map_err(words)?;
    }
    Ok(text)
}

fn colour(arm: usize) -> RGBColor {
    COLOURS[arm % COLOURS.len()]
}

fn is_dashed(arm: usize) -> bool {
    arm >= COLOURS.len()
}

/// One entry for each arm, in as many rows as it takes; the value is their number.
fn legend(area: &Area, sheet: &Sheet) -> Drawn<i32> {
    let (mut x, mut row) = (18, 0);
    for (arm, name) in sheet.arms.iter().enumerate() {
        let name = shortened(name, NAME_MAX);
        let wide = 52 + (drawn_columns(&name) as f64 * 7.6) as i32;
        if x + wide > SIZE.0 as i32 - 18 && x > 18 {
            (x, row) = (18, row + 1);
        }
        let y = 47 + 22 * row;
        for (from, to) in dashes(arm, x, x + 26) {
            let line = PathElement::new(vec![(from, y), (to, y)], colour(arm).stroke_width(3));
            area.draw(&line).map_err(words)?;
        }
        let style = (FAMILY, 15).into_font().color(&INK);
        let label = Text::new(name, (x + 32, y - 7), style);
        area.draw(&label).map_err(words)?;
        x += wide;
    }
    Ok(row + 1)
}

fn dashes(arm: usize, from: i32, to: i32) -> Vec<(i32, i32)> {
    match is_dashed(arm) {
        false => vec![(from, to)],
        true => (from..to)
            .step_by(9)
            .map(|x| (x, (x + 6).min(to)))
            .collect(),
    }
}

fn draw(area: &Area, sheet: &Sheet, top: i32) -> Drawn<()> {
    let Some((lo, hi)) = range(sheet) else {
        let style = (FAMILY, 15).into_font().color(&PALE_INK);
        let said = Text::new("no reading", (18, top + 20), style);
        return area.draw(&said).map_err(words);
    };
    let (unit_s, unit) = time_unit(sheet.took_s);
    let to = (sheet.took_s / unit_s).max(f64::MIN_POSITIVE);
    let body = area.margin(top + 18, 10, 12, 22);
    let mut chart = ChartBuilder::on(&body)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..to, lo..hi)
        .map_err(words)?;
    let axes = Mesh {
        font_px: 15,
        time: &format!("{unit} since the run began"),
        to,
        value: sheet.unit,
        digits: digits((lo, hi)),
        labels: (8, 7),
    };
    axes.draw(&mut chart)?;
    let panel = sheet.panel;
    let times: Vec<f64> = panel.t_s.iter().map(|t| t / unit_s).collect();
    if sheet.has_bands {
        bands(&mut chart, sheet, &times, (lo, hi))?;
    }
    if panel.processes.len() <= PROCESSES_MAX {
        for line in &panel.processes {
            let style = colour(line.arm).mix(0.3).stroke_width(1);
            polyline(&mut chart, &times, &line.values, sheet.scale, style, false)?;
        }
    }
    for (arm, band) in panel.arms.iter().enumerate() {
        let style = colour(arm).stroke_width(3);
        polyline(
            &mut chart,
            &times,
            &band.mean,
            sheet.scale,
            style,
            is_dashed(arm),
        )?;
    }
    marks(&mut chart, sheet, area, unit_s, (lo, hi))
}

fn range(sheet: &Sheet) -> Option<(f64, f64)> {
    let bands = sheet.panel.arms.iter();
    let all = bands.flat_map(|band| [&band.mean, &band.lo, &band.hi]);
    let values = all.flatten().flatten().map(|value| value / sheet.scale);
    let values: Vec<f64> = values.filter(|value| value.abs() < VALUE_MAX).collect();
    let lo = values.iter().copied().fold(f64::INFINITY, f64::min);
    let hi = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let can_be = sheet.took_s > 0.0 && sheet.took_s < SECONDS_MAX;
    if values.is_empty() || !can_be {
        return None;
    }
    let lo = lo.min((1.0 - SPAN_MIN) * hi);
    let from_zero = lo >= 0.0 && lo < ZERO_BELOW * hi;
    let span = if from_zero { hi } else { hi - lo };
    let pad = 0.06 * span.max(0.1 * hi.abs()).max(1e-9);
    let bottom = if from_zero || lo - pad < 0.0 && lo >= 0.0 {
        0.0
    } else {
        lo - pad
    };
    Some((bottom, hi + pad))
}

fn digits((lo, hi): (f64, f64)) -> usize {
    match hi - lo {
        span if span > 8.0 => 0,
        span => (1.0 - span.log10()).clamp(0.0, 4.0).ceil() as usize,
    }
}

/// Stretches in which no reading is missing for long.
fn runs(times: &[f64], values: &[Option<f64>], scale: f64) -> Vec<Vec<(f64, f64)>> {
    let seen = times.iter().zip(values);
    let seen = seen.filter_map(|(t, v)| Some((*t, (*v)? / scale)));
    let seen = seen.filter(|(t, v)| t.abs() < SECONDS_MAX && v.abs() < VALUE_MAX);
    let seen: Vec<(f64, f64)> = seen.collect();
    let steps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let usual = match steps.is_empty() {
        true => f64::INFINITY,
        false => series::order::median(&steps),
    };
    let near = |a: &(f64, f64), b: &(f64, f64)| b.0 - a.0 <= GAP_STEPS * usual;
    seen.chunk_by(near).map(<[(f64, f64)]>::to_vec).collect()
}

fn polyline(
    chart: &mut Chart,
    times: &[f64],
    values: &[Option<f64>],
    scale: f64,
    style: ShapeStyle,
    dashed: bool,
) -> Drawn<()> {
    for run in runs(times, values, scale) {
        match dashed {
            true => chart.draw_series(DashedLineSeries::new(run, 8, 5, style)),
            false => chart.draw_series(LineSeries::new(run, style)),
        }
        .map_err(words)?;
    }
    Ok(())
}

/// From the lowest to the highest process of each arm.
fn bands(chart: &mut Chart, sheet: &Sheet, times: &[f64], (lo, hi): (f64, f64)) -> Drawn<()> {
    for (arm, band) in sheet.panel.arms.iter().enumerate() {
        let lower = runs(times, &band.lo, sheet.scale);
        for (upper, lower) in runs(times, &band.hi, sheet.scale).into_iter().zip(lower) {
            let place = |(t, value): &(f64, f64)| (*t, value.clamp(lo, hi));
            let edge = upper.iter().map(place).chain(lower.iter().rev().map(place));
            let area = Polygon::new(edge.collect::<Vec<_>>(), colour(arm).mix(0.1).filled());
            chart.draw_series([area]).map_err(words)?;
        }
    }
    Ok(())
}

fn marks(
    chart: &mut Chart,
    sheet: &Sheet,
    area: &Area,
    unit_s: f64,
    (lo, hi): (f64, f64),
) -> Drawn<()> {
    let mut numbers = Vec::new();
    let inside = |mark: &&Mark| mark.t_s >= 0.0 && mark.t_s <= sheet.took_s;
    for mark in sheet.marks.iter().filter(inside) {
        let colour = mark.arm.map_or(INK, colour);
        let x = mark.t_s / unit_s;
        let line = DashedLineSeries::new([(x, lo), (x, hi)], 3, 4, colour.mix(0.7).stroke_width(1));
        chart.draw_series(line).map_err(words)?;
        // Above the axes, where no line runs.
        let (x, y) = chart.backend_coord(&(x, hi));
        let style = (FAMILY, 14).into_font().color(&colour);
        let style = style.pos(Pos::new(HPos::Center, VPos::Bottom));
        numbers.push(Text::new(mark.number.clone(), (x, y - 3), style));
    }
    numbers
        .iter()
        .try_for_each(|number| area.draw(number).map_err(words))
}

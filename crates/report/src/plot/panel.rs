//! One series in its cell of the sheet.

use plotters::prelude::*;
use plotters::style::FontStyle;

use super::mesh::{Chart, Mesh};
use super::{Area, CURVE, Drawn, FAMILY, INK, LIMIT, PALE_INK, Panel, READINGS, words};
use crate::charts::POINTS_MAX;
use crate::charts::grid::Grid;
use crate::visible::{drawn_columns, shortened};
use series::series::{Point, Series};
use units::written;
use units::written::ByteScale;
use verdict::Label;
use verdict::trace::{Trace, TracePoint};

/// The axis of values shows at least this share of the level, so that a flat series snapshots flat.
const SPAN_MIN: f64 = 0.1;
/// Interval and forecast may widen the axis by so many times what the readings span, the limit by as much.
const WIDEN_MAX: f64 = 1.0;
/// Instants from here on are calendar time (seconds since the epoch, from 1990 on).
const EPOCH_MIN_S: f64 = 631_152_000.0;

/// What the axes show.
struct Axes {
    /// Seconds of the series at the left edge, and in one unit of the axis.
    from_s: f64,
    unit_s: f64,
    title: String,
    /// Units of time at the right edge.
    to: f64,
    /// Bytes in one unit of the axis, and the range in bytes.
    scale: ByteScale,
    lo: f64,
    hi: f64,
}

impl Axes {
    fn x(&self, t_s: f64) -> f64 {
        (t_s - self.from_s) / self.unit_s
    }

    fn y(&self, bytes: f64) -> f64 {
        bytes.clamp(self.lo, self.hi) / self.scale.bytes
    }

    fn holds(&self, bytes: f64) -> bool {
        (self.lo..=self.hi).contains(&bytes)
    }
}

/// Title and chart; a series without a usable reading is its title and a sentence.
pub fn draw(cell: &Area, panel: &Panel) -> Drawn<()> {
    title(cell, panel)?;
    let Some(axes) = axes(panel) else {
        let style = (FAMILY, 15).into_font().color(&PALE_INK);
        let said = Text::new("no usable reading", (16, 70), style);
        return cell.draw(&said).map_err(words);
    };
    let body = cell.margin(48, 6, 8, 18);
    let mut chart = ChartBuilder::on(&body)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(
            0.0..axes.to,
            axes.lo / axes.scale.bytes..axes.hi / axes.scale.bytes,
        )
        .map_err(words)?;
    let span = (axes.hi - axes.lo) / axes.scale.bytes;
    let digits = (1.0 - span.log10()).clamp(0.0, 3.0).ceil() as usize;
    let mesh = Mesh {
        font_px: 14,
        time: &axes.title,
        to: axes.to,
        value: axes.scale.word,
        digits: if span > 8.0 { 0 } else { digits },
        labels: (7, 6),
    };
    mesh.draw(&mut chart)?;
    if let Some(trace) = &panel.trace {
        intervals(&mut chart, &axes, trace)?;
    }
    readings(&mut chart, &axes, panel.series)?;
    if let Some(trace) = &panel.trace {
        curves(&mut chart, &axes, trace)?;
    }
    marks(&mut chart, &axes, panel.series)
}

/// Who it is, and what is said of it.
fn title(cell: &Area, panel: &Panel) -> Drawn<()> {
    let wide = cell.dim_in_pixel().0 as f64;
    let fits = |size: f64| ((wide - 32.0) / (0.5 * size)) as usize;
    let id = shortened(&panel.verdict.id, fits(17.0));
    let name = (FAMILY, 20).into_font().style(FontStyle::Bold).color(&INK);
    cell.draw(&Text::new(id, (16, 8), name)).map_err(words)?;
    let said = shortened(&said(panel, fits(13.0)), fits(13.0));
    let style = (FAMILY, 15).into_font().color(&PALE_INK);
    cell.draw(&Text::new(said, (16, 30), style)).map_err(words)
}

/// "growing, +281 MiB/h, at its limit in 3 h, +270 MiB/h to +292 MiB/h, sure 0.99": the most important first,
/// as many as fit.
fn said(panel: &Panel, columns: usize) -> String {
    let v = panel.verdict;
    let mut parts = vec![v.label.word().to_owned()];
    let grows = v.label == Label::Growing;
    let slope = v.slope_per_hour.filter(|_| grows);
    parts.extend(slope.map(|e| written::bytes_per_hour(e.value)));
    let left = v.time_to_limit_s.map(|e| written::seconds(e.value));
    parts.extend(left.map(|left| format!("at its limit in {left}")));
    let level = v.asymptote.or(v.level).filter(|_| !grows);
    let word = if v.asymptote.is_some() {
        "towards"
    } else {
        "at"
    };
    parts.extend(level.map(|e| format!("{word} {}", written::bytes_interval(e.value, e.lo, e.hi))));
    parts.extend(v.needs.as_ref().map(|needs| format!("needs {needs}")));
    parts.extend(slope.map(|e| {
        let [lo, hi] = [e.lo, e.hi].map(written::bytes_per_hour);
        format!("95 %: {lo} to {hi}")
    }));
    parts.push(format!("confidence {:.2}", v.confidence));
    let mut said = parts.remove(0);
    for part in parts {
        if drawn_columns(&said) + drawn_columns(&part) + 2 <= columns {
            said = format!("{said}, {part}");
        }
    }
    said
}

/// `None` without a usable reading.
fn axes(panel: &Panel) -> Option<Axes> {
    let usable = |p: &&Point| p.t_s.is_finite() && p.value.is_finite() && p.value > 0.0;
    let points: Vec<&Point> = panel.series.points.iter().filter(usable).collect();
    let low = |of: fn(&Point) -> f64| points.iter().map(|p| of(p)).fold(f64::INFINITY, f64::min);
    let high = |of: fn(&Point) -> f64| {
        points
            .iter()
            .map(|p| of(p))
            .fold(f64::NEG_INFINITY, f64::max)
    };
    let (from_s, end_s) = (low(|p| p.t_s), high(|p| p.t_s));
    if points.is_empty() {
        return None;
    }
    let ahead = panel.trace.as_ref().and_then(|t| t.ahead.last());
    let to_s = ahead.map_or(end_s, |p| p.t_s).max(end_s).max(from_s + 1.0);
    let (lo, hi) = range(panel, low(|p| p.value), high(|p| p.value));
    let (unit_s, unit) = time_unit(to_s - from_s);
    Some(Axes {
        from_s,
        unit_s,
        title: since(from_s, unit),
        to: (to_s - from_s) / unit_s,
        scale: ByteScale::of(hi),
        lo,
        hi,
    })
}

fn range(panel: &Panel, low: f64, high: f64) -> (f64, f64) {
    let span = (high - low).max(SPAN_MIN * high);
    let (least, most) = (low - WIDEN_MAX * span, high + WIDEN_MAX * span);
    let (mut lo, mut hi) = (low, high);
    let traced = panel
        .trace
        .iter()
        .flat_map(|t| t.lives.iter().flatten().chain(&t.ahead));
    for p in traced {
        lo = lo.min(p.lo.max(least));
        hi = hi.max(p.hi.min(most));
    }
    if let Some(limit) = panel.series.limit.filter(|l| *l <= most) {
        hi = hi.max(limit);
    }
    let short = (SPAN_MIN * hi - (hi - lo)).max(0.0);
    let pad = 0.06 * (hi - lo) + 0.5 * short;
    ((lo - pad).max(0.0), hi + pad)
}

pub(super) fn time_unit(span_s: f64) -> (f64, &'static str) {
    match span_s {
        s if s < 180.0 => (1.0, "seconds"),
        s if s < 3.0 * 3600.0 => (60.0, "minutes"),
        s if s < 4.0 * 86_400.0 => (3600.0, "hours"),
        _ => (86_400.0, "days"),
    }
}

fn since(from_s: f64, unit: &str) -> String {
    let stamp = jiff::Timestamp::from_second(from_s as i64).ok();
    match stamp.filter(|_| from_s >= EPOCH_MIN_S) {
        Some(stamp) => {
            let text = stamp.to_string();
            let minute = text.get(..16).unwrap_or(&text).replace('T', " ");
            format!("{unit} since {minute} UTC")
        }
        None => unit.to_owned(),
    }
}

fn intervals(chart: &mut Chart, axes: &Axes, trace: &Trace) -> Drawn<()> {
    let bands = trace
        .lives
        .iter()
        .map(|life| (life, 0.22))
        .chain([(&trace.ahead, 0.12)]);
    for (band, shade) in bands {
        let upper = band.iter().map(|p| (axes.x(p.t_s), axes.y(p.hi)));
        let lower = band.iter().rev().map(|p| (axes.x(p.t_s), axes.y(p.lo)));
        let edge: Vec<(f64, f64)> = upper.chain(lower).collect();
        let area = Polygon::new(edge, CURVE.mix(shade).filled());
        chart.draw_series([area]).map_err(words)?;
    }
    Ok(())
}

/// Thinned to what a screen can show, no extreme lost; a gap stays a gap.
fn readings(chart: &mut Chart, axes: &Axes, series: &Series) -> Drawn<()> {
    let grid = Grid::new([series].into_iter(), POINTS_MAX);
    let (times, values) = (grid.times(), grid.extremes(&series.points));
    let seen = times.iter().zip(&values);
    let seen = seen.filter_map(|(t, v)| v.filter(|v| *v > 0.0).map(|v| (*t, v)));
    let seen: Vec<(f64, f64)> = seen.collect();
    let gaps = seen.windows(2).map(|w| w[1].0 - w[0].0).collect::<Vec<_>>();
    let usual = series::order::median(&gaps);
    for run in seen.chunk_by(|a, b| b.0 - a.0 <= 5.0 * usual) {
        let line = run.iter().map(|(t, v)| (axes.x(*t), axes.y(*v)));
        let line = LineSeries::new(line, READINGS.stroke_width(1));
        chart.draw_series(line).map_err(words)?;
    }
    Ok(())
}

fn curves(chart: &mut Chart, axes: &Axes, trace: &Trace) -> Drawn<()> {
    let inside = |p: &TracePoint| axes.holds(p.value);
    let place = |p: &TracePoint| (axes.x(p.t_s), axes.y(p.value));
    for life in &trace.lives {
        for run in life
            .chunk_by(|a, b| inside(a) == inside(b))
            .filter(|run| inside(&run[0]))
        {
            let line = LineSeries::new(run.iter().map(place), CURVE.stroke_width(2));
            chart.draw_series(line).map_err(words)?;
        }
    }
    let ahead = trace.ahead.iter().take_while(|p| inside(p)).map(place);
    let dashed = DashedLineSeries::new(ahead, 6, 5, CURVE.stroke_width(2));
    chart.draw_series(dashed).map_err(words)?;
    Ok(())
}

/// The limit, known restarts, and where the readings end.
fn marks(chart: &mut Chart, axes: &Axes, series: &Series) -> Drawn<()> {
    let (lo, hi) = (axes.y(axes.lo), axes.y(axes.hi));
    if let Some(limit) = series.limit.filter(|l| axes.holds(*l)) {
        let across = vec![(0.0, axes.y(limit)), (axes.to, axes.y(limit))];
        let line = PathElement::new(across, LIMIT.stroke_width(1));
        chart.draw_series([line]).map_err(words)?;
    }
    for restart in series
        .restarts_s
        .iter()
        .map(|t| axes.x(*t))
        .filter(|x| *x > 0.0 && *x < axes.to)
    {
        let up = PathElement::new(
            vec![(restart, lo), (restart, hi)],
            INK.mix(0.35).stroke_width(1),
        );
        chart.draw_series([up]).map_err(words)?;
    }
    Ok(())
}

//! Axes, labels and lines of a chart of values over time.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::{Drawn, FAMILY, INK, PALE_INK, words};

pub type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// What the axes say.
pub struct Mesh<'a> {
    pub font_px: i32,
    /// Title of the axis of time, and where that ends in its unit.
    pub time: &'a str,
    pub to: f64,
    /// Title of the axis of values, and decimals of its numbers.
    pub value: &'a str,
    pub digits: usize,
    /// About how many numbers along each axis, time first.
    pub labels: (usize, usize),
}

impl Mesh<'_> {
    pub fn draw(&self, chart: &mut Chart) -> Drawn<()> {
        let font = || (FAMILY, self.font_px).into_font().color(&PALE_INK);
        let digits = self.digits;
        let number = |v: &f64| format!("{v:.digits$}");
        let time_digits = usize::from(self.to < 6.0);
        let time = |v: &f64| format!("{v:.time_digits$}");
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.1))
            .axis_style(INK.mix(0.4))
            .label_style(font())
            .axis_desc_style(font())
            .x_desc(self.time)
            .y_desc(self.value)
            .x_labels(self.labels.0)
            .y_labels(self.labels.1)
            .x_label_formatter(&time)
            .y_label_formatter(&number)
            .draw()
            .map_err(words)
    }
}

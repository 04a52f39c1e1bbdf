//! One cell of an arm's row under its title, the same for the terminal, Markdown and the page.

use series::estimate::Estimate;
use units::written;
use units::written::MISSING;

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub title: String,
    pub value: String,
    /// Ends of the 95 % interval, in the unit of the value; `None` without width.
    pub interval: Option<(f64, f64)>,
}

impl Column {
    /// Words, or a number that has no interval.
    pub fn plain(title: &str, value: Option<String>) -> Column {
        Column {
            title: title.to_string(),
            value: value.unwrap_or_else(|| MISSING.to_string()),
            interval: None,
        }
    }

    /// An estimate divided by `unit`.
    pub fn estimate(
        title: &str,
        estimate: Option<Estimate>,
        unit: f64,
        number: fn(f64) -> String,
    ) -> Column {
        let Some(Estimate { value, lo, hi }) = estimate else {
            return Column::plain(title, None);
        };
        Column {
            interval: (lo < hi).then_some((lo / unit, hi / unit)),
            ..Column::plain(title, Some(number(value / unit)))
        }
    }

    /// "17.4 [15.3, 19.9]".
    pub fn text(&self) -> String {
        match self.interval.and_then(|(lo, hi)| written::interval(lo, hi)) {
            Some(interval) => format!("{} {interval}", self.value),
            None => self.value.clone(),
        }
    }
}

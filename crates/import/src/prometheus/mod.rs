//! Memory series out of a store with the HTTP API of Prometheus: Prometheus itself, VictoriaMetrics, and what
//! stands in front of many of them (Thanos, Mimir).
//!
//! A plain selector without a step is read *raw*: the instant query `selector[window]` gives every sample with
//! its true time. A range query repeats the last value for five minutes, which hides gaps and restarts; it is
//! used for expressions. `selector` understands the query, `client` asks, `answer` parses, `pages` cuts long
//! windows, `beside` finds restarts, limits and CPU in sister metrics, `successor` joins the
//! incarnations of a process, and `names` gives series short ids.

pub mod answer;
pub mod assemble;
pub mod beside;
pub mod client;
pub mod names;
pub mod pages;
pub mod selector;
pub mod successor;

use std::collections::BTreeMap;

use thiserror::Error;

use answer::{Raw, Reading, Trouble};
use client::Client;
use pages::{Page, Pages};
use selector::{Selector, parse_selector};

/// Name and value of every label, `__name__` among them.
pub type Labels = BTreeMap<String, String>;

/// Readings held at once, 16 bytes each: 0.8 GB.
const READINGS_MAX: usize = 50_000_000;
/// Series of one query.
const SERIES_MAX: usize = 200_000;
/// Pages overlap by so much: Prometheus 2 closes a window on the left, 3 leaves it open.
const OVERLAP_MS: i64 = 1000;
/// Points of an expression for which no step was asked.
const STEPS_USUAL: i64 = 1000;

/// What is asked of the server. Times are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub query: String,
    pub start_ms: i64,
    pub end_ms: i64,
    pub step_ms: Option<i64>,
}

/// One series with what was found beside it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetSeries {
    pub labels: Labels,
    /// Seconds since the epoch, and the value; times rise.
    pub readings: Vec<(f64, f64)>,
    /// Starts of the process that wrote it, the first perhaps before the window.
    pub starts_s: Vec<f64>,
    pub limit_bytes: Option<f64>,
    /// CPU seconds so far.
    pub cpu_s: Vec<(f64, f64)>,
}

/// Everything that was found, and what is worth a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    pub series: Vec<FleetSeries>,
    pub notes: Vec<String>,
}

/// A question that was not answered, with what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct FleetError(pub String);

impl From<Trouble> for FleetError {
    fn from(trouble: Trouble) -> FleetError {
        FleetError(trouble.to_string())
    }
}

/// Reads all series of a query, with restarts, limits and CPU where sister metrics tell them.
///
/// # Errors
/// The server cannot be asked, refuses, or holds more than can be judged at once.
pub fn read(client: &Client, asked: &Asked) -> Result<Found, FleetError> {
    let selector = parse_selector(&asked.query);
    let mut found = Found::default();
    let raw = match (&selector, asked.step_ms) {
        (Some(selector), None) => read_raw(client, selector, asked, &mut found.notes)?,
        (Some(selector), Some(step_ms)) => {
            // The last sample of each step, and none where there was none: what a range query of the plain
            // selector would repeat for five minutes.
            let expression = format!("last_over_time({selector}[{step_ms}ms])");
            read_steps(client, &expression, asked, step_ms, &mut found.notes)?
        }
        (None, step_ms) => {
            let step_ms = step_ms.unwrap_or_else(|| usual_step_ms(asked));
            read_steps(client, &asked.query, asked, step_ms, &mut found.notes)?
        }
    };
    let name = selector.as_ref().and_then(|s| s.name.clone());
    let (raw, empty): (Vec<Raw>, Vec<Raw>) = raw.into_iter().partition(|r| !r.readings.is_empty());
    if !empty.is_empty() {
        found.notes.push(format!(
            "{} series {} no numbers (native histograms?) and {} left out",
            empty.len(),
            if empty.len() == 1 { "holds" } else { "hold" },
            if empty.len() == 1 { "is" } else { "are" },
        ));
    }
    found.series = raw.into_iter().map(|r| named(r, name.as_deref())).collect();
    if let Some(selector) = &selector {
        beside::tidy(selector, &mut found);
        beside::attach(client, selector, asked, &mut found)?;
        successor::join(name.as_deref(), &mut found);
    }
    Ok(found)
}

/// A thousandth of the window, in whole seconds.
fn usual_step_ms(asked: &Asked) -> i64 {
    let step_s = (asked.end_ms - asked.start_ms) / STEPS_USUAL / 1000;
    (step_s + 1) * 1000
}

/// Functions drop the name of the metric: it is put back.
fn named(raw: Raw, name: Option<&str>) -> FleetSeries {
    let mut labels = raw.labels;
    if let Some(name) = name {
        let named = || name.to_owned();
        labels.entry("__name__".to_owned()).or_insert_with(named);
    }
    FleetSeries {
        labels,
        readings: raw.readings.iter().map(|r| (r.0, r.1)).collect(),
        ..FleetSeries::default()
    }
}

/// Seconds with milliseconds, as the API takes them.
fn seconds(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000))
}

/// Every sample of a selector, with its true time.
///
/// # Errors
/// As [`read`].
pub fn read_raw(
    client: &Client,
    selector: &Selector,
    asked: &Asked,
    notes: &mut Vec<String>,
) -> Result<Vec<Raw>, FleetError> {
    let pages = Pages::raw(asked.start_ms, asked.end_ms);
    read_pages(pages, asked.start_ms, notes, |page| {
        let window_ms = page.to_ms - page.from_ms + OVERLAP_MS;
        let form = [
            ("query", format!("{selector}[{window_ms}ms]")),
            ("time", seconds(page.to_ms)),
        ];
        client.series("query", &form)
    })
}

/// A range query, in pages.
fn read_steps(
    client: &Client,
    query: &str,
    asked: &Asked,
    step_ms: i64,
    notes: &mut Vec<String>,
) -> Result<Vec<Raw>, FleetError> {
    let pages = Pages::stepped(asked.start_ms, asked.end_ms, step_ms);
    read_pages(pages, asked.start_ms, notes, |page| {
        let form = [
            ("query", query.to_owned()),
            ("start", seconds(page.from_ms)),
            ("end", seconds(page.to_ms)),
            ("step", seconds(step_ms)),
        ];
        client.series("query_range", &form)
    })
}

fn read_pages(
    mut pages: Pages,
    start_ms: i64,
    notes: &mut Vec<String>,
    fetch: impl Fn(Page) -> Result<answer::Answer, Trouble>,
) -> Result<Vec<Raw>, FleetError> {
    let mut joined = Joined::new(start_ms);
    while let Some(page) = pages.page() {
        let answer = match fetch(page) {
            Ok(answer) => answer,
            Err(Trouble::TooMuch(_)) if pages.shrink() => continue,
            Err(trouble) => return Err(trouble.into()),
        };
        for warning in answer.warnings {
            let warning = format!("the server warns: {}", units::wording::shown(&warning, 300));
            if !notes.contains(&warning) {
                notes.push(warning);
            }
        }
        let readings = answer.series.iter().map(|s| s.readings.len()).sum();
        joined.take(answer.series)?;
        pages.read(page, readings);
    }
    Ok(joined.series)
}

/// Pages put together by labels.
struct Joined {
    start_s: f64,
    place: BTreeMap<Labels, usize>,
    series: Vec<Raw>,
    readings: usize,
}

impl Joined {
    fn new(start_ms: i64) -> Joined {
        Joined {
            start_s: start_ms as f64 / 1000.0,
            place: BTreeMap::new(),
            series: Vec::new(),
            readings: 0,
        }
    }

    fn take(&mut self, page: Vec<Raw>) -> Result<(), FleetError> {
        for raw in page {
            let at = *self.place.entry(raw.labels.clone()).or_insert_with(|| {
                self.series.push(Raw {
                    labels: raw.labels.clone(),
                    readings: Vec::new(),
                });
                self.series.len() - 1
            });
            let known = &mut self.series[at].readings;
            // What the page before already had comes again, by the overlap.
            let after = known.last().map_or(f64::NEG_INFINITY, |r| r.0);
            let fresh = |r: &&Reading| r.0 > after && r.0 >= self.start_s;
            let before = known.len();
            known.extend(raw.readings.iter().filter(fresh));
            self.readings += known.len() - before;
        }
        let words = match (self.series.len() > SERIES_MAX, self.readings > READINGS_MAX) {
            (true, _) => format!("more than {SERIES_MAX} series match; narrow them with --match"),
            (_, true) => format!(
                "more than {READINGS_MAX} readings; ask for one in a while with --step, or for a shorter window"
            ),
            _ => return Ok(()),
        };
        Err(FleetError(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(id: &str, times: &[f64]) -> Raw {
        Raw {
            labels: Labels::from([("id".to_owned(), id.to_owned())]),
            readings: times.iter().map(|t| Reading(*t, 1.0)).collect(),
        }
    }

    #[test]
    fn pages_that_overlap_are_joined_without_doubles() {
        let mut joined = Joined::new(10_000);
        joined.take(vec![raw("a", &[9.5, 10.0, 11.0])]).unwrap();
        joined
            .take(vec![raw("b", &[11.5]), raw("a", &[10.5, 11.0, 12.0])])
            .unwrap();
        let times = |at: usize| {
            joined.series[at]
                .readings
                .iter()
                .map(|r| r.0)
                .collect::<Vec<_>>()
        };
        assert_eq!((times(0), times(1)), (vec![10.0, 11.0, 12.0], vec![11.5]));
    }

    #[test]
    fn seconds_keep_their_milliseconds() {
        assert_eq!(seconds(1_795_000_000_123), "1795000000.123");
        assert_eq!(seconds(7), "0.007");
    }
}

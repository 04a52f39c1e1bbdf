//! Instants of one column of a foreign file: a text is a [`Moment`]; what a column of them means (which of day and
//! month comes first, which day a time of day belongs to) is kept by [`Times`]. What could mean two instants is an
//! error until it is said.

use std::collections::HashMap;

use super::moment::no_time;
pub use super::moment::{DateOrder, Moment, NoTime, parse_moment};
use units::instant::instant_of;
pub use units::instant::parse_instant;

const DAY_S: f64 = 86_400.0;
/// A time of day that falls by so much has passed midnight.
const MIDNIGHT_S: f64 = DAY_S / 4.0;
/// One that falls by less than this is out of order, or a clock that was put back by an hour.
const UNORDERED_S: f64 = 3900.0;
/// Days since 1900 as spreadsheets count them: 1954 to 2173.
const SERIAL_DAYS: std::ops::Range<f64> = 20_000.0..100_000.0;

const WRITE_DATES: &str = "write the date beside the time";

/// Where each series stands in its days.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    last_s: f64,
    day: f64,
}

/// What the instants of one column have said so far.
#[derive(Debug, Clone, Default)]
pub struct Times {
    pub order: Option<DateOrder>,
    /// Seconds in one of a number; 1 when nobody said.
    pub factor: f64,
    /// The column is called a date: a number there is no number of seconds.
    pub is_date: bool,
    /// The column is called elapsed, or uptime: colons part days, hours, minutes and seconds that have passed.
    pub is_elapsed: bool,
    pub(super) clocks: HashMap<String, Clock>,
    pub(super) last: Option<(String, Clock)>,
    /// A series came again after another: the file is sorted by time.
    pub(super) mixed: bool,
    /// A time of day was seen.
    pub by_clock: bool,
}

impl Times {
    /// Of a column of seconds, or of texts.
    pub fn seconds() -> Times {
        Times {
            factor: 1.0,
            ..Times::default()
        }
    }

    /// Seconds of a text in a row of the series `id`.
    pub fn read(&mut self, text: &str, id: &str) -> Result<f64, NoTime> {
        if let Ok(number) = text.parse::<f64>() {
            return self.number(number, text);
        }
        if self.is_elapsed {
            return elapsed_s(text).ok_or_else(|| no_time(text));
        }
        match self.moment(text)? {
            Moment::At(t_s) if !self.by_clock => Ok(t_s),
            Moment::At(_) => Err(NoTime {
                what: format!("{text:?} where the times before were of the day only"),
                next: WRITE_DATES,
            }),
            Moment::OfDay(s) => self.on_its_day(s, id, text),
        }
    }

    /// A text that is no number.
    pub fn moment(&mut self, text: &str) -> Result<Moment, NoTime> {
        let (moment, shown) = parse_moment(text, self.order)?;
        self.order = self.order.or(shown);
        Ok(moment)
    }

    /// Seconds of the start of a process, written as the time is; `None` when it is not, or only a time of day.
    pub fn moment_s(&mut self, text: &str) -> Option<f64> {
        if let Ok(number) = text.parse::<f64>() {
            return self.number(number, text).ok();
        }
        match self.moment(text) {
            Ok(Moment::At(t_s)) => Some(t_s),
            _ => None,
        }
    }

    /// Looks ahead at a text, for the order of its date.
    pub fn learn(&mut self, text: &str) {
        if self.order.is_none() {
            let shown = parse_moment(text, None).ok();
            self.order = shown.and_then(|found| found.1);
        }
    }

    fn number(&self, number: f64, text: &str) -> Result<f64, NoTime> {
        if self.is_date && SERIAL_DAYS.contains(&number) {
            return Err(NoTime {
                what: format!("{text:?} is a date as spreadsheets number it"),
                next: "format the column as yyyy-mm-dd hh:mm:ss and save it again",
            });
        }
        // In a column that says its unit a number is just that, however large.
        let seconds = match self.factor {
            1.0 => instant_of(number),
            factor => number.is_finite().then_some(number * factor),
        };
        seconds.ok_or_else(|| no_time(text))
    }

    /// The day is counted at each midnight, for each series; a series that begins later, in a file that is sorted
    /// by time, begins on the day of the others.
    fn on_its_day(&mut self, s: f64, id: &str, text: &str) -> Result<f64, NoTime> {
        self.by_clock = true;
        let changes = self.last.as_ref().is_some_and(|(last, _)| last != id);
        let known = self.clocks.get(id).copied();
        self.mixed |= changes && known.is_some();
        let before = match (known, &self.last) {
            (Some(clock), _) => clock,
            (None, Some((_, others))) if self.mixed => *others,
            (None, Some((other, others))) if others.day > 0.0 => {
                return Err(NoTime {
                    what: format!(
                        "{text} of {id:?} may be of the first day, or of the day on which {other:?} ended"
                    ),
                    next: WRITE_DATES,
                });
            }
            (None, _) => Clock {
                last_s: s,
                day: 0.0,
            },
        };
        let fall = before.last_s - s;
        let day = match fall {
            f if f >= MIDNIGHT_S => before.day + 1.0,
            // One snapshot of many processes may take a moment past midnight: a new series in it is a day behind.
            f if known.is_none() && f < MIDNIGHT_S - DAY_S && before.day > 0.0 => before.day - 1.0,
            f if f > UNORDERED_S => {
                return Err(NoTime {
                    what: format!(
                        "the time of day goes back by {:.1} h: out of order, or the next day?",
                        f / 3600.0
                    ),
                    next: WRITE_DATES,
                });
            }
            _ => before.day,
        };
        let clock = Clock { last_s: s, day };
        self.clocks.insert(id.to_owned(), clock);
        self.last = Some((id.to_owned(), clock));
        Ok(day * DAY_S + s)
    }
}

/// "5:12", "2:03:04", "1-02:03:04" as ps writes what has passed.
fn elapsed_s(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<f64> = clock
        .split(':')
        .map(str::parse)
        .collect::<Result<_, std::num::ParseFloatError>>()
        .ok()?;
    let days: f64 = days.parse().ok()?;
    let seconds = parts.iter().fold(0.0, |sum, part| 60.0 * sum + part);
    let fits = (2..=3).contains(&parts.len()) && parts.iter().all(|p| (0.0..100.0).contains(p));
    fits.then_some(days * DAY_S + seconds)
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;

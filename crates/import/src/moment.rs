//! What one text says of an instant: numbers, ISO 8601, dates with slashes, dots or names of months, and times of
//! day without a date.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};

use units::instant::{instant_of, parse_instant};

/// Which number of 3/4/2026 is the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    MonthFirst,
    DayFirst,
}

/// What one text says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// Seconds since the epoch, or on a clock of its own.
    At(f64),
    /// Seconds since midnight of a day that is not said.
    OfDay(f64),
}

/// Why a text is no instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTime {
    pub what: String,
    pub next: &'static str,
}

const WRITE_A_TIME: &str = "write seconds, epoch seconds or ISO 8601";
const SAY_ORDER: &str = "say which with --dates mdy or --dates dmy";

pub(super) fn no_time(text: &str) -> NoTime {
    let shown = units::wording::shown(text, 60);
    NoTime {
        what: format!("{shown:?} is no time"),
        next: WRITE_A_TIME,
    }
}

/// Whether a number is seconds of the epoch, or finer, between 1989 and 2103: where nothing else says that it is a
/// time.
pub fn is_epoch(text: &str) -> bool {
    const SECONDS: std::ops::Range<f64> = 6e8..4.2e9;
    let seconds = text.parse::<f64>().ok().and_then(instant_of);
    seconds.is_some_and(|seconds| SECONDS.contains(&seconds))
}

/// A text that is no number, and the order of day and month that it cannot be read without.
pub fn parse_moment(
    text: &str,
    order: Option<DateOrder>,
) -> Result<(Moment, Option<DateOrder>), NoTime> {
    let text = text.trim();
    if let Some(t_s) = parse_instant(text) {
        return Ok((Moment::At(t_s), None));
    }
    let said = Said::of(text).ok_or_else(|| no_time(text))?;
    let Some(date) = said.date else {
        return said
            .of_day
            .map(|s| (Moment::OfDay(s), None))
            .ok_or_else(|| no_time(text));
    };
    let (date, shown) = date.read(order, text)?;
    let midnight = DateTime::from_parts(date, jiff::civil::Time::midnight());
    let zone = said.offset.map_or(TimeZone::UTC, TimeZone::fixed);
    let stamp = midnight
        .to_zoned(zone)
        .map_err(|_| no_time(text))?
        .timestamp();
    Ok((
        Moment::At(stamp.as_second() as f64 + said.of_day.unwrap_or(0.0)),
        shown,
    ))
}

/// The parts of a text.
#[derive(Debug, Default)]
struct Said {
    date: Option<Numbered>,
    of_day: Option<f64>,
    offset: Option<Offset>,
}

/// A date by its numbers.
#[derive(Debug, Clone, Copy)]
enum Numbered {
    Certain(i16, i8, i8),
    /// First, second, year: 3/4/2026.
    Slashed(i8, i8, i16),
}

impl Numbered {
    fn read(
        self,
        order: Option<DateOrder>,
        text: &str,
    ) -> Result<(Date, Option<DateOrder>), NoTime> {
        let date = |y, m, d| Date::new(y, m, d).map_err(|_| no_time(text));
        let (a, b, year) = match self {
            Numbered::Certain(y, m, d) => return Ok((date(y, m, d)?, None)),
            Numbered::Slashed(a, b, year) => (a, b, year),
        };
        let shown = match (a > 12, b > 12) {
            (true, false) => Some(DateOrder::DayFirst),
            (false, true) => Some(DateOrder::MonthFirst),
            _ => None,
        };
        match (order, shown) {
            (Some(known), Some(shown)) if known != shown => Err(NoTime {
                what: format!(
                    "{text:?} has day and month the other way round than the dates before"
                ),
                next: SAY_ORDER,
            }),
            (None, None) if a != b => Err(NoTime {
                what: format!("{text:?}: which of {a} and {b} is the month?"),
                next: SAY_ORDER,
            }),
            (known, shown) if known.or(shown) == Some(DateOrder::DayFirst) => {
                Ok((date(year, b, a)?, shown))
            }
            (_, shown) => Ok((date(year, a, b)?, shown)),
        }
    }
}

impl Said {
    /// Blanks, commas and the colon behind the year of a web server's log part the words.
    fn of(text: &str) -> Option<Said> {
        let mut said = Said::default();
        let mut loose: Vec<&str> = Vec::new();
        let spaced = match is_log_date(text) {
            true => text.replacen(':', " ", 1),
            false => without_t(text),
        };
        for word in spaced
            .split([' ', '\u{202f}', '\u{a0}'])
            .filter(|w| !w.is_empty())
        {
            let bare = word.trim_end_matches(',');
            match bare {
                clock if clock.contains(':') && !clock.starts_with(['+', '-']) => {
                    said.clock(clock)?
                }
                "AM" | "am" | "PM" | "pm" | "a.m." | "p.m." => said.half_day(bare)?,
                "Z" | "UTC" | "GMT" => said.offset = Some(Offset::UTC),
                monotonic if is_monotonic(monotonic) => {}
                zone if zone.starts_with(['+', '-']) => said.offset = Some(offset_of(zone)?),
                date if date.contains(['/', '.', '-']) => said.date = Some(numbered(date)?),
                other => loose.push(other),
            }
        }
        if !loose.is_empty() {
            said.date = Some(named(&loose, said.date)?);
        }
        (said.date.is_some() || said.of_day.is_some()).then_some(said)
    }

    /// "14:00", "14:00:05.25", "14:00:05,25", "14:00:05Z", "14:00:05+01:00".
    fn clock(&mut self, text: &str) -> Option<()> {
        let end = text.find(['Z', '+', '-']).unwrap_or(text.len());
        let (clock, zone) = text.split_at(end);
        if !zone.is_empty() {
            self.offset = Some(if zone == "Z" {
                Offset::UTC
            } else {
                offset_of(zone)?
            });
        }
        let parts: Vec<&str> = clock.split(':').collect();
        let whole = |text: &str, most: u32| {
            let fits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            text.parse::<u32>()
                .ok()
                .filter(|n| fits && *n <= most)
                .map(f64::from)
        };
        let seconds = match parts.get(2) {
            None => 0.0,
            Some(text) => {
                let (s, rest) = text.split_once([',', '.']).unwrap_or((text, "0"));
                let digits = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
                whole(s, 60)? + digits.then(|| format!("0.{rest}").parse::<f64>().ok())??
            }
        };
        let minutes = whole(parts.get(1)?, 59)?;
        let fits = self.of_day.is_none() && parts.len() <= 3;
        self.of_day = Some(3600.0 * whole(parts[0], 23)? + 60.0 * minutes + seconds);
        // 14:00+01:00 has no day, and needs none.
        fits.then_some(())
    }

    fn half_day(&mut self, word: &str) -> Option<()> {
        let s = self.of_day?;
        let hour = (s / 3600.0).floor();
        let is_pm = word.to_ascii_lowercase().starts_with('p');
        let shift = match (is_pm, hour) {
            (true, 12.0) => 0.0,
            (true, _) => 12.0,
            (false, 12.0) => -12.0,
            (false, _) => 0.0,
        };
        ((1.0..=12.0).contains(&hour)).then(|| self.of_day = Some(s + 3600.0 * shift))
    }
}

/// "m=+0.113": Go prints the reading of its monotonic clock behind a time.
fn is_monotonic(word: &str) -> bool {
    let number = word.strip_prefix("m=");
    number.is_some_and(|number| number.starts_with(['+', '-']) && number.parse::<f64>().is_ok())
}

/// "26/Dec/2025:14:00:00 +0000"
fn is_log_date(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(4, ['/', ':']).collect();
    parts.len() == 4 && month_of(parts[1]).is_some()
}

/// The T of ISO 8601, and what stands for it in names of files, is between digits; those of Tue and UTC are not.
fn without_t(text: &str) -> String {
    let digit = |at: Option<usize>| {
        at.and_then(|at| text.as_bytes().get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let parts = |at: &usize| digit(at.checked_sub(1)) && digit(Some(at + 1));
    match text.match_indices(['T', '_']).map(|(at, _)| at).find(parts) {
        Some(at) => format!("{} {}", &text[..at], &text[at + 1..]),
        None => text.to_owned(),
    }
}

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

fn month_of(word: &str) -> Option<i8> {
    let small = word.to_ascii_lowercase();
    let begins = |month: &&str| {
        small.get(..3) == Some(*month) && small.bytes().all(|b| b.is_ascii_alphabetic())
    };
    MONTHS.iter().position(begins).map(|at| at as i8 + 1)
}

/// "+0100", "-05:30", "+01".
fn offset_of(text: &str) -> Option<Offset> {
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    if !digits.bytes().all(|b| b.is_ascii_digit()) || ![2, 4].contains(&digits.len()) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = digits.get(2..4).map_or(Ok(0), str::parse).ok()?;
    let seconds = 3600 * hours + 60 * minutes;
    Offset::from_seconds(if text.starts_with('-') {
        -seconds
    } else {
        seconds
    })
    .ok()
}

/// "2025/12/26", "26.12.2025", "12/26/2025", "12/26/25", "26/Dec/2025", "26-Dec-2025".
fn numbered(text: &str) -> Option<Numbered> {
    let parts: Vec<&str> = text.split(['/', '.', '-']).collect();
    let [a, b, c] = parts[..] else {
        return None;
    };
    if let Some(month) = month_of(b) {
        return Some(Numbered::Certain(year_of(c)?, month, a.parse().ok()?));
    }
    let small = |text: &str| {
        text.parse::<i8>()
            .ok()
            .filter(|_| (1..=2).contains(&text.len()))
    };
    if a.len() == 4 {
        return Some(Numbered::Certain(a.parse().ok()?, small(b)?, small(c)?));
    }
    match text {
        dotted if dotted.contains('.') => {
            Some(Numbered::Certain(year_of(c)?, small(b)?, small(a)?))
        }
        slashed if slashed.contains('/') || c.len() == 4 => {
            Some(Numbered::Slashed(small(a)?, small(b)?, year_of(c)?))
        }
        _ => None,
    }
}

fn year_of(text: &str) -> Option<i16> {
    let year = text.parse::<i16>().ok()?;
    match text.len() {
        4 => Some(year),
        2 => Some(2000 + year),
        _ => None,
    }
}

/// "Fri Dec 26 ... UTC 2025", "Dec 26, 2025": words that hold a month, a day and a year; a zone that is no offset
/// is the place's own time.
fn named(words: &[&str], other: Option<Numbered>) -> Option<Numbered> {
    let (mut month, mut day, mut year) = (None, None, None);
    for word in words {
        let small = word.to_ascii_lowercase();
        if let Some(found) = month_of(word).filter(|_| month.is_none()) {
            month = Some(found);
        } else if word.bytes().all(|b| b.is_ascii_digit()) {
            match word.len() {
                4 => year = Some(word.parse().ok()?),
                1 | 2 => day = Some(word.parse().ok()?),
                _ => return None,
            }
        } else {
            let is_day = small.get(..3).is_some_and(|w| WEEKDAYS.contains(&w));
            let is_zone =
                (3..=5).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_uppercase());
            if !is_day && !is_zone {
                return None;
            }
        }
    }
    match (month, day, year) {
        (Some(month), Some(day), Some(year)) => Some(Numbered::Certain(year, month, day)),
        (None, None, None) => other,
        _ => None,
    }
}

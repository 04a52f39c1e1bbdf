//! Instants as foreign files write them: seconds, epoch seconds, milliseconds or finer, ISO 8601.

use jiff::civil::DateTime;
use jiff::{Timestamp, tz::TimeZone};

/// Numbers from here on are no seconds (they would lie beyond the year 5000) but epoch milliseconds, then
/// microseconds and nanoseconds, each a thousand times as large.
const FINER_FROM: f64 = 1e11;

/// Seconds; ISO 8601 becomes epoch seconds, without an offset it is taken as UTC (within one file only
/// differences matter). A number too large for seconds is finer. `None` when it is no instant.
pub fn parse_instant(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return instant_of(number);
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Some(seconds(stamp));
    }
    let civil = text.parse::<DateTime>().ok()?;
    let stamp = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(seconds(stamp))
}

/// The same of a number that is already read.
pub fn instant_of(number: f64) -> Option<f64> {
    number.is_finite().then(|| coarse(number))
}

/// Nanoseconds since the epoch have more digits than a number of 64 bits keeps.
fn seconds(stamp: Timestamp) -> f64 {
    stamp.as_second() as f64 + f64::from(stamp.subsec_nanosecond()) / 1e9
}

fn coarse(number: f64) -> f64 {
    match number.abs() {
        size if size < FINER_FROM => number,
        size if size < 1e3 * FINER_FROM => number / 1e3,
        size if size < 1e6 * FINER_FROM => number / 1e6,
        _ => number / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_iso_8601_with_and_without_offset() {
        assert_eq!(parse_instant("12.5"), Some(12.5));
        assert_eq!(parse_instant("1795000000"), Some(1_795_000_000.0));
        for finer in ["1795000000000", "1795000000000000", "1795000000000000000"] {
            assert_eq!(parse_instant(finer), Some(1_795_000_000.0), "{finer}");
        }
        assert_eq!(parse_instant("1970-01-01T00:01:00Z"), Some(60.0));
        assert_eq!(parse_instant("1970-01-01T02:01:00+02:00"), Some(60.0));
        assert_eq!(parse_instant("1970-01-01T00:01:00"), Some(60.0));
        assert_eq!(parse_instant("1970-01-01 00:01:00.5"), Some(60.5));
        assert_eq!(parse_instant("1970-01-02"), Some(86_400.0));
        for bad in ["", "soon", "NaN", "inf", "25:00"] {
            assert_eq!(parse_instant(bad), None, "{bad}");
        }
    }
}

//! Instants as foreign files write them: seconds, epoch seconds or milliseconds, ISO 8601.

use jiff::civil::DateTime;
use jiff::{Timestamp, tz::TimeZone};

/// Seconds; ISO 8601 becomes epoch seconds, without an offset it is taken as UTC (within one file only
/// differences matter). `None` when it is no instant.
pub fn parse_instant(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return number.is_finite().then_some(number);
    }
    if let Ok(stamp) = text.parse::<Timestamp>() {
        return Some(stamp.as_nanosecond() as f64 / 1e9);
    }
    let civil = text.parse::<DateTime>().ok()?;
    let stamp = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(stamp.as_nanosecond() as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_iso_8601_with_and_without_offset() {
        assert_eq!(parse_instant("12.5"), Some(12.5));
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

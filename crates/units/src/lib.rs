//! Bytes, durations and rates: read once at the parser, written the same way everywhere.
//!
//! In: text that a person wrote. Out: numbers, and text for tables and sentences ([`written`]). Called by: the readers
//! of experiment files and options, and everything that writes.
//!
//! Reading is strict: a size without a unit is bytes, a duration or a rate without a unit is an error. `k`, `M`, `G`
//! are powers of ten and `Ki`, `Mi`, `Gi` powers of two, as the standards have it. Everything here is pure.

mod error;

pub mod wording;

pub mod instant;
pub mod written;

use std::time::Duration;

use bytesize::ByteSize;

pub use crate::error::ParseError;
use crate::wording::{nearest, quoted};

/// Units of size that messages suggest; `bytesize` reads them in any case.
const BYTE_UNITS: &[&str] = &[
    "B", "kB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB", "PiB",
];
const DURATION_UNITS: &[&str] = &[
    "ns", "us", "ms", "s", "sec", "m", "min", "h", "hours", "d", "days",
];
/// Denominators of a rate and how many seconds each has.
const RATE_UNITS: &[(&str, f64)] = &[
    ("s", 1.0),
    ("min", 60.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
];

/// "512MiB", "1.5 GiB", "4096" (bytes) to bytes. The error is a sentence for the reader of the
/// experiment file.
pub fn parse_bytes(text: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if number.is_empty() {
        return Err(ParseError::Size(quoted(text)));
    }
    let size: ByteSize = text
        .parse()
        .map_err(|_| unknown_unit("size", number, unit, BYTE_UNITS))?;
    // SQLite, /proc and cgroup files all keep sizes in signed 64 bits; bytesize saturates instead of failing.
    if size.as_u64() > i64::MAX as u64 {
        return Err(ParseError::TooLarge(quoted(text)));
    }
    Ok(size.as_u64())
}

/// "90s", "1h30m", "4m", "1.5h" to a duration. A bare number is refused: seconds or minutes cannot be guessed.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    use humantime::DurationError as E;
    let text = text.trim();
    humantime::parse_duration(text).map_err(|error| match error {
        E::UnknownUnit { unit, value, .. } if unit.is_empty() => ParseError::NoUnit {
            text: quoted(text),
            value,
        },
        E::UnknownUnit { unit, .. } => {
            unknown_unit("duration", split_number(text).0, &unit, DURATION_UNITS)
        }
        E::NumberOverflow => ParseError::DurationRange(quoted(text)),
        _ => ParseError::Duration(quoted(text)),
    })
}

/// The same on a command line, where a bare number is seconds, as it is to `sleep` and `timeout`. A file is read by
/// others later, and says its unit.
pub fn parse_seconds(text: &str) -> Result<Duration, ParseError> {
    match text.trim().parse::<f64>() {
        Ok(seconds) => {
            Duration::try_from_secs_f64(seconds).map_err(|_| ParseError::Duration(quoted(text)))
        }
        Err(_) => parse_duration(text),
    }
}

/// "80 KiB/s", "290MiB/h" to bytes per second.
pub fn parse_bytes_per_second(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    let Some((size, per)) = text.split_once('/') else {
        return Err(ParseError::Rate(quoted(text)));
    };
    let per = per.trim();
    let Some((_, seconds)) = RATE_UNITS.iter().find(|(name, _)| *name == per) else {
        let names: Vec<&str> = RATE_UNITS.iter().map(|(name, _)| *name).collect();
        return Err(unknown_unit(
            "rate",
            &format!("{}/", size.trim()),
            per,
            &names,
        ));
    };
    Ok(parse_bytes(size)? as f64 / seconds)
}

/// "12.5%" to 0.125; none is negative.
pub fn parse_percent(text: &str) -> Result<f64, ParseError> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    match number.and_then(|n| n.parse::<f64>().ok()) {
        Some(value) if value.is_finite() && value >= 0.0 => Ok(value / 100.0),
        _ => Err(ParseError::Percentage(quoted(text))),
    }
}

/// Bytes that parse back to the same value: "512MiB", or plain bytes where no unit divides them.
pub fn write_bytes_exact(bytes: u64) -> String {
    const UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = UNITS
        .iter()
        .find(|(_, size)| bytes != 0 && bytes.is_multiple_of(*size));
    whole.map_or(format!("{bytes}B"), |(unit, size)| {
        format!("{}{unit}", bytes / size)
    })
}

/// A duration that parses back to the same value: "1h 30m", "4m", "250ms".
pub fn write_duration_exact(duration: Duration) -> String {
    const UNITS: &[(&str, u128)] = &[
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let mut left = duration.as_nanos();
    let mut words = Vec::new();
    for (unit, size) in UNITS {
        if left >= *size {
            words.push(format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if words.is_empty() {
        "0s".to_owned()
    } else {
        words.join(" ")
    }
}

/// Splits "512 MiB" into "512" and "MiB".
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn unknown_unit(quantity: &'static str, number: &str, unit: &str, known: &[&str]) -> ParseError {
    let near = nearest(unit, known.iter().copied());
    let unit = quoted(unit);
    match near {
        Some(near) => ParseError::MisspeltUnit {
            unit,
            quantity,
            suggestion: format!("{number}{near}"),
        },
        None => ParseError::UnknownUnit {
            unit,
            quantity,
            known: known.join(", "),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_read_in_both_systems() {
        let cases = [
            ("512MiB", 512 << 20),
            ("512 MiB", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("80 KiB", 80 << 10),
            ("1kB", 1000),
            ("1M", 1_000_000),
            ("1Mi", 1 << 20),
            ("4096", 4096),
            ("0", 0),
            (" 7B ", 7),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_wrong_size_names_the_nearest_unit() {
        let cases = [
            (
                "512MiBs",
                "`MiBs` is not a unit of size; did you mean 512MiB?",
            ),
            (
                "1.5 gibs",
                "`gibs` is not a unit of size; did you mean 1.5GiB?",
            ),
            ("lots", "`lots` is not a size; write 512MiB or 2GiB"),
            ("-1MiB", "`-1MiB` is not a size; write 512MiB or 2GiB"),
            ("", "`` is not a size; write 512MiB or 2GiB"),
            ("99999999EiB", "`99999999EiB` is larger than any machine"),
        ];
        for (text, words) in cases {
            assert_eq!(
                parse_bytes(text).map_err(String::from),
                Err(words.into()),
                "{text}"
            );
        }
        assert!(
            parse_bytes("3 furlongs")
                .unwrap_err()
                .to_string()
                .contains("known: B, kB")
        );
    }

    #[test]
    fn durations_need_their_unit() {
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("4m"), Ok(Duration::from_secs(240)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        let cases = [
            ("90", "`90` has no unit; write 90s, 90m or 90h"),
            (
                "4mni",
                "`mni` is not a unit of duration; did you mean 4min?",
            ),
            ("soon", "`soon` is not a duration; write 90s, 4m or 1h30m"),
            ("", "`` is not a duration; write 90s, 4m or 1h30m"),
            ("-5s", "`-5s` is not a duration; write 90s, 4m or 1h30m"),
        ];
        for (text, words) in cases {
            assert_eq!(
                parse_duration(text).map_err(String::from),
                Err(words.into()),
                "{text}"
            );
        }
        assert!(
            parse_duration("99999999999999999999s")
                .unwrap_err()
                .to_string()
                .contains("too long")
        );
    }

    #[test]
    fn a_bare_number_on_a_command_line_is_seconds() {
        assert_eq!(parse_seconds("60"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_seconds(" 0.25 "), Ok(Duration::from_millis(250)));
        assert_eq!(parse_seconds("4m"), Ok(Duration::from_secs(240)));
        for text in ["-5", "nan", "inf", "1e300", "soon"] {
            let words = format!("`{text}` is not a duration; write 90s, 4m or 1h30m");
            assert_eq!(parse_seconds(text).map_err(String::from), Err(words));
        }
    }

    #[test]
    fn rates_and_percentages() {
        assert_eq!(parse_bytes_per_second("80 KiB/s"), Ok(81920.0));
        assert_eq!(parse_bytes_per_second("3600MiB/h"), Ok(1_048_576.0));
        assert_eq!(parse_bytes_per_second("60B/min"), Ok(1.0));
        assert!(
            parse_bytes_per_second("80KiB")
                .unwrap_err()
                .to_string()
                .contains("80KiB/s or")
        );
        assert!(
            parse_bytes_per_second("80KiB/hh")
                .unwrap_err()
                .to_string()
                .ends_with("did you mean 80KiB/h?")
        );
        assert_eq!(parse_percent("12.5%"), Ok(0.125));
        assert_eq!(parse_percent("2 %"), Ok(0.02));
        for wrong in ["12", "%", "nan%", "x%", "-5%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn exact_forms_parse_back(bytes in 0u64..=i64::MAX as u64, ns in 0u64..=u64::MAX / 4) {
            prop_assert_eq!(parse_bytes(&write_bytes_exact(bytes)), Ok(bytes));
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&write_duration_exact(duration)), Ok(duration));
        }

        #[test]
        fn nothing_panics(text in ".{0,40}") {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_percent(&text));
            let _ = parse_bytes_per_second(&text);
        }
    }
}

//! Bytes, durations and rates: read once at the parser, written the same way everywhere.
//!
//! Reading is strict: a size without a unit is bytes, a duration or a rate without a unit is an error. `k`, `M`, `G`
//! are powers of ten and `Ki`, `Mi`, `Gi` powers of two, as the standards have it; tables always write powers of two
//! (KiB, MiB), three significant figures. Everything here is pure.

pub mod written;

use std::time::Duration;

use bytesize::ByteSize;

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

/// "512MiB", "1.5 GiB", "4096" (bytes) to bytes. The error is a sentence for the reader of the experiment file.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if number.is_empty() {
        return Err(format!(
            "{} is not a size; write 512MiB or 2GiB",
            quoted(text)
        ));
    }
    let size: ByteSize = text
        .parse()
        .map_err(|_| unknown_unit("size", number, unit, BYTE_UNITS))?;
    // SQLite, /proc and cgroup files all keep sizes in signed 64 bits; bytesize saturates instead of failing.
    if size.as_u64() > i64::MAX as u64 {
        return Err(format!("{} is larger than any machine", quoted(text)));
    }
    Ok(size.as_u64())
}

/// "90s", "1h30m", "4m", "1.5h" to a duration. A bare number is refused: seconds or minutes cannot be guessed.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    use humantime::DurationError as E;
    let text = text.trim();
    humantime::parse_duration(text).map_err(|error| match error {
        E::UnknownUnit { unit, value, .. } if unit.is_empty() => {
            format!(
                "{} has no unit; write {value}s, {value}m or {value}h",
                quoted(text)
            )
        }
        E::UnknownUnit { unit, .. } => {
            unknown_unit("duration", split_number(text).0, &unit, DURATION_UNITS)
        }
        E::NumberOverflow => format!("{} is too long or too fine for a duration", quoted(text)),
        _ => format!("{} is not a duration; write 90s, 4m or 1h30m", quoted(text)),
    })
}

/// "80 KiB/s", "290MiB/h" to bytes per second.
pub fn parse_bytes_per_second(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let Some((size, per)) = text.split_once('/') else {
        return Err(format!(
            "{} is not a rate; write 80KiB/s or 290MiB/h",
            quoted(text)
        ));
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

/// "12.5%" to 0.125.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    match number.and_then(|n| n.parse::<f64>().ok()) {
        Some(value) if value.is_finite() => Ok(value / 100.0),
        _ => Err(format!("{} is not a percentage; write 2.5%", quoted(text))),
    }
}

/// Bytes for a table: "512 MiB", "1.25 GiB", "-3.10 KiB", "17 B". Not a number: "n/a".
pub fn write_bytes(bytes: f64) -> String {
    const UNITS: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if !bytes.is_finite() {
        return "n/a".into();
    }
    let mut value = bytes;
    let mut unit = 0;
    // 1023.5 would be written "1024 KiB": it belongs to the next unit already.
    while value.abs() >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 {
        format!("{:.0}", unsigned_zero(value.round()))
    } else {
        three(value)
    };
    format!("{digits} {}", UNITS[unit])
}

/// Bytes per hour with a sign: "+290 MiB/h", "-1.20 KiB/h", "0 B/h".
pub fn write_bytes_per_hour(bytes_per_hour: f64) -> String {
    let size = write_bytes(bytes_per_hour);
    let plus = if bytes_per_hour >= 0.5 { "+" } else { "" };
    if bytes_per_hour.is_finite() {
        format!("{plus}{size}/h")
    } else {
        size
    }
}

/// Nanoseconds for a table: "450 ns", "18.2 ms", "12.3 s", "4 min", "1 h 30 min", "3 d 4 h".
pub fn write_ns(ns: f64) -> String {
    const STEPS: &[(f64, &str)] = &[(1e3, "ns"), (1e6, "µs"), (1e9, "ms")];
    if !ns.is_finite() {
        return "n/a".into();
    }
    for (next, unit) in STEPS {
        let value = ns / (next / 1e3);
        if value.abs() < 999.5 {
            return format!("{} {unit}", three(value));
        }
    }
    let seconds = ns / 1e9;
    if seconds.abs() < 59.95 {
        format!("{} s", three(seconds))
    } else {
        write_long(seconds)
    }
}

/// As [`write_ns`].
pub fn write_duration(duration: Duration) -> String {
    write_ns(duration.as_nanos() as f64)
}

/// As [`write_ns`], from seconds.
pub fn write_seconds(seconds: f64) -> String {
    write_ns(seconds * 1e9)
}

/// A share of one for a table: 0.1234 is "12.3 %".
pub fn write_percent(share: f64) -> String {
    if share.is_finite() {
        format!("{} %", three(share * 100.0))
    } else {
        "n/a".into()
    }
}

/// A plain number at three significant figures, whole from 1000 on: "0.0123", "1.50", "23.4", "1234567".
pub fn write_number(value: f64) -> String {
    if value.is_finite() {
        three(value)
    } else {
        "n/a".into()
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
    humantime::format_duration(duration).to_string()
}

/// Two largest units of a time from a minute on; the smaller one is left out when it is zero.
fn write_long(seconds: f64) -> String {
    const UNITS: &[(f64, &str)] = &[(86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s")];
    let sign = if seconds < 0.0 { "-" } else { "" };
    let total = seconds.abs();
    // Rounded first, at the smaller unit of the pair, so that 59 min 59.9 s is "1 h" and never "59 min 60 s".
    let small = if total >= 86_400.0 {
        3_600.0
    } else if total >= 3_570.0 {
        60.0
    } else {
        1.0
    };
    let rounded = (total / small).round() * small;
    let large = UNITS
        .iter()
        .position(|(size, _)| rounded >= *size)
        .unwrap_or(UNITS.len() - 1);
    let (size, unit) = UNITS[large];
    let whole = (rounded / size).floor();
    let rest = UNITS
        .get(large + 1)
        .map(|(size2, unit2)| ((rounded - whole * size) / size2, unit2));
    match rest {
        Some((rest, unit2)) if rest >= 0.5 => format!("{sign}{whole:.0} {unit} {rest:.0} {unit2}"),
        _ => format!("{sign}{whole:.0} {unit}"),
    }
}

/// Three significant figures; whole numbers keep all their digits.
fn three(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    // Rounding can carry (9.999 is "10.0"), so the digits are counted on the rounded number.
    let exponent = size.log10().floor();
    let scale = 10f64.powf(2.0 - exponent);
    let carried = (size * scale).round() / scale;
    let decimals = (2.0 - carried.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{:.decimals$}", unsigned_zero(value))
}

/// -0.0 would be written with its sign.
fn unsigned_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// Splits "512 MiB" into "512" and "MiB".
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn unknown_unit(what: &str, number: &str, unit: &str, known: &[&str]) -> String {
    match nearest(unit, known.iter().copied()) {
        Some(near) => {
            format!(
                "{} is not a unit of {what}; did you mean {number}{near}?",
                quoted(unit)
            )
        }
        None => {
            format!(
                "{} is not a unit of {what} (known: {})",
                quoted(unit),
                known.join(", ")
            )
        }
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
            assert_eq!(parse_bytes(text), Err(words.into()), "{text}");
        }
        assert!(
            parse_bytes("3 furlongs")
                .unwrap_err()
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
            assert_eq!(parse_duration(text), Err(words.into()), "{text}");
        }
        assert!(
            parse_duration("99999999999999999999s")
                .unwrap_err()
                .contains("too long")
        );
    }

    #[test]
    fn rates_and_percentages() {
        assert_eq!(parse_bytes_per_second("80 KiB/s"), Ok(81920.0));
        assert_eq!(parse_bytes_per_second("3600MiB/h"), Ok(1_048_576.0));
        assert_eq!(parse_bytes_per_second("60B/min"), Ok(1.0));
        assert!(
            parse_bytes_per_second("80KiB")
                .unwrap_err()
                .contains("80KiB/s or")
        );
        assert!(
            parse_bytes_per_second("80KiB/hh")
                .unwrap_err()
                .ends_with("did you mean 80KiB/h?")
        );
        assert_eq!(parse_percent("12.5%"), Ok(0.125));
        assert_eq!(parse_percent("2 %"), Ok(0.02));
        for wrong in ["12", "%", "nan%", "x%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tables_write_three_figures_in_binary_units() {
        let mib = 1_048_576.0;
        let cases = [
            (0.0, "0 B"),
            (-0.2, "0 B"),
            (17.4, "17 B"),
            (1023.0, "1023 B"),
            (1023.6, "1.00 KiB"),
            (512.0 * mib, "512 MiB"),
            (1000.0 * mib, "1000 MiB"),
            (1023.4 * mib, "1023 MiB"),
            (1023.7 * mib, "1.00 GiB"),
            (9.996 * mib, "10.0 MiB"),
            (99.96 * mib, "100 MiB"),
            (1.25 * 1024.0 * mib, "1.25 GiB"),
            (-3174.4, "-3.10 KiB"),
            (f64::NAN, "n/a"),
            (f64::INFINITY, "n/a"),
        ];
        for (bytes, text) in cases {
            assert_eq!(write_bytes(bytes), text, "{bytes}");
        }
        assert_eq!(write_bytes_per_hour(290.0 * mib), "+290 MiB/h");
        assert_eq!(write_bytes_per_hour(-290.0 * mib), "-290 MiB/h");
        assert_eq!(write_bytes_per_hour(0.3), "0 B/h");
        assert_eq!(write_bytes_per_hour(f64::NAN), "n/a");
    }

    #[test]
    fn times_of_every_size() {
        let cases = [
            (0.0, "0 ns"),
            (450.0, "450 ns"),
            (999.7, "1.00 µs"),
            (18_200_000.0, "18.2 ms"),
            (12.34e9, "12.3 s"),
            (59.96e9, "1 min"),
            (240e9, "4 min"),
            (245.4e9, "4 min 5 s"),
            (3599.9e9, "1 h"),
            (5400e9, "1 h 30 min"),
            (273_600e9, "3 d 4 h"),
            (-5400e9, "-1 h 30 min"),
            (f64::NAN, "n/a"),
        ];
        for (ns, text) in cases {
            assert_eq!(write_ns(ns), text, "{ns}");
        }
        assert_eq!(write_duration(Duration::from_millis(1500)), "1.50 s");
        assert_eq!(write_seconds(0.0015), "1.50 ms");
    }

    #[test]
    fn numbers_and_shares() {
        assert_eq!(write_percent(0.1234), "12.3 %");
        assert_eq!(write_percent(0.0), "0 %");
        assert_eq!(write_percent(12.0), "1200 %");
        assert_eq!(write_number(0.012_34), "0.0123");
        assert_eq!(write_number(1_234_567.0), "1234567");
        assert_eq!(write_number(f64::NAN), "n/a");
    }

    proptest! {
        #[test]
        fn exact_forms_parse_back(bytes in 0u64..=i64::MAX as u64, ns in 0u64..=u64::MAX / 4) {
            prop_assert_eq!(parse_bytes(&write_bytes_exact(bytes)), Ok(bytes));
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&write_duration_exact(duration)), Ok(duration));
        }

        #[test]
        fn nothing_panics(text in ".{0,40}", value in proptest::num::f64::ANY) {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_percent(&text));
            let _ = parse_bytes_per_second(&text);
            for written in [write_bytes(value), write_ns(value), write_percent(value)] {
                prop_assert!(!written.is_empty());
            }
            let _ = (write_bytes_per_hour(value), write_number(value), write_seconds(value));
        }

        #[test]
        fn a_written_time_reads_back_within_half_a_unit(ns in 1e3..1e18f64) {
            let read = parse_duration(&write_ns(ns).replace('µ', "u")).unwrap().as_nanos() as f64;
            prop_assert!((read - ns).abs() <= ns * 0.021, "{} -> {}", ns, write_ns(ns));
        }
    }
}

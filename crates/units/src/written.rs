//! Numbers for people: three significant digits, a thin set of units, no number without one.

use std::time::Duration;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;
const TIB: f64 = 1024.0 * GIB;

/// What stands where a number is missing or not finite.
pub const MISSING: &str = "–";

/// A unit of bytes that a whole column or axis shares, so that its numbers can be compared by eye.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ByteScale {
    pub bytes: f64,
    pub word: &'static str,
}

impl ByteScale {
    /// The largest unit in which `largest` (bytes, of any sign) is at least 1.
    pub fn of(largest: f64) -> ByteScale {
        let size = largest.abs();
        let (bytes, word) = match size {
            size if size >= TIB => (TIB, "TiB"),
            size if size >= GIB => (GIB, "GiB"),
            size if size >= MIB => (MIB, "MiB"),
            size if size >= KIB => (KIB, "KiB"),
            _ => (1.0, "B"),
        };
        ByteScale { bytes, word }
    }

    /// The unit of a column: that of its largest value, one step finer when its smallest would
    /// fall under a half. Values under a hundredth of the largest have no say: they are next to
    /// nothing.
    pub fn of_column(values: impl IntoIterator<Item = f64>) -> ByteScale {
        let sizes: Vec<f64> = values
            .into_iter()
            .map(f64::abs)
            .filter(|v| v.is_finite())
            .collect();
        let high = sizes.iter().copied().fold(0.0, f64::max);
        let counts = sizes
            .iter()
            .copied()
            .filter(|size| *size >= high / 100.0 && *size > 0.0);
        let low = counts.fold(high, f64::min);
        let scale = ByteScale::of(high);
        let finer = ByteScale::of(high / KIB);
        match low < scale.bytes / 2.0 && high / finer.bytes < 100_000.0 {
            true => finer,
            false => scale,
        }
    }

    /// The bare number, in this unit.
    pub fn number(self, bytes: f64) -> String {
        match self.bytes == 1.0 {
            true => short(bytes),
            false => digits(bytes / self.bytes),
        }
    }
}

/// "1 snapshot", "2,400 snapshots".
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", count(number as f64))
}

/// "512 MiB", "1.28 GiB", "0 B".
pub fn bytes(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let scale = ByteScale::of(value);
    format!("{} {}", scale.number(value), scale.word)
}

/// A limit that somebody chose, as short as it was written: "2 GiB", "1.5 MiB".
pub fn bytes_limit(value: f64) -> String {
    let scale = ByteScale::of(value);
    format!("{} {}", short(value / scale.bytes), scale.word)
}

/// Like [`bytes_limit`], of nanoseconds: "20 ms".
pub fn nanoseconds_limit(ns: f64) -> String {
    let (number, unit) = time_scale(ns);
    format!("{} {unit}", short(number))
}

/// A growth with its sign: "+290 MiB/h", "-1.20 KiB/h".
pub fn bytes_per_hour(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let scale = ByteScale::of(value);
    format!("{} {}/h", signed(value / scale.bytes), scale.word)
}

/// "512 MiB [498, 524]", all three in the unit of the largest. An interval of no width is left out:
/// there was one process only.
pub fn bytes_interval(value: f64, lo: f64, hi: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    let scale = ByteScale::of(value);
    let number = format!("{} {}", scale.number(value), scale.word);
    match interval(lo / scale.bytes, hi / scale.bytes) {
        Some(interval) => format!("{number} {interval}"),
        None => number,
    }
}

/// "[498, 524]"; `None` without width.
pub fn interval(lo: f64, hi: f64) -> Option<String> {
    (lo < hi).then(|| format!("[{}, {}]", digits(lo), digits(hi)))
}

/// "1.94x [1.80, 2.10]".
pub fn ratio(value: f64, lo: f64, hi: f64) -> String {
    match interval(lo, hi) {
        Some(interval) => format!("{}x {interval}", digits(value)),
        None => format!("{}x", digits(value)),
    }
}

/// A share as a percentage: "12.5 %".
pub fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{} %", short(share * 100.0)),
        false => MISSING.to_string(),
    }
}

/// "1.84 ms", "12.0 s" from nanoseconds.
pub fn nanoseconds(ns: f64) -> String {
    let (number, unit) = time_scale(ns);
    format!("{} {unit}", digits(number))
}

fn time_scale(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        size if size >= 1e9 => (ns / 1e9, "s"),
        size if size >= 1e6 => (ns / 1e6, "ms"),
        size if size >= 1e3 => (ns / 1e3, "µs"),
        _ => (ns, "ns"),
    }
}

/// "45 s", "6 min", "1 h 30 min", "3 d 4 h": the two largest parts.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    if value < 0.0 {
        return format!("-{}", seconds(-value));
    }
    if value < 60.0 {
        return format!("{} s", short(value));
    }
    let total = value.round() as u64;
    let parts = [
        (total / 86_400, "d"),
        (total / 3_600 % 24, "h"),
        (total / 60 % 60, "min"),
        (total % 60, "s"),
    ];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let words = parts[first..].iter().take(2).filter(|(n, _)| *n > 0);
    words
        .map(|(n, word)| format!("{n} {word}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Like [`seconds`], of a `Duration`.
pub fn duration(value: Duration) -> String {
    seconds(value.as_secs_f64())
}

/// A count or a rate without a unit: "870", "12.4 k", "3.10 M".
pub fn count(value: f64) -> String {
    let size = value.abs();
    let (divisor, word) = match size {
        size if size >= 1e9 => (1e9, " G"),
        size if size >= 1e6 => (1e6, " M"),
        size if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    };
    match divisor == 1.0 && value.fract() == 0.0 {
        true => thousands(value),
        false => format!("{}{word}", digits(value / divisor)),
    }
}

/// "+290", "-1.20", "0".
pub fn signed(value: f64) -> String {
    match value > 0.0 && digits(value) != "0" {
        true => format!("+{}", digits(value)),
        false => digits(value),
    }
}

/// Three significant digits down to 0.01, whole numbers from 100 on, with thousands apart: "1,021".
pub fn digits(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_string();
    }
    match value.abs() {
        size if size < 0.000_5 => "0".to_string(),
        size if size < 0.01 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// Like [`digits`], without zeros that say nothing: "6", "1.5".
pub fn short(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

fn thousands(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match value < 0.0 {
        true => format!("-{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0 B"),
            (1023.0, "1,023 B"),
            (4096.0, "4.00 KiB"),
            (512.0 * MIB, "512 MiB"),
            (1.28 * GIB, "1.28 GiB"),
            (-12.0 * MIB, "-12.0 MiB"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn an_interval_of_one_process_is_not_printed() {
        assert_eq!(bytes_interval(MIB, MIB, MIB), "1.00 MiB");
        assert_eq!(
            bytes_interval(MIB, 0.9 * MIB, 1.1 * MIB),
            "1.00 MiB [0.90, 1.10]"
        );
    }

    #[test]
    fn growth_has_its_sign() {
        assert_eq!(bytes_per_hour(290.4 * MIB), "+290 MiB/h");
        assert_eq!(bytes_per_hour(-1.2 * KIB), "-1.20 KiB/h");
        assert_eq!(bytes_per_hour(0.0), "0 B/h");
    }

    #[test]
    fn time_is_told_in_its_two_largest_parts() {
        let cases = [
            (0.0, "0 s"),
            (1.5, "1.5 s"),
            (45.0, "45 s"),
            (360.0, "6 min"),
            (372.0, "6 min 12 s"),
            (5400.0, "1 h 30 min"),
            (9.0 * 86_400.0 + 3600.0, "9 d 1 h"),
            (-30.0, "-30 s"),
        ];
        for (value, text) in cases {
            assert_eq!(seconds(value), text);
        }
    }

    #[test]
    fn counts_and_latencies() {
        assert_eq!(count(870.0), "870");
        assert_eq!(count(12_400.0), "12.4 k");
        assert_eq!(count(0.25), "0.25");
        assert_eq!(nanoseconds(1_840_000.0), "1.84 ms");
        assert_eq!(nanoseconds(740.0), "740 ns");
        assert_eq!(nanoseconds_limit(2e7), "20 ms");
        assert_eq!(bytes_limit(1.5 * MIB), "1.5 MiB");
    }

    #[test]
    fn a_column_shares_the_unit_that_keeps_its_smallest_readable() {
        assert_eq!(ByteScale::of_column([2.0 * GIB, 40.0 * MIB]).word, "MiB");
        assert_eq!(ByteScale::of_column([8.0 * GIB, 1.3 * GIB]).word, "GiB");
        assert_eq!(ByteScale::of_column([16.0 * MIB, 39.0 * KIB]).word, "MiB");
        assert_eq!(ByteScale::of_column([]).word, "B");
    }
}

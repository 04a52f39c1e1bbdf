//! One line of a load program's output, `highwater.load/1`.
//!
//! | field | meaning |
//! |---|---|
//! | `schema` | `highwater.load/1` |
//! | `start_ns`, `end_ns` | the interval, CLOCK_MONOTONIC |
//! | `requests` | answered in it, whenever they were due |
//! | `errors` | failed in it, those that timed out included |
//! | `dropped` | due in it but never sent, because the backlog was full or the load ended |
//! | `histogram` | base64 of an HdrHistogram in its V2 form, not compressed; nanoseconds from the time a request was due: of the answered ones, and of those that timed out (until then, so a lower bound) |
//! | `pauses` | left out when empty: `[start_ns, end_ns]` of the longest stretches of 1 ms or more in which one request at least waited and none, of any session, was answered |

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

/// The value of the field `schema`.
pub const SCHEMA: &str = "highwater.load/1";

/// Latencies above an hour are recorded as an hour.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Longest histogram taken from a line, in base64 characters. A full one of ours has 40 KiB.
pub const HISTOGRAM_SIZE_MAX: usize = 1 << 20;

/// Shorter stretches without an answer are no pause.
pub const PAUSE_NS: u64 = 1_000_000;

/// Pauses kept for one line; of more, the longest. A service that has them all the time needs no list of them.
pub const PAUSES_MAX: usize = 8;

/// One line: what happened in one interval of a load program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    pub schema: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub requests: u64,
    pub errors: u64,
    pub dropped: u64,
    pub histogram: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<(u64, u64)>,
}

/// Why a line was not understood.
#[derive(Debug, thiserror::Error)]
pub enum IntervalError {
    #[error("not a line of {SCHEMA}: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the line's schema is {0:?}, this reads {SCHEMA:?}")]
    Schema(String),
    #[error("the interval ends ({end_ns} ns) before it starts ({start_ns} ns)")]
    Backwards { start_ns: u64, end_ns: u64 },
    #[error("the histogram is no base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("the histogram is not in HdrHistogram's plain V2 form: {0}")]
    Histogram(String),
}

impl Interval {
    /// Reads one line. The histogram is looked at only by [`Interval::decode_histogram`].
    pub fn parse(line: &str) -> Result<Interval, IntervalError> {
        let interval: Interval = serde_json::from_str(line)?;
        if interval.schema != SCHEMA {
            return Err(IntervalError::Schema(interval.schema));
        }
        if interval.end_ns < interval.start_ns {
            let Interval {
                start_ns, end_ns, ..
            } = interval;
            return Err(IntervalError::Backwards { start_ns, end_ns });
        }
        Ok(interval)
    }

    /// The latencies, in nanoseconds.
    pub fn decode_histogram(&self) -> Result<Histogram<u64>, IntervalError> {
        if self.histogram.len() > HISTOGRAM_SIZE_MAX {
            return Err(IntervalError::Histogram(format!(
                "{} characters, at most {HISTOGRAM_SIZE_MAX} are read",
                self.histogram.len()
            )));
        }
        let bytes = STANDARD.decode(&self.histogram)?;
        check_header(&bytes).map_err(|problem| IntervalError::Histogram(problem.to_string()))?;
        let decoded = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice());
        decoded.map_err(|error| IntervalError::Histogram(error.to_string()))
    }

    /// The line, without its line feed.
    pub fn to_json(&self) -> String {
        // A struct of numbers and strings always has a JSON form.
        serde_json::to_string(self).expect("an interval as JSON")
    }
}

/// An empty histogram for latencies from 1 ns to [`LATENCY_NS_MAX`], to three digits.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are valid")
}

/// The field `histogram` for these latencies.
pub fn encode_histogram(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and histograms of ours are far below the format's limit.
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a histogram in V2 form");
    STANDARD.encode(bytes)
}

/// The decoder believes the header's lengths and allocates by them; so they are checked first.
fn check_header(bytes: &[u8]) -> Result<(), &'static str> {
    const COOKIE: u32 = 0x1c84_9303 | 0x10;
    const HEADER_SIZE: usize = 40;
    let word = |at: usize| {
        let field: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(field)
    };
    if bytes.len() < HEADER_SIZE {
        return Err("it is shorter than the header");
    }
    if word(0) != COOKIE {
        return Err("the first four bytes differ (is it compressed?)");
    }
    if word(4) as usize != bytes.len() - HEADER_SIZE {
        return Err("its length is not what the header says");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(histogram: &Histogram<u64>) -> Interval {
        Interval {
            schema: SCHEMA.to_string(),
            start_ns: 5,
            end_ns: 1_000_000_005,
            requests: histogram.len(),
            errors: 1,
            dropped: 2,
            histogram: encode_histogram(histogram),
            pauses: vec![(6, 2_000_006)],
        }
    }

    #[test]
    fn a_line_survives_writing_and_reading() {
        let mut histogram = new_histogram();
        for value in [1, 999, 1_500_000, 2_000_000_000, LATENCY_NS_MAX] {
            histogram.record(value).unwrap();
        }
        let line = interval(&histogram);
        let read = Interval::parse(&line.to_json()).unwrap();
        assert_eq!(read, line);
        assert_eq!(read.decode_histogram().unwrap(), histogram);
    }

    #[test]
    fn the_line_has_the_documented_fields() {
        let mut quiet = interval(&new_histogram());
        quiet.pauses.clear();
        assert!(!quiet.to_json().contains("pauses"));
        let read = Interval::parse(&quiet.to_json()).unwrap();
        assert_eq!(read.pauses, []);
        let json: serde_json::Value =
            serde_json::from_str(&interval(&new_histogram()).to_json()).unwrap();
        // The order of fields depends on a feature of the parser that another crate may switch on.
        let mut names: Vec<&String> = json.as_object().unwrap().keys().collect();
        names.sort();
        let expected = [
            "dropped",
            "end_ns",
            "errors",
            "histogram",
            "pauses",
            "requests",
            "schema",
            "start_ns",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = interval(&new_histogram());
        let with = |change: &dyn Fn(&mut Interval)| {
            let mut bad = good.clone();
            change(&mut bad);
            let read = Interval::parse(&bad.to_json());
            read.and_then(|line| line.decode_histogram())
                .unwrap_err()
                .to_string()
        };
        assert!(with(&|l| l.schema = "highwater.load/2".into()).contains("highwater.load/2"));
        assert!(with(&|l| l.end_ns = 1).contains("before it starts"));
        assert!(with(&|l| l.histogram = "!".into()).contains("base64"));
        assert!(with(&|l| l.histogram = STANDARD.encode("x")).contains("shorter"));
        assert!(with(&|l| l.histogram = STANDARD.encode([0; 64])).contains("compressed"));
        assert!(with(&|l| l.histogram = "A".repeat(HISTOGRAM_SIZE_MAX + 4)).contains("at most"));
        assert!(
            Interval::parse("{}")
                .unwrap_err()
                .to_string()
                .contains("`schema`")
        );
        assert!(
            Interval::parse("ready\n")
                .unwrap_err()
                .to_string()
                .contains(SCHEMA)
        );
    }

    #[test]
    fn a_header_that_lies_about_its_length_allocates_nothing() {
        let mut histogram = new_histogram();
        histogram.record(1000).unwrap();
        let mut bytes = STANDARD.decode(encode_histogram(&histogram)).unwrap();
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut line = interval(&histogram);
        line.histogram = STANDARD.encode(bytes);
        assert!(
            line.decode_histogram()
                .unwrap_err()
                .to_string()
                .contains("length")
        );
    }

    #[test]
    fn damaged_histograms_are_errors_or_other_values_but_never_a_panic() {
        let seed = 11;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut histogram = new_histogram();
        for _ in 0..200 {
            histogram.record(random.u64(1..LATENCY_NS_MAX)).unwrap();
        }
        let good = STANDARD.decode(encode_histogram(&histogram)).unwrap();
        for round in 0..500 {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                bytes[at] ^= random.u8(1..);
            }
            let mut line = interval(&histogram);
            line.histogram = STANDARD.encode(bytes);
            let decoded = std::panic::catch_unwind(|| line.decode_histogram().is_ok());
            assert!(decoded.is_ok(), "panic in round {round} of seed {seed}");
        }
    }
}

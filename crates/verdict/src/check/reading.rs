//! Readings of a named metric: highwater's own, or the subject's, with or without labels.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Seen, words};
use observe::metric;
use record::run::Process;
use series::arms::{is_counter, replica_id, seconds_between};
use units::written;

/// What recorded names of the subject's own metrics begin with.
pub const OPENMETRICS: &str = "openmetrics:";

/// Highest RSS of a process from `after` on, bytes; with the kernel's high-water mark when `after`
/// is zero.
pub fn highest_rss(process: &Process, after: Duration) -> Option<f64> {
    let names = match after.is_zero() {
        true => &[metric::RSS.name, metric::RSS_PEAK.name][..],
        false => &[metric::RSS.name][..],
    };
    let readings = names
        .iter()
        .filter_map(|name| process.samples.get(*name))
        .flatten();
    readings
        .filter(|(time, _)| seconds_between(process.started, *time) >= after.as_secs_f64())
        .map(|(_, value)| *value)
        .filter(|value| value.is_finite())
        .max_by(f64::total_cmp)
}

/// A reading, and where and when it was taken.
struct Reading<'a> {
    value: f64,
    process: &'a Process,
    metric: &'a str,
    uptime_s: f64,
    /// The last one of its process and metric.
    is_last: bool,
}

impl Reading<'_> {
    fn words(&self) -> String {
        let when = written::seconds(self.uptime_s);
        format!(
            "{} (process {}, at {when})",
            plain(self.value),
            replica_id(self.process)
        )
    }
}

/// Every reading of `name` lies within [min, max] from `after` on; `min` of a counter is asked of
/// the last reading of each process.
pub fn within(
    processes: &[&Process],
    name: &str,
    min: Option<f64>,
    max: Option<f64>,
    after: Duration,
) -> Seen {
    let readings: Vec<Reading> = processes
        .iter()
        .flat_map(|p| readings(p, name, after))
        .collect();
    let Some(highest) = readings.iter().max_by(|a, b| a.value.total_cmp(&b.value)) else {
        return (None, nothing_read(processes, name, after));
    };
    let asked_for_min = readings
        .iter()
        .filter(|r| r.is_last || !is_counter(r.metric));
    let lowest = asked_for_min.min_by(|a, b| a.value.total_cmp(&b.value));
    if let Some(low) = lowest.filter(|low| outside(low.value, min, None)) {
        return (Some(false), format!("lowest {}", low.words()));
    }
    if outside(highest.value, None, max) {
        return (Some(false), format!("highest {}", highest.words()));
    }
    let low = lowest.map_or(highest.value, |low| low.value);
    match low == highest.value {
        true => (Some(true), format!("always {}", plain(low))),
        false => (
            Some(true),
            format!("between {} and {}", plain(low), plain(highest.value)),
        ),
    }
}

/// Below `min` or above `max`; NaN is outside of any bound.
pub fn outside(value: f64, min: Option<f64>, max: Option<f64>) -> bool {
    min.is_some_and(|min| value.is_nan() || value < min)
        || max.is_some_and(|max| value.is_nan() || value > max)
}

/// Whether a recorded name answers to `wanted`: the same name, and for the subject's own metrics
/// every label that `wanted` gives, in any order; labels that it does not give may have any value.
pub fn answers(recorded: &str, wanted: &str) -> bool {
    if recorded == wanted {
        return true;
    }
    let Some(recorded) = recorded.strip_prefix(OPENMETRICS) else {
        return false;
    };
    let (name, labels) = parse_name(recorded);
    let (wanted_name, wanted_labels) =
        parse_name(wanted.strip_prefix(OPENMETRICS).unwrap_or(wanted));
    name == wanted_name
        && wanted_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
}

/// `name{key="value",...}` in its parts. Quotes and escapes follow the text format of OpenMetrics;
/// what is not of that form has no labels.
pub fn parse_name(text: &str) -> (&str, BTreeMap<String, String>) {
    let Some((name, rest)) = text.split_once('{') else {
        return (text.trim(), BTreeMap::new());
    };
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    while let Some((key, after_key)) = rest.split_once('=') {
        let Some(quoted) = after_key.trim_start().strip_prefix('"') else {
            break;
        };
        let (value, length) = unquote(quoted);
        labels.insert(key.trim_start_matches([',', ' ']).trim().to_string(), value);
        rest = &quoted[length..];
    }
    (name.trim(), labels)
}

/// The value up to its closing quote, and how many bytes it took with the quote.
fn unquote(text: &str) -> (String, usize) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, at + 1),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            other => value.push(other),
        }
    }
    (value, text.len())
}

fn readings<'a>(process: &'a Process, name: &str, after: Duration) -> Vec<Reading<'a>> {
    let series = process
        .samples
        .iter()
        .filter(|(recorded, _)| answers(recorded, name));
    let all = series.flat_map(|(metric, samples)| {
        samples
            .iter()
            .enumerate()
            .map(move |(at, (time, value))| Reading {
                value: *value,
                process,
                metric,
                uptime_s: seconds_between(process.started, *time),
                is_last: at + 1 == samples.len(),
            })
    });
    all.filter(|reading| reading.uptime_s >= after.as_secs_f64())
        .collect()
}

fn nothing_read(processes: &[&Process], name: &str, after: Duration) -> String {
    let recorded = processes.iter().flat_map(|p| p.samples.keys());
    let near = recorded
        .map(|recorded| recorded.strip_prefix(OPENMETRICS).unwrap_or(recorded))
        .map(|recorded| {
            (
                strsim::jaro_winkler(parse_name(recorded).0, parse_name(name).0),
                recorded,
            )
        })
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match near {
        Some((_, near)) if parse_name(near).0 != parse_name(name).0 => {
            format!("; recorded is `{near}`")
        }
        _ => String::new(),
    };
    format!("no reading of `{name}`{}{hint}", words::after(after))
}

/// A metric's own number, without a unit that it may not have.
fn plain(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => format!("{value:.0}"),
        false => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_labels_come_apart() {
        let (name, labels) = parse_name("up{job=\"a,b\", why=\"\\\"x\\n\"} ");
        assert_eq!(name, "up");
        assert_eq!(labels.get("job").map(String::as_str), Some("a,b"));
        assert_eq!(labels.get("why").map(String::as_str), Some("\"x\n"));
        assert_eq!(parse_name("plain"), ("plain", BTreeMap::new()));
    }

    proptest! {
        #[test]
        fn any_text_is_a_name(recorded in ".*", wanted in "[a{}=\",\\\\ ]{0,20}") {
            parse_name(&recorded);
            parse_name(&wanted);
            answers(&format!("{OPENMETRICS}{recorded}"), &wanted);
        }

        #[test]
        fn a_name_answers_to_itself(name in "[a-z_]{1,12}", key in "[a-z]{1,5}", value in "[^\"\\\\\n]{0,9}") {
            let full = format!("{name}{{{key}=\"{value}\"}}");
            let recorded = format!("{OPENMETRICS}{full}");
            prop_assert!(answers(&recorded, &full));
            prop_assert!(answers(&recorded, &name));
            let other = format!("{name}x");
            prop_assert!(!answers(&recorded, &other));
        }
    }
}

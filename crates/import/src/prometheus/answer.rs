//! Answers of the HTTP API, parsed. All pure; the client only carries bytes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Labels, SERIES_MAX};

/// Readings of one answer; a page should hold a tenth.
const READINGS_MAX: usize = 10_000_000;
/// Labels of one series.
const LABELS_EACH_MAX: usize = 512;
/// Labels of all series of one answer: each takes ten times the memory of its text.
const LABELS_MAX: usize = 4_000_000;
/// Warnings kept of one answer.
const WARNINGS_MAX: usize = 100;
/// Names of metrics; a large server has some 10,000.
const NAMES_MAX: usize = 1_000_000;

/// Parts of a server's message that mean: ask for less at a time. Prometheus, then VictoriaMetrics.
const TOO_MUCH: &[&str] = &[
    "too many samples",
    "maximum resolution",
    "timed out",
    "too many points",
    "maxPointsPerTimeseries",
    "maxSamplesPer",
    "maxPointsSubquery",
    "maxMemoryPerQuery",
];
/// So much of a foreign message is shown.
const WORDS_MAX: usize = 300;

/// What went wrong, and whether a smaller question may be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    TooMuch(String),
    #[error("{0}")]
    Refused(String),
    /// The answer holds more than this limit.
    #[error("the answer holds more than {0}; ask for less")]
    Beyond(String),
}

/// One series of an answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Raw {
    #[serde(default, rename = "metric", deserialize_with = "labels")]
    pub labels: Labels,
    #[serde(default, rename = "values")]
    pub readings: Vec<Reading>,
}

/// Seconds since the epoch, and the value: NaN and infinities come as words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading(pub f64, pub f64);

impl<'de> Deserialize<'de> for Reading {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reading, D::Error> {
        #[derive(Deserialize)]
        struct Pair<'a>(f64, #[serde(borrow)] Cow<'a, str>);
        let Pair(t_s, text) = Pair::deserialize(deserializer)?;
        let value = text.parse();
        value
            .map(|value| Reading(t_s, value))
            .map_err(|_| D::Error::custom(format!("{text:?} is no number")))
    }
}

/// Series, and what the server warns of (a store behind it that did not answer).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub series: Vec<Raw>,
    pub warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<T> {
    status: String,
    data: Option<T>,
    #[serde(default)]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Bounded<String>,
}

/// A list of which no more than a limit is held; what follows is passed over.
struct Bounded<T> {
    items: Vec<T>,
    beyond: Option<String>,
}

impl<T> Default for Bounded<T> {
    fn default() -> Bounded<T> {
        Bounded {
            items: Vec::new(),
            beyond: None,
        }
    }
}

impl<T> Bounded<T> {
    fn all(self) -> Result<Vec<T>, Trouble> {
        match self.beyond {
            None => Ok(self.items),
            Some(limit) => Err(Trouble::Beyond(limit)),
        }
    }
}

/// How an item counts against the limits of its list.
trait Counted {
    /// The limit that the list exceeds with this item; `counts` is of the items before.
    fn beyond(&self, counts: &mut [usize; 3]) -> Option<String>;
}

impl Counted for String {
    fn beyond(&self, counts: &mut [usize; 3]) -> Option<String> {
        counts[0] += 1;
        (counts[0] > NAMES_MAX).then(|| format!("{NAMES_MAX} names"))
    }
}

impl Counted for Raw {
    fn beyond(&self, counts: &mut [usize; 3]) -> Option<String> {
        let own = [1, self.labels.len(), self.readings.len()];
        counts
            .iter_mut()
            .zip(own)
            .for_each(|(all, own)| *all += own);
        let limits = [
            (own[1], LABELS_EACH_MAX, "labels of one series"),
            (counts[0], SERIES_MAX, "series"),
            (counts[1], LABELS_MAX, "labels"),
            (counts[2], READINGS_MAX, "readings"),
        ];
        let met = limits.iter().find(|(count, limit, _)| count > limit);
        met.map(|(_, limit, of)| format!("{limit} {of}"))
    }
}

impl<'de, T: Deserialize<'de> + Counted> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bounded<T>, D::Error> {
        deserializer.deserialize_seq(List(PhantomData))
    }
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Counted> Visitor<'de> for List<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bounded<T>, A::Error> {
        let (mut held, mut counts) = (Bounded::default(), [0; 3]);
        while let Some(item) = list.next_element::<T>()? {
            held.beyond = item.beyond(&mut counts);
            if held.beyond.is_some() {
                held.items = Vec::new();
                while list.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
            held.items.push(item);
        }
        Ok(held)
    }
}

/// Labels, one more than the limit at most.
fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    struct Map;
    impl<'de> Visitor<'de> for Map {
        type Value = Labels;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
            let mut labels = Labels::new();
            while labels.len() <= LABELS_EACH_MAX {
                let Some((name, value)) = map.next_entry()? else {
                    return Ok(labels);
                };
                labels.insert(name, value);
            }
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(labels)
        }
    }
    deserializer.deserialize_map(Map)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Bounded<Raw>,
}

/// Series out of the body of an answer with this HTTP status.
pub fn parse_series(status: u16, body: &[u8]) -> Result<Answer, Trouble> {
    let envelope: Envelope<Data> = envelope(status, body)?;
    let Some(data) = envelope.data else {
        return Err(Trouble::Refused("the answer holds no data".to_owned()));
    };
    if data.result_type != "matrix" {
        return Err(kind_refused(&data.result_type));
    }
    let mut warnings = envelope.warnings.items;
    warnings.truncate(WARNINGS_MAX);
    Ok(Answer {
        series: data.result.all()?,
        warnings,
    })
}

/// A list of names out of the body of an answer.
pub fn parse_names(status: u16, body: &[u8]) -> Result<Vec<String>, Trouble> {
    let data = envelope::<Bounded<String>>(status, body)?.data;
    data.unwrap_or_default().all()
}

fn kind_refused(kind: &str) -> Trouble {
    Trouble::Refused(format!(
        "the query gives a {kind}, not series over time; ask for a metric, or for an expression of metrics"
    ))
}

fn envelope<'a, T: Deserialize<'a>>(status: u16, body: &'a [u8]) -> Result<Envelope<T>, Trouble> {
    let parsed: Result<Envelope<T>, _> = serde_json::from_slice(body);
    match parsed {
        Ok(envelope) if envelope.status == "success" && status < 300 => Ok(envelope),
        Ok(envelope) => Err(said(status, &envelope.error_type, &envelope.error)),
        Err(error) => Err(unreadable(status, body, &error)),
    }
}

/// The server's own reason.
fn said(status: u16, kind: &str, error: &str) -> Trouble {
    let error = units::wording::shown(error, WORDS_MAX);
    let words = format!("the server refuses the query (HTTP {status}, {kind}): {error}");
    match TOO_MUCH.iter().any(|part| error.contains(part)) {
        true => Trouble::TooMuch(words),
        false => Trouble::Refused(words),
    }
}

fn unreadable(status: u16, body: &[u8], error: &serde_json::Error) -> Trouble {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * WORDS_MAX)]);
    let text = text.trim_start();
    if let Some(kind) = ["scalar", "string", "vector"]
        .iter()
        .find(|k| text.contains(&format!("\"resultType\":\"{k}\"")))
    {
        return kind_refused(kind);
    }
    let shown = units::wording::shown(text, WORDS_MAX);
    Trouble::Refused(match status {
        401 | 403 => format!(
            "the server requires authentication (HTTP {status}); give --header 'Authorization: Bearer TOKEN'"
        ),
        404 => "there is no such API at this address (HTTP 404); a path may be missing, as in \
                http://host/prometheus, or /select/0/prometheus of a VictoriaMetrics cluster"
            .to_owned(),
        429 | 502..=504 => {
            format!("the server is overloaded or away (HTTP {status}): {shown}; try again later")
        }
        _ if text.starts_with('<') => format!(
            "the server answers with a web page (HTTP {status}) and not with JSON; is this the address of a \
             Prometheus, or of a login or proxy before it?"
        ),
        _ if body.is_empty() => {
            format!("the answer is empty (HTTP {status}); is this a Prometheus?")
        }
        _ if error.is_eof() => format!(
            "the answer breaks off after {} bytes; something between here and the server cut it, try again",
            body.len()
        ),
        400..=599 => format!("the server refuses (HTTP {status}): {shown}"),
        _ => format!("the answer is not what Prometheus says ({error}); is this a Prometheus?"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where each fixture came from stands in its folder.
    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!(
                "../../../../highwater/tests/fixtures/prometheus/",
                $name,
                ".json"
            ))
        };
    }

    fn words(status: u16, body: &str) -> Trouble {
        parse_series(status, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn series_with_true_times() {
        let answer = parse_series(200, fixture!("matrix").as_bytes()).unwrap();
        assert_eq!(answer.series.len(), 2);
        let series = &answer.series[0];
        assert_eq!(series.labels["instance"], "127.0.0.1:19110");
        assert_eq!(series.readings[0], Reading(1_795_295_746.674, 22_753_280.0));
        let odd = parse_series(200, fixture!("infinite").as_bytes()).unwrap();
        assert!(odd.series[0].readings[0].1.is_infinite());
        assert!(odd.series[1].readings[0].1.is_nan());
    }

    #[test]
    fn warnings_are_passed_on() {
        let warned = "\"status\":\"success\",\"warnings\":[\"a store is away\"]";
        let body = fixture!("matrix").replace("\"status\":\"success\"", warned);
        let answer = parse_series(200, body.as_bytes()).unwrap();
        assert_eq!(answer.warnings, ["a store is away"]);
    }

    #[test]
    fn the_servers_reason_is_passed_on() {
        let refused = |status, body, part: &str| match words(status, body) {
            Trouble::Refused(told) => assert!(told.contains(part), "{told}"),
            other => panic!("{other}"),
        };
        refused(
            400,
            fixture!("bad_data"),
            "1:6: parse error: unclosed left parenthesis",
        );
        refused(422, fixture!("victoria_bad"), "unexpected token");
        refused(200, fixture!("scalar"), "gives a scalar");
        refused(200, fixture!("vector"), "gives a vector");
        assert!(matches!(
            words(400, fixture!("resolution")),
            Trouble::TooMuch(_)
        ));
        assert!(matches!(
            words(422, fixture!("victoria_points")),
            Trouble::TooMuch(_)
        ));
    }

    #[test]
    fn what_is_no_answer_says_what_to_do() {
        let says = |status, body: &str, part: &str| {
            let told = words(status, body).to_string();
            assert!(told.contains(part), "{told}");
        };
        says(200, "<!DOCTYPE html><html>", "web page");
        says(404, "404 page not found", "path");
        says(401, "Unauthorized", "--header");
        says(503, "upstream", "try again");
        says(200, "", "empty");
        says(
            200,
            &fixture!("matrix")[..100],
            "breaks off after 100 bytes",
        );
        says(200, "[1,2]", "is this a Prometheus");
        says(200, r#"{"status":"success"}"#, "no data");
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(status in 100u16..600, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse_series(status, &bytes);
            let _ = parse_names(status, &bytes);
        }
    }
}

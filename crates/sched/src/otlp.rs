//! Spans in OTLP's JSON, read as they pass: no tree of the text is held, which would take ten times its bytes.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Of a span's name.
const NAME_CHARS: usize = 256;

/// A span, after `day_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The spans of a text, `most` of them, at whatever depth: they lie elsewhere in a file of the collector than in
/// one of a test. The parser bounds the depth.
///
/// # Errors
/// It is no JSON; in the parser's words.
pub fn spans(text: &str, day_ns: u64, most: usize) -> Result<Vec<Span>, String> {
    let mut found = Vec::new();
    let mut rest = serde_json::Deserializer::from_str(text);
    for number in 1.. {
        // What stands between values is theirs to skip.
        if rest.end().is_ok() {
            break;
        }
        let walk = Walk {
            day_ns,
            most,
            found: &mut found,
        };
        walk.deserialize(&mut rest)
            .map_err(|error| format!("object {number}: {error}"))?;
    }
    Ok(found)
}

/// Goes through a value, and keeps the spans in it.
struct Walk<'f> {
    day_ns: u64,
    most: usize,
    found: &'f mut Vec<Span>,
}

/// What an object wants to know of a field.
enum Leaf {
    Number(u64),
    Text(String),
    Other,
}

impl Leaf {
    /// Numbers of 64 bits are strings in OTLP's JSON.
    fn number(&self) -> Option<u64> {
        match self {
            Leaf::Number(number) => Some(*number),
            Leaf::Text(text) => text.parse().ok(),
            Leaf::Other => None,
        }
    }
}

impl Walk<'_> {
    fn inner(&mut self) -> Walk<'_> {
        Walk {
            day_ns: self.day_ns,
            most: self.most,
            found: self.found,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Leaf;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Leaf, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Leaf;

    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Leaf, E> {
        Ok(Leaf::Other)
    }

    fn visit_unit<E>(self) -> Result<Leaf, E> {
        Ok(Leaf::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Leaf, E> {
        Ok(Leaf::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Leaf, E> {
        Ok(Leaf::Other)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Leaf, E> {
        Ok(Leaf::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Leaf, E> {
        Ok(Leaf::Text(text.chars().take(NAME_CHARS).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<Leaf, A::Error> {
        while values.next_element_seed(self.inner())?.is_some() {}
        Ok(Leaf::Other)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Leaf, A::Error> {
        let (mut name, mut start, mut end) = (String::new(), None, None);
        while let Some(key) = fields.next_key::<String>()? {
            // Beyond the limit only its form is read.
            if self.found.len() >= self.most {
                fields.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = fields.next_value_seed(self.inner())?;
            match (key.as_str(), value) {
                ("startTimeUnixNano", value) => start = value.number(),
                ("endTimeUnixNano", value) => end = value.number(),
                ("name", Leaf::Text(text)) => name = text,
                _ => {}
            }
        }
        let time = |time: Option<u64>| time?.checked_sub(self.day_ns);
        if let (Some(start_ns), Some(end_ns)) = (time(start), time(end))
            && start_ns <= end_ns
            && self.found.len() < self.most
        {
            self.found.push(Span {
                name,
                start_ns,
                end_ns,
            });
        }
        Ok(Leaf::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_found_wherever_they_lie() {
        // As the OpenTelemetry collector's file exporter writes it, shortened.
        let text = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[
            {"name":"http.request","startTimeUnixNano":"1100","endTimeUnixNano":"1900","kind":2},
            {"name":"odd","startTimeUnixNano":"9","endTimeUnixNano":"8"}]}]}]}
            {"resourceSpans":[]}
            {"name":{"startTimeUnixNano":1001,"endTimeUnixNano":1002.5},
             "startTimeUnixNano":1003,"endTimeUnixNano":1004}"#;
        let found = spans(text, 1_000, 9).unwrap();
        let of = found
            .iter()
            .map(|span| (&*span.name, span.start_ns, span.end_ns));
        let of: Vec<_> = of.collect();
        assert_eq!(of, [("http.request", 100, 900), ("", 3, 4)]);
    }

    #[test]
    fn what_is_no_json_is_an_error_with_its_place() {
        for bad in ["{\"a\":", "{} x", "{\"a\":[1,}", "nul"] {
            let error = spans(bad, 0, 9).unwrap_err();
            assert!(error.starts_with("object "), "{bad}: {error}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(spans(&deep, 0, 9).unwrap_err().contains("recursion"));
        assert!(spans("", 0, 9).unwrap().is_empty());
    }

    #[test]
    fn names_are_cut_and_large_numbers_are_none() {
        let name = "n".repeat(10_000);
        let text = format!(
            "{{\"name\":\"{name}\",\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\"}}\
             {{\"startTimeUnixNano\":\"99999999999999999999\",\"endTimeUnixNano\":1e300}}"
        );
        let found = spans(&text, 0, 9).unwrap();
        assert_eq!((found.len(), found[0].name.len()), (1, NAME_CHARS));
        assert!(spans(&text, 0, 0).unwrap().is_empty());
    }
}

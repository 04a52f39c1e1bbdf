//! Requests as somebody outside saw them: a load generator's CSV, or spans in OTLP's JSON.

use super::event::{TextId, Tid};
use super::otlp::{Span, spans};

/// From its sending to its answer, CLOCK_MONOTONIC.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    /// The thread that served it, where that is known.
    pub tid: Option<Tid>,
}

/// A request on one of the process's own connections ([`crate::answers`]), CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Answered {
    /// Its first bytes arrived.
    pub start_ns: u64,
    /// A thread took them up.
    pub received_ns: u64,
    /// The first bytes of the answer left.
    pub end_ns: u64,
    /// Threads, or goroutines where there are any.
    pub receiver: Tid,
    pub sender: Tid,
}

impl Answered {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A reply that the process waited for, on a connection that it opened itself. CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Reply {
    /// The last bytes of what was asked left.
    pub start_ns: u64,
    /// The first byte of the reply was received.
    pub end_ns: u64,
    /// The thread that received it, or the goroutine.
    pub tid: Tid,
    /// "network read from 10.0.0.1:5432".
    pub activity: TextId,
}

impl Reply {
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Requests on connections that are not among those that were told.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Unseen {
    /// They took so short that they were counted alone, or found no room.
    pub uncounted: u64,
    /// The part of the time in which none were told, for there were too many.
    pub share: f64,
}

/// Requests read from one file.
const REQUESTS_MAX: usize = 2_000_000;

/// CSV with `start_ns,end_ns` of CLOCK_MONOTONIC in its first line, or OTLP JSON (one object, or
/// one a line). Spans have the time of day: `day_ns` is its lead over CLOCK_MONOTONIC.
///
/// # Errors
/// In words, with the number of the line.
pub fn parse_requests(text: &str, day_ns: u64) -> Result<Vec<Request>, String> {
    match text.trim_start().starts_with('{') {
        true => parse_otlp(text, day_ns),
        false => parse_csv(text),
    }
}

fn parse_csv(text: &str) -> Result<Vec<Request>, String> {
    let mut lines = text.lines().enumerate();
    let (_, head) = lines.next().ok_or("the file is empty")?;
    let columns: Vec<&str> = head.split(',').map(str::trim).collect();
    let column = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(start), Some(end)) = (column("start_ns"), column("end_ns")) else {
        return Err("line 1: the columns start_ns and end_ns are not named".into());
    };
    let mut found = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |cell: usize| cells.get(cell).and_then(|text| text.parse().ok());
        let (Some(start_ns), Some(end_ns)) = (number(start), number(end)) else {
            return Err(format!("line {}: no two whole numbers in {line:?}", at + 1));
        };
        if end_ns < start_ns {
            return Err(format!("line {}: it ends before it starts", at + 1));
        }
        found.push(Request {
            name: String::new(),
            start_ns,
            end_ns,
            tid: None,
        });
        if found.len() == REQUESTS_MAX {
            break;
        }
    }
    Ok(found)
}

fn parse_otlp(text: &str, day_ns: u64) -> Result<Vec<Request>, String> {
    let found = spans(text, day_ns, REQUESTS_MAX)?;
    if found.is_empty() {
        return Err("no span with startTimeUnixNano and endTimeUnixNano is in it".into());
    }
    let request = |span: Span| Request {
        name: span.name,
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        tid: None,
    };
    Ok(found.into_iter().map(request).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_generators_lines_are_requests() {
        let found = parse_requests("id,start_ns,end_ns\n7,100,250\n\n8,300,300\n", 0).unwrap();
        let times: Vec<_> = found.iter().map(|r| (r.start_ns, r.end_ns)).collect();
        assert_eq!(times, [(100, 250), (300, 300)]);
        for (bad, word) in [
            ("", "empty"),
            ("a,b\n1,2\n", "line 1"),
            ("start_ns,end_ns\n1,x\n", "line 2"),
            ("start_ns,end_ns\n9,2\n", "ends before"),
        ] {
            let error = parse_requests(bad, 0).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_file_of_spans_has_some() {
        let text = r#"{"name":"x","startTimeUnixNano":"1100","endTimeUnixNano":"1900"}"#;
        let found = parse_requests(text, 1_000).unwrap();
        assert_eq!((found[0].start_ns, found[0].end_ns), (100, 900));
        assert!(parse_requests("{\"a\":1}", 0).unwrap_err().contains("span"));
        assert!(parse_requests("{\"a\":", 0).is_err());
    }
}

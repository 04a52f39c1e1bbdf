//! `{port}` and its like in commands, environments, URLs and addresses.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{port}`, `{port2}` to `{port9}` | free ports of 127.0.0.1, the same over all restarts of a process, never handed out twice in a run |
//! | `{arm}`, `{replica}` | the arm's name; the number of the process in it, from 0 |
//! | `{run}` | the run's name, `2026-11-21-relay-1` |
//! | `{data}` | a folder of the process's own, empty at its first start and kept over its restarts, as a service in production finds its data again |
//! | `{seed}` | a number for random choices: the same for replica k of every arm, another one for each k |
//! | `{pid}` | the running process; in load and checks only |
//! | `{processes}` | a JSON file that lists every process of the run with arm, replica, pid and ports; for load of the whole run |
//!
//! `{{` and `}}` stand for single braces.

use std::path::PathBuf;

use thiserror::Error;

/// `{port9}` is the last.
pub const PORTS_PER_PROCESS_MAX: usize = 9;

const NAMES: &[&str] = &[
    "port",
    "port2",
    "arm",
    "replica",
    "run",
    "data",
    "seed",
    "pid",
    "processes",
];

/// What the placeholders stand for; what is absent is an error when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    pub run: String,
    pub arm: Option<String>,
    pub replica: Option<u32>,
    pub data: Option<PathBuf>,
    pub seed: u64,
    pub pid: Option<i32>,
    /// `{port}` is the first.
    pub ports: Vec<u16>,
    pub processes: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlaceholderError {
    #[error("unknown placeholder {{{name}}}{}; for a literal brace write {{{{", nearest_words(.nearest))]
    Unknown {
        name: String,
        nearest: Option<&'static str>,
    },
    #[error("{{{name}}} has no value here: {why}")]
    NoValue { name: String, why: &'static str },
    #[error("a {{ without its }} in {text:?}; for a literal brace write {{{{")]
    Unclosed { text: String },
}

fn nearest_words(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| {
        format!(", the nearest known one is {{{name}}}")
    })
}

/// Replaces every placeholder of `text`.
pub fn expand(text: &str, values: &Values) -> Result<String, PlaceholderError> {
    let mut out = String::with_capacity(text.len());
    for piece in parse_pieces(text)? {
        match piece {
            Piece::Text(plain) => out.push_str(plain),
            Piece::Name(name) => out.push_str(&value(name, values)?),
        }
    }
    Ok(out)
}

/// How many ports a process needs whose texts these are. Broken texts count as none: `expand` says what is wrong.
pub fn ports_wanted<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    let pieces = texts
        .into_iter()
        .flat_map(|text| parse_pieces(text).unwrap_or_default());
    let numbers = pieces.filter_map(|piece| match piece {
        Piece::Name(name) => port_number(name),
        Piece::Text(_) => None,
    });
    numbers.max().unwrap_or(0)
}

/// Whether `text` mentions `{name}`.
pub fn mentions(text: &str, name: &str) -> bool {
    parse_pieces(text).is_ok_and(|pieces| pieces.contains(&Piece::Name(name)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

fn parse_pieces(text: &str) -> Result<Vec<Piece<'_>>, PlaceholderError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (plain, brace) = rest.split_at(at);
        pieces.push(Piece::Text(plain));
        // A doubled brace is one; a single closing one stands for itself.
        let doubled = brace.starts_with("{{") || brace.starts_with("}}");
        if doubled || brace.starts_with('}') {
            pieces.push(Piece::Text(&brace[..1]));
            rest = &brace[if doubled { 2 } else { 1 }..];
            continue;
        }
        let Some(end) = brace.find('}') else {
            return Err(PlaceholderError::Unclosed { text: text.into() });
        };
        pieces.push(Piece::Name(&brace[1..end]));
        rest = &brace[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn value(name: &str, values: &Values) -> Result<String, PlaceholderError> {
    const WHOLE_RUN: &str = "a load program of the whole run belongs to no process; \
                             use per = \"process\", or read the list in {processes}";
    let no_value = |why| PlaceholderError::NoValue {
        name: name.into(),
        why,
    };
    if let Some(number) = port_number(name) {
        let port = values
            .ports
            .get(number - 1)
            .ok_or_else(|| no_value(WHOLE_RUN))?;
        return Ok(port.to_string());
    }
    match name {
        "run" => Ok(values.run.clone()),
        "seed" => Ok(values.seed.to_string()),
        "arm" => values.arm.clone().ok_or_else(|| no_value(WHOLE_RUN)),
        "replica" => values
            .replica
            .map(|r| r.to_string())
            .ok_or_else(|| no_value(WHOLE_RUN)),
        "data" => values
            .data
            .as_ref()
            .map(path_text)
            .ok_or_else(|| no_value(WHOLE_RUN)),
        "pid" => values.pid.map(|pid| pid.to_string()).ok_or_else(|| {
            no_value("the process has no pid yet, or not any more; only load and checks can use it")
        }),
        "processes" => values
            .processes
            .as_ref()
            .map(path_text)
            .ok_or_else(|| no_value("the list of processes is for load and checks")),
        _ => Err(PlaceholderError::Unknown {
            name: name.into(),
            nearest: nearest(name),
        }),
    }
}

fn path_text(path: &PathBuf) -> String {
    path.display().to_string()
}

/// `port` is 1, `port2` is 2, ...
fn port_number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("port")?;
    if digits.is_empty() {
        return Some(1);
    }
    let number = digits.parse().ok()?;
    (2..=PORTS_PER_PROCESS_MAX)
        .contains(&number)
        .then_some(number)
}

fn nearest(name: &str) -> Option<&'static str> {
    let scored = NAMES
        .iter()
        .map(|known| (strsim::jaro_winkler(name, known), *known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.7).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            run: "2026-11-21-relay-1".into(),
            arm: Some("jemalloc".into()),
            replica: Some(2),
            data: Some("/runs/1/data/jemalloc-2".into()),
            seed: 77,
            pid: None,
            ports: vec![20001, 20002],
            processes: None,
        }
    }

    #[test]
    fn each_stands_for_its_value() {
        let cases = [
            ("--listen=127.0.0.1:{port}", "--listen=127.0.0.1:20001"),
            ("{port}{port2}", "2000120002"),
            ("{arm}-{replica}", "jemalloc-2"),
            ("{run}:{seed}", "2026-11-21-relay-1:77"),
            ("{data}/db", "/runs/1/data/jemalloc-2/db"),
            ("no braces", "no braces"),
            ("", ""),
            ("{{port}}", "{port}"),
            ("{{\"a\":{{\"b\":{port}}}}}", "{\"a\":{\"b\":20001}}"),
            ("a } alone", "a } alone"),
            ("ä{arm}ö", "äjemallocö"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &values()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_unknown_names_the_nearest() {
        let error = expand("{prot}", &values()).unwrap_err().to_string();
        assert!(
            error.contains("{prot}") && error.contains("{port}"),
            "{error}"
        );
        let error = expand("{zzz}", &values()).unwrap_err().to_string();
        assert!(
            !error.contains("nearest") && error.contains("{{"),
            "{error}"
        );
        assert!(expand("{}", &values()).is_err());
        assert!(expand("{port10}", &values()).is_err());
        assert!(expand("{port1}", &values()).is_err());
    }

    #[test]
    fn what_has_no_value_says_why() {
        let error = expand("{pid}", &values()).unwrap_err().to_string();
        assert!(error.contains("load and checks"), "{error}");
        let whole_run = Values {
            seed: 1,
            ..Values::default()
        };
        let error = expand("{port}", &whole_run).unwrap_err().to_string();
        assert!(error.contains("{processes}"), "{error}");
    }

    #[test]
    fn an_open_brace_is_an_error() {
        assert!(matches!(
            expand("a{b", &values()),
            Err(PlaceholderError::Unclosed { .. })
        ));
    }

    #[test]
    fn ports_are_counted_by_the_highest() {
        assert_eq!(ports_wanted(["{port}", "{port3}", "{{port9}}"]), 3);
        assert_eq!(ports_wanted(["nothing", "{broken"]), 0);
        assert!(mentions("x {pid}", "pid") && !mentions("{{pid}}", "pid"));
    }
}

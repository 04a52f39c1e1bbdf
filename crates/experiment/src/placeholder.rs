//! What the placeholders of a plan stand for in one process. Their names, and how they are written, are in
//! `experiment::placeholder`, which has checked them already.
//!
//! `{port}` to `{port9}` stay the same over all restarts of a process, so that its load finds it again, and are never
//! handed out twice in a run. `{data}` is empty at the first start and kept over restarts, as a service in
//! production finds its data again. `{seed}` is the same for replica k of every arm and differs between the k.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::file::placeholder::{Piece, pieces};

/// `{port9}` is the last.
pub const PORTS_PER_PROCESS_MAX: usize = 9;

/// The values; what is absent is an error when it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    pub run: String,
    pub arm: Option<String>,
    /// From 0.
    pub replica: Option<u32>,
    pub data: Option<PathBuf>,
    pub seed: u64,
    pub pid: Option<i32>,
    /// The systemd unit that the process was found by.
    pub unit: Option<String>,
    /// `{port}` is the first.
    pub ports: Vec<u16>,
    pub processes: Option<PathBuf>,
    /// Folder of the backing service, and its first port.
    pub backing: Option<(PathBuf, Option<u16>)>,
}

/// A placeholder that has no value in this place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{{{name}}} has no value here: {why}")]
pub struct PlaceholderError {
    pub name: String,
    pub why: &'static str,
}

/// Replaces every placeholder of `text`.
///
/// # Errors
/// For one that is unknown, or has no value for this process.
pub fn expand(text: &str, values: &Values) -> Result<String, PlaceholderError> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Literal(plain) => out.push_str(plain),
            Piece::Placeholder(name) => out.push_str(&value(name, values)?),
        }
    }
    Ok(out)
}

/// How many ports a process needs whose texts these are.
pub fn ports_wanted<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    let numbers = texts
        .into_iter()
        .flat_map(pieces)
        .filter_map(|piece| match piece {
            Piece::Placeholder(name) => port_number(name),
            Piece::Literal(_) => None,
        });
    numbers.max().unwrap_or(0)
}

/// Whether `text` has the placeholder `{name}`.
pub fn mentions(text: &str, name: &str) -> bool {
    pieces(text).contains(&Piece::Placeholder(name))
}

fn value(name: &str, values: &Values) -> Result<String, PlaceholderError> {
    const WHOLE_RUN: &str = "what serves the whole run belongs to no process; \
                             a load may use per = \"process\", or read the list in {processes}";
    const NO_BACKING: &str = "the experiment has no [backing]";
    let no_value = |why| PlaceholderError {
        name: name.into(),
        why,
    };
    if let Some(number) = port_number(name) {
        let why = if values.arm.is_none() {
            WHOLE_RUN
        } else {
            "the process has no such port"
        };
        return values
            .ports
            .get(number - 1)
            .map(u16::to_string)
            .ok_or_else(|| no_value(why));
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
            .map(|path| path_text(path))
            .ok_or_else(|| no_value(WHOLE_RUN)),
        "pid" => values.pid.map(|pid| pid.to_string()).ok_or_else(|| {
            no_value("the process has no pid yet, or not any more; only load and checks can use it")
        }),
        "unit" => values
            .unit
            .clone()
            .ok_or_else(|| no_value("the process was not found by a systemd unit")),
        "processes" => {
            let list = values.processes.as_ref().map(|path| path_text(path));
            list.ok_or_else(|| no_value("the list of processes is for load and checks"))
        }
        "backing" | "backing_port" => {
            let (folder, port) = values
                .backing
                .as_ref()
                .ok_or_else(|| no_value(NO_BACKING))?;
            match (name, port) {
                ("backing", _) => Ok(path_text(folder)),
                (_, Some(port)) => Ok(port.to_string()),
                (_, None) => Err(no_value("the command of [backing] has no {port}")),
            }
        }
        _ => Err(no_value("there is no such placeholder")),
    }
}

fn path_text(path: &Path) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::placeholder::PLACEHOLDERS;

    fn values() -> Values {
        Values {
            run: "2026-11-21-relay-1".into(),
            arm: Some("jemalloc".into()),
            replica: Some(2),
            data: Some("/runs/1/data/jemalloc-2".into()),
            seed: 77,
            pid: Some(4242),
            unit: Some("tor@a.service".into()),
            ports: (20001..=20009).collect(),
            processes: Some("/runs/1/processes.json".into()),
            backing: Some(("/runs/1/data/_backing".into(), Some(20010))),
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
            ("{pid} {processes}", "4242 /runs/1/processes.json"),
            ("{backing} {backing_port}", "/runs/1/data/_backing 20010"),
            ("no braces", "no braces"),
            ("{{port}}", "{port}"),
            ("{\"a\":{port}}", "{\"a\":20001}"),
        ];
        for (text, expected) in cases {
            assert_eq!(expand(text, &values()).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn every_placeholder_that_a_plan_may_use_has_a_value() {
        for (name, _) in PLACEHOLDERS {
            assert!(expand(&format!("{{{name}}}"), &values()).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_has_no_value_says_why() {
        let words = |text| expand(text, &Values::default()).unwrap_err().to_string();
        assert!(words("{pid}").contains("load and checks"));
        assert!(words("{arm}").contains("{processes}"));
        assert!(words("{port}").contains("{processes}"));
        assert!(words("{port10}").contains("no such placeholder"));
        assert!(words("{backing}").contains("no [backing]"));
    }

    #[test]
    fn ports_are_counted_by_the_highest() {
        assert_eq!(ports_wanted(["{port}", "{port3}", "{{port9}}"]), 3);
        assert_eq!(ports_wanted(["nothing", "{broken"]), 0);
        assert!(mentions("x {pid}", "pid") && !mentions("{{pid}}", "pid"));
    }
}

//! Conditions that only the runner can try (`http`, `command`), looked up as facts of the
//! processes.
//!
//! The runner tries the condition against a process and records a [`observe::look::Fact`] of
//! that process: key [`key`], value [`value`].

use std::time::Duration;

use super::{Seen, words};
use experiment::file::Condition;
use record::run::Process;
use series::arms::{replica_id, seconds_between};

/// Key of the fact: `check:` and the condition as written, placeholders not filled in. `None` for
/// conditions that are judged from samples.
pub fn key(condition: &Condition) -> Option<String> {
    match condition {
        Condition::Http { .. } | Condition::Command { .. } => {
            Some(format!("check:{}", words::condition(condition)))
        }
        _ => None,
    }
}

/// Value of the fact: `pass: ` or `fail: ` and what was seen ("HTTP 503", "exit code 2: ...").
pub fn value(passed: bool, observed: &str) -> String {
    format!("{}: {observed}", if passed { "pass" } else { "fail" })
}

/// The reverse of [`value`]; `None` for anything else.
pub fn parse_value(value: &str) -> Option<(bool, &str)> {
    let passed = value
        .strip_prefix("pass: ")
        .map(|observed| (true, observed));
    passed.or_else(|| {
        value
            .strip_prefix("fail: ")
            .map(|observed| (false, observed))
    })
}

/// One recorded attempt.
struct Attempt {
    passed: bool,
    observed: String,
    id: String,
    uptime_s: f64,
}

pub(super) fn recorded(condition: &Condition, processes: &[&Process], after: Duration) -> Seen {
    let key = key(condition).unwrap_or_default();
    let mut attempts: Vec<Attempt> = Vec::new();
    for process in processes {
        let mut own = attempts_of(process, &key, after);
        if after.is_zero() {
            own = own.pop().into_iter().collect();
            // A later incarnation answers for its replica.
            attempts.retain(|a| own.is_empty() || a.id != replica_id(process));
        }
        attempts.extend(own);
    }
    match attempts.iter().find(|attempt| !attempt.passed) {
        Some(bad) => (
            Some(false),
            format!("{} (process {})", bad.observed, bad.id),
        ),
        None => match attempts.last() {
            Some(last) => (Some(true), last.observed.clone()),
            None => (None, format!("was never tried{}", words::after(after))),
        },
    }
}

fn attempts_of(process: &Process, key: &str, after: Duration) -> Vec<Attempt> {
    let facts = process.facts.get(key).map_or(&[][..], Vec::as_slice).iter();
    facts
        .filter_map(|(time, value)| {
            let (passed, observed) = parse_value(value)?;
            let uptime_s = seconds_between(process.started, *time);
            Some(Attempt {
                passed,
                observed: observed.to_string(),
                id: replica_id(process),
                uptime_s,
            })
        })
        .filter(|attempt| attempt.uptime_s >= after.as_secs_f64())
        .collect()
}

//! What `record` says at the end, on stderr: the program has stdout.

use std::path::Path;

use serde_json::json;

use super::watch::Watched;
use crate::cli::out::say;
use trace::{Facts, Trace};
use units::written::{bytes, counted, seconds};

const SCHEMA: &str = "highwater.record/1";

/// Prints it.
pub fn print(watched: &Watched, path: &Path, as_json: bool) {
    if let Err(error) = &watched.finished {
        say!("highwater: {error}");
        return;
    }
    let trace = match Trace::open(path) {
        Ok(trace) => trace,
        Err(error) => return say!("highwater: {error}"),
    };
    match as_json {
        true => say!("{:#}", json(&trace, watched)),
        false => lines(&trace, watched)
            .iter()
            .for_each(|line| say!("highwater: {line}")),
    }
}

fn json(trace: &Trace, watched: &Watched) -> serde_json::Value {
    json!({
        "schema": SCHEMA,
        "file": trace.path,
        "exit_code": watched.code,
        "events": trace.events(),
        "threads": trace.threads.len(),
        "bytes": trace.bytes,
        "bytes_per_event": per_event(trace),
        "length_ns": trace.facts.length_ns,
        "stopped": trace.facts.stopped(),
        "lost_in_signal_handlers": trace.facts.lost_nested,
        "other_processes": trace.facts.others,
        "events_before_exec": trace.events_before_exec,
        "allocator": trace.about("allocator"),
    })
}

fn per_event(trace: &Trace) -> f64 {
    trace.bytes as f64 / trace.events().max(1) as f64
}

fn lines(trace: &Trace, watched: &Watched) -> Vec<String> {
    if !watched.is_taken {
        return vec![
            "nothing was recorded: the program never loaded the recorder. It may be static, clear LD_PRELOAD, \
             run as another user, or under a seccomp filter that highwater does not have"
                .to_owned(),
        ];
    }
    if trace.events() == 0 {
        return vec![
            "the program made no call of malloc or free: there is nothing to replay".to_owned(),
        ];
    }
    let facts = &trace.facts;
    let mut lines = vec![format!(
        "recorded {} of {} in {} into {}: {}, {:.1} bytes an event",
        counted(trace.events(), "event", "events"),
        counted(trace.threads.len() as u64, "thread", "threads"),
        seconds(facts.length_ns as f64 / 1e9),
        trace.path.display(),
        bytes(trace.bytes as f64),
        per_event(trace),
    )];
    lines.extend(notes(facts, trace, watched));
    lines.push(format!(
        "next: highwater replay {} --allocators all",
        trace.path.display()
    ));
    lines
}

fn notes(facts: &Facts, trace: &Trace, watched: &Watched) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = facts.stopped() {
        let at = facts.off_ns.map_or(String::new(), |ns| {
            format!(" after {}", seconds(ns as f64 / 1e9))
        });
        notes.push(format!("recording ended{at}, before the program: {why}"));
    }
    if facts.off_reason == trace_abi::off_reason::DISK_FULL {
        notes.push(format!(
            "the disk has {} free, and {} of it are left to the service",
            bytes(watched.ledge.free_bytes as f64),
            bytes(watched.ledge.reserve_bytes as f64),
        ));
    }
    if facts.others > 0 {
        let others = counted(u64::from(facts.others), "other process", "other processes");
        notes.push(format!(
            "{others} that the program started ran without being recorded"
        ));
    }
    if trace.events_before_exec > 0 {
        let events = counted(trace.events_before_exec, "event", "events");
        notes.push(format!(
            "{events} before its last exec are left out: those blocks are gone"
        ));
    }
    if facts.lost_nested > 0 {
        let events = counted(facts.lost_nested, "event", "events");
        notes.push(format!(
            "{events} of signal handlers that interrupted the recorder are missing"
        ));
    }
    notes
}

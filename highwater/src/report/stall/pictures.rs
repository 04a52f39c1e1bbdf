//! Off-CPU stacks as folded lines and a flame graph; the timeline for Perfetto and the Firefox
//! profiler, in Chrome's format of trace events.

use std::collections::{BTreeMap, BTreeSet};

use inferno::flamegraph::{Options, from_lines};
use serde_json::{Value, json};

/// Time behind one stack of waiters. Frames innermost first.
#[derive(Debug, Clone, PartialEq)]
pub struct OffCpu {
    pub cause: &'static str,
    pub frames: Vec<String>,
    pub ns: u64,
}

/// A stretch of one thread's timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    pub tid: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// "lock", "disk", "running" ...
    pub what: &'static str,
    pub doing: String,
    pub frames: Vec<String>,
    /// Who ended it.
    pub woken_by: Option<u64>,
}

/// `cause;outermost;...;innermost MICROSECONDS`, a line per stack.
pub fn folded(waits: &[OffCpu]) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for wait in waits {
        let frames = wait.frames.iter().rev().map(|frame| plain(frame));
        let path: Vec<String> = [wait.cause.to_string()].into_iter().chain(frames).collect();
        *sums.entry(path.join(";")).or_default() += wait.ns;
    }
    let lines = sums.iter().map(|(path, ns)| (path, ns / 1_000));
    let lines = lines.filter(|(_, us)| *us > 0);
    lines.map(|(path, us)| format!("{path} {us}\n")).collect()
}

fn plain(name: &str) -> String {
    let odd = |c: char| c == ';' || c.is_control();
    name.chars().map(|c| if odd(c) { ':' } else { c }).collect()
}

/// An SVG file.
///
/// # Errors
/// There is nothing to draw.
pub fn flame_graph(folded: &str, title: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.title = plain(title);
    options.count_name = "microseconds".to_owned();
    let mut svg = Vec::new();
    from_lines(&mut options, folded.lines(), &mut svg)
        .map_err(|error| format!("no flame graph can be drawn: {error} (nothing waited?)"))?;
    Ok(svg)
}

/// The object that both viewers open. `names` of threads by their number.
pub fn trace(pid: u32, names: &BTreeMap<u64, String>, slices: &[Slice]) -> Value {
    let mut events: Vec<Value> = Vec::new();
    let known: BTreeSet<u64> = slices
        .iter()
        .flat_map(|slice| [Some(slice.tid), slice.woken_by])
        .flatten()
        .collect();
    for tid in &known {
        let name = names.get(tid).map_or("", String::as_str);
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": pid, "tid": tid,
            "args": { "name": format!("{name} {tid}").trim() },
        }));
    }
    for (id, slice) in slices.iter().enumerate() {
        events.push(complete(pid, slice));
        if let Some(waker) = slice.woken_by {
            arrow(pid, id, slice, waker, &mut events);
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn complete(pid: u32, slice: &Slice) -> Value {
    json!({
        "ph": "X", "name": slice.what, "cat": slice.what, "pid": pid, "tid": slice.tid,
        "ts": us(slice.start_ns), "dur": us(slice.end_ns - slice.start_ns),
        "args": { "doing": slice.doing, "stack": slice.frames.join(" < ") },
    })
}

/// From the waker to the waiter's wait. Viewers fix an arrow's ends to slices, so the waker gets a
/// short one of its own.
fn arrow(pid: u32, id: usize, slice: &Slice, waker: u64, events: &mut Vec<Value>) {
    const WAKE_NS: u64 = 2_000;
    let at = us(slice.end_ns.saturating_sub(WAKE_NS).max(slice.start_ns));
    events.push(json!({
        "ph": "X", "name": "wakes", "cat": "wake", "pid": pid, "tid": waker,
        "ts": at, "dur": us(WAKE_NS), "args": { "whom": slice.tid },
    }));
    events.push(json!({
        "ph": "s", "id": id, "name": "wake", "cat": "wake", "pid": pid, "tid": waker, "ts": at,
    }));
    events.push(json!({
        "ph": "f", "bp": "e", "id": id, "name": "wake", "cat": "wake",
        "pid": pid, "tid": slice.tid, "ts": at,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice() -> Slice {
        Slice {
            tid: 7,
            start_ns: 1_000_000,
            end_ns: 3_000_000,
            what: "lock",
            doing: "fsync of x".into(),
            frames: vec!["lock".into(), "serve".into()],
            woken_by: Some(9),
        }
    }

    #[test]
    fn the_kind_of_wait_is_the_root_and_equal_stacks_are_one_line() {
        let wait = |ns| OffCpu {
            cause: "lock",
            frames: vec!["mutex;lock".into(), "serve".into()],
            ns,
        };
        let text = folded(&[wait(1_500_000), wait(500_000), wait(10)]);
        assert_eq!(text, "lock;serve;mutex:lock 2000\n");
        let svg = flame_graph(&text, "waits").unwrap();
        assert!(String::from_utf8_lossy(&svg).contains("serve (2,000 microseconds"));
        assert!(flame_graph("", "waits").is_err());
    }

    #[test]
    fn an_arrow_begins_in_a_slice_of_the_waker_and_ends_in_the_waiters() {
        let names = BTreeMap::from([(7, "worker".to_string())]);
        let value = trace(4, &names, &[slice()]);
        let events = value["traceEvents"].as_array().unwrap();
        let of = |ph: &'static str| events.iter().filter(move |e| e["ph"] == ph);
        assert_eq!(of("M").count(), 2);
        let (start, end) = (of("s").next().unwrap(), of("f").next().unwrap());
        assert_eq!((&start["tid"], &end["tid"]), (&json!(9), &json!(7)));
        for arrow in [start, end] {
            let at = arrow["ts"].as_f64().unwrap();
            let around = of("X").filter(|x| x["tid"] == arrow["tid"]).any(|x| {
                let from = x["ts"].as_f64().unwrap();
                from <= at && at <= from + x["dur"].as_f64().unwrap()
            });
            assert!(around, "{arrow}");
        }
    }
}

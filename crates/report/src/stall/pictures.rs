//! Off-CPU stacks as folded lines and a flame graph; the timeline for Perfetto and the Firefox
//! profiler, in Chrome's format of trace events.

use std::collections::{BTreeMap, BTreeSet};

use inferno::flamegraph::{Direction, Options, from_lines};
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
    pub activity: String,
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
    options.direction = Direction::Inverted;
    options.deterministic = true;
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
    if let Some(name) = names.get(&u64::from(pid)) {
        events.push(json!({
            "ph": "M", "name": "process_name", "pid": pid, "args": { "name": name },
        }));
    }
    for tid in &known {
        let name = names.get(tid).map_or("", String::as_str);
        events.push(json!({
            "ph": "M", "name": "thread_name", "pid": pid, "tid": number(*tid),
            "args": { "name": own_name(*tid, name) },
        }));
    }
    let edges = Edges::of(slices);
    for (id, slice) in slices.iter().enumerate() {
        events.push(complete(pid, slice));
        if let Some(waker) = slice.woken_by {
            arrow(pid, id, slice, waker, &edges, &mut events);
        }
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

/// Where the slices of each thread begin and end: slices that overlap and are not one within the other are drawn by
/// neither viewer.
struct Edges {
    of: BTreeMap<u64, BTreeSet<u64>>,
}

impl Edges {
    fn of(slices: &[Slice]) -> Edges {
        let mut of: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for slice in slices {
            let own = of.entry(slice.tid).or_default();
            own.extend([slice.start_ns, slice.end_ns]);
            if let Some(waker) = slice.woken_by {
                of.entry(waker).or_default().insert(wakes_at(slice));
            }
        }
        Edges { of }
    }

    /// How long a slice of `tid` from `at_ns` on may be.
    fn room_ns(&self, tid: u64, at_ns: u64) -> u64 {
        let next = self
            .of
            .get(&tid)
            .and_then(|edges| edges.range(at_ns + 1..).next());
        next.map_or(WAKE_NS, |next| WAKE_NS.min(next - at_ns))
    }
}

/// Viewers fix an arrow's ends to slices, so the waker gets a short one of its own.
const WAKE_NS: u64 = 2_000;

fn wakes_at(slice: &Slice) -> u64 {
    slice.end_ns.saturating_sub(WAKE_NS).max(slice.start_ns)
}

/// A thread's number as viewers take it, which is of 32 bits with a sign; goroutines have larger ones.
fn number(tid: u64) -> u64 {
    const GOROUTINE: u64 = 1 << 30;
    match i32::try_from(tid) {
        Ok(_) => tid,
        Err(_) => GOROUTINE | (tid % GOROUTINE),
    }
}

/// Viewers put the number behind a thread's name; that of a goroutine they cannot hold.
fn own_name(tid: u64, name: &str) -> String {
    match number(tid) == tid && !name.is_empty() {
        true => name.to_string(),
        false => format!("{name} {tid}").trim().to_string(),
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn complete(pid: u32, slice: &Slice) -> Value {
    json!({
        "ph": "X", "name": slice.what, "cat": slice.what, "pid": pid, "tid": number(slice.tid),
        "ts": us(slice.start_ns), "dur": us(slice.end_ns - slice.start_ns),
        "args": { "doing": slice.activity, "stack": slice.frames.join(" < ") },
    })
}

/// From the waker to the waiter's wait.
fn arrow(pid: u32, id: usize, slice: &Slice, waker: u64, edges: &Edges, events: &mut Vec<Value>) {
    let at_ns = wakes_at(slice);
    let (at, tid) = (us(at_ns), number(waker));
    events.push(json!({
        "ph": "X", "name": "wakes", "cat": "wake", "pid": pid, "tid": tid,
        "ts": at, "dur": us(edges.room_ns(waker, at_ns)), "args": { "whom": number(slice.tid) },
    }));
    events.push(json!({
        "ph": "s", "id": id, "name": "wake", "cat": "wake", "pid": pid, "tid": tid, "ts": at,
    }));
    events.push(json!({
        "ph": "f", "bp": "e", "id": id, "name": "wake", "cat": "wake",
        "pid": pid, "tid": number(slice.tid), "ts": at,
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
            activity: "fsync of x".into(),
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
        let names = BTreeMap::from([(4, "service".to_string()), (7, "worker".to_string())]);
        let value = trace(4, &names, &[slice()]);
        let events = value["traceEvents"].as_array().unwrap();
        let of = |ph: &'static str| events.iter().filter(move |e| e["ph"] == ph);
        let called: Vec<&Value> = of("M").map(|e| &e["args"]["name"]).collect();
        assert_eq!(called, ["service", "worker", "9"]);
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

    /// Slices of one thread that overlap, and are not one within the other.
    fn torn(value: &Value) -> usize {
        let mut of: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for event in value["traceEvents"].as_array().unwrap() {
            if event["ph"] == "X" {
                let ns = |field: &str| (event[field].as_f64().unwrap() * 1e3).round() as u64;
                let own = of.entry(event["tid"].as_u64().unwrap()).or_default();
                own.push((ns("ts"), ns("ts") + ns("dur")));
            }
        }
        let crosses = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.0 && b.0 < a.1 && a.1 < b.1;
        let count = |own: &Vec<(u64, u64)>| {
            let with = |a: &(u64, u64)| own.iter().filter(|b| crosses(a, b)).count();
            own.iter().map(with).sum::<usize>()
        };
        of.values().map(count).sum()
    }

    #[test]
    fn slices_of_a_thread_lie_within_each_other_or_apart() {
        let running = Slice {
            tid: 9,
            start_ns: 900_000,
            end_ns: 2_999_000,
            what: "running",
            woken_by: None,
            ..slice()
        };
        let other = Slice {
            tid: 8,
            end_ns: 3_000_600,
            ..slice()
        };
        let value = trace(4, &BTreeMap::new(), &[slice(), running, other]);
        assert_eq!(torn(&value), 0, "{value:#}");
    }

    #[test]
    fn a_goroutine_has_a_number_that_viewers_take() {
        let goroutine = (1 << 32) + 77;
        let both = [7, goroutine].map(number);
        assert_eq!(both, [7, 1 << 30 | 77]);
    }
}

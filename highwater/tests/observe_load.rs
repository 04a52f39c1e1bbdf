//! A load program's lines, as they come: whole, in pieces, cut short, among other text.

mod observed;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use observe::collector::{Observer, Options};
use observe::load_lines::{Problem, parse_load_line};
use observe::metric;
use observe::proc::ProcRoot;
use observe::proc::tasks::Counts;
use observe::snapshot::{EventKind, Role, Snapshot, Target, TimeNs};
use observe::watched::Carried;
use observed::{Child, SECOND, spawn, value};
use proptest::prelude::*;

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
    for &value in values {
        histogram.record(value).unwrap();
    }
    histogram
}

fn v2(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .unwrap();
    bytes
}

/// The interval from `second` to the next, with one request of 5 ms.
fn line(second: i64) -> String {
    let (start, end) = (second * SECOND, (second + 1) * SECOND);
    let histogram = base64(&v2(&histogram(&[5_000_000])));
    let times = format!(r#""schema":"highwater.load/1","start_ns":{start},"end_ns":{end}"#);
    let counts = r#""requests":1,"errors":2,"dropped":3"#;
    format!(r#"{{{times},{counts},"histogram":"{histogram}"}}"#)
}

/// CLOCK_MONOTONIC stands at 1,000 s while the run's clock stands at 5,000 s.
const RUN: TimeNs = TimeNs(5_000 * SECOND);
fn monotonic_ns() -> i64 {
    1_000 * SECOND
}

struct Load {
    _folder: tempfile::TempDir,
    path: PathBuf,
    _child: Child,
    target: Target,
    observer: Observer,
}

impl Load {
    fn new() -> Load {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load.out");
        let child = spawn("sleep", &["60"]);
        let mut target = child.target(1);
        target.role = Role::Load;
        target.load_lines = Some(path.clone());
        let options = Options {
            monotonic_ns,
            ..Options::default()
        };
        let observer = Observer::new(ProcRoot::default(), options);
        Load {
            _folder: folder,
            path,
            _child: child,
            target,
            observer,
        }
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn snapshot(&mut self) -> Snapshot {
        self.observer
            .snapshot(RUN, std::slice::from_ref(&self.target))
    }
}

fn starts(snapshot: &Snapshot) -> Vec<i64> {
    snapshot
        .histograms
        .iter()
        .map(|row| row.start.0 / SECOND)
        .collect()
}

#[test]
fn intervals_come_in_the_time_of_the_run() {
    let mut load = Load::new();
    assert!(
        load.snapshot().events.is_empty(),
        "no file yet is no trouble"
    );
    load.append(&format!("{}\n{}\n", line(998), line(999)));
    let snapshot = load.snapshot();
    assert_eq!(starts(&snapshot), [4_998, 4_999]);
    let row = &snapshot.histograms[0];
    assert_eq!((row.requests, row.errors, row.dropped), (1, 2, 3));
    assert_eq!(
        (row.metric.as_str(), row.end),
        ("latency", TimeNs(4_999 * SECOND))
    );
    let bytes = row.histogram.clone();
    let read: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .unwrap();
    assert_eq!(read, histogram(&[5_000_000]));
    assert!(load.snapshot().histograms.is_empty(), "each line once");
}

#[test]
fn a_line_in_pieces_is_one_line() {
    let mut load = Load::new();
    let text = line(990) + "\n";
    for (index, piece) in text.as_bytes().chunks(50).enumerate() {
        load.append(std::str::from_utf8(piece).unwrap());
        let last = (index + 1) * 50 >= text.len();
        assert_eq!(load.snapshot().histograms.len(), usize::from(last));
    }
}

#[test]
fn other_text_is_counted_and_said_once_a_kind() {
    let mut load = Load::new();
    let other_schema = r#"{"schema":"other/1"}"#;
    let no_field = r#"{"schema":"highwater.load/1","start_ns":1}"#;
    let bad = line(1).replace(&base64(&v2(&histogram(&[5_000_000]))), "AAAA");
    load.append(&format!(
        "connected\n{other_schema}\n{}\n{no_field}\n{bad}\n\nbye\n",
        line(991)
    ));
    let snapshot = load.snapshot();
    assert_eq!(starts(&snapshot), [4_991], "the good one is kept");
    assert!(
        snapshot
            .events
            .iter()
            .all(|event| event.kind == EventKind::Degraded)
    );
    assert_eq!(snapshot.events.len(), 4, "{:?}", snapshot.events);
    assert_eq!(value(&snapshot, 1, metric::LOAD_LINES_LEFT_OUT), Some(5.0));
    load.append("more text\n");
    let snapshot = load.snapshot();
    assert!(snapshot.events.is_empty());
    assert_eq!(value(&snapshot, 1, metric::LOAD_LINES_LEFT_OUT), Some(6.0));
}

#[test]
fn a_file_that_is_cut_short_or_replaced_is_read_on() {
    let mut load = Load::new();
    load.append(&format!("{}\n{}\n{{\"half", line(980), line(981)));
    assert_eq!(load.snapshot().histograms.len(), 2);
    std::fs::write(&load.path, line(982) + "\n").unwrap();
    let snapshot = load.snapshot();
    assert_eq!(starts(&snapshot), [4_982]);
    assert!(
        snapshot.events[0].words.contains("cut short"),
        "{:?}",
        snapshot.events
    );
    let other = load.path.with_extension("new");
    std::fs::write(&other, line(983) + "\n" + &line(984) + "\n").unwrap();
    std::fs::rename(&other, &load.path).unwrap();
    assert_eq!(starts(&load.snapshot()), [4_983, 4_984]);
}

#[test]
fn an_endless_line_takes_no_memory_and_the_next_is_read() {
    let mut load = Load::new();
    for _ in 0..5 {
        load.append(&"x".repeat(700_000));
        load.snapshot();
    }
    load.append(&format!("\n{}\n", line(992)));
    let snapshot = load.snapshot();
    assert_eq!(starts(&snapshot), [4_992]);
    assert_eq!(value(&snapshot, 1, metric::LOAD_LINES_LEFT_OUT), Some(1.0));
}

#[test]
fn the_last_line_of_a_program_that_ended_is_read() {
    let mut load = Load::new();
    load.snapshot();
    load._child.kill_and_reap();
    load.append(&format!("{}\n", line(993)));
    let snapshot = load.snapshot();
    assert_eq!(snapshot.events[0].kind, EventKind::Vanished);
    assert_eq!(starts(&snapshot), [4_993]);
    load.append(&format!("{}\n", line(994)));
    assert_eq!(starts(&load.snapshot()), [4_994]);
}

#[test]
fn a_resumed_collector_records_no_interval_twice_and_none_too_few() {
    let mut load = Load::new();
    load.append(&format!("{}\n{}\n{}\n", line(980), line(981), line(982)));
    let until = TimeNs(4_981 * SECOND + 400); // the clocks differ by 400 ns
    let carried = Carried {
        counts: Counts::default(),
        load_until: Some(until),
    };
    load.observer.carry(load.target.process, carried);
    assert_eq!(starts(&load.snapshot()), [4_981, 4_982]);
}

#[test]
fn compressed_histograms_are_taken_and_stored_plain() {
    let original = histogram(&[1, 2_000_000, 3_000_000_000]);
    let mut compressed = Vec::new();
    V2DeflateSerializer::new()
        .serialize(&original, &mut compressed)
        .unwrap();
    let plain = base64(&v2(&histogram(&[5_000_000])));
    let text = line(1).replace(&plain, &base64(&compressed));
    assert_eq!(
        parse_load_line(text.as_bytes()).unwrap().histogram,
        v2(&original)
    );
}

#[test]
fn an_interval_that_ends_before_it_starts_is_refused() {
    let text = line(5).replace("\"end_ns\":6000000000", "\"end_ns\":1");
    assert_eq!(
        parse_load_line(text.as_bytes()).unwrap_err().0,
        Problem::Fields
    );
}

proptest! {
    #[test]
    fn any_line_is_taken(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_load_line(&bytes);
    }

    #[test]
    fn any_histogram_is_taken(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cookie in prop_oneof![Just([0x1c, 0x84, 0x93, 0x13]), Just([0x1c, 0x84, 0x93, 0x14])],
    ) {
        for (slot, byte) in bytes.iter_mut().zip(cookie) {
            *slot = byte;
        }
        let plain = base64(&v2(&histogram(&[5_000_000])));
        let _ = parse_load_line(line(1).replace(&plain, &base64(&bytes)).as_bytes());
    }
}

#[test]
fn pauses_are_rows_of_their_own_in_the_time_of_the_run() {
    let mut load = Load::new();
    let paused = |pauses: &str| {
        line(998).replace(
            r#","histogram""#,
            &format!(r#","pauses":{pauses},"histogram""#),
        )
    };
    let (start, end) = (998 * SECOND + 5_000_000, 998 * SECOND + 11_000_000);
    load.append(&format!(
        "{}\n",
        paused(&format!("[[{start},{end}],[{start},{}]]", 5_000 * SECOND))
    ));
    let snapshot = load.snapshot();
    let pauses: Vec<_> = snapshot
        .histograms
        .iter()
        .filter(|row| row.metric == "pause")
        .collect();
    assert_eq!(pauses.len(), 2);
    assert_eq!(pauses[0].start, TimeNs(4_998 * SECOND + 5_000_000));
    assert_eq!(pauses[0].end, TimeNs(4_998 * SECOND + 11_000_000));
    assert_eq!(pauses[0].requests, 0, "a pause is no request");
    let length: Histogram<u64> = Deserializer::new()
        .deserialize(&mut pauses[0].histogram.as_slice())
        .unwrap();
    assert_eq!((length.len(), length.max() / 10_000), (1, 600));
    assert_eq!(
        pauses[1].end,
        TimeNs(4_999 * SECOND),
        "none ends after its line"
    );
    let odd = [
        r#""no""#,
        "[[1]]",
        "[[9,1]]",
        "[[1,-5]]",
        r#"[["a","b"]]"#,
        "[[1e400,2]]",
    ];
    for bad in odd {
        let refused = parse_load_line(paused(bad).as_bytes()).map(|line| line.pauses);
        assert!(
            matches!(refused, Err((Problem::Fields | Problem::NotJson, _))),
            "{bad}: {refused:?}"
        );
    }
    let many = format!("[{}]", vec!["[1,2]"; 5_000].join(","));
    assert_eq!(
        parse_load_line(paused(&many).as_bytes())
            .unwrap()
            .pauses
            .len(),
        64
    );
}

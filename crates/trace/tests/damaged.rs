//! Traces that are whole, cut, damaged or hostile: a reader gives all of it, a part with what is missing, or an error.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trace::{Format, Sample, StepKind, Trace, TraceError, TraceWriter, UNKNOWN, Window};
use trace::{cut, export, summarise};
use trace_abi::{Event, TouchOf};

/// Two threads; each allocates, one frees what the other allocated.
fn write(path: &Path, rounds: u64) {
    let mut writer = TraceWriter::create(path).unwrap();
    let main = writer.thread(100, "main", true);
    let other = writer.thread(101, "worker", false);
    for round in 0..rounds {
        let at = round * 1000;
        let address = 0x1000 + round * 64;
        writer
            .event(main, at, Event::Malloc { bytes: 48, address })
            .unwrap();
        if round >= 10 {
            let address = 0x1000 + (round - 10) * 64;
            writer
                .event(other, at + 10, Event::Free { address })
                .unwrap();
        }
    }
    let pages = Event::Touched {
        of: TouchOf::Old,
        resident: 3,
        pages: 10,
    };
    let end = rounds * 1000;
    writer
        .event(
            main,
            end,
            Event::Calloc {
                bytes: 40_000,
                address: 1 << 32,
            },
        )
        .unwrap();
    writer.event(main, end, pages).unwrap();
    writer
        .event(main, end, Event::ReallocStart { address: 1 << 32 })
        .unwrap();
    writer
        .event(
            main,
            end + 5,
            Event::ReallocEnd {
                bytes: 80_000,
                address: 1 << 33,
            },
        )
        .unwrap();
    writer.sample(&Sample {
        time_ns: end,
        anon_bytes: 1 << 20,
        other_bytes: UNKNOWN,
        ..Sample::default()
    });
    writer.fact("program", "made up\nby a test");
    writer.finish().unwrap();
}

struct Made {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn made(rounds: u64) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.hwt");
    write(&path, rounds);
    Made {
        _folder: folder,
        path,
    }
}

#[test]
fn a_whole_trace_gives_every_event_and_its_pairs() {
    let made = made(5000);
    let trace = Trace::open(&made.path).unwrap();
    assert_eq!(trace.events(), 5000 + 4990 + 4);
    assert_eq!(trace.about("program"), Some("made up by a test"));
    let alive: Vec<_> = trace
        .threads
        .iter()
        .map(|t| (t.tid, t.name.as_str(), t.is_alive))
        .collect();
    assert_eq!(alive, [(100, "main", true), (101, "worker", false)]);
    assert_eq!(trace.samples.len(), 1);
    let summary = summarise(&trace);
    assert!(!summary.damage.is_any(), "{:?}", summary.damage);
    assert_eq!(
        (summary.allocations, summary.frees, summary.resizes),
        (5001, 4990, 1)
    );
    assert_eq!(summary.cross_thread_frees, 4990);
    assert_eq!((summary.large, summary.large_with_touch), (1, 1));
    let pairing = summary.pairing;
    assert_eq!((pairing.live, pairing.live_bytes), (11, 10 * 48 + 80_000));
    assert_eq!((pairing.unknown_frees, pairing.unseen_frees), (0, 0));
    // Ten are live before each free, one more between an allocation and the free behind it.
    assert_eq!(pairing.live_max, 11);
}

#[test]
fn steps_keep_the_order_of_time_and_slots_are_few() {
    let made = made(300);
    let trace = Trace::open(&made.path).unwrap();
    let mut steps = trace::Steps::new(trace::Merged::new(&trace));
    let mut last = 0;
    let mut live = std::collections::HashSet::new();
    for step in steps.by_ref() {
        assert!(step.time_ns >= last);
        last = step.time_ns;
        match step.kind {
            StepKind::Allocate { .. } => assert!(live.insert(step.slot), "a slot has one block"),
            StepKind::Free { .. } => assert!(live.remove(&step.slot)),
            StepKind::Resize { .. } => assert!(live.contains(&step.slot)),
            StepKind::Fresh { .. } => {}
        }
    }
    assert_eq!(steps.slots(), 11);
}

#[test]
fn a_cut_file_gives_what_is_left_and_names_what_is_missing() {
    let made = made(5000);
    let whole = std::fs::read(&made.path).unwrap();
    let events = summarise(&Trace::open(&made.path).unwrap()).allocations;
    std::fs::write(&made.path, &whole[..20_000]).unwrap();
    let trace = Trace::open(&made.path).unwrap();
    let summary = summarise(&trace);
    assert!(summary.damage.is_any());
    assert!(summary.allocations > 0 && summary.allocations < events);
}

#[test]
fn a_damaged_chunk_is_left_out_and_counted() {
    let made = made(5000);
    let mut bytes = std::fs::read(&made.path).unwrap();
    // In the first chunk's events.
    bytes[4096 + 500] ^= 0x40;
    std::fs::write(&made.path, &bytes).unwrap();
    let summary = summarise(&Trace::open(&made.path).unwrap());
    assert_eq!(summary.damage.checksums, 1);
    assert!(summary.damage.lost_events > 100, "{:?}", summary.damage);
    assert!(summary.allocations > 1000, "the other chunks are read");
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for text in ["", "hello", "HWTRACE"] {
        std::fs::write(&path, text).unwrap();
        let error = Trace::open(&path).unwrap_err();
        assert!(matches!(error, TraceError::NoTrace { .. }), "{error}");
        assert!(error.to_string().contains("notes.txt"), "{error}");
    }
    let mut later = std::fs::read(&made(1).path).unwrap();
    later[8] = 9;
    std::fs::write(&path, &later).unwrap();
    let error = Trace::open(&path).unwrap_err();
    assert!(
        matches!(error, TraceError::Version { found: 9, .. }),
        "{error}"
    );
    std::fs::write(&path, &later[..100]).unwrap();
    assert!(matches!(
        Trace::open(&path).unwrap_err(),
        TraceError::Header { .. }
    ));
}

#[test]
fn a_window_starts_with_what_is_live() {
    let made = made(1000);
    let trace = Trace::open(&made.path).unwrap();
    let out = made.path.with_file_name("part.hwt");
    cut(
        &trace,
        Window {
            from_ns: 500_000,
            to_ns: 600_000,
        },
        &out,
    )
    .unwrap();
    let part = Trace::open(&out).unwrap();
    let summary = summarise(&part);
    assert!(!summary.damage.is_any());
    // Ten live ones, and a hundred of the window.
    assert_eq!((summary.allocations, summary.frees), (10 + 100, 100));
    assert_eq!(summary.pairing.unknown_frees, 0);
    let error = cut(
        &trace,
        Window {
            from_ns: u64::MAX - 1,
            to_ns: u64::MAX,
        },
        &out,
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("no event lies between"),
        "{error}"
    );
    let exists = cut(
        &trace,
        Window {
            from_ns: 0,
            to_ns: u64::MAX,
        },
        &out,
    )
    .unwrap_err();
    assert!(matches!(exists, TraceError::Exists { .. }));
}

#[test]
fn both_text_forms_name_every_call() {
    let made = made(12);
    let trace = Trace::open(&made.path).unwrap();
    let mut text = Vec::new();
    export(&trace, Format::MemoryReplay, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().next(), Some("100: malloc 0x1000 48"));
    assert!(text.contains("101: free 0x1000\n"));
    assert!(text.contains("100: calloc 0x100000000 1 40000\n"));
    assert!(text.contains("100: realloc 0x200000000 0x100000000 80000\n"));
    assert!(text.ends_with("101: thread_done 0x0\n"));
    let mut text = Vec::new();
    export(&trace, Format::Mtrace, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("= Start\n@ highwater:[0x0] + 0x1000 0x30\n"));
    assert!(text.contains("< 0x100000000\n") && text.ends_with("= End\n"));
}

/// Whatever bytes: an answer or an error, in bounded memory, never a panic.
fn feed(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("any.hwt");
    std::fs::write(&path, bytes).unwrap();
    if let Ok(trace) = Trace::open(&path) {
        let summary = summarise(&trace);
        assert!(summary.pairing.live <= summary.allocations + summary.resizes);
        export(&trace, Format::MemoryReplay, &mut std::io::sink()).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn damage_of_any_kind_is_survived(
        rounds in 1u64..400,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        keep in any::<prop::sample::Index>(),
        unseal in any::<bool>(),
    ) {
        let made = made(rounds);
        let mut bytes = std::fs::read(&made.path).unwrap();
        if unseal {
            // Without checksums every event is decoded.
            bytes[24] = 0;
        }
        for (index, byte) in &damage {
            // The magic stays: what is behind it is of interest.
            let at = 8 + index.index(bytes.len() - 8);
            bytes[at] = *byte;
        }
        bytes.truncate(bytes.len() - keep.index(bytes.len()) / 4);
        feed(&bytes);
    }

    #[test]
    fn events_of_any_value_come_back(
        events in prop::collection::vec((any::<u64>(), any::<u64>(), 0u8..64, 0u8..5), 1..300),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.hwt");
        let mut writer = TraceWriter::create(&path).unwrap();
        let thread = writer.thread(1, "t", false);
        let mut written = Vec::new();
        for (index, (bytes, address, align_log2, kind)) in events.iter().enumerate() {
            let (bytes, address) = (*bytes, *address & !7);
            let event = match kind {
                0 => Event::Malloc { bytes, address },
                1 => Event::Calloc { bytes, address },
                2 => Event::Aligned { bytes, address, align_log2: *align_log2 },
                3 => Event::Free { address },
                _ => Event::ReallocStart { address },
            };
            writer.event(thread, index as u64 * 17, event).unwrap();
            written.push(event);
        }
        writer.finish().unwrap();
        let trace = Trace::open(&path).unwrap();
        let read: Vec<Event> = trace::Merged::new(&trace).map(|timed| timed.event).collect();
        prop_assert_eq!(read, written);
    }
}

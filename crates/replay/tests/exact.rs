//! Traces that are made up, replayed on glibc: the live bytes are exact, threads keep their order, limits hold.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use allocators::{Spec, installed};
use replay::{Arm, End, Forecast, Limits, Planned, Ran, ReplayError, Runner, SelfCheck};
use trace::{Sample, Trace, TraceWriter};
use trace_abi::{Event, TouchOf};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// The replayer of this build.
fn replayer() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let cargo = env!("CARGO");
        let built = Command::new(cargo)
            .args(["build", "--locked", "-p", "highwater-replayer"])
            .status();
        assert!(built.unwrap().success(), "the replayer is built");
        let test = std::env::current_exe().unwrap();
        test.parent()
            .unwrap()
            .join("../highwater-replayer")
            .canonicalize()
            .unwrap()
    })
}

struct Tried {
    trace: Trace,
    planned: Planned,
    ran: Ran,
}

fn limits() -> Limits {
    Limits {
        resident_bytes: 1 << 30,
        time: Duration::from_secs(60),
    }
}

fn glibc() -> Arm {
    Arm::plain(installed(&Spec::parse("glibc").unwrap()).unwrap().unwrap())
}

fn replay_within(limits: Limits, fill: impl FnOnce(&mut TraceWriter)) -> Tried {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.hwt");
    let mut writer = TraceWriter::create(&path).unwrap();
    fill(&mut writer);
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let planned = Planned::write(&trace, &folder.path().join("plan"), &|| false).unwrap();
    let runner = Runner {
        replayer: replayer(),
        planned: &planned,
        folder: folder.path(),
        limits,
    };
    let ran = runner.run(&glibc(), &|| false).unwrap();
    Tried {
        trace,
        planned,
        ran,
    }
}

fn replay(fill: impl FnOnce(&mut TraceWriter)) -> Tried {
    replay_within(limits(), fill)
}

fn sample(writer: &mut TraceWriter, time_ns: u64, anon_bytes: u64) {
    writer.sample(&Sample {
        time_ns,
        anon_bytes,
        other_bytes: 0,
        ..Sample::default()
    });
}

/// 64 MiB more every 100 ms, in blocks of 4 MiB, then all freed.
fn staircase(writer: &mut TraceWriter) {
    let main = writer.thread(1, "main", true);
    for step in 0..3u64 {
        for index in 0..16 {
            let number = step * 16 + index;
            let address = 0x7000_0000_0000 + number * 8 * MIB;
            let event = Event::Malloc {
                bytes: 4 * MIB,
                address,
            };
            writer.event(main, step * 100 * MS + index, event).unwrap();
        }
        sample(writer, step * 100 * MS + 50 * MS, (step + 1) * 64 * MIB);
    }
    for number in 0..48 {
        let address = 0x7000_0000_0000 + number * 8 * MIB;
        writer
            .event(main, 300 * MS + number, Event::Free { address })
            .unwrap();
    }
    sample(writer, 350 * MS, 0);
    sample(writer, 400 * MS, 0);
    // The last moment of the trace.
    writer
        .event(
            main,
            500 * MS,
            Event::Malloc {
                bytes: 1,
                address: 16,
            },
        )
        .unwrap();
}

#[test]
fn memory_follows_the_live_bytes_on_the_traces_clock() {
    let tried = replay(staircase);
    assert_eq!(tried.ran.end, End::Finished);
    assert!(
        tried.ran.base_bytes < MIB / 2,
        "{} B of its own",
        tried.ran.base_bytes
    );
    let expected = [64 * MIB, 128 * MIB, 192 * MIB, 0, 0];
    assert_eq!(tried.ran.anon_bytes.len(), expected.len());
    for (found, expected) in tried.ran.anon_bytes.iter().zip(expected) {
        assert!(found.abs_diff(expected) < MIB, "{:?}", tried.ran.anon_bytes);
    }
    let check = SelfCheck::of(std::slice::from_ref(&tried.ran), &tried.trace).unwrap();
    assert!(check.is_trusted, "{check:?}");
    assert_eq!(tried.ran.failed, 0);
    assert!(
        tried.ran.malloc_path.contains("libc.so"),
        "{}",
        tried.ran.malloc_path
    );
}

#[test]
fn a_program_with_more_memory_than_its_heap_is_not_trusted() {
    let tried = replay(|writer| {
        let main = writer.thread(1, "main", true);
        writer
            .event(
                main,
                0,
                Event::Malloc {
                    bytes: 1 << 20,
                    address: 1 << 30,
                },
            )
            .unwrap();
        (1..8).for_each(|at| sample(writer, at * 10 * MS, 100 * MIB));
        writer
            .event(main, 100 * MS, Event::Free { address: 1 << 30 })
            .unwrap();
    });
    let check = SelfCheck::of(&[tried.ran], &tried.trace).unwrap();
    assert!(!check.is_trusted);
    assert!(check.why_not.unwrap().contains("mappings of its own"));
}

#[test]
fn pages_are_written_as_the_program_wrote_them() {
    let tried = replay(|writer| {
        let main = writer.thread(1, "main", true);
        // Each of 1,024 pages, of which a quarter is resident at the end.
        for number in 0..32u64 {
            let address = (1 << 40) + number * 8 * MIB;
            let touch = |of, resident| Event::Touched {
                of,
                resident,
                pages: 1023,
            };
            let at = number * MS;
            writer
                .event(
                    main,
                    at,
                    Event::Malloc {
                        bytes: 4 * MIB,
                        address,
                    },
                )
                .unwrap();
            writer.event(main, at, touch(TouchOf::New, 0)).unwrap();
        }
        sample(writer, 50 * MS, 32 * MIB);
        for number in 0..32u64 {
            let touched = Event::Touched {
                of: TouchOf::Old,
                resident: 256,
                pages: 1023,
            };
            writer.event(main, 60 * MS, touched).unwrap();
            let address = (1 << 40) + number * 8 * MIB;
            writer
                .event(main, 60 * MS, Event::Free { address })
                .unwrap();
        }
    });
    let resident = tried.ran.anon_bytes[0];
    assert!(resident.abs_diff(32 * MIB) < 2 * MIB, "{resident}");
    assert_eq!(tried.planned.unseen.guessed_bytes, 0);
}

/// Blocks go from thread to thread within microseconds; threads start and end.
fn relay(writer: &mut TraceWriter) {
    let threads: Vec<u32> = (0..20)
        .map(|number| writer.thread(100 + number, "t", number == 0))
        .collect();
    for number in 0..20_000u64 {
        let from = threads[(number / 1000) as usize];
        let to = threads[((number / 1000 + number % 2) % 20) as usize];
        let address = 0x10_0000 + number % 700 * 512;
        let at = number * 2000;
        writer
            .event(
                from,
                at,
                Event::Malloc {
                    bytes: 100 + number % 300,
                    address,
                },
            )
            .unwrap();
        let resized = Event::ReallocEnd {
            bytes: 500,
            address,
        };
        writer
            .event(from, at + 100, Event::ReallocStart { address })
            .unwrap();
        writer.event(from, at + 200, resized).unwrap();
        if to >= from {
            writer.event(to, at + 900, Event::Free { address }).unwrap();
        }
    }
}

#[test]
fn blocks_pass_between_threads_that_start_and_end() {
    let tried = replay(relay);
    assert_eq!(tried.ran.end, End::Finished, "{:?}", tried.ran);
    assert_eq!(tried.planned.threads, 20);
    assert_eq!(tried.ran.done_share, 1.0);
    assert_eq!(
        tried.ran.anon_bytes.len(),
        200,
        "without samples a grid of its own"
    );
}

#[test]
fn threads_end_when_they_ended() {
    let tried = replay(|writer| {
        relay(writer);
        // Threads end together, alone, and after the last event of all.
        for thread in 1..20u32 {
            let last = (u64::from(thread) + 1) * 1000 * 2000;
            let at = if thread > 15 {
                60 * MS
            } else {
                last + u64::from(thread % 3) * MS
            };
            writer.ended(thread, at);
        }
        (1..=6).for_each(|at| sample(writer, at * 12 * MS, MIB));
    });
    assert_eq!(tried.ran.end, End::Finished, "{:?}", tried.ran);
    assert_eq!(
        tried.planned.operations,
        replay(relay).planned.operations + 19
    );
    assert_eq!(tried.ran.anon_bytes.len(), 6);
    let ended = tried
        .trace
        .threads
        .iter()
        .filter(|thread| thread.ended_ns.is_some());
    assert_eq!(ended.count(), 19);
}

#[test]
fn a_replay_is_bounded_in_memory_and_time() {
    let small = Limits {
        resident_bytes: 16 * MIB,
        ..limits()
    };
    assert_eq!(
        replay_within(small, |writer| (0..20).for_each(|part| grow(writer, part)))
            .ran
            .end,
        End::TooLarge
    );
    let short = Limits {
        time: Duration::ZERO,
        ..limits()
    };
    assert_eq!(replay_within(short, staircase).ran.end, End::TooLong);
}

fn grow(writer: &mut TraceWriter, part: u64) {
    let thread = if part == 0 {
        writer.thread(1, "main", true)
    } else {
        0
    };
    for index in 0..64 {
        let address = (1 << 40) + (part * 64 + index) * 2 * MIB;
        writer
            .event(
                thread,
                part * 10 * MS,
                Event::Malloc {
                    bytes: MIB,
                    address,
                },
            )
            .unwrap();
    }
}

#[test]
fn an_empty_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.hwt");
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.thread(1, "main", true);
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    let error = Planned::write(&trace, &folder.path().join("plan"), &|| false).unwrap_err();
    assert!(matches!(error, ReplayError::Unfit { .. }), "{error}");
    let error = Forecast::of(&[], &trace);
    assert!(error.is_none());
}

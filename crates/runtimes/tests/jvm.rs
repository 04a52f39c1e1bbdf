//! Real JVMs: counts are exact, and the program does not notice.

#[path = "jvm/attach.rs"]
mod attach;
#[path = "jvm/outside.rs"]
mod outside;
#[path = "jvm/program.rs"]
mod program;
#[path = "jvm/recording.rs"]
mod recording;

use std::path::Path;
use std::time::Duration;

use program::{Compiled, jdks};
use runtimes::{Error, Limits, ManagedHeap, Snapshot, Touch, jvm};

const SESSIONS: u64 = 12_345;

fn limits(pause: Duration) -> Limits {
    Limits {
        time: Duration::from_secs(60),
        bytes: 1 << 30,
        pause,
    }
}

/// Long enough for any heap of these tests.
fn paused() -> Limits {
    limits(Duration::from_secs(30))
}

fn objects(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot
        .types
        .iter()
        .find(|one| one.name == name)
        .map_or(0, |one| one.objects)
}

/// A dead object may be held by a word that is left over on a stack.
fn is_about(count: u64, expected: u64) -> bool {
    (expected..=expected + expected / 1_000).contains(&count)
}

fn pool_threads(snapshot: &Snapshot) -> u64 {
    let of_pool = |group: &&runtimes::TaskGroup| {
        group.frames.last().unwrap().function.as_deref() == Some("[pool-N-thread-N]")
    };
    snapshot
        .tasks
        .iter()
        .filter(of_pool)
        .map(|group| group.tasks)
        .sum()
}

fn refusal(result: Result<Snapshot, Error>) -> String {
    match result {
        Err(Error::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_collector_counts_exactly() {
    let heaps: [&[&str]; 7] = [
        &["-XX:+UseSerialGC"],
        &["-XX:+UseParallelGC"],
        &["-XX:+UseG1GC"],
        &["-XX:+UseG1GC", "-XX:-UseCompressedOops"],
        &["-XX:+UseZGC"],
        &["-XX:+UseShenandoahGC"],
        &["-XX:+UseSerialGC", "-XX:-UseCompressedOops"],
    ];
    for compiled in jdks().into_iter().map(Compiled::new) {
        for options in heaps {
            let Some(mut program) = compiled.start(options) else {
                continue;
            };
            program.order(&format!("sessions {SESSIONS}"));
            let mut jvm = program.open();
            let first = jvm.snapshot(&paused()).unwrap();
            program.order("sessions 1000");
            program.order("collect 1");
            let second = jvm.snapshot(&paused()).unwrap();
            let counts = [&first, &second].map(|snapshot| objects(snapshot, "App$Session"));
            assert!(
                is_about(counts[0], SESSIONS) && is_about(counts[1], SESSIONS + 1000),
                "{} {options:?}: {counts:?}",
                jvm.runtime()
            );
            let collections = [&first, &second]
                .map(|snapshot| snapshot.heap.as_ref().unwrap().collections.unwrap());
            assert!(collections[0] < collections[1], "{collections:?}");
            let heap = first.heap.unwrap();
            let metaspace = heap
                .others
                .iter()
                .find(|(name, _)| name == "metaspace used")
                .unwrap();
            assert!(
                (100_000..20_000_000).contains(&metaspace.1),
                "{metaspace:?}"
            );
            assert!(heap.committed_bytes.unwrap() >= heap.used_bytes, "{heap:?}");
            let used = first.types.iter().map(|one| one.bytes).sum::<u64>();
            assert!(heap.used_bytes > 1_000_000 && used > 1_000_000, "{heap:?}");
            assert_eq!(
                heap.limit_bytes.map(|limit| limit >> 20),
                Some(256),
                "{} {options:?}",
                jvm.runtime()
            );
            assert!(
                heap.others
                    .iter()
                    .any(|(name, bytes)| name == "code cache" && *bytes > 0)
            );
            assert!(
                first.cost.paused > Duration::ZERO && first.cost.paused < Duration::from_secs(5)
            );
            println!(
                "{} {options:?}: {:?} {:?}",
                jvm.runtime(),
                first.cost,
                second.cost
            );
            program.end(SESSIONS + 1000);
        }
    }
}

/// A heap that may become too large to be read from outside: the JVM counts its objects, with dead ones.
const LARGE: &str = "-Xmx40g";

/// Without a collection every program that allocates would seem to grow.
#[test]
fn dead_objects_are_no_growth() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        for options in [
            &["-XX:+UseSerialGC", LARGE][..],
            &["-XX:+UseParallelGC", LARGE],
            &["-XX:+UseG1GC", LARGE],
            &["-XX:+UseG1GC", LARGE, "-XX:-UsePerfData"],
        ] {
            let mut program = compiled.start(options).unwrap();
            program.order(&format!("sessions {SESSIONS}"));
            let mut jvm = program.open();
            assert_eq!(
                objects(&jvm.snapshot(&paused()).unwrap(), "App$Session"),
                SESSIONS
            );
            for _ in 0..2 {
                program.order("sessions 1000");
                let second = jvm.snapshot(&paused()).unwrap();
                assert!(
                    second.types.is_empty() && !second.tasks.is_empty(),
                    "{options:?}"
                );
                let why = &second.missing[0];
                assert!(
                    why.starts_with("types are left out: ") && why.contains("dead objects"),
                    "{why}"
                );
            }
            // Without counters a collection is known by what it freed.
            program.order("garbage 60000");
            jvm.snapshot(&paused()).unwrap();
            program.order("collect 1");
            let third = jvm.snapshot(&paused()).unwrap();
            assert_eq!(
                objects(&third, "App$Session"),
                SESSIONS + 2000,
                "{options:?}"
            );
            let heap = third.heap.unwrap();
            let old = heap
                .others
                .iter()
                .find(|(name, _)| name == "old generation");
            let is_counted = !options.contains(&"-XX:-UsePerfData");
            assert_eq!(
                (old.is_some(), heap.collections.is_some()),
                (is_counted, is_counted)
            );
            // A session is 24 bytes, its body 120, its key 24, its entry 32.
            assert!(
                old.is_none_or(|(_, bytes)| (200 * SESSIONS..20 << 20).contains(bytes)),
                "{old:?}"
            );
            program.end(SESSIONS + 2000);
        }
    }
}

#[test]
fn collectors_that_count_reachable_objects_need_no_collection() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        for option in ["-XX:+UseZGC", "-XX:+UseShenandoahGC"] {
            let Some(mut program) = compiled.start(&[option]) else {
                continue;
            };
            let mut jvm = program.open();
            jvm.snapshot(&paused()).unwrap();
            program.order("sessions 1000");
            let second = jvm.snapshot(&paused()).unwrap();
            assert_eq!(objects(&second, "App$Session"), 1000, "{option}");
            let others = second.heap.unwrap().others;
            assert!(
                others.iter().all(|(name, _)| name != "old generation"),
                "{option}"
            );
            program.end(1000);
        }
    }
}

#[test]
fn all_commands_together_keep_to_the_allowed_pause() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        // 600 threads are estimated at 120 ms, a heap of a few MB at less.
        let mut program = compiled.start(&["-XX:+UseG1GC", LARGE]).unwrap();
        program.order("pools 600");
        // Each thread has an allocation buffer in the young generation.
        program.order("collect 1");
        let snapshot = program
            .open()
            .snapshot(&limits(Duration::from_millis(110)))
            .unwrap();
        assert!(!snapshot.types.is_empty() && snapshot.tasks.is_empty());
        assert!(
            snapshot
                .missing
                .iter()
                .any(|why| why.starts_with("threads: their dump would stop"))
        );
        assert!(snapshot.cost.paused > Duration::ZERO);
        program.end(0);

        // The number of classes is unknown, so their listing is estimated at 300 ms.
        let program = compiled.start(&["-XX:-UsePerfData"]).unwrap();
        let snapshot = program
            .open()
            .snapshot(&limits(Duration::from_millis(290)))
            .unwrap();
        assert!(!snapshot.types.is_empty());
        assert!(
            snapshot
                .missing
                .iter()
                .any(|why| why.starts_with("class loaders: their sizes would stop"))
        );
        let others = snapshot.heap.unwrap().others;
        assert!(
            !others
                .iter()
                .any(|(name, _)| name.starts_with("metaspace of")),
            "{others:?}"
        );
        program.end(0);
    }
}

/// The frame of the main thread in which it awaits an order.
fn main_awaits(snapshot: &Snapshot) -> Option<&runtimes::Frame> {
    let is = |frame: &runtimes::Frame, name: &str| frame.function.as_deref() == Some(name);
    let mut groups = snapshot.tasks.iter();
    let main = groups.find(|group| group.frames.last().is_some_and(|last| is(last, "[main]")))?;
    main.frames.iter().find(|frame| is(frame, "App.await"))
}

#[test]
fn threads_of_pools_that_are_not_shut_down_grow() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let mut program = compiled.start(&[]).unwrap();
        program.order("pools 7");
        let mut jvm = program.open();
        let first = jvm.snapshot(&paused()).unwrap();
        program.order("pools 20");
        // The program answers an order before it awaits the next one.
        let second = (0..50).find_map(|_| {
            let second = jvm.snapshot(&paused()).unwrap();
            main_awaits(&second).is_some().then_some(second)
        });
        let second = second.expect("the program awaits its next order");
        assert_eq!((pool_threads(&first), pool_threads(&second)), (7, 27));
        let group = &second.tasks[0];
        assert_eq!(
            (group.tasks, group.waits_for.as_deref()),
            (27, Some("WAITING (parking)"))
        );
        assert!(group.bytes > 27 * 4096, "{}", group.bytes);
        let frame = main_awaits(&second).unwrap();
        assert_eq!(
            (frame.file.as_deref(), frame.module.as_str()),
            (Some("App.java"), jvm::JAVA_MODULE)
        );
        program.end(0);
    }
}

#[test]
fn without_a_pause_only_the_counters_are_read() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&["-XX:+UseG1GC", LARGE]).unwrap();
        let mut jvm = program.open();
        assert_eq!(jvm.touch(), Touch::Pauses);
        assert!(jvm.warning().unwrap().contains("safepoint"));
        let snapshot = jvm.snapshot(&limits(Duration::ZERO)).unwrap();
        assert!(snapshot.types.is_empty() && snapshot.tasks.is_empty());
        assert!(snapshot.missing[0].contains("more than 32 GiB"));
        assert!(snapshot.missing[1].contains("--allow-pause"));
        assert_eq!(snapshot.cost.paused, Duration::ZERO);
        assert!(snapshot.heap.unwrap().committed_bytes.unwrap() > 1 << 20);
        assert!(!Path::new(&format!("/tmp/.java_pid{}", program.pid())).exists());
        let error = jvm.snapshot(&limits(Duration::from_millis(1)));
        assert!(matches!(error, Err(Error::Pause { .. })), "{error:?}");
        program.end(0);
    }
}

#[test]
fn a_jvm_without_counters_is_read_with_a_pause() {
    for compiled in jdks().into_iter().map(Compiled::new) {
        for option in ["-XX:-UsePerfData", "-XX:+PerfDisableSharedMem"] {
            let mut program = compiled.start(&[option]).unwrap();
            program.order(&format!("sessions {SESSIONS}"));
            let mut jvm = program.open();
            assert!(
                jvm.runtime().starts_with("HotSpot JVM 1")
                    || jvm.runtime().starts_with("HotSpot JVM 2")
            );
            for limits in [limits(Duration::ZERO), paused()] {
                let snapshot = jvm.snapshot(&limits).unwrap();
                assert!(is_about(objects(&snapshot, "App$Session"), SESSIONS));
            }
            program.end(SESSIONS);
            let program = compiled.start(&[option, "-XX:+UseG1GC", LARGE]).unwrap();
            let mut jvm = program.open();
            let why = refusal(jvm.snapshot(&limits(Duration::ZERO)));
            assert!(why.contains("UsePerfData"), "{why}");
            jvm.snapshot(&paused()).unwrap();
            program.end(0);
        }
    }
}

#[test]
fn a_process_without_a_jvm_and_one_that_ended() {
    assert!(jvm::open(std::process::id()).is_none());
    assert!(jvm::open(0).is_none());
    assert!(jvm::open(u32::MAX).is_none());
    for compiled in jdks().into_iter().map(Compiled::new) {
        let program = compiled.start(&[]).unwrap();
        let mut jvm = program.open();
        program.end(0);
        for limits in [paused(), limits(Duration::ZERO)] {
            assert_eq!(jvm.snapshot(&limits), Err(Error::Gone));
        }
    }
}

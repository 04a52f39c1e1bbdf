//! Objects by type and what holds them without any pause: read from outside, in every version, while the program goes
//! on.

use std::time::Duration;

use runtimes::{ManagedHeap, Snapshot};

use super::program::{Compiled, jdks};
use super::{is_about, limits, objects};

const SESSIONS: u64 = 20_000;

fn read(jvm: &mut impl ManagedHeap) -> Snapshot {
    jvm.snapshot(&limits(Duration::ZERO)).expect("a snapshot")
}

#[test]
fn types_and_holders_without_a_pause() {
    let heaps: [&[&str]; 6] = [
        &["-XX:+UseSerialGC"],
        &["-XX:+UseParallelGC"],
        &["-XX:+UseG1GC"],
        &["-XX:+UseG1GC", "-XX:-UseCompressedOops"],
        &["-XX:+UseShenandoahGC"],
        &["-XX:+UseCompactObjectHeaders"],
    ];
    for compiled in jdks().into_iter().map(Compiled::new) {
        for options in heaps {
            let Some(mut program) = compiled.start(options) else {
                continue;
            };
            program.order(&format!("sessions {SESSIONS}"));
            program.order("garbage 20000");
            let mut jvm = program.open();
            let snapshot = read(&mut jvm);
            let version = format!("{} {options:?}", jvm.runtime());
            let top: Vec<_> = snapshot.types.iter().take(6).collect();
            println!(
                "{version}: {:?} {top:?} {:?}",
                snapshot.cost, snapshot.missing
            );
            assert!(
                is_about(objects(&snapshot, "App$Session"), SESSIONS),
                "{version}"
            );
            let bytes = snapshot.types.iter().find(|of| of.name == "byte[]");
            let bytes = bytes.expect("byte[]");
            assert!(
                bytes.objects >= SESSIONS && bytes.objects < SESSIONS + 15_000,
                "{version}: {bytes:?}"
            );
            assert!(snapshot.heap.as_ref().is_some_and(|heap| heap.is_collected));
            let holders = jvm.holders(&["App$Session".into()], &limits(Duration::ZERO));
            println!("{version}: {:?}", holders);
            assert_eq!(
                holders[0].path,
                ["static App.SESSIONS (HashMap)", "[…] (App$Session)"],
                "{version}"
            );
            assert_eq!(holders[0].objects, holders[0].asked, "{version}");
            let is_await = |name: &String| name.starts_with("App.await (App.java:");
            assert!(holders[0].users.iter().any(is_await), "{version}");
            assert!(holders[0].makers.iter().any(is_await), "{version}");
            program.order("collect 2");
            program.order("sessions 500");
            let later = read(&mut jvm);
            let count = objects(&later, "App$Session");
            assert!(is_about(count, SESSIONS + 500), "{version}: {count}");
            program.end(SESSIONS + 500);
        }
    }
}

/// A queue's first entries are taken out while the rest of the heap is read.
#[test]
fn a_queue_that_is_emptied_meanwhile() {
    const JOBS: u64 = 20_000;
    for compiled in jdks().into_iter().map(Compiled::new) {
        let mut program = compiled.start(&[]).unwrap();
        program.order("sessions 300000");
        program.order(&format!("queue {JOBS}"));
        let mut jvm = program.open();
        let version = jvm.runtime().to_owned();
        for _ in 0..3 {
            let count = objects(&read(&mut jvm), "App$Job");
            println!("{version}: {count} of {JOBS} jobs");
            // As many as are put in and taken out while it is read.
            assert!(
                (JOBS / 2..JOBS * 3 / 2).contains(&count),
                "{version}: {count}"
            );
        }
        let threads = read(&mut jvm).tasks;
        let of_main = |group: &&runtimes::TaskGroup| {
            let name = group
                .frames
                .last()
                .and_then(|frame| frame.function.as_deref());
            name == Some("[main]")
        };
        let main = threads.iter().find(of_main).expect("main");
        let functions: Vec<_> = (main.frames.iter())
            .filter_map(|frame| frame.function.as_deref())
            .collect();
        assert!(functions.contains(&"App.await"), "{version}: {functions:?}");
        program.end(300_000);
    }
}

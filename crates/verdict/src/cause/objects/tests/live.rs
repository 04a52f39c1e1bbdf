//! Heaps of which it is known what is in use.

use super::*;
use memory::rank::Site;

fn java_live(live_mib: f64) -> ManagedGrowth {
    ManagedGrowth {
        language: Language::Java,
        live: Some(rise(50.0 * MIB, live_mib * MIB)),
        objects: Some(rise(50.0 * MIB, live_mib * MIB)),
        ..python(vec![
            of_type("byte[]", 30_000.0, live_mib),
            of_type("App$Job", 3_000.0, 0.2),
        ])
    }
}

/// The heap takes 60 MiB from the system while 6 MiB more are in use: that is what lasts.
#[test]
fn objects_in_use_are_the_growth_and_the_rest_is_room() {
    let mut managed = java_live(6.0);
    managed.holders = vec![Holder {
        type_name: "byte[]".to_owned(),
        first_new: Some("App$Job".to_owned()),
        ..held(
            &["static App.JOBS (LinkedBlockingQueue)", "[…] (App$Job)"],
            &["App.submit"],
        )
    }];
    let mut case = case(60.0, managed);
    case.owner = Owner::Runtime(Runtime::Jvm);
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Managed, "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("3000 more App$Job"),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.sentence.contains("room"), "{}", verdict.sentence);
}

/// A type of the language that came first on the way says less than the program's that came with it.
#[test]
fn what_becomes_more_is_a_type_of_the_program() {
    let mut managed = java_live(16.0);
    managed.holders = vec![Holder {
        type_name: "byte[]".to_owned(),
        first_new: Some("java.util.HashMap$Node".to_owned()),
        ..held(&["static App.JOBS (HashMap)", "[…] (byte[])"], &[])
    }];
    let verdict = judge(&case(60.0, managed));
    assert!(
        verdict.sentence.contains("30000 more byte[]"),
        "{}",
        verdict.sentence
    );
}

/// A program that becomes warm: its heap takes room, and a few threads and classes come with it.
#[test]
fn what_comes_with_a_warm_start_is_no_leak() {
    let mut managed = java_live(0.1);
    managed.types.clear();
    managed.live = Some(Rise {
        is_clear: false,
        ..rise(50.0 * MIB, 0.1 * MIB)
    });
    managed.objects = managed.live;
    managed.tasks = vec![TaskGrowth {
        group: TaskGroup {
            tasks: 25,
            bytes: 25 * 102_400,
            ..TaskGroup::default()
        },
        tasks: rise(25.0, 15.0),
        of_creator: rise(25.0, 15.0),
    }];
    let mut case = case(60.0, managed);
    case.owner = Owner::Runtime(Runtime::Jvm);
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Flat, "{}", verdict.sentence);
    assert!(verdict.next_step.contains("-Xmx"), "{}", verdict.next_step);
}

/// A site in the JVM's compiler stands beside the objects; one that a method of Java asked for leads.
#[test]
fn what_the_jvm_allocates_for_itself_leads_nothing() {
    let frame = |function: &str, module: &str| Frame {
        function: Some(function.to_owned()),
        module: module.to_owned(),
        ..Frame::default()
    };
    let led = |outer: Frame| {
        let mut case = case(9.0, java_live(8.0));
        case.owner = Owner::Runtime(Runtime::Jvm);
        case.sites = vec![Site {
            frames: vec![
                frame("ChunkPool::allocate", "/jdk/lib/server/libjvm.so"),
                outer,
            ],
            ..Site::default()
        }];
        let first = verdict(
            Cause::Filling,
            0.79,
            "ChunkPool::allocate fills".into(),
            "read it",
        );
        refined(&case, first).cause
    };
    let compiler = frame("Compile::Compile", "/jdk/lib/server/libjvm.so");
    assert_eq!(led(compiler), Cause::Managed);
    assert_eq!(led(frame("App.load", JAVA_MODULE)), Cause::Filling);
}

/// Each thread has memory of the JVM's beside its stack: of threads that become more it is a part.
#[test]
fn what_the_jvm_allocates_for_its_threads_is_theirs() {
    let frame = |function: &str| Frame {
        function: Some(function.to_owned()),
        module: "/jdk/lib/server/libjvm.so".to_owned(),
        ..Frame::default()
    };
    let group = TaskGroup {
        tasks: 400,
        frames: vec![frame("Object.wait")],
        bytes: 400 * 20_480,
        ..TaskGroup::default()
    };
    let managed = ManagedGrowth {
        language: Language::Java,
        snapshots: 15,
        tasks: vec![TaskGrowth {
            group,
            tasks: rise(400.0, 200.0),
            of_creator: rise(400.0, 200.0),
        }],
        ..ManagedGrowth::default()
    };
    let mut case = case(12.0, managed);
    case.owner = Owner::Runtime(Runtime::Jvm);
    case.sites = vec![Site {
        frames: vec![frame("ChunkPool::allocate")],
        ..Site::default()
    }];
    let words = "ChunkPool::allocate fills".to_owned();
    let first = verdict(Cause::Filling, 0.8, words, "read it");
    let refined = refined(&case, first);
    assert_eq!(refined.cause, Cause::Leak, "{}", refined.sentence);
    assert!(
        refined.sentence.starts_with("a leak of threads"),
        "{}",
        refined.sentence
    );
}

/// Blocks that the runtime allocates for a function of JavaScript belong to objects; those of an addon may not.
#[test]
fn objects_that_own_the_blocks_of_a_site_lead() {
    let led = |module: &str, grown_mib: f64| {
        let mut managed = java_live(grown_mib);
        managed.holders = vec![held(
            &["variable shipper (LogShipper)", ".batches (Array)"],
            &[],
        )];
        managed.types = vec![of_type("orders.Order", 1_400.0, grown_mib)];
        let mut case = case(12.0, managed);
        case.growth
            .insert(Part::LiveHeap, case.rss.unwrap_or_default());
        case.sites = vec![Site {
            frames: vec![Frame {
                function: Some("encodeBatch".to_owned()),
                module: module.to_owned(),
                ..Frame::default()
            }],
            ..Site::default()
        }];
        let first = verdict(Cause::Filling, 0.8, "encodeBatch fills".into(), "read it");
        refined(&case, first).cause
    };
    assert_eq!(led("javascript", 10.0), Cause::Managed);
    assert_eq!(led("/srv/zip.node", 10.0), Cause::Filling);
    assert_eq!(led("javascript", 7.0), Cause::Managed);
    assert_eq!(led("javascript", 3.0), Cause::Filling);
}

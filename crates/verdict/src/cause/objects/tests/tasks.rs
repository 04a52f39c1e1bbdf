//! Goroutines that become more.

use super::*;

#[test]
fn goroutines_are_named_by_who_starts_them() {
    let frame = |function: &str, line| Frame {
        function: Some(function.to_owned()),
        file: Some("/srv/app/main.go".to_owned()),
        line: Some(line),
        ..Frame::default()
    };
    let group = TaskGroup {
        tasks: 4_000,
        waits_for: Some("chan receive".to_owned()),
        frames: vec![frame("runtime.gopark", 1), frame("main.wait", 12)],
        created_by: Some(frame("main.handle", 20)),
        bytes: 4_000 * 8_192,
    };
    let managed = ManagedGrowth {
        runtime: "Go 1.26.8".to_owned(),
        language: Language::Go,
        snapshots: 15,
        tasks: vec![TaskGrowth {
            group,
            tasks: rise(4_000.0, 1_000.0),
            of_creator: rise(4_000.0, 1_000.0),
        }],
        ..ManagedGrowth::default()
    };
    let mut case = case(10.0, managed);
    case.owner = Owner::Runtime(Runtime::Go);
    let verdict = judge(&case);
    assert_eq!(verdict.cause, Cause::Leak);
    for part in [
        "goroutines that wait (chan receive)",
        "from 3000 to 4000",
        "main.wait (main.go:12)",
        "started by main.handle (main.go:20)",
    ] {
        assert!(
            verdict.sentence.contains(part),
            "{part}: {}",
            verdict.sentence
        );
    }
}

/// A cache in a local variable of `main` is not the goroutines' that become more beside it.
#[test]
fn objects_that_other_stacks_hold_are_not_the_tasks() {
    let held_by = |stack: &str| {
        let root = RootGrowth {
            root: RootCount {
                name: format!("stack of {stack}"),
                ..RootCount::default()
            },
            objects: rise(9_000.0, 4_000.0),
            bytes: rise(200.0 * MIB, 100.0 * MIB),
        };
        let frame = |function: &str| Frame {
            function: Some(function.to_owned()),
            ..Frame::default()
        };
        let group = TaskGroup {
            tasks: 20,
            frames: vec![frame("runtime.gopark"), frame("main.wait")],
            created_by: Some(frame("main.start")),
            bytes: 20 * 8_192,
            ..TaskGroup::default()
        };
        let managed = ManagedGrowth {
            language: Language::Go,
            snapshots: 15,
            roots: vec![root],
            tasks: vec![TaskGrowth {
                group,
                tasks: rise(20.0, 10.0),
                of_creator: rise(20.0, 10.0),
            }],
            ..ManagedGrowth::default()
        };
        let mut case = case(100.0, managed);
        case.owner = Owner::Runtime(Runtime::Go);
        judge(&case).cause
    };
    assert_eq!(held_by("main.main"), Cause::Managed);
    assert_eq!(held_by("main.wait"), Cause::Leak);
}

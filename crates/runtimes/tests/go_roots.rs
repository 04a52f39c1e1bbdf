//! The objects that global variables and stacks hold, in programs that hold known amounts.

use std::time::{Duration, Instant};

use runtimes::{Limits, RootCount, Snapshot};

#[path = "go/program.rs"]
mod program;
use program::{LIMITS, Program};

fn start(arguments: &[&str]) -> Option<Program> {
    Program::of(include_str!("go/holders.go"), arguments, &[])
}

fn root<'a>(snapshot: &'a Snapshot, name: &str) -> &'a RootCount {
    let found = snapshot.roots.iter().find(|root| root.name == name);
    found.unwrap_or_else(|| panic!("{name} of {:#?}, {:?}", snapshot.roots, snapshot.missing))
}

/// Within a fifth: with the container's own memory, and less what remains of it on other stacks lead to.
fn assert_holds(snapshot: &Snapshot, name: &str, bytes: u64) {
    let held = root(snapshot, name).bytes;
    println!("{name}: {held} B of {bytes}");
    assert!(
        held.abs_diff(bytes) < bytes / 5,
        "{name}: {held} B of {bytes}"
    );
}

#[test]
fn objects_count_to_the_variable_that_holds_them() {
    for arguments in [[].as_slice(), &["-buildmode=pie"], &["-ldflags=-w"]] {
        let Some(mut program) = start(arguments) else {
            return;
        };
        for command in [
            "store 20000",
            "book 5000",
            "sessions 10000",
            "hold 3000",
            "gc",
        ] {
            program.ask(command);
        }
        let snapshot = program.heap().snapshot(&LIMITS).unwrap();
        println!(
            "{arguments:?} {:?} {:#?}",
            snapshot.cost,
            &snapshot.roots[..6]
        );
        assert!(!snapshot.is_partial);
        // 1,024 B, and 16 B that point to it.
        assert_holds(&snapshot, "main.store", 20_000 * 1040);
        assert_holds(&snapshot, "main.sessions", 10_000 * 2048);
        assert_holds(&snapshot, "stack of main.hold", 3000 * 4096);
        let has_types = arguments != ["-ldflags=-w"];
        let (bank, kind) = match has_types {
            true => ("main.theBank.open.entries", Some("map[int][]uint8")),
            false => ("main.theBank", None),
        };
        assert_holds(&snapshot, bank, 5000 * 2048);
        assert_eq!(root(&snapshot, bank).type_name.as_deref(), kind);
        let store = has_types.then_some("map[int]*main.profile");
        assert_eq!(root(&snapshot, "main.store").type_name.as_deref(), store);
    }
}

#[test]
fn growth_is_in_the_root_that_grows() {
    let Some(mut program) = start(&[]) else {
        return;
    };
    program.ask("store 5000");
    program.ask("sessions 5000");
    let mut heap = program.heap();
    let first = heap.snapshot(&LIMITS).unwrap();
    program.ask("book 4000");
    let second = heap.snapshot(&LIMITS).unwrap();
    for after in second
        .roots
        .iter()
        .filter(|root| root.name != "main.theBank.open.entries")
    {
        // A root may be new or gone: a collection moves `sync.allPools` to `sync.oldPools`.
        let before = first.roots.iter().find(|root| root.name == after.name);
        let grown = after
            .bytes
            .saturating_sub(before.map_or(0, |root| root.bytes));
        // The runtime takes some for itself meanwhile: of what the bank grew by, a twentieth at most.
        assert!(grown < 4000 * 2048 / 20, "{after:?} grew by {grown} B");
    }
    assert_holds(&second, "main.theBank.open.entries", 4000 * 2048);
}

#[test]
fn functions_that_refer_to_a_variable() {
    let Some(mut program) = start(&[]) else {
        return;
    };
    for command in [
        "uploads 100",
        "store 100",
        "book 100",
        "sessions 100",
        "hold 100",
    ] {
        program.ask(command);
    }
    let mut heap = program.heap();
    let snapshot = heap.snapshot(&LIMITS).unwrap();
    let names = [
        "main.store",
        "main.theBank.open.entries",
        "main.sessions",
        "stack of main.hold",
        "timers (time.AfterFunc, time.NewTimer)",
        "main.none",
    ];
    let holders = heap.holders(&names.map(str::to_owned), &LIMITS);
    println!("{holders:#?} {:#?}", snapshot.roots);
    let named: Vec<&str> = holders
        .iter()
        .map(|holder| holder.type_name.as_str())
        .collect();
    assert_eq!(named, names[..5]);
    assert_eq!(holders[0].path, ["main.store (map[int]*main.profile)"]);
    for (holder, user) in holders
        .iter()
        .zip(["main.fillStore (leaks.go:37)", "main.book (leaks.go:44)"])
    {
        assert!(holder.users.iter().any(|one| one == user), "{holder:?}");
    }
    assert!(
        holders[2].users[0].starts_with("main.openSessions (leaks.go:"),
        "{holders:?}"
    );
    assert!(holders[3].users.is_empty());
    // The function that sets them, and the one that calls it.
    let users: Vec<&str> = holders[4].users.iter().map(String::as_str).collect();
    assert_eq!(users.len(), 2, "{users:?}");
    assert!(
        users[0].starts_with("main.expireLater (leaks.go:"),
        "{users:?}"
    );
    assert!(
        users[1].starts_with("main.receiveUploads (leaks.go:"),
        "{users:?}"
    );
    // `main` alone calls `book`.
    let callers = &holders[1].users[1..];
    assert!(
        callers
            .iter()
            .any(|one| one.starts_with("main.main (leaks.go:")),
        "{callers:?}"
    );
}

#[test]
fn without_symbols_there_are_none() {
    let Some(mut program) = start(&["-ldflags=-s -w"]) else {
        return;
    };
    program.ask("store 5000");
    let snapshot = program.heap().snapshot(&LIMITS).unwrap();
    assert!(snapshot.roots.is_empty());
    let is_named =
        |missing: &String| missing.contains("Which variables") && missing.contains("no symbols");
    assert!(
        snapshot.missing.iter().any(is_named),
        "{:?}",
        snapshot.missing
    );
}

/// A goroutine allocates and changes the map all the time. A reading that meets the map while its tables are replaced
/// finds less of it: one of ten at most.
#[test]
fn a_program_that_goes_on() {
    let Some(mut program) = start(&[]) else {
        return;
    };
    program.ask("store 20000");
    program.ask("busy");
    let mut heap = program.heap();
    let mut missed = Vec::new();
    for _ in 0..10 {
        let snapshot = heap.snapshot(&LIMITS).unwrap();
        assert!(!snapshot.is_partial, "{:?}", snapshot.missing);
        let held = root(&snapshot, "main.store").bytes;
        if held.abs_diff(20_000 * 1040) >= 20_000 * 1040 / 5 {
            missed.push(held);
        }
    }
    assert!(missed.len() <= 1, "{missed:?}");
}

#[test]
fn limits_end_the_walk() {
    let Some(mut program) = start(&[]) else {
        return;
    };
    program.ask("store 300000");
    program.ask("gc");
    let mut heap = program.heap();
    heap.snapshot(&LIMITS).unwrap();
    for limits in [
        Limits {
            time: Duration::from_millis(30),
            ..LIMITS
        },
        Limits {
            bytes: 2 << 20,
            ..LIMITS
        },
    ] {
        let before = Instant::now();
        let snapshot = heap.snapshot(&limits).unwrap();
        assert!(
            before.elapsed() < Duration::from_secs(2),
            "{:?}",
            before.elapsed()
        );
        assert!(snapshot.is_partial);
        let is_named = |missing: &String| missing.contains("limit was reached");
        assert!(
            snapshot.missing.iter().any(is_named),
            "{:?}",
            snapshot.missing
        );
    }
    // Copies of the heap have no room, and are read again and again.
    let snapshot = heap
        .snapshot(&Limits {
            bytes: 24 << 20,
            ..LIMITS
        })
        .unwrap();
    println!("{:?} {:?}", snapshot.cost, snapshot.missing);
    assert_holds(&snapshot, "main.store", 300_000 * 1040);
}

//! Allocators that are linked into the program, and musl's: as root, uprobes on their functions tell where the memory goes.

use std::process::Command;

use serde_json::Value;

use crate::skipped::skipped;
use crate::stage::{Running, cause, compile, explain, parsed, top_function};

/// Shared with bench/explain/linked, where the truth of each word stands.
const DESK: &str = "../../../../bench/explain/linked/desk.c";

/// What `explain` says of a program as root; `None`, with a line, where uprobes cannot be.
fn probed(words: &[&str]) -> Option<Value> {
    let options = ["--json", "--quiet", "--duration", "14s", "--every", "300ms"];
    let json = parsed(&explain(&[&options[..], words].concat()));
    if json["uprobes"].is_null() {
        assert!(!rustix::process::geteuid().is_root(), "{json:#}");
        skipped("uprobes need root");
        return None;
    }
    let traps = &json["uprobes"];
    assert!(traps["functions"].as_u64() >= Some(4), "{traps}");
    assert!(traps["hits"].as_u64() > Some(1_000), "{traps}");
    assert!(traps["ns_per_hit"].as_f64() > Some(10.0), "{traps}");
    Some(json)
}

fn static_desk(flags: &[&str], name: &str) -> String {
    let flags = [&["-static"], flags].concat();
    let program = compile("gcc", DESK, &flags, name);
    program.to_str().unwrap().to_owned()
}

#[test]
fn a_leak_in_a_static_program_is_named() {
    let desk = static_desk(&[], "desk-leak");
    let Some(json) = probed(&["--", &desk, "leak"]) else {
        return;
    };
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("leak", "forget_slip"),
        "{json:#}"
    );
    assert!(json["coverage"].as_f64() > Some(0.5), "{json:#}");
}

/// A glibc probe would keep it from starting.
#[test]
fn a_leak_of_a_program_on_musl_is_named() {
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return skipped("musl-gcc is missing");
    }
    let desk = compile("musl-gcc", DESK, &[], "desk-musl");
    let Some(json) = probed(&["--", desk.to_str().unwrap(), "leak"]) else {
        return;
    };
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("leak", "forget_slip"),
        "{json:#}"
    );
    let allocator = &json["allocators"][0];
    assert_eq!(
        (&allocator["name"], &allocator["seen"]),
        (&"musl".into(), &true.into())
    );
}

#[test]
fn what_a_malloc_of_its_own_keeps_is_filling() {
    let own = ["-DOWN", "-fno-builtin-malloc", "-fno-builtin-calloc"];
    let desk = static_desk(&own, "desk-own");
    let Some(json) = probed(&["--", &desk, "filling"]) else {
        return;
    };
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("filling", "shelve_slip"),
        "{json:#}"
    );
}

#[test]
fn a_bounded_list_is_flat_though_its_old_blocks_were_never_seen() {
    let desk = static_desk(&[], "desk-last");
    let running = Running::start(Command::new(&desk).arg("last"));
    let Some(json) = probed(&["--pid", &running.pid()]) else {
        return;
    };
    assert_eq!(cause(&json), "flat", "{json:#}");
}

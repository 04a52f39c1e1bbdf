//! Allocators that are linked into the program, and musl's: as root, uprobes on their functions tell where the memory
//! goes.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::stage::{Running, cause, compile, explain, parsed, top_function};
use testkit::skipped;

/// What each of its words does is said at its head.
const DESK: &str = "desk.c";

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

/// What `left.cpp` ends with, and what it prints.
fn ends(mut program: Command, watch: bool) -> (String, Option<Value>) {
    let child = program.stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let json = watch.then(|| {
        let options = ["--json", "--quiet", "--duration", "6s", "--every", "300ms"];
        parsed(&explain(&[&options[..], &["--pid", &pid]].concat()))
    });
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    (format!("{}: {printed}", output.status), json)
}

/// Processes that one of its threads started.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let children = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let words = children.iter().flat_map(|line| line.split_whitespace());
    words.map(|pid| pid.parse().unwrap()).collect()
}

/// The program goes on, and nothing is told of a time in which nothing was seen.
#[test]
fn a_holder_of_breakpoints_that_somebody_kills_ends_the_sampling() {
    let desk = static_desk(&[], "desk-holder");
    let subject = Running::start(Command::new(desk).arg("leak"));
    let pid = subject.pid();
    let mut highwater = Command::new(env!("CARGO_BIN_EXE_highwater"));
    highwater.args([
        "explain",
        "--json",
        "--quiet",
        "--duration",
        "8s",
        "--pid",
        &pid,
    ]);
    let highwater = highwater.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(4));
    let starters = children_of(highwater.id());
    let mut holders = starters.iter().flat_map(|starter| children_of(*starter));
    // Of the allocator's functions: those of mmap are set behind them.
    let holder = holders.next();
    if let Some(holder) = holder {
        let name = std::fs::read_to_string(format!("/proc/{holder}/comm")).unwrap();
        assert_eq!(name.trim(), "hw-breakpoints");
        let holder = Pid::from_raw(holder as i32).unwrap();
        rustix::process::kill_process(holder, Signal::KILL).unwrap();
    }
    let json = parsed(&highwater.wait_with_output().unwrap());
    if holder.is_none() {
        assert!(!rustix::process::geteuid().is_root(), "{json:#}");
        return skipped("uprobes need root");
    }
    let stopped = &json["overhead"]["stopped"];
    assert_eq!(stopped["cause"], "holders-ended", "{json:#}");
    let after_s = stopped["after_s"].as_f64().unwrap();
    assert!((1.0..7.0).contains(&after_s), "{stopped}");
    assert!(std::path::Path::new(&format!("/proc/{pid}/exe")).exists());
}

/// A return probe would end them: it changes the return address on the stack.
#[test]
fn a_program_whose_allocator_is_left_by_a_throw_a_jump_or_a_switch_ends_as_without_explain() {
    if Command::new("g++").arg("--version").output().is_err() {
        return skipped("g++ is missing");
    }
    let program = compile("g++", "left.cpp", &[], "left");
    for way in ["throw", "jump", "switch"] {
        let started = || {
            let mut command = Command::new(&program);
            command.args([way, "3000"]);
            command
        };
        let (alone, _) = ends(started(), false);
        assert!(alone.contains("caught"), "{alone}");
        let (watched, json) = ends(started(), true);
        assert_eq!(watched, alone, "{way}");
        let json = json.unwrap_or_default();
        let traps = &json["uprobes"];
        if traps.is_null() {
            assert!(!rustix::process::geteuid().is_root(), "{json:#}");
            return skipped("uprobes need root");
        }
        let samples = traps["samples"].as_u64().unwrap();
        let unknown = traps["samples_without_result"].as_u64().unwrap();
        assert!(samples > 100 && unknown < samples / 2, "{way}: {traps}");
    }
}

//! A process that runs already, on the C library's allocator or on a library's before it: as root, uprobes name the
//! sites.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::stage::{
    Running, UNBOUNDED, assert_adds_up, cause, compile, explain, parsed, part, shapes, source,
    top_function,
};
use testkit::{pythons, skipped};

/// What `explain` says of a shape that has run for so long; `None`, with a line, where uprobes cannot be.
fn attached(shape: &str, runs_s: u64, seconds: &str) -> Option<Value> {
    let json = attached_within(shape, runs_s, seconds, Some(UNBOUNDED))?;
    assert_eq!(json["live_by"], "glibc_headers", "{json:#}");
    Some(json)
}

/// The same within a budget, or the usual one.
fn attached_within(shape: &str, runs_s: u64, seconds: &str, budget: Option<&str>) -> Option<Value> {
    let mut running = Running::start(Command::new(shapes()).arg(shape));
    std::thread::sleep(Duration::from_secs(runs_s));
    let words = [
        "--json",
        "--quiet",
        "--duration",
        seconds,
        "--every",
        "300ms",
    ];
    let budget: Vec<&str> = budget
        .into_iter()
        .flat_map(|share| ["--budget", share])
        .collect();
    let json = parsed(&explain(
        &[&words[..], &budget, &["--pid", &running.pid()]].concat(),
    ));
    assert!(running.0.try_wait().unwrap().is_none(), "it goes on");
    if json["uprobes"].is_null() {
        assert!(!rustix::process::geteuid().is_root(), "{json:#}");
        skipped("uprobes need root");
        return None;
    }
    assert_eq!(json["uprobes"]["at_start"], false, "{json:#}");
    assert_adds_up(&json);
    Some(json)
}

#[test]
fn a_leak_of_a_process_that_runs_is_named() {
    let Some(json) = attached("leak", 2, "14s") else {
        return;
    };
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("leak", "forget_session"),
        "{json:#}"
    );
    assert_eq!(json["allocators"][0]["seen"], true, "{json:#}");
}

#[test]
fn a_cache_that_was_full_before_is_flat_though_its_old_blocks_were_never_seen() {
    let Some(json) = attached("cache", 3, "10s") else {
        return;
    };
    assert_eq!(cause(&json), "flat", "{json:#}");
}

#[test]
fn who_maps_memory_in_a_process_that_runs_is_named() {
    let Some(json) = attached("mapping", 1, "10s") else {
        return;
    };
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("mapping", "open_window"),
        "{json:#}"
    );
    assert!(sentence.contains("open_window"), "{sentence}");
    let items = json["overhead"]["items"].to_string();
    assert!(items.contains("calls of mmap and mremap"), "{items}");
}

/// A program that does nothing but map and unmap pays for a part of a second.
#[test]
fn probes_of_mappings_come_off_over_their_budget() {
    let Some(json) = attached_within("windows", 1, "6s", None) else {
        return;
    };
    let items = json["overhead"]["items"].as_array().unwrap();
    let mappings = items.iter().find(|item| item["name"] == "mappings");
    let mappings = mappings.unwrap_or_else(|| panic!("{json:#}"));
    let how = mappings["how"].as_str().unwrap();
    assert!(how.contains("came off before the end"), "{mappings:#}");
    assert!(mappings["cpu_s"].as_f64().unwrap() < 1.0, "{mappings:#}");
    assert_ne!(cause(&json), "mapping", "{json:#}");
}

#[test]
fn who_starts_threads_in_a_process_that_runs_is_named() {
    let Some(json) = attached("stacks", 1, "15s") else {
        return;
    };
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert_eq!(cause(&json), "stacks", "{json:#}");
    assert!(
        sentence.contains("most were started by stacks"),
        "{sentence}"
    );
}

/// The peak is over before anybody looks: that most of RSS is free heap is to be seen all the same.
#[test]
fn what_a_peak_left_is_retention_though_it_was_not_seen() {
    let Some(json) = attached("peak", 7, "8s") else {
        return;
    };
    assert_eq!(cause(&json), "retention", "{json:#}");
}

#[test]
fn with_read_only_nothing_is_put_on_the_process() {
    let running = Running::start(Command::new(shapes()).arg("leak"));
    let words = [
        "--read-only",
        "--json",
        "--quiet",
        "--duration",
        "6s",
        "--every",
        "300ms",
        "--pid",
    ];
    let json = parsed(&explain(&[&words[..], &[&running.pid()]].concat()));
    assert_eq!(cause(&json), "filling", "{json:#}");
    assert_adds_up(&json);
    assert_eq!(json["live_by"], "glibc_headers");
    assert!(
        json["uprobes"].is_null() && json["overhead"]["breakpoints"] == 0,
        "{json:#}"
    );
    assert!(part(&json, "live_heap") > 4.0 * 1048576.0, "{json:#}");
    let notes = json["notes"].to_string();
    assert!(
        notes.contains("highwater explain -- ") && notes.contains("no site has a name"),
        "{notes}"
    );
}

/// highwater is a descendant of the shell that it is asked about.
#[test]
fn of_a_shell_it_is_not_highwater_that_is_explained() {
    let asks = format!(
        "{} explain --json --quiet --duration 2s --every 200ms --pid $$; true",
        env!("CARGO_BIN_EXE_highwater")
    );
    let output = Command::new("sh").args(["-c", &asks]).output().unwrap();
    let json = parsed(&output);
    assert_eq!(
        json["command"].as_str().unwrap().split(' ').next(),
        Some("sh"),
        "{json:#}"
    );
    assert_eq!(
        json["processes"].as_array().map(Vec::len),
        Some(0),
        "{json:#}"
    );
}

/// Every version is tried in crates/heap; this is the way to the sentence.
#[test]
fn of_a_python_that_runs_the_function_and_the_line_are_named_that_call_the_library() {
    let Some((minor, python)) = pythons(8..=14).pop() else {
        return skipped("no python3 is here");
    };
    let library = compile("gcc", "rows.c", &["-shared", "-fPIC"], "libattachedrows.so");
    let mut command = Command::new(python);
    command.arg(source("objects.py")).arg("ctypes").arg(library);
    let running = Running::start(&mut command);
    std::thread::sleep(Duration::from_secs(2));
    let words = [
        "--json",
        "--quiet",
        "--duration",
        "14s",
        "--budget",
        UNBOUNDED,
    ];
    let json = parsed(&explain(&[&words[..], &["--pid", &running.pid()]].concat()));
    if json["uprobes"].is_null() {
        assert!(!rustix::process::geteuid().is_root(), "{json:#}");
        return skipped("uprobes need root");
    }
    assert_eq!(
        (cause(&json), top_function(&json)),
        ("leak", "keep_row"),
        "3.{minor}: {json:#}"
    );
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("take_row (objects.py:37)"), "{sentence}");
    let frames = json["sites"][0]["frames"].as_array().unwrap();
    let names = frames.iter().filter_map(|frame| frame["function"].as_str());
    let mut names = names.skip_while(|name| *name != "take_row");
    assert_eq!(names.nth(1), Some("<module>"), "{json:#}");
}

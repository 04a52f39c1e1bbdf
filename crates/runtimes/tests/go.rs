//! The reader of Go heaps against what Go programs report of themselves.
//!
//! `GOTOOLCHAIN=go1.22.12 cargo test` tests another version of Go than the installed one.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use runtimes::{Frame, Limits, SiteCount, Snapshot, TaskGroup, Touch};

#[path = "go/program.rs"]
mod program;
use program::{LIMITS, Program};

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Option<Program> {
    Program::of(include_str!("go/leaks.go"), arguments, environment)
}

/// `runtime.MemProfileRate`, as the program leaves it.
const RATE: f64 = 524_288.0;

/// Live objects and bytes by stack, as the program reports them, scaled as pprof does.
fn reported(lines: &[String]) -> HashMap<String, (f64, f64)> {
    let mut sites: HashMap<String, (f64, f64)> = HashMap::new();
    for line in lines {
        let Some(record) = line.strip_prefix("record ") else {
            continue;
        };
        let words: Vec<&str> = record.splitn(3, ' ').collect();
        let (objects, bytes): (f64, f64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let scale = 1.0 / (1.0 - (-bytes / objects / RATE).exp());
        let mut stack: Vec<&str> = words[2].split('|').collect();
        stack.retain(|frame| !frame.starts_with("runtime.goexit "));
        let inner = stack.iter().take_while(|frame| is_runtime(frame)).count();
        if inner < stack.len() {
            stack.drain(..inner);
        }
        let site = sites.entry(stack.join("|")).or_default();
        site.0 += objects * scale;
        site.1 += bytes * scale;
    }
    sites
}

fn is_runtime(frame: &str) -> bool {
    frame.starts_with("runtime.") || frame.starts_with("internal/runtime/")
}

fn numbers(lines: &[String], key: &str) -> Vec<u64> {
    let line = lines
        .iter()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect()
}

fn written(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    let file = frame.file.as_deref().unwrap_or("?");
    format!("{function} {file}:{}", frame.line.unwrap_or(0))
}

fn stack(site: &SiteCount) -> String {
    site.frames
        .iter()
        .map(written)
        .collect::<Vec<_>>()
        .join("|")
}

/// Each site that the program reports, with the same objects and bytes, and no other.
fn assert_same_sites(snapshot: &Snapshot, lines: &[String]) {
    let mut frames = snapshot.sites.iter().flat_map(|site| &site.frames);
    assert!(frames.all(|frame| frame.function.is_none() || frame.offset == 0));
    let mut reported = reported(lines);
    assert!(!reported.is_empty());
    for site in snapshot.sites.iter().filter(|site| site.bytes > 0.0) {
        let stack = stack(site);
        let Some((objects, bytes)) = reported.remove(&stack) else {
            panic!(
                "not reported: {stack}, {} B; of {:#?}",
                site.bytes,
                reported.keys()
            );
        };
        let differs = |a: f64, b: f64| (a - b).abs() > 1e-6 * b.abs();
        assert!(
            !differs(site.objects, objects),
            "{stack}: {} of {objects}",
            site.objects
        );
        assert!(
            !differs(site.bytes, bytes),
            "{stack}: {} of {bytes}",
            site.bytes
        );
    }
    assert!(reported.is_empty(), "not found: {reported:#?}");
}

/// Of its version, Go 1.`minor`.
fn minor(program: &Program) -> u32 {
    let heap = program.heap();
    let version = heap.runtime().strip_prefix("Go 1.").unwrap();
    let (minor, _) = version.split_once('.').unwrap();
    minor.parse().unwrap()
}

fn leaked<'a>(snapshot: &'a Snapshot, by: &str) -> Vec<&'a TaskGroup> {
    let is_by = |group: &&TaskGroup| {
        group
            .created_by
            .as_ref()
            .and_then(|frame| frame.function.as_deref())
            == Some(by)
    };
    snapshot.tasks.iter().filter(is_by).collect()
}

fn goroutines(snapshot: &Snapshot) -> u64 {
    snapshot.tasks.iter().map(|group| group.tasks).sum()
}

/// A cache, a leaking slice in an inlined function, and 1,234 goroutines that wait for ever.
fn check_all(program: &mut Program) -> (Snapshot, Vec<String>) {
    for command in ["cache", "grow", "start 1234", "gc"] {
        program.ask(command);
    }
    let lines = program.ask("profile");
    let mut heap = program.heap();
    assert_eq!(heap.touch(), Touch::Reads);
    assert!(heap.runtime().starts_with("Go 1."), "{}", heap.runtime());
    let snapshot = heap.snapshot(&LIMITS).unwrap();
    assert_same_sites(&snapshot, &lines);
    let reported = numbers(&lines, "goroutines")[0];
    assert_eq!(goroutines(&snapshot), reported, "{:#?}", snapshot.tasks);
    assert_leaks(&snapshot);
    println!(
        "{} {:?} {:?}",
        heap.runtime(),
        snapshot.cost,
        snapshot.missing
    );
    (snapshot, lines)
}

fn assert_leaks(snapshot: &Snapshot) {
    let bytes_in = |functions: &[&str]| -> f64 {
        let is_in = |site: &&SiteCount| {
            let names: Vec<&str> = site
                .frames
                .iter()
                .filter_map(|frame| frame.function.as_deref())
                .collect();
            names.starts_with(functions)
        };
        snapshot
            .sites
            .iter()
            .filter(is_in)
            .map(|site| site.bytes)
            .sum()
    };
    // Sampled, 80 and 31 objects on average: it is hardly ever half or twice as much.
    let cached = bytes_in(&["main.remember", "main.main"]);
    assert!((20e6..82e6).contains(&cached), "{cached} of 41 MB");
    let grown = bytes_in(&["main.grow", "main.growMany", "main.main"]);
    assert!((5e6..48e6).contains(&grown), "{grown} of 16 MB");
    let inner = snapshot
        .sites
        .iter()
        .find(|site| site.frames[0].function.as_deref() == Some("main.grow"));
    assert!(inner.unwrap().frames[0].inlined);
    let groups = leaked(snapshot, "main.start");
    assert_eq!(groups.len(), 1, "{groups:#?}");
    assert_eq!(
        (groups[0].tasks, groups[0].waits_for.as_deref()),
        (1234, Some("chan receive"))
    );
    let names: Vec<_> = groups[0]
        .frames
        .iter()
        .filter_map(|frame| frame.function.as_deref())
        .collect();
    assert_eq!(names, ["main.wait", "main.start.gowrap1"][..names.len()]);
    assert!(groups[0].bytes >= 1234 * 2048);
}

#[test]
fn an_ordinary_program() {
    let Some(mut program) = start(&[], &[]) else {
        return;
    };
    let (snapshot, lines) = check_all(&mut program);
    assert_eq!(snapshot.missing, Vec::<String>::new());
    assert_sizes(&snapshot, &numbers(&lines, "stats"), minor(&program));
}

fn assert_sizes(snapshot: &Snapshot, stats: &[u64], minor: u32) {
    let [used, in_use, idle, collections, stacks, buckets] = stats else {
        panic!("{stats:?}");
    };
    let heap = snapshot.heap.as_ref().unwrap();
    println!("{heap:?} {stats:?}");
    let near = |read: u64, reported: u64, what: &str| {
        let apart = read.abs_diff(reported);
        assert!(
            apart < reported / 20 + (4 << 20),
            "{what}: {read} of {reported}"
        );
    };
    near(heap.used_bytes, *used, "used");
    if minor == 18 {
        assert_eq!((heap.committed_bytes, heap.collections), (None, None));
        return;
    }
    near(heap.committed_bytes.unwrap(), in_use + idle, "committed");
    near(heap.idle_bytes.unwrap(), *idle, "idle");
    assert_eq!(heap.collections, Some(*collections));
    assert_eq!(heap.limit_bytes, None);
    let other = |name: &str| heap.others.iter().find(|other| other.0 == name).unwrap().1;
    near(other("goroutine stacks"), *stacks, "stacks");
    assert_eq!(other("profile buckets"), *buckets);
}

#[test]
fn a_position_independent_program() {
    let Some(mut program) = start(&["-buildmode=pie"], &[]) else {
        return;
    };
    assert_eq!(check_all(&mut program).0.missing, Vec::<String>::new());
}

/// As programs with cgo are.
#[test]
fn programs_that_the_c_linker_linked() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return testkit::skipped("no gcc");
    }
    let external = "-ldflags=-linkmode=external";
    let stripped = "-ldflags=-linkmode=external -s -w";
    for (linking, mode, missing) in [
        (external, "exe", 0),
        (external, "pie", 0),
        (stripped, "pie", 3),
    ] {
        let Some(mut program) = start(&[linking, "-buildmode", mode], &[]) else {
            return;
        };
        let (snapshot, _) = check_all(&mut program);
        assert_eq!(snapshot.missing.len(), missing, "{:?}", snapshot.missing);
    }
}

#[test]
fn stripped_programs() {
    for arguments in [
        ["-ldflags=-s -w"].as_slice(),
        &["-ldflags=-s -w", "-buildmode=pie"],
    ] {
        let Some(mut program) = start(arguments, &[]) else {
            return;
        };
        let (snapshot, _) = check_all(&mut program);
        assert_eq!(snapshot.missing.len(), 3, "{:?}", snapshot.missing);
        assert!(snapshot.missing[1].contains("sampling rate"));
        assert!(snapshot.missing[2].contains("variables"));
        assert!(snapshot.roots.is_empty());
    }
}

#[test]
fn a_limit_of_the_heap() {
    let Some(program) = start(&[], &[("GOMEMLIMIT", "512MiB")]) else {
        return;
    };
    let snapshot = program.heap().snapshot(&LIMITS).unwrap();
    // There was none before 1.19.
    let limit = (minor(&program) > 18).then_some(512 << 20);
    assert_eq!(snapshot.heap.unwrap().limit_bytes, limit);
}

#[test]
fn a_profile_that_is_switched_off() {
    let Some(program) = start(&[], &[("GODEBUG", "memprofilerate=0")]) else {
        return;
    };
    let snapshot = program.heap().snapshot(&LIMITS).unwrap();
    // Before 1.20 the rate was set again after the environment was read.
    if minor(&program) < 20 {
        assert!(!snapshot.sites.is_empty());
        return;
    }
    assert!(snapshot.sites.is_empty());
    assert_eq!(goroutines(&snapshot), 2);
    assert_eq!(snapshot.missing.len(), 1);
    assert!(
        snapshot.missing[0].contains("runtime.MemProfileRate"),
        "{:?}",
        snapshot.missing
    );
}

#[test]
fn a_program_without_a_profile() {
    for arguments in [[].as_slice(), &["-ldflags=-s -w"]] {
        let source = include_str!("go/unprofiled.go");
        let Some(mut program) = Program::of(source, arguments, &[]) else {
            return;
        };
        program.ask("more");
        let snapshot = program.heap().snapshot(&LIMITS).unwrap();
        assert!(snapshot.sites.is_empty(), "{:#?}", snapshot.sites);
        let advises = |missing: &String| missing.contains("net/http/pprof");
        assert!(
            snapshot.missing.iter().any(advises),
            "{:?}",
            snapshot.missing
        );
        assert_eq!(goroutines(&snapshot), 1);
    }
}

/// Four goroutines allocate without a pause meanwhile.
#[test]
fn a_busy_program() {
    let Some(mut program) = start(&[], &[]) else {
        return;
    };
    for command in ["cache", "grow", "start 1234", "gc", "busy"] {
        program.ask(command);
    }
    let mut heap = program.heap();
    for _ in 0..20 {
        let snapshot = heap.snapshot(&LIMITS).unwrap();
        assert_eq!(snapshot.missing, Vec::<String>::new());
        assert_leaks(&snapshot);
        assert_eq!(goroutines(&snapshot), 1234 + 4 + 2);
        std::thread::sleep(Duration::from_millis(20));
    }
    let lines = program.ask("profile");
    assert_eq!(numbers(&lines, "goroutines"), [1240]);
}

#[test]
fn limits_end_a_snapshot_and_are_reported() {
    let Some(mut program) = start(&[], &[]) else {
        return;
    };
    program.ask("start 1000");
    program.ask("gc");
    let mut heap = program.heap();
    for limits in [
        Limits {
            time: Duration::ZERO,
            ..LIMITS
        },
        Limits {
            bytes: 100,
            ..LIMITS
        },
    ] {
        let snapshot = heap.snapshot(&limits).unwrap();
        assert!(
            snapshot
                .missing
                .iter()
                .any(|missing| missing.contains("limit was reached")),
            "{snapshot:?}"
        );
    }
}

#[test]
fn a_program_that_has_ended() {
    let Some(mut program) = start(&[], &[]) else {
        return;
    };
    let mut heap = program.heap();
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    assert_eq!(heap.snapshot(&LIMITS), Err(runtimes::Error::Gone));
    assert!(
        runtimes::open(std::process::id()).is_empty(),
        "this is no Go program"
    );
}

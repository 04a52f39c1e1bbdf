//! The command over small services whose own log is the truth: cause, culprit and durations.
//!
//! The services live in `services/`; one with `fixed` has the same threads and no fault. On a
//! machine that is busy a wait for a CPU is real: rows of `cpu-starvation` are let pass everywhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Ebpf,
    Tracepoints,
    Rootless,
}

const BOTH: [Mode; 2] = [Mode::Ebpf, Mode::Rootless];

#[test]
fn an_exporter_that_posts_under_the_mutex_is_named() {
    for mode in BOTH {
        let Some(seen) = watch(mode, c("exporter"), &[]) else {
            continue;
        };
        let row = seen.row("lock");
        assert!(
            row.text("/culprit/doing")
                .starts_with("network read from 127.0.0.1:")
        );
        let stack = row.list("/culprit/stack");
        assert!(stack.iter().any(|f| f == "ship_batch"), "{stack:?}");
        if mode == Mode::Ebpf {
            // The function that held, not the deeper one that waited for the network meanwhile.
            assert_eq!(row.text("/culprit/function"), "ship_batch");
        }
        assert_eq!(row.number("/threads"), 8);
        seen.agrees_with_the_truth(&row);
    }
}

#[test]
fn a_mutex_without_an_owner_word_is_walked_or_inferred() {
    for mode in BOTH {
        let Some(service) = rust("mutex") else {
            return;
        };
        let Some(seen) = watch(mode, service, &[]) else {
            continue;
        };
        let row = seen.row("lock");
        let inferred = row.0.pointer("/inferred").and_then(Value::as_bool);
        assert_eq!(inferred, Some(mode == Mode::Rootless), "and says so");
        if mode == Mode::Rootless {
            // On a loaded machine the guess may be another thread; how often is in bench/stalls.
            continue;
        }
        assert!(
            row.text("/culprit/doing")
                .starts_with("network read from 127.0.0.1:")
        );
        let stack = row.list("/culprit/stack");
        assert!(stack.iter().any(|f| f.ends_with("push_spans")), "{stack:?}");
    }
}

#[test]
fn a_quiet_service_and_a_mended_one_have_no_stalls() {
    for mode in BOTH {
        for (name, flags) in [("requests", &["quiet"][..]), ("exporter", &["fixed"][..])] {
            let Some(seen) = watch(mode, c(name), flags) else {
                continue;
            };
            // The fault's own last 400 ms; on a loaded machine a holder loses its CPU for less.
            let long = seen.longer_than(300_000_000);
            let other: Vec<_> = long.iter().filter(|c| *c != "cpu-starvation").collect();
            assert!(
                other.is_empty(),
                "{name} {flags:?}: {:#}",
                seen.found["findings"]
            );
        }
    }
}

#[test]
#[ignore = "each takes ten seconds of a service: make test-long"]
fn disks_faults_and_chains_are_told_apart() {
    for mode in BOTH {
        for (flag, causes, doing) in [
            ("fsync", &["disk"][..], "fdatasync of "),
            ("commit", &["disk"][..], "fdatasync of "),
            ("faults", &["page-fault"][..], "major "),
            ("chain", &["lock"][..], ""),
        ] {
            // Whom a condition waits for is a guess there, and on a loaded machine no good one.
            if mode == Mode::Rootless && flag == "commit" {
                continue;
            }
            let Some(seen) = watch(mode, c("requests"), &[flag]) else {
                continue;
            };
            let row = seen.row(causes[0]);
            assert!(
                row.text("/culprit/doing").contains(doing),
                "{flag}: {row:?}"
            );
        }
    }
}

#[test]
#[ignore = "takes ten seconds of a service, and as long a purge as a loaded machine lets it: make test-long"]
fn a_purge_under_a_lock_is_the_allocators() {
    let Some(seen) = watch(Mode::Ebpf, c("requests"), &["purge"]) else {
        return;
    };
    let row = seen.row("allocator");
    assert_eq!(row.text("/culprit/function"), "release_pages");
    assert!(
        !seen.longer_than(100_000_000).contains(&"lock".to_string()),
        "one cause"
    );
}

#[test]
fn locks_that_look_like_queues_are_locks() {
    for (mode, kind, function) in [
        (Mode::Ebpf, "writer", "crane_reload"),
        (Mode::Ebpf, "parked", "godwit_flush"),
        (Mode::Tracepoints, "parked", "godwit_flush"),
    ] {
        let Some(seen) = watch(mode, woven(), &[kind, "hold=150"]) else {
            continue;
        };
        let row = seen.row("lock");
        assert_eq!(row.text("/culprit/function"), function, "{:#}", row.0);
    }
}

#[test]
#[ignore = "six watches of five seconds: make test-long"]
fn what_looks_like_them_and_is_mended_is_none() {
    for mode in [Mode::Ebpf, Mode::Tracepoints] {
        for kind in ["writer", "parked", "crowd"] {
            let Some(seen) = watch(mode, woven(), &[kind, "hold=400", "fixed"]) else {
                continue;
            };
            let locks = seen.longer_than(200_000_000);
            assert!(
                !locks.contains(&"lock".to_string()),
                "{kind}: {:#}",
                seen.found["findings"]
            );
        }
    }
}

#[test]
#[ignore = "wants musl-gcc, and watches twice: make test-long"]
fn musls_mutex_names_its_owner_where_it_keeps_one() {
    let source = services().join("exporter.c");
    let program = built().join("exporter-musl");
    let status = Command::new("musl-gcc")
        .args(["-O1", "-g", "-static", "-o"])
        .args([&program, &source])
        .status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: musl-gcc (musl-tools) did not build the service: {status:?}");
        return;
    }
    for (flags, inferred) in [(&["recursive"][..], false), (&[][..], true)] {
        let Some(seen) = watch(Mode::Rootless, program.clone(), flags) else {
            return;
        };
        let row = seen.row("lock");
        assert_eq!(row.0["inferred"], inferred, "{:#}", row.0);
    }
}

#[test]
#[ignore = "its purges are as long as the machine lets them: make test-long"]
fn a_threads_own_purge_is_one_row() {
    let Some(seen) = watch(Mode::Ebpf, woven(), &["ownfree"]) else {
        return;
    };
    let rows = seen.found["findings"].as_array().unwrap();
    let own = |row: &&Value| row["cause"] == "allocator" || row["cause"] == "on-cpu";
    assert_eq!(
        rows.iter().filter(own).count(),
        1,
        "{:#}",
        seen.found["findings"]
    );
    seen.row("allocator");
}

#[test]
fn a_stripped_program_has_the_cause_without_the_name() {
    let program = woven();
    let stripped = program.with_extension("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .args([&stripped, &program])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: strip (binutils) is not there");
        return;
    }
    let Some(seen) = watch(Mode::Ebpf, stripped, &["crowd", "hold=150"]) else {
        return;
    };
    let row = seen.row("lock");
    assert!(row.text("/culprit/doing").contains("sleep"), "{:#}", row.0);
}

#[test]
fn a_process_that_ends_midway_leaves_its_findings() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth");
    let output = Command::new(highwater())
        .args(["stalls", "--json", "--duration", "60s", "--"])
        .arg(woven())
        .arg(log)
        .args(["4", "crowd", "hold=150"])
        .output()
        .unwrap();
    if output.status.code() == Some(4) {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["findings"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["cause"] == "lock"), "{found:#}");
}

#[test]
fn a_slow_calls_time_is_handed_out_whole_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (folded, flame, trace) = (file("folded"), file("flame.svg"), file("trace.json"));
    let more = [
        "--span",
        "end_span",
        "--threshold",
        "100ms",
        "--folded",
        &folded,
        "--flame",
        &flame,
        "--trace",
        &trace,
    ];
    let Some(seen) = watch_with(Mode::Ebpf, c("exporter"), &[], &more) else {
        return;
    };
    let slow = seen.found["requests"]["slow"].as_array().unwrap();
    assert!(!slow.is_empty(), "{:#}", seen.found["requests"]);
    let ns = |value: &Value| value["ns"].as_u64().unwrap();
    for call in slow {
        let went = call["went"].as_array().unwrap();
        let sum: u64 = went.iter().map(ns).sum();
        let parts_in_100 = sum * 100 / ns(call);
        assert!((98..=102).contains(&parts_in_100), "{call:#}");
    }
    assert_eq!(seen.found["requests"]["went"][0]["what"], "lock");
    let lines = fs::read_to_string(folded).unwrap();
    assert!(
        lines
            .lines()
            .any(|l| l.starts_with("lock;") && l.contains("end_span")),
        "{lines}"
    );
    assert!(fs::read_to_string(flame).unwrap().contains("end_span"));
    let trace: Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
    assert!(
        count("s") > 0 && count("s") == count("f"),
        "arrows have two ends"
    );
}

#[test]
#[ignore = "wants root and a Go compiler, and builds with it: make test-long"]
fn a_goroutine_that_holds_a_mutex_is_named() {
    let Some(service) = go("gomutex") else {
        return;
    };
    let Some(seen) = watch(Mode::Ebpf, service, &[]) else {
        return;
    };
    let row = seen.row("lock");
    assert_eq!(row.text("/culprit/function"), "main.shipSpans");
}

#[test]
fn a_process_that_is_not_there_and_one_that_ends_are_said_in_words() {
    let gone = Command::new(highwater())
        .args(["stalls", "--pid", "4194304"])
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(4));
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(words.contains("there is no process 4194304"), "{words}");
    let short = Command::new(highwater())
        .args(["stalls", "--json", "--", "sleep", "0.3"])
        .output()
        .unwrap();
    if short.status.code() == Some(4) {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&short.stderr));
        return;
    }
    assert_eq!(
        short.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&short.stderr)
    );
    let found: Value = serde_json::from_slice(&short.stdout).unwrap();
    assert_eq!(found["schema"], "highwater.stalls/1");
}

/// One watch of a service, and what its own log says of the same time.
struct Seen {
    found: Value,
    truth: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Row(Value);

impl Seen {
    /// Causes of rows whose longest stall is longer: a holder that a busy machine takes off its CPU
    /// for some milliseconds makes a short one of any service.
    fn longer_than(&self, ns: u64) -> Vec<String> {
        let rows = self.found["findings"].as_array().unwrap();
        let long = rows
            .iter()
            .filter(|row| row["longest_ns"].as_u64() > Some(ns));
        long.map(|row| row["cause"].as_str().unwrap().to_string())
            .collect()
    }

    /// The only row of that cause.
    fn row(&self, cause: &str) -> Row {
        let rows = self.found["findings"].as_array().unwrap();
        let mine: Vec<&Value> = rows.iter().filter(|row| row["cause"] == cause).collect();
        assert_eq!(
            mine.len(),
            1,
            "rows of {cause} in {:#}",
            self.found["findings"]
        );
        Row(mine[0].clone())
    }

    /// The log has stalled requests too. How well durations agree is measured in bench/stalls.
    fn agrees_with_the_truth(&self, row: &Row) {
        const HELD_NS: u64 = 400_000_000;
        assert!(!self.truth.is_empty(), "the service itself saw no stall");
        assert!(row.number("/total_ns") >= HELD_NS, "{:#}", row.0);
    }
}

impl Row {
    fn text(&self, path: &str) -> String {
        let value = self.0.pointer(path).and_then(Value::as_str);
        value
            .unwrap_or_else(|| panic!("{path} in {:#}", self.0))
            .to_string()
    }

    fn number(&self, path: &str) -> u64 {
        self.0.pointer(path).and_then(Value::as_u64).unwrap()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let values = self.0.pointer(path).and_then(Value::as_array).unwrap();
        values
            .iter()
            .map(|v| v.as_str().unwrap().to_string())
            .collect()
    }
}

fn highwater() -> &'static str {
    env!("CARGO_BIN_EXE_highwater")
}

/// `None`, with the reason printed, when this machine does not allow the mode.
fn watch(mode: Mode, service: PathBuf, flags: &[&str]) -> Option<Seen> {
    watch_with(mode, service, flags, &[])
}

/// As [`watch`], with more words on the command line.
fn watch_with(mode: Mode, service: PathBuf, flags: &[&str], more: &[&str]) -> Option<Seen> {
    let word = match mode {
        Mode::Ebpf => "ebpf",
        Mode::Tracepoints => "tracepoints",
        Mode::Rootless => "rootless",
    };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth");
    let child = Command::new(service)
        .arg(&log)
        .arg("12")
        .args(flags)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = Ended(child);
    sleep(Duration::from_millis(800));
    let pid = child.0.id().to_string();
    let output = Command::new(highwater())
        .args([
            "stalls",
            "--json",
            "--duration",
            "5s",
            "--mode",
            word,
            "--pid",
            &pid,
        ])
        .args(more)
        .output()
        .unwrap();
    drop(child);
    if output.status.code() == Some(4) {
        eprintln!(
            "SKIPPED mode {word}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return None;
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(Seen {
        found: serde_json::from_slice(&output.stdout).unwrap(),
        truth: parse_truth(&fs::read_to_string(log).unwrap()),
    })
}

/// "stall THREAD START_NS END_NS"; a last line that the end cut off is no line.
fn parse_truth(text: &str) -> Vec<(u64, u64)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn services() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stalls/services")
}

/// Where the services are built, once for all tests.
fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stalls");
        fs::create_dir_all(&folder).unwrap();
        folder
    })
}

fn c(name: &str) -> PathBuf {
    compiled(name, &services().join(format!("{name}.c")))
}

/// The service of the benchmark with locks of many kinds.
fn woven() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    compiled("weave", &root.join("bench/stalls/services/weave.c"))
}

fn compiled(name: &str, source: &Path) -> PathBuf {
    let program = built().join(format!("{name}-{:?}", std::thread::current().id()));
    let status = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "{}", source.display());
    program
}

fn rust(name: &str) -> Option<PathBuf> {
    let program = built().join(name);
    let status = Command::new("rustc")
        .args(["--edition", "2024", "-O", "-g", "-o"])
        .args([&program, &services().join(format!("{name}.rs"))])
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        other => {
            eprintln!("SKIPPED: rustc: {other:?}");
            None
        }
    }
}

fn go(name: &str) -> Option<PathBuf> {
    let program = built().join(name);
    let status = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &services().join(name).join("main.go")])
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        other => {
            eprintln!("SKIPPED: go: {other:?}");
            None
        }
    }
}

//! What a watch does to the process that it watches, to its children and to others: breakpoints, CPU time, budgets.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bpf::allowed::Allowed;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::watched::{Ended, attached, c, go, highwater, two_pairs};
use testkit::skipped;

/// Bytes of `serve` that are compared.
const CODE_BYTES: usize = 24;
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that calls `serve` all the time.
struct Spanned {
    child: Ended,
    output: PathBuf,
    _folder: tempfile::TempDir,
}

impl Spanned {
    fn start(rest_us: &str) -> Spanned {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let child = Command::new(c("spanned"))
            .arg(rest_us)
            .stdout(fs::File::create(&output).unwrap())
            .spawn()
            .unwrap();
        Spanned {
            child: Ended(child),
            output,
            _folder: folder,
        }
    }

    fn pid(&self) -> u32 {
        self.child.0.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The number behind a word that it printed.
    fn printed(&self, word: &str) -> u64 {
        let found = || {
            let text = fs::read_to_string(&self.output).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(word));
            line.and_then(|number| number.trim().parse().ok())
        };
        until(word, || found().is_some());
        found().unwrap()
    }

    /// `serve` as it is in the memory of a process, which has it at the same place.
    fn code_of(&self, pid: u32) -> [u8; CODE_BYTES] {
        let mut code = [0; CODE_BYTES];
        let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
        memory
            .read_exact_at(&mut code, self.printed("serve"))
            .unwrap();
        code
    }

    /// What it printed last, and how it ended.
    fn end(mut self) -> (String, Option<i32>) {
        self.signal(Signal::TERM);
        let status = self.child.0.wait().unwrap();
        let text = fs::read_to_string(&self.output).unwrap();
        (text.lines().last().unwrap_or("").to_string(), status.code())
    }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        sleep(Duration::from_millis(5));
    }
}

fn watch_serve(pid: u32, seconds: &str, budget: &str) -> Child {
    let words = ["stalls", "--json", "--mode", "ebpf", "--span", "serve"];
    let mut command = Command::new(highwater());
    command.args(words).args(["--duration", seconds]);
    command.args(["--budget", budget, "--pid", &pid.to_string()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn found(watch: Child) -> Value {
    let output = watch.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn may_probe() -> bool {
    let allowed = Allowed::try_all();
    let refused = allowed.bpf.err().or(allowed.uprobes.err());
    if let Some(refused) = &refused {
        skipped(&format!("no breakpoints: {refused}"));
    }
    refused.is_none()
}

fn item<'a>(overhead: &'a Value, name: &str) -> &'a Value {
    let items = overhead["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {overhead:#}"))
}

#[test]
fn breakpoints_are_in_the_watched_process_alone_and_children_lose_them() {
    if !may_probe() {
        return;
    }
    let (watched, other) = (Spanned::start("1000"), Spanned::start("1000"));
    let (plain, plain_of_other) = (watched.code_of(watched.pid()), other.code_of(other.pid()));
    let watch = watch_serve(watched.pid(), "8s", "50");
    until("a breakpoint", || watched.code_of(watched.pid()) != plain);
    if cfg!(target_arch = "x86_64") {
        assert!(watched.code_of(watched.pid()).contains(&0xcc));
    }
    assert_eq!(other.code_of(other.pid()), plain_of_other, "the same file");
    watched.signal(Signal::USR1);
    let calling = watched.printed("calling") as u32;
    let waiting = watched.printed("waiting") as u32;
    assert_ne!(watched.code_of(waiting), plain, "copied by the fork");
    // The first hit of each takes it out.
    until("a child's own code", || watched.code_of(calling) == plain);
    assert_ne!(watched.code_of(watched.pid()), plain, "still watched");
    let found = found(watch);
    for pid in [watched.pid(), waiting, calling] {
        assert_eq!(watched.code_of(pid), plain, "taken out at the end: {pid}");
    }
    let overhead = &found["overhead"];
    let uprobes = item(overhead, "uprobes of --span");
    assert!(uprobes["events"].as_u64() > Some(100), "{uprobes}");
    let changes = &overhead["breakpoint_changes"];
    assert!(changes["count"].as_u64() > Some(2), "{overhead:#}");
    assert!(changes["longest_ns"].as_u64() > Some(0), "{overhead:#}");
    assert!(overhead["stopped"].is_null(), "{overhead:#}");
    assert_eq!(other.end(), ("done 0 0".to_string(), Some(7)));
    // wait(2)'s words for exit statuses 3 and 4.
    assert_eq!(watched.end(), ("done 768 1024".to_string(), Some(7)));
}

#[test]
fn a_span_that_costs_more_than_the_budget_comes_off_and_the_watch_goes_on() {
    if !may_probe() {
        return;
    }
    let busy = Spanned::start("0");
    let plain = busy.code_of(busy.pid());
    // The scheduler programs of a busy machine stay below this, and the calls are far above it.
    let watch = watch_serve(busy.pid(), "6s", "2");
    until("a breakpoint", || busy.code_of(busy.pid()) != plain);
    until("the end of it", || busy.code_of(busy.pid()) == plain);
    let found = found(watch);
    let overhead = &found["overhead"];
    let stopped = &overhead["stopped"];
    assert_eq!(stopped["mechanism"], "--span", "{overhead:#}");
    assert_eq!(stopped["mostly"], "uprobes of --span", "{overhead:#}");
    assert!(stopped["cost_share"].as_f64() > overhead["budget_share"].as_f64());
    assert!(stopped["after_s"].as_f64() < Some(5.0), "{overhead:#}");
    let watched_ns = found["self_checks"]["watched_ns"].as_u64();
    assert!(watched_ns > Some(5_900_000_000), "{watched_ns:?}");
    assert!(item(overhead, "uprobes of --span")["events"].as_u64() > Some(1_000));
    assert_eq!(busy.end(), ("done 0 0".to_string(), Some(7)));
}

/// The address to which a call returns is the program's: a span that has begun may never end.
#[test]
fn a_function_that_is_left_by_a_throw_a_jump_or_a_switch_is_left_as_without_a_span() {
    const LEFT: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/explain/subjects/left.cpp"
    );
    if !may_probe() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("left");
    let built = Command::new("g++")
        .args(["-O1", LEFT, "-o"])
        .arg(&program)
        .output();
    if !built.is_ok_and(|output| output.status.success()) {
        return skipped("g++ is missing");
    }
    for way in ["throw", "jump", "switch"] {
        let start = || {
            let mut command = Command::new(&program);
            command.args([way, "1000"]).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        let alone = start().wait_with_output().unwrap();
        let watched = start();
        let words = ["stalls", "--json", "--mode", "ebpf", "--span", "mi_malloc"];
        let mut watch = Command::new(highwater());
        watch.args(words).args(["--duration", "1500ms", "--pid"]);
        let found = watch.arg(watched.id().to_string()).output().unwrap();
        let watched = watched.wait_with_output().unwrap();
        assert_eq!(watched, alone, "{way}");
        assert!(alone.status.success(), "{way}: {alone:?}");
        let found: Value = serde_json::from_slice(&found.stdout).unwrap();
        let uprobes = item(&found["overhead"], "uprobes of --span");
        assert!(uprobes["events"].as_u64() > Some(1_000), "{way}: {uprobes}");
    }
}

/// perf records each switch of a thread, and that costs the thread something.
#[test]
fn what_perf_records_is_counted_and_held_against_the_budget() {
    for mode in ["rootless", "tracepoints"] {
        let mut service = two_pairs();
        let Some(found) = attached(mode, service.0.id(), &["--budget", "100"]) else {
            continue;
        };
        let overhead = &found["overhead"];
        let switches = item(overhead, "recorded switches");
        assert!(switches["events"].as_u64() > Some(1_000), "{overhead:#}");
        assert_eq!(overhead["unmeasured"].as_array().map(Vec::len), Some(0));
        if mode == "tracepoints" {
            let wakings = item(overhead, "recorded wakings");
            assert!(wakings["cpu_s"].as_f64() > Some(0.0), "{overhead:#}");
        }
        let Some(found) = attached(mode, service.0.id(), &["--budget", "0.000001"]) else {
            continue;
        };
        let overhead = &found["overhead"];
        let stopped = &overhead["stopped"];
        assert_eq!(stopped["mechanism"], "the watch", "{overhead:#}");
        assert_eq!(stopped["mostly"], "recorded events", "{overhead:#}");
        let watched_ns = found["self_checks"]["watched_ns"].as_u64();
        assert!(
            watched_ns < Some(4_000_000_000),
            "of five seconds: {watched_ns:?}"
        );
        assert!(service.0.try_wait().unwrap().is_none(), "it goes on");
    }
}

/// Where its scheduler's functions are is read from its own tables, and a breakpoint at a wrong place would break it.
#[test]
fn a_go_program_without_symbols_computes_the_same_while_it_is_watched() {
    if !may_probe() {
        return;
    }
    let Some(program) = go("gochecksum", &["-ldflags=-s -w"]) else {
        return;
    };
    let ends = |watch: Option<&str>| {
        let mut command = Command::new(&program);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        let words = ["--json", "--duration", "3s", "--pid"];
        let watch = watch.map(|watch| {
            let mut command = Command::new(highwater());
            command.arg(watch).args(words).arg(child.id().to_string());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        });
        let seen = watch.map(found);
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        ((printed, output.status.code()), seen)
    };
    let (alone, _) = ends(None);
    assert!(
        alone.0.starts_with("ready") && alone.1 == Some(7),
        "{alone:?}"
    );
    let (watched, seen) = ends(Some("stalls"));
    assert_eq!(watched, alone);
    let overhead = &seen.unwrap()["overhead"];
    assert!(
        overhead.to_string().contains("Go's scheduler"),
        "{overhead:#}"
    );
    let (explained, seen) = ends(Some("explain"));
    assert_eq!(explained, alone);
    assert!(!seen.unwrap()["uprobes"].is_null());
}

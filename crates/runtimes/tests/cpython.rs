//! The reader of CPython's heap against real interpreters: 3.8 to 3.14, those that are installed, 3.14 also of
//! `make runtimes`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use runtimes::cpython::{self, CPython};
use runtimes::{Holder, Kept, Limits, ManagedHeap, Snapshot, Touch};
use testkit::{python as interpreter, skipped};

const LIMITS: Limits = Limits {
    time: Duration::from_secs(120),
    bytes: 512 << 20,
    pause: Duration::ZERO,
};

/// A program of ours that runs.
struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// With the lines that it printed before `end`.
    fn start(python: &PathBuf, file: &str) -> (Program, Vec<String>) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpython/");
        let mut child = Command::new(python)
            .arg(format!("{folder}{file}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut program = Program {
            child,
            input,
            output: BufReader::new(output),
        };
        let mut lines = Vec::new();
        loop {
            match program.line() {
                line if line == "end" || line.is_empty() => return (program, lines),
                line => lines.push(line),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// What it computes when it is asked.
    fn ask(&mut self) -> String {
        self.input.write_all(b"go on\n").unwrap();
        self.line()
    }

    fn heap(&self) -> CPython {
        cpython::open(self.child.id())
            .expect("it is Python")
            .expect("it can be read")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count<'a>(snapshot: &'a Snapshot, name: &str) -> &'a runtimes::TypeCount {
    let found = snapshot.types.iter().find(|count| count.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", snapshot.types))
}

fn check_kinds(python: &PathBuf, minor: u8) {
    let (mut program, printed) = Program::start(python, "kinds.py");
    let expected = program.ask();
    let mut heap = program.heap();
    assert!(
        heap.runtime().starts_with(&format!("CPython 3.{minor}")),
        "{}",
        heap.runtime()
    );
    assert_eq!((heap.touch(), heap.warning()), (Touch::Reads, None));
    let snapshot = heap.snapshot(&LIMITS).unwrap();
    assert!(printed.len() >= 20, "{printed:?}");
    for line in &printed {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, objects, bytes] = words[..] else {
            panic!("{line}");
        };
        let (objects, bytes): (u64, u64) = (objects.parse().unwrap(), bytes.parse().unwrap());
        let found = count(&snapshot, &format!("__main__.{name}"));
        assert_eq!(found.objects, objects, "{name}");
        let share = found.bytes as f64 / bytes as f64;
        assert!(
            bytes == 0 || (0.95..1.05).contains(&share),
            "{name}: {} for {bytes}",
            found.bytes
        );
    }
    let size = snapshot.heap.as_ref().unwrap();
    assert!(
        size.used_bytes > 1 << 20 && size.collections.is_some_and(|count| count > 0),
        "{size:?}"
    );
    assert!(
        snapshot
            .missing
            .iter()
            .any(|missing| missing.contains("disabled")),
        "{:?}",
        snapshot.missing
    );
    check_holders(&mut heap);
    assert_eq!(program.ask(), expected, "the program goes on as before");
}

fn check_holders(heap: &mut CPython) {
    let names = [
        "Order", "Slots", "Point", "Blob", "Page", "Job", "Row", "Item", "Text", "Local", "Lost",
    ];
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("__main__.{name}"))
        .collect();
    let holders = heap.holders(&names, &LIMITS);
    let of = |name: &str| -> &Holder {
        let full = format!("__main__.{name}");
        holders
            .iter()
            .find(|holder| holder.type_name == full)
            .unwrap_or_else(|| panic!("{name}: {holders:#?}"))
    };
    let check = |name: &str, path: &str, user: &str| {
        let holder = of(name);
        let path_text = holder.path.join(" | ");
        assert!(path_text.contains(path), "{name}: {path_text}");
        assert!(
            holder.objects * 10 >= holder.asked * 9 && holder.asked > 0,
            "{holder:?}"
        );
        let first = holder.users.first().map_or("", String::as_str);
        assert!(first.starts_with(user), "{name}: {:?}", holder.users);
    };
    check("Order", "module __main__ | .ORDERS (list)", "place (");
    check("Slots", "module __main__ | .SLOTS (list)", "fill (");
    check("Point", "module __main__ | .POINTS (dict)", "fill (");
    check("Blob", "module __main__ | .CACHE (dict)", "remember (");
    check(
        "Page",
        "module __main__ | .SHOP (__main__.Shop) | .sessions (dict)",
        "Shop.open (",
    );
    check(
        "Job",
        "function __main__.make_handler.<locals>.handle | closure variable kept (list)",
        "make_handler",
    );
    check(
        "Row",
        "functools.lru_cache of __main__.compute",
        "compute (",
    );
    check(
        "Item",
        "module __main__ | .QUEUE (collections.deque)",
        "fill (",
    );
    check(
        "Text",
        "module __main__ | .GROUPS (dict) | […] (list)",
        "fill (",
    );
    check("Local", "running | local variable mine (list)", "work (");
    check("Lost", "only reference cycles keep them", "");
}

fn check_busy(python: &PathBuf) {
    let (mut program, _) = Program::start(python, "busy.py");
    let mut heap = program.heap();
    let first = heap.snapshot(&LIMITS).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let second = heap.snapshot(&LIMITS).unwrap();
    let kept = |snapshot: &Snapshot| count(snapshot, "__main__.Kept").objects;
    assert!(
        kept(&first) >= 5_000 && kept(&second) > kept(&first),
        "{} {}",
        kept(&first),
        kept(&second)
    );
    let holders = heap.holders(&["__main__.Kept".to_owned()], &LIMITS);
    let largest = holders.first().unwrap();
    assert_eq!(
        largest.path,
        ["module __main__", ".SESSIONS (dict)"],
        "{holders:?}"
    );
    assert!(largest.objects * 10 >= largest.asked * 9, "{holders:?}");
    assert!(
        largest
            .users
            .first()
            .is_some_and(|user| user.starts_with("remember (")),
        "{holders:?}"
    );
    let collections = |snapshot: &Snapshot| snapshot.heap.as_ref().unwrap().collections.unwrap();
    assert!(collections(&second) > collections(&first));
    assert_eq!(program.ask(), (0..5_000_u64).sum::<u64>().to_string());
    assert!(program.child.wait().unwrap().success());
}

fn check_waiting(python: &PathBuf) {
    let (mut program, printed) = Program::start(python, "waiting.py");
    let mut heap = program.heap();
    let snapshot = heap.snapshot(&LIMITS).unwrap();
    let mut expected = vec![
        (
            "Payload",
            300,
            ".ERRORS (list) | […] (ValueError) |",
            "local variable payload",
        ),
        (
            "Buffered",
            200,
            ".TASKS (set) | […] (_asyncio.Task) |",
            "local variable buffer (list)",
        ),
        ("Frozen", 400, "module __main__ | .FROZEN (list)", ""),
        (
            "Captured",
            250,
            ".CALLBACKS (list) | […] (function __main__.make_callback",
            "closure variable captured",
        ),
        (
            "Chained",
            30_000,
            ".HEAD (__main__.Chained) | .following (__main__.Chained) | …",
            ".following",
        ),
    ];
    if printed == ["interpreters"] {
        expected.push(("Inner", 777, "module __main__ | .KEPT (list)", ""));
    }
    let name = |short: &str| format!("__main__.{short}");
    let names: Vec<String> = expected.iter().map(|(short, ..)| name(short)).collect();
    let holders = heap.holders(&names, &LIMITS);
    for (short, objects, start, end) in expected {
        assert_eq!(count(&snapshot, &name(short)).objects, objects, "{short}");
        let holder = holders
            .iter()
            .find(|holder| holder.type_name == name(short));
        let path = holder
            .map(|holder| holder.path.join(" | "))
            .unwrap_or_default();
        assert!(
            path.contains(start) && path.contains(end),
            "{short}: {path}"
        );
    }
    assert_eq!(program.ask(), "200");
}

/// Native code that loses a reference for each object, and native code that keeps one table.
fn check_lost(python: &PathBuf) {
    let (program, _) = Program::start(python, "lost.py");
    let mut heap = cpython::open(program.child.id()).unwrap().unwrap();
    heap.snapshot(&LIMITS).unwrap();
    let types = ["__main__.Value".to_owned(), "__main__.Kept".to_owned()];
    let found = heap.holders(&types, &LIMITS);
    let of = |name: &str| {
        found
            .iter()
            .find(|holder| holder.type_name == name)
            .unwrap()
    };
    let (lost, kept) = (of("__main__.Value"), of("__main__.Kept"));
    assert_eq!(
        (lost.kept, kept.kept),
        (Kept::Native, Kept::Path),
        "{found:?}"
    );
    assert!(
        lost.path[0].contains("different objects hold them, each a dict"),
        "{lost:?}"
    );
    assert!(
        kept.path[0].starts_with("dict, which native code refers to"),
        "{kept:?}"
    );
}

fn with(minor: u8, check: impl Fn(&PathBuf)) {
    match interpreter(minor) {
        Some(python) => check(&python),
        None => skipped(&format!("python3.{minor} is missing")),
    }
}

macro_rules! versions {
    ($($minor:literal: $kinds:ident, $busy:ident, $waiting:ident;)*) => {
        $(
            #[test]
            fn $kinds() {
                with($minor, |python| check_kinds(python, $minor));
            }

            #[test]
            fn $busy() {
                with($minor, check_busy);
            }

            #[test]
            fn $waiting() {
                with($minor, check_waiting);
            }
        )*
    };
}

versions! {
    8: kinds_of_objects_in_3_8, while_3_8_is_busy, frames_in_3_8;
    9: kinds_of_objects_in_3_9, while_3_9_is_busy, frames_in_3_9;
    10: kinds_of_objects_in_3_10, while_3_10_is_busy, frames_in_3_10;
    11: kinds_of_objects_in_3_11, while_3_11_is_busy, frames_in_3_11;
    12: kinds_of_objects_in_3_12, while_3_12_is_busy, frames_in_3_12;
    13: kinds_of_objects_in_3_13, while_3_13_is_busy, frames_in_3_13;
    14: kinds_of_objects_in_3_14, while_3_14_is_busy, frames_in_3_14;
}

#[test]
fn what_native_code_lost_is_no_table_that_it_keeps() {
    for minor in 8..=14 {
        with(minor, check_lost);
    }
}

/// An interpreter that is linked into the program and stripped, as Debian has it.
#[test]
fn an_interpreter_of_the_system() {
    let python = PathBuf::from("/usr/bin/python3");
    let version = Command::new(&python).arg("-V").output();
    let version = version
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let minor = version
        .strip_prefix("Python 3.")
        .and_then(|rest| rest.split('.').next()?.parse().ok());
    match minor.filter(|minor| (8..=14).contains(minor)) {
        Some(minor) => check_kinds(&python, minor),
        None => skipped("/usr/bin/python3 is missing, or of another version"),
    }
}

#[test]
fn limits_are_kept_and_reported() {
    with(11, |python| {
        let (program, _) = Program::start(python, "kinds.py");
        let mut heap = program.heap();
        let short = Limits {
            time: Duration::from_millis(1),
            ..LIMITS
        };
        let snapshot = heap.snapshot(&short).unwrap();
        assert!(
            snapshot.cost.reading < Duration::from_secs(5),
            "{:?}",
            snapshot.cost
        );
        assert!(
            snapshot
                .missing
                .iter()
                .any(|missing| missing.contains("time limit")),
            "{:?}",
            snapshot.missing
        );
        let small = Limits {
            bytes: 1 << 20,
            ..LIMITS
        };
        let snapshot = heap.snapshot(&small).unwrap();
        assert!(
            snapshot
                .missing
                .iter()
                .any(|missing| missing.contains("memory limit")),
            "{:?}",
            snapshot.missing
        );
    });
}

#[test]
fn what_is_no_python_or_is_gone() {
    assert!(cpython::open(std::process::id()).is_none());
    with(11, |python| {
        let (mut program, _) = Program::start(python, "kinds.py");
        let mut heap = program.heap();
        program.child.kill().unwrap();
        program.child.wait().unwrap();
        assert_eq!(heap.snapshot(&LIMITS).unwrap_err(), runtimes::Error::Gone);
        assert!(heap.holders(&["dict".to_owned()], &LIMITS).is_empty());
    });
}

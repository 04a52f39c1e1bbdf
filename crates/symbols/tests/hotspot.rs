//! Stacks of waiting threads of real JVMs, in interpreted and in compiled code, while the program goes on.

#![cfg(target_arch = "x86_64")]

mod waiting;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use symbols::hotspot::{JavaMethods, is_java};
use symbols::unwind::Stacks;
use testkit::java::{Jdk, jdks};
use waiting::waiting;

const MODES: [&str; 4] = [
    "-Xint",
    "-XX:TieredStopAtLevel=1",
    "-XX:-TieredCompilation",
    "-XX:+TieredCompilation",
];
const LOCK: &str = "java.util.concurrent.locks.ReentrantLock.lock";
/// A thread's name, functions of which each of its waits is in one, and one that each is in. The holder of a lock waits
/// for it as well where the other thread got its turn.
const EXPECTED: [(&str, &[&str], &str); 5] = [
    ("holds", &["Waits.pause", LOCK], "Waits.holdsLock"),
    ("takes", &[LOCK], "Waits.takesLock"),
    ("monitor0", &[""], "Waits.inMonitor"),
    ("monitor1", &[""], "Waits.inMonitor"),
    ("deep", &["Waits.deeply"], "Waits.lambda$main$"),
];

/// The Java functions of a thread, innermost first, if it waited at one place meanwhile.
fn functions(
    stacks: &mut Stacks,
    methods: &mut JavaMethods,
    pid: u32,
    tid: &str,
) -> Option<Vec<String>> {
    let before = waiting(pid, tid.parse().ok()?)?;
    let addresses = stacks.of_blocked_without_fp(before);
    if waiting(pid, tid.parse().ok()?) != Some(before) {
        return None;
    }
    let java = addresses.iter().filter(|address| is_java(**address));
    let named = java.filter_map(|address| methods.at(pid, *address));
    Some(
        named
            .map(|frame| {
                format!(
                    "{}:{}",
                    frame.function.unwrap_or_default(),
                    frame.line.unwrap_or(0)
                )
            })
            .collect(),
    )
}

fn check(jdk: &Jdk, folder: &Path, mode: &str) {
    let mut program = Command::new(&jdk.java)
        .args(["-Xmx64m", mode, "-cp"])
        .arg(folder)
        .arg("Waits")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim(), "ready", "{:?} {mode}", jdk.java);
    let pid = program.id();
    let (mut stacks, mut methods) = (Stacks::new(pid), JavaMethods::default());
    assert!(stacks.reads_managed(), "{:?}", jdk.java);
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let tasks: Vec<String> = tasks
        .map(|task| task.file_name().to_string_lossy().into_owned())
        .collect();
    for (name, inner, outer) in EXPECTED {
        let is_it = |tid: &&String| {
            fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))
                .is_ok_and(|comm| comm.trim() == name)
        };
        let tid = tasks.iter().find(is_it).unwrap_or_else(|| panic!("{name}"));
        let (mut seen, mut right, mut wrong) = (0, 0, Vec::new());
        for _ in 0..60 {
            if let Some(found) = functions(&mut stacks, &mut methods, pid, tid) {
                let has = |name: &str| found.iter().any(|function| function.starts_with(name));
                let is_right = inner.iter().any(|name| has(name)) && has(outer);
                seen += 1;
                right += usize::from(is_right);
                if !is_right {
                    wrong = found;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        eprintln!("{:?} {mode} {name}: {right} of {seen}", jdk.java);
        assert!(seen > 20, "{name}: {seen}");
        assert!(
            right * 20 >= seen * 19,
            "{:?} {mode} {name}: {right} of {seen}, {wrong:?}",
            jdk.java
        );
    }
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

#[test]
fn java_functions_of_waiting_threads() {
    let folder = tempfile::tempdir().unwrap();
    for jdk in jdks() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotspot/Waits.java");
        let compiled = Command::new(&jdk.javac)
            .args(["-Xlint:none", "--release", "11", "-d"])
            .arg(folder.path())
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        for mode in MODES {
            check(&jdk, folder.path(), mode);
        }
    }
}

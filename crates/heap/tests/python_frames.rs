//! Uprobes on the allocator of programs in Python: samples have the functions of Python and their lines, in every
//! version that is installed, in long threads and short ones, and after a fork.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bpf::allowed::Allowed;
use heap::family::Member;
use heap::probe::{ProbeSnapshot, python_number};
use heap::{HeapReader, Uprobes};
use observe::proc::{ProcRoot, read_start_ticks};
use testkit::{pythons, skipped};

/// A program of ours that runs, and the process of it that is looked at.
struct Program {
    child: Child,
    pid: u32,
}

impl Program {
    /// Under a command, which may be empty.
    fn start(under: &[&str], python: &Path, words: &[&str]) -> Program {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_frames/keeps.py");
        let all = under.iter().map(OsStr::new);
        let all = all.chain([python.as_os_str(), OsStr::new(file)]);
        let mut all = all.chain(words.iter().map(OsStr::new));
        let mut child = Command::new(all.next().unwrap())
            .args(all)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        Program { child, pid }
    }

    /// What uprobes tell after some seconds.
    fn account(&self) -> ProbeSnapshot {
        let root = ProcRoot::default();
        let pid = self.pid as i32;
        let member = Member {
            pid,
            start_ticks: read_start_ticks(&root, pid).unwrap(),
            parent: 1,
        };
        let mut reader = HeapReader::open(&root, member).unwrap();
        reader.uprobes = Uprobes::Wanted {
            at_start: false,
            share: 0.2,
        };
        reader.snapshot().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        let snapshot = reader.snapshot().unwrap();
        if let Uprobes::Refused(why) = &reader.uprobes {
            panic!("{why}");
        }
        snapshot.probe.unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.pid != self.child.id() {
            let pid = rustix::process::Pid::from_raw(self.pid as i32).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of the blocks of a size: the stack of Python of each, as `function:line`, innermost first.
fn stacks(account: &ProbeSnapshot, bytes: u64) -> Vec<Vec<String>> {
    let written = |address: &u64| {
        let frame = &account.python[python_number(*address)?];
        let (function, line) = (frame.function.as_deref()?, frame.line?);
        Some(format!("{function}:{line}"))
    };
    let blocks = account.blocks.iter();
    let blocks = blocks.filter(|block| block.requested_bytes == bytes);
    let site = |stack: &u64| &account.stacks[stack].addresses;
    blocks
        .map(|block| site(&block.stack).iter().filter_map(written).collect())
        .collect()
}

/// At least so large a share of the blocks of a size has such a stack.
fn check(account: &ProbeSnapshot, bytes: u64, share: f64, expected: &[&str], what: &str) {
    let all = stacks(account, bytes);
    let is_right = |stack: &Vec<String>| {
        expected.len() <= stack.len() && stack.iter().zip(expected).all(|(is, to_be)| is == to_be)
    };
    let wrong = all.iter().find(|stack| !is_right(stack));
    let found = all.iter().filter(|stack| is_right(stack)).count() as f64 / all.len() as f64;
    eprintln!("{what}: {bytes} bytes: {found:.3} of {}", all.len());
    assert!(all.len() >= 5, "{what}: {} samples of {bytes}", all.len());
    assert!(found >= share, "{what}: {found} of {bytes}: {wrong:?}");
}

fn check_all(program: &Program, minor: u8, what: &str) {
    let account = program.account();
    let what = format!("3.{minor} {what}");
    let method = if minor < 11 { "handle" } else { "Store.handle" };
    let (handle, main) = (format!("{method}:21"), "main:67");
    let deep = ["keep:16", "deep:28"].into_iter().chain(["deep:30"; 18]);
    let deep: Vec<&str> = deep.collect();
    check(
        &account,
        50_021,
        1.0,
        &["keep:16", &handle, "turn:49", main],
        &what,
    );
    check(&account, 60_021, 1.0, &deep, &what);
    check(
        &account,
        70_021,
        1.0,
        &["keep:16", "each:34", "turn:51"],
        &what,
    );
    check(
        &account,
        80_021,
        1.0,
        &["keep:16", "in_a_long_thread:40"],
        &what,
    );
    // The thread may have ended with its state, or its number be with the next one.
    check(
        &account,
        90_021,
        0.95,
        &["keep:16", "in_a_short_thread:45"],
        &what,
    );
    // The code object of what `exec` runs may be gone, or another one be in its place: then it is left out.
    check(&account, 100_021, 0.9, &["keep:16"], &what);
    let most = account.stacks.values().map(|site| {
        let python = site.addresses.iter().filter_map(|at| python_number(*at));
        python.count()
    });
    assert!(most.max() <= Some(bpf::python::FRAMES), "{what}");
}

/// The interpreters that are installed, the oldest first; none, with a line, where uprobes cannot be.
fn installed() -> Vec<(u8, PathBuf)> {
    let allowed = Allowed::try_all();
    let pythons = pythons(8..=14);
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        skipped("uprobes with programs on them need root");
        return Vec::new();
    }
    if pythons.is_empty() {
        skipped("no python3 is here");
    }
    pythons
}

/// Those of each of the two ways to find a thread's number: the last version of one, the newest of the other.
fn of_each_way() -> Vec<(u8, PathBuf)> {
    let all = installed();
    let (before, since): (Vec<_>, Vec<_>) = all.into_iter().partition(|(minor, _)| *minor <= 10);
    [before.into_iter().last(), since.into_iter().last()]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn samples_have_the_functions_of_python_and_their_lines() {
    for (minor, python) in installed() {
        let program = Program::start(&[], &python, &[]);
        check_all(&program, minor, "");
    }
}

#[test]
fn after_a_fork_too() {
    for (minor, python) in of_each_way() {
        let program = Program::start(&[], &python, &["fork"]);
        check_all(&program, minor, "after a fork");
    }
}

/// Threads have other numbers there.
#[test]
fn in_a_namespace_of_processes_too() {
    for (minor, python) in of_each_way() {
        let mut program = Program::start(&["unshare", "-pf"], &python, &[]);
        assert_eq!(program.pid, 1, "the first of its namespace");
        let parent = program.child.id();
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        program.pid = children.unwrap().trim().parse().unwrap();
        check_all(&program, minor, "in a namespace");
    }
}

//! Stacks of waiting main threads of real Nodes, in interpreted and in compiled code, while the program goes on.

#![cfg(target_arch = "x86_64")]

mod waiting;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use symbols::unwind::Stacks;
use symbols::v8::{is_javascript, named};
use testkit::skipped;
use waiting::waiting;

/// Interpreted, baseline code, and as it comes: optimised, with functions inlined.
const MODES: [&str; 3] = ["--no-opt", "--always-sparkplug", "--opt"];
/// What the program does, and functions that are then on its stack, outer ones later.
const WAYS: [(&str, &[&str]); 8] = [
    ("byMap", &["pause", "inCallback", "byMap", "again"]),
    (
        "byConstructor",
        &["pause", "Store", "byConstructor", "again"],
    ),
    ("byGetter", &["pause", "get size", "byGetter", "again"]),
    (
        "byMethod",
        &["pause", "save", "save", "save", "save", "byMethod"],
    ),
    (
        "byGenerator",
        &["pause", "generate", "next", "byGenerator", "again"],
    ),
    (
        "byInferred",
        &["pause", "exported.handle", "byInferred", "again"],
    ),
    (
        "bySort",
        &["pause", "waits.js:66", "sort", "bySort", "again"],
    ),
    (
        "byReplace",
        &["pause", "waits.js:72", "replace", "byReplace", "again"],
    ),
];

fn nodes() -> Vec<PathBuf> {
    let fetched = ["node18", "node22", "node24"];
    let fetched = fetched.map(|version| testkit::fetched(version, "bin/node"));
    let installed = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&installed)
        .map(|folder| folder.join("node"))
        .find(|path| path.is_file());
    fetched.into_iter().flatten().chain(installed).collect()
}

/// The functions of JavaScript on its stack, innermost first, if it waited at one place meanwhile.
fn functions(stacks: &mut Stacks, pid: u32) -> Option<Vec<String>> {
    let before = waiting(pid, pid)?;
    let addresses = stacks.of_blocked_without_fp(before);
    if waiting(pid, pid) != Some(before) {
        return None;
    }
    let javascript = addresses.iter().filter(|address| is_javascript(**address));
    let names = javascript.filter_map(|address| named(*address));
    Some(names.filter_map(|frame| frame.function).collect())
}

fn contains(found: &[String], expected: &[&str]) -> bool {
    let mut found = found.iter();
    expected
        .iter()
        .all(|name| found.any(|function| function == name))
}

/// How many stacks were read, and how many of them were right.
fn check(node: &Path, mode: &str) -> (u32, u32) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/waits.js");
    let mut program = Command::new(node)
        .args([mode, script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut orders = program.stdin.take().unwrap();
    let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
    let pid = program.id();
    let mut stacks = Stacks::new(pid);
    let (mut all, mut all_right) = (0, 0);
    for (way, expected) in WAYS {
        orders.write_all(b"next\n").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), way);
        std::thread::sleep(Duration::from_millis(20));
        stacks.reload();
        assert!(stacks.reads_managed(), "{}", node.display());
        let (mut seen, mut right, mut wrong) = (0, 0, Vec::new());
        for _ in 0..40 {
            if let Some(found) = functions(&mut stacks, pid) {
                let is_right = contains(&found, expected);
                seen += 1;
                right += u32::from(is_right);
                if !is_right {
                    wrong = found;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if right < seen {
            let node = node.display();
            eprintln!("{node} {mode} {way}: {right} of {seen}, {wrong:?}");
        }
        assert!(
            right * 5 >= seen * 4,
            "{} {mode} {way}: {right} of {seen}",
            node.display()
        );
        assert!(seen > 10, "{} {mode} {way}: {seen}", node.display());
        all += seen;
        all_right += right;
    }
    orders.write_all(b"end\n").unwrap();
    assert!(
        program.wait().unwrap().success(),
        "{} {mode}",
        node.display()
    );
    (all, all_right)
}

#[test]
fn functions_of_javascript_stand_on_stacks() {
    let nodes = nodes();
    if nodes.is_empty() {
        return skipped("there is no node");
    }
    for node in nodes {
        let counts = MODES.map(|mode| check(&node, mode));
        let seen: u32 = counts.iter().map(|(seen, _)| seen).sum();
        let right: u32 = counts.iter().map(|(_, right)| right).sum();
        eprintln!("{}: {right} of {seen}", node.display());
        assert!(
            right * 20 >= seen * 19,
            "{}: {right} of {seen}",
            node.display()
        );
    }
}

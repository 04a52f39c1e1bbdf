//! Callers of hand-written code whose frame's end is kept in memory.

#![cfg(target_arch = "x86_64")]

mod waiting;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use symbols::unwind::Stacks;
use waiting::waiting;

#[test]
fn callers_of_code_that_aligns_its_stack_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("aligned");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/aligned.c");
    let built = Command::new("cc")
        .args(["-O1", "-fomit-frame-pointer", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(built.success());
    let mut child = Command::new(&program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let begins = line
        .split_whitespace()
        .map(|word| u64::from_str_radix(word, 16).unwrap());
    let begins: Vec<u64> = begins.collect();
    let pid = child.id();
    let mut stacks = Stacks::new(pid);
    let (mut seen, mut right) = (0, 0);
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(1));
        let Some(before) = waiting(pid, pid) else {
            continue;
        };
        let found = stacks.of_blocked(before);
        if waiting(pid, pid) != Some(before) {
            continue;
        }
        // Both functions are shorter than that.
        let calls = begins
            .iter()
            .zip(found.iter().skip(1))
            .all(|(begin, address)| (*begin..begin + 64).contains(address));
        seen += 1;
        right += u32::from(calls && found.len() > begins.len());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(seen >= 10, "{seen}");
    assert_eq!(right, seen);
}

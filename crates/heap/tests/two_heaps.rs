//! The C library's heap is watched where that is the one that grows, and the program goes on as if nobody watched.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bpf::allowed::Allowed;
use heap::family::Member;
use heap::linked::place::On;
use heap::{HeapReader, Uprobes};
use observe::proc::{ProcRoot, read_start_ticks};
use testkit::skipped;

/// Of those that `lose_record` asks for.
const RECORD_BYTES: u64 = 4_001;

#[test]
fn uprobes_go_over_to_the_heap_that_grows() {
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        return skipped("uprobes with programs on them need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("two_heaps");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/two_heaps.c");
    let mut compiler = Command::new("cc");
    let built = compiler
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let root = ProcRoot::default();
    let pid = child.id() as i32;
    let member = Member {
        pid,
        start_ticks: read_start_ticks(&root, pid).unwrap(),
        parent: 1,
    };
    let mut reader = HeapReader::open(&root, member).unwrap();
    reader.uprobes = Uprobes::Wanted {
        at_start: false,
        share: 0.05,
    };
    let first = reader.snapshot().unwrap().probe.unwrap();
    assert_eq!(first.traps.unwrap().on, On::Program);
    let mut changes = 0;
    for _ in 0..16 {
        std::thread::sleep(Duration::from_millis(500));
        changes += u32::from(reader.snapshot().unwrap().watched_anew);
    }
    assert_eq!(changes, 1, "once, within 8 s");
    let account = reader.snapshot().unwrap().probe.unwrap();
    assert_eq!(account.traps.unwrap().on, On::Glibc);
    let records = account
        .blocks
        .iter()
        .filter(|block| block.requested_bytes == RECORD_BYTES);
    assert!(records.count() >= 5, "{} blocks", account.blocks.len());
    drop(reader);
    child.stdin.take().unwrap().write_all(b"end\n").unwrap();
    assert_eq!(
        lines.next().unwrap().unwrap(),
        "1",
        "what it did is what it does alone"
    );
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

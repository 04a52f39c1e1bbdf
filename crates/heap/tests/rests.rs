//! What a sample stands for when probes rest at first and stay on later.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use bpf::allowed::Allowed;
use heap::family::Member;
use heap::probe::Block;
use heap::{HeapReader, Uprobes};
use observe::proc::{ProcRoot, read_start_ticks};
use testkit::skipped;

#[test]
fn blocks_of_a_calm_time_after_a_burst_stand_for_themselves() {
    let allowed = Allowed::try_all();
    if allowed.bpf.is_err() || allowed.uprobes.is_err() {
        return skipped("uprobes with programs on them need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("burst_then_leak");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/burst_then_leak.c");
    let built = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(built.success());
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let mut orders = child.stdin.take().unwrap();
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
    reader.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    orders.write_all(b"calm\n").unwrap();
    std::thread::sleep(Duration::from_secs(10));
    let account = reader.snapshot().unwrap().probe.unwrap();
    orders.write_all(b"end\n").unwrap();
    let kept: f64 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(child.wait().unwrap().success());
    let traps = account.traps.as_ref().unwrap();
    eprintln!("watched {:.3} of the time", traps.watched_share);
    assert!(traps.watched_share < 0.99, "there was a rest");
    // The first samples after a rest stand for what was allocated in it, which was something else.
    let of_calm = |block: &&Block| block.requested_bytes == 16_001;
    let blocks: Vec<&Block> = account.blocks.iter().filter(of_calm).collect();
    let end_ns = blocks.iter().map(|block| block.time_ns).max().unwrap();
    let late = blocks
        .iter()
        .filter(|block| end_ns - block.time_ns < 3_000_000_000);
    let counted: f64 = late.map(|block| block.weight).sum();
    let expected = kept * 3.0 / 10.0;
    eprintln!("{counted:.0} of {expected}");
    assert!(
        (0.5..2.0).contains(&(counted / expected)),
        "{counted} of {expected}"
    );
}

//! The meter as `highwater` sees it: another process, found by its mapping's name and read while it runs.
#![cfg(feature = "meter")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

/// Set in the process that plays the subject.
const PLAY: &str = "HIGHWATER_ALLOC_TEST_PLAY";
const LEAKED: usize = 20_000;
const LEAKED_BYTES: usize = 1_000;
const PASSED: usize = 10_000;
const PASSED_BYTES: usize = 2_000;
/// The setting of the mean, and its bytes.
const MEAN: (&str, u64) = ("16k", 16 << 10);
/// 10 MB a second at most: 610 samples, at which the meter keeps its mean. Without a pause 20 MB came in 10 ms, and as
/// the mean rose by 8 or by 64 estimates were off by up to a fifth.
const BETWEEN_PAUSES_BYTES: usize = 20_000;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// Called with the number of blocks so far.
fn pause_now_and_then(blocks: usize, of_bytes: usize) {
    if blocks.is_multiple_of(BETWEEN_PAUSES_BYTES / of_bytes) {
        std::thread::sleep(PAUSE);
    }
}

#[inline(never)]
fn leak(count: usize) {
    for at in 0..count {
        std::mem::forget(black_box(vec![1u8; LEAKED_BYTES]));
        pause_now_and_then(at, LEAKED_BYTES);
    }
}

/// No test of its own: this binary starts itself again, and that process runs this.
#[test]
fn play_when_asked() {
    let Some(part) = std::env::var_os(PLAY) else {
        return;
    };
    if part == "leak" {
        leak(LEAKED);
    }
    if part == "pass" {
        pass();
    }
    if part == "fork" {
        fork();
    }
    say(&format!("ready {}", leak as *const () as usize));
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn say(line: &str) {
    eprintln!("{line}");
}

/// One thread allocates, another frees.
fn pass() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<u8>>(16);
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    let maker = named("maker-1").spawn(move || {
        for at in 0..PASSED {
            sender.send(black_box(vec![0; PASSED_BYTES])).unwrap();
            pause_now_and_then(at, PASSED_BYTES);
        }
    });
    let taker = named("taker-2").spawn(move || receiver.into_iter().for_each(drop));
    maker.unwrap().join().unwrap();
    taker.unwrap().join().unwrap();
}

/// The child goes on from its parent's counts, leaks more, and is the one that is looked at.
fn fork() {
    leak(LEAKED / 2);
    // SAFETY: the child only allocates, writes and waits.
    let child = unsafe { libc::fork() };
    if child != 0 {
        say(&format!("child {child}"));
        return;
    }
    leak(LEAKED / 2);
    std::thread::sleep(std::time::Duration::from_secs(20));
    std::process::exit(0);
}

struct Subject {
    child: Child,
    stdin: ChildStdin,
    leak_at: u64,
    forked: Option<i32>,
}

impl Subject {
    /// With the mean of [`MEAN`] and a seed.
    fn start_seeded(part: &str, seed: u64) -> Subject {
        Subject::start(part, &format!("mean={},seed={seed}", MEAN.0))
    }

    fn start(part: &str, settings: &str) -> Subject {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "play_when_asked", "--nocapture"])
            .env(PLAY, part)
            .env("HIGHWATER_METER", settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut forked = None;
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.split_once(' ') {
                Some(("child", pid)) => forked = pid.parse().ok(),
                Some(("ready", address)) => {
                    let leak_at = address.parse().unwrap();
                    return Subject {
                        child,
                        stdin,
                        leak_at,
                        forked,
                    };
                }
                _ => {}
            }
        }
        panic!("the subject ended before it was ready");
    }

    fn memory(&self) -> Option<Vec<u8>> {
        memory(self.child.id() as i32)
    }

    fn end(mut self) {
        let _ = self.stdin.write_all(b"\n");
        self.child.wait().unwrap();
    }
}

fn memory(pid: i32) -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let range = abi::find_header(&maps)?;
    let first = copy(pid, range.start, abi::PAGE_BYTES);
    let header = abi::read_header(&first).unwrap();
    Some(copy(pid, range.start, header.total_bytes as usize))
}

fn copy(pid: i32, address: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0u8; bytes];
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: bytes,
    };
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: bytes,
    };
    // SAFETY: one valid buffer; the other process's address is the kernel's to check.
    let read = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
    assert_eq!(read, bytes as isize, "{}", std::io::Error::last_os_error());
    buffer
}

fn sum(snapshot: &abi::Snapshot<'_>, field: impl Fn(&abi::Thread) -> u64) -> u64 {
    snapshot.threads().map(|(_, row)| field(&row)).sum()
}

#[test]
fn a_leak_is_found_from_outside_with_its_bytes_and_its_stack() {
    let subject = Subject::start_seeded("leak", 3);
    let bytes = subject.memory().expect("the meter's mapping");
    let snapshot = abi::read(&bytes).unwrap();
    assert_eq!(snapshot.state(), abi::State::On);
    assert_eq!(snapshot.header.pid, u64::from(subject.child.id()));

    assert_eq!(snapshot.header.mean_bytes, MEAN.1, "it rose");
    let truth = (LEAKED * LEAKED_BYTES) as f64;
    let live = sum(&snapshot, |row| row.usable_allocated_bytes)
        - sum(&snapshot, |row| row.usable_freed_bytes);
    assert!(
        live as f64 >= truth && (live as f64) < truth * 1.05,
        "{live} exact"
    );
    let requested = sum(&snapshot, |row| {
        row.drawn_bytes.wrapping_sub(row.countdown_bytes)
    });
    assert_eq!(requested, sum(&snapshot, |row| row.usable_allocated_bytes));

    // Stacks of which a frame lies in `leak`: 1,220 samples expected, so 2.9 %; five of them.
    let at_leak = |stack: &abi::Stack| {
        let inside = subject.leak_at..subject.leak_at + 600;
        snapshot
            .frames(stack)
            .any(|address| inside.contains(&address))
    };
    let stacks: Vec<_> = snapshot
        .stacks()
        .filter(|(_, stack)| at_leak(stack))
        .collect();
    let allocated: u64 = stacks.iter().map(|(_, stack)| stack.allocated_bytes).sum();
    let off = allocated as f64 / truth - 1.0;
    assert!(
        off.abs() < 0.15,
        "{allocated} bytes at the leak, {off:+.3} (seed 3)"
    );
    // A small neighbour may lie in those 600 bytes too.
    let largest = stacks
        .iter()
        .map(|(_, stack)| stack)
        .max_by_key(|stack| stack.allocated_bytes);
    assert_eq!(largest.unwrap().freed_bytes, 0);

    let rows: Vec<u32> = stacks.iter().map(|(at, _)| *at).collect();
    let live_here = snapshot
        .samples()
        .filter(|(_, sample)| rows.contains(&sample.stack))
        .count();
    let outstanding = |(_, stack): &(u32, abi::Stack)| stack.samples - stack.freed_samples;
    assert_eq!(
        live_here as u64,
        stacks.iter().map(outstanding).sum::<u64>()
    );
    assert_eq!(snapshot.torn_samples(), 0);
    assert!(
        snapshot
            .modules()
            .any(|module| (module.start..module.end).contains(&subject.leak_at))
    );
    assert!(
        snapshot
            .latencies()
            .map(|bucket| bucket.allocs)
            .sum::<u64>()
            >= (LEAKED / 1024) as u64
    );
    subject.end();
}

#[test]
fn what_one_role_allocates_and_another_frees_is_in_the_matrix() {
    let subject = Subject::start_seeded("pass", 4);
    let bytes = subject.memory().unwrap();
    let snapshot = abi::read(&bytes).unwrap();
    assert_eq!(snapshot.header.mean_bytes, MEAN.1, "it rose");
    let role = |name: &str| {
        let mut roles = snapshot.roles();
        roles
            .find(|(_, role)| role.name.starts_with(name.as_bytes()))
            .expect("a role")
            .0
    };
    let flow = snapshot.flow(role("maker"), role("taker")).unwrap();
    let off = flow.bytes as f64 / (PASSED * PASSED_BYTES) as f64 - 1.0;
    assert!(
        off.abs() < 0.15,
        "{} bytes passed, {off:+.3} (seed 4)",
        flow.bytes
    );
    subject.end();
}

#[test]
fn a_forked_child_counts_on_in_its_own_copy() {
    let subject = Subject::start_seeded("fork", 5);
    let child = subject.forked.expect("a child");
    let live = |pid| {
        let bytes = memory(pid).unwrap();
        let snapshot = abi::read(&bytes).unwrap();
        let live = sum(&snapshot, |row| row.usable_allocated_bytes)
            - sum(&snapshot, |row| row.usable_freed_bytes);
        (
            live as usize / LEAKED_BYTES,
            snapshot.header.pid,
            snapshot.header.forks,
        )
    };
    // The child may not have come to its leak yet: what it must reach is looked for, not waited for by time.
    let mut of_child = live(child);
    for _ in 0..2_000 {
        if of_child.0 >= LEAKED {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
        of_child = live(child);
    }
    assert!(of_child.0 >= LEAKED, "{of_child:?}");
    assert_eq!((of_child.1, of_child.2), (child as u64, 1));
    let of_parent = live(subject.child.id() as i32);
    assert!(
        of_parent.0 >= LEAKED / 2 && of_parent.0 < LEAKED,
        "{of_parent:?}"
    );
    // SAFETY: the child's own pid, not yet waited for by its parent.
    unsafe { libc::kill(child, libc::SIGKILL) };
    subject.end();
}

#[test]
fn off_leaves_no_mapping() {
    let subject = Subject::start("leak", "off");
    assert!(subject.memory().is_none());
    subject.end();
}

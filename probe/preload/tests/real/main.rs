//! What the probe counts in real programs, over three allocators. Long, and they fetch what is not installed:
//! `make test-long`. That they do the same as without it is tested by `guests/real`.

mod nginx;
mod postgres;
mod redis;
#[path = "../subject/mod.rs"]
mod subject;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use subject::{allocators, library, read_tables, skipped, totals};

/// A Debian package and those it needs, unpacked into a folder of its own; `None` (and a line) when it cannot be had.
fn unpacked(packages: &[&str]) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let fetched = Command::new("apt-get")
        .arg("download")
        .args(packages)
        .current_dir(folder.path())
        .output();
    if !fetched.is_ok_and(|out| out.status.success()) {
        skipped(&format!("apt-get download {packages:?} did not work"));
        return None;
    }
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let unpacked = Command::new("dpkg")
            .arg("-x")
            .arg(entry.path())
            .arg(folder.path().join("root"))
            .status();
        assert!(unpacked.unwrap().success());
    }
    Some(folder)
}

fn preload(allocator: &Option<PathBuf>) -> std::ffi::OsString {
    let mut preload = library().into_os_string();
    if let Some(file) = allocator {
        preload.push(":");
        preload.push(file);
    }
    preload
}

/// glibc and two others, of what this machine has.
fn three() -> Vec<(String, Option<PathBuf>)> {
    allocators().into_iter().take(3).collect()
}

/// Ends the process it holds.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for_port(port: &str) {
    for _ in 0..300 {
        if std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("nobody listens on {port}");
}

#[test]
#[ignore = "an hour by default (HIGHWATER_SOAK_SECONDS): the probe's memory must not grow"]
fn an_hour_at_full_speed_in_the_same_memory() {
    let seconds = std::env::var("HIGHWATER_SOAK_SECONDS").unwrap_or_else(|_| "3600".to_owned());
    let Some(program) = subject::compile("churn.c", &[]) else {
        return;
    };
    let mut command = Command::new(program);
    command
        .arg(&seconds)
        .env("LD_PRELOAD", library())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut running = Server(command.spawn().unwrap());
    use std::io::Write;
    running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let total: u64 = seconds.parse().unwrap();
    let mut resident = Vec::new();
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_millis(total * 90));
        resident.push(resident_bytes(running.0.id()));
    }
    println!("resident in the mapping: {resident:?}");
    assert!(
        resident.iter().all(|bytes| *bytes <= 8 << 20),
        "{resident:?}"
    );
    let (early, late) = (resident[4], resident[9]);
    assert!(
        late <= early + (64 << 10),
        "grew from {early} to {late} bytes: {resident:?}"
    );
}

/// Resident bytes of the probe's mapping, by smaps.
fn resident_bytes(pid: u32) -> u64 {
    let copy = read_tables(pid).expect("it is on");
    let header = abi::read_header(&copy).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let start = abi::find_header(&maps).expect("a name").start;
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut inside, mut sum) = (false, 0);
    for line in smaps.lines() {
        let first = line
            .split(['-', ' '])
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        if let Some(at) = first.filter(|_| line.split_whitespace().count() >= 5) {
            inside = (start..start + header.mapped_bytes).contains(&at);
        }
        if inside && let Some(rest) = line.strip_prefix("Rss:") {
            let kibi: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
            sum += kibi << 10;
        }
    }
    sum
}

#[test]
#[ignore = "20,000 threads at once"]
fn twenty_thousand_threads() {
    let Some(program) = subject::compile("crowd.c", &[]) else {
        return;
    };
    let glibc = ("glibc".to_owned(), None);
    let mut running = subject::Subject::start(
        &program,
        &["20000"],
        &glibc,
        &[("HIGHWATER_PROBE_BYTES", "exact")],
    );
    running.mark().unwrap();
    running.go_on();
    let mark = running.mark().unwrap();
    let copy = read_tables(mark.pid).unwrap();
    let snapshot = abi::read(&copy).unwrap();
    let threads = mark.blocks / 20;
    let counted = totals(&snapshot).live_blocks;
    // One block of the C library's own for each.
    assert!(
        (counted - mark.blocks - threads).abs() <= mark.blocks / 100,
        "{counted} counted, {} true",
        mark.blocks
    );
    running.go_on();
    while running.mark().is_some() {
        running.go_on();
    }
    running.end();
}

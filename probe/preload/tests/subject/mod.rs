//! Running an awkward program under the built probe, over an allocator, and looking at it from
//! outside while it waits.
#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use abi::Snapshot;

pub use testkit::skipped;
#[path = "../library/mod.rs"]
mod library;
pub use library::library;

/// Longest that a program may take between two marks.
const SECONDS_MAX: u64 = 120;

/// The allocators of this machine: glibc, and one of each family in highwater's cache.
pub fn allocators() -> Vec<(String, Option<PathBuf>)> {
    let mut found = vec![("glibc".to_owned(), None)];
    let home = std::env::var("HOME").unwrap_or_default();
    let Ok(cache) = std::fs::read_dir(Path::new(&home).join(".cache/highwater/allocators")) else {
        return found;
    };
    let mut families: HashMap<String, PathBuf> = HashMap::new();
    for entry in cache.flatten() {
        let arm = entry.file_name().to_string_lossy().into_owned();
        let is_wanted = [
            "jemalloc@",
            "mimalloc@2.1",
            "mimalloc@3.",
            "gperftools@",
            "snmalloc@0.7",
            "scudo@",
            "rpmalloc@",
        ];
        let Some(family) = is_wanted.iter().find(|family| arm.starts_with(**family)) else {
            continue;
        };
        let files = std::fs::read_dir(entry.path())
            .into_iter()
            .flatten()
            .flatten();
        if let Some(file) = files.map(|file| file.path()).find(|file| is_library(file)) {
            families.insert((*family).to_owned(), file);
        }
    }
    let mut families: Vec<_> = families.into_iter().collect();
    families.sort();
    found.extend(
        families
            .into_iter()
            .map(|(family, file)| (family, Some(file))),
    );
    found
}

fn is_library(file: &Path) -> bool {
    let name = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    name.starts_with("lib") && name.contains(".so")
}

/// Folder of the awkward programs.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/awkward")
}

/// A program compiled from the folder; `None` (and a line) without a compiler.
pub fn compile(source: &str, flags: &[&str]) -> Option<PathBuf> {
    static FOLDER: Mutex<Option<tempfile::TempDir>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap();
    let folder = folder.get_or_insert_with(|| tempfile::tempdir().unwrap());
    // Some are linked by this name; with a style of tables it is another library.
    let style = flags
        .iter()
        .find_map(|flag| flag.strip_prefix("-Wl,--hash-style="));
    let name = format!("{source}{}", style.unwrap_or_default());
    let out = folder.path().join(name.replace('.', "_"));
    if out.exists() {
        return Some(out);
    }
    let compiler = if source.ends_with(".cpp") {
        "g++"
    } else {
        "gcc"
    };
    // -fno-builtin: otherwise a malloc that is freed at once is no malloc.
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-g", "-fno-builtin", "-Wall", "-pthread"])
        .args(flags);
    let done = command
        .arg("-o")
        .arg(&out)
        .arg(sources().join(source))
        .arg("-ldl")
        .output();
    let Ok(done) = done else {
        skipped(&format!("{source}: no {compiler} here"));
        return None;
    };
    assert!(
        done.status.success(),
        "{source}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    Some(out)
}

/// True when the program ends well over an allocator without any probe; else says that it is left
/// out. Several allocators have defects of their own (highwater's recipes name them).
pub fn works_without(
    program: &Path,
    arguments: &[&str],
    allocator: &(String, Option<PathBuf>),
) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let (_, Some(file)) = allocator {
        command.env("LD_PRELOAD", file);
    }
    let mut child = command.spawn().unwrap();
    // One line for each mark there may be.
    let _ = child.stdin.take().unwrap().write_all(&[b'\n'; 64]);
    let works = child.wait().unwrap().success();
    if !works {
        skipped(&format!(
            "{} over {}: it fails without the probe too",
            program.display(),
            allocator.0
        ));
    }
    works
}

/// A program that runs under the probe.
pub struct Subject {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    /// What it is, for messages.
    pub name: String,
}

/// A point at which the program waits.
#[derive(Debug)]
pub struct Mark {
    /// Live blocks by its own count, since it began to count.
    pub blocks: i64,
    /// Their usable bytes.
    pub bytes: i64,
    /// The process that waits: the program or a child of it.
    pub pid: u32,
}

impl Subject {
    /// Starts it with the probe in front of an allocator, and further variables.
    pub fn start(
        program: &Path,
        arguments: &[&str],
        allocator: &(String, Option<PathBuf>),
        env: &[(&str, &str)],
    ) -> Subject {
        Subject::start_with(&library(), program, arguments, allocator, env)
    }

    /// Likewise with a probe of one's own.
    pub fn start_with(
        probe: &Path,
        program: &Path,
        arguments: &[&str],
        allocator: &(String, Option<PathBuf>),
        env: &[(&str, &str)],
    ) -> Subject {
        let mut preload = probe.as_os_str().to_owned();
        if let (_, Some(file)) = allocator {
            preload.push(":");
            preload.push(file);
        }
        let mut command = Command::new("timeout");
        command.args(["-s", "ABRT", &SECONDS_MAX.to_string()]);
        command.arg("env").arg({
            let mut set = std::ffi::OsString::from("LD_PRELOAD=");
            set.push(&preload);
            set
        });
        command.arg(program).args(arguments);
        command
            .env("HIGHWATER_PROBE_SEED", "7")
            .envs(env.iter().copied());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let name = format!(
            "{} over {}",
            program.file_name().unwrap().to_string_lossy(),
            allocator.0
        );
        Subject { child, lines, name }
    }

    /// Waits until the program waits; `None` at its end.
    pub fn mark(&mut self) -> Option<Mark> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["mark", blocks, bytes, pid] = words[..] {
                return Some(Mark {
                    blocks: blocks.parse().unwrap(),
                    bytes: bytes.parse().unwrap(),
                    pid: pid.parse().unwrap(),
                });
            }
        }
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for its end, which must be a good one. What it wrote to its standard error.
    pub fn end(mut self) -> String {
        drop(self.child.stdin.take());
        let mut errors = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}: {status}\n{errors}", self.name);
        errors
    }
}

/// A copy of the probe's mapping in a process, found and read from outside; or what its anchor
/// says.
pub fn read_tables(pid: u32) -> Result<Vec<u8>, abi::Anchor> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let copy = |start: u64, bytes: u64| copy_of(pid, start, bytes);
    let by_anchor = || {
        let ranges = abi::anchor_candidates(&maps)
            .filter_map(|range| copy(range.start, range.end - range.start));
        ranges
            .filter_map(|bytes| abi::Anchor::find(&bytes))
            .next()
            .unwrap_or_else(|| panic!("no anchor in\n{maps}"))
    };
    let anchor = by_anchor();
    if anchor.header_address == 0 {
        return Err(anchor);
    }
    // Named where the kernel or a descriptor allowed it; the anchor leads there always.
    let start = abi::find_header(&maps).map_or(anchor.header_address, |range| range.start);
    assert_eq!(
        anchor.header_address, start,
        "the anchor and the name lead to the same place"
    );
    let header = abi::read_header(&copy(start, abi::HEADER_BYTES as u64).unwrap()).unwrap();
    Ok(copy(start, header.total_bytes).unwrap())
}

/// Memory of a process by process_vm_readv, as a reader does it; `None` when not all of it can be read.
fn copy_of(pid: u32, start: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut copy = vec![0u8; bytes as usize];
    let here = libc::iovec {
        iov_base: copy.as_mut_ptr().cast(),
        iov_len: copy.len(),
    };
    let there = libc::iovec {
        iov_base: start as *mut libc::c_void,
        iov_len: copy.len(),
    };
    // SAFETY: the local buffer has the length that is said; the kernel checks the other side.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &here, 1, &there, 1, 0) };
    (read == bytes as isize).then_some(copy)
}

/// Sums over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Blocks handed out less blocks taken back.
    pub live_blocks: i64,
    /// Their usable bytes.
    pub live_bytes: i64,
    /// Requested bytes that live, estimated from samples, and the standard deviation of that.
    pub sampled_bytes: f64,
    /// See `sampled_bytes`.
    pub sampled_bytes_sd: f64,
}

/// What a snapshot says.
pub fn totals(snapshot: &Snapshot) -> Totals {
    let mut totals = Totals::default();
    for (_, thread) in snapshot.threads() {
        totals.live_blocks += thread.allocs as i64 - thread.frees as i64;
        totals.live_bytes +=
            thread.usable_allocated_bytes as i64 - thread.usable_freed_bytes as i64;
    }
    let mut variance = 0.0;
    for (_, sample) in snapshot.samples() {
        let bytes = sample.requested_bytes as f64;
        let weight = bytes / -(-bytes / sample.mean_bytes as f64).exp_m1();
        totals.sampled_bytes += weight;
        variance += weight * (weight - bytes);
    }
    totals.sampled_bytes_sd = variance.sqrt();
    totals
}

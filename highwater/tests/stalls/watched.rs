//! One watch of a service by the command itself, and the building of services.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use testkit::skipped;

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Ebpf,
    Tracepoints,
    Rootless,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Mode::Ebpf => "ebpf",
            Mode::Tracepoints => "tracepoints",
            Mode::Rootless => "rootless",
        }
    }
}

pub const BOTH: [Mode; 2] = [Mode::Ebpf, Mode::Rootless];

/// One watch of a service, and what its own log says of the same time.
pub struct Seen {
    pub found: Value,
    pub truth: Vec<(u64, u64)>,
}

#[derive(Debug)]
pub struct Row(pub Value);

impl Seen {
    /// Causes of rows whose longest stall is longer: a holder that a busy machine takes off its CPU
    /// for some milliseconds makes a short one of any service.
    pub fn longer_than(&self, ns: u64) -> Vec<String> {
        let rows = self.found["findings"].as_array().unwrap();
        let long = rows
            .iter()
            .filter(|row| row["longest_ns"].as_u64() > Some(ns));
        long.map(|row| row["cause"].as_str().unwrap().to_string())
            .collect()
    }

    /// The only row of that cause.
    pub fn row(&self, cause: &str) -> Row {
        let rows = self.found["findings"].as_array().unwrap();
        let mine: Vec<&Value> = rows.iter().filter(|row| row["cause"] == cause).collect();
        assert_eq!(
            mine.len(),
            1,
            "rows of {cause} in {:#}",
            self.found["findings"]
        );
        Row(mine[0].clone())
    }

    /// The log has stalled requests too. How well durations agree is in bench/results.
    pub fn agrees_with_the_truth(&self, row: &Row) {
        const HELD_NS: u64 = 400_000_000;
        assert!(!self.truth.is_empty(), "the service itself saw no stall");
        assert!(row.number("/total_ns") >= HELD_NS, "{:#}", row.0);
    }
}

impl Row {
    pub fn text(&self, path: &str) -> String {
        let value = self.0.pointer(path).and_then(Value::as_str);
        value
            .unwrap_or_else(|| panic!("{path} in {:#}", self.0))
            .to_string()
    }

    pub fn number(&self, path: &str) -> u64 {
        self.0.pointer(path).and_then(Value::as_u64).unwrap()
    }

    pub fn list(&self, path: &str) -> Vec<String> {
        let values = self.0.pointer(path).and_then(Value::as_array).unwrap();
        values
            .iter()
            .map(|v| v.as_str().unwrap().to_string())
            .collect()
    }
}

pub fn highwater() -> &'static str {
    env!("CARGO_BIN_EXE_highwater")
}

/// `None`, with the reason printed, when this machine does not allow the mode.
pub fn watch(mode: Mode, service: PathBuf, flags: &[&str]) -> Option<Seen> {
    watch_with(mode, service, flags, &[])
}

/// As [`watch`], with more words on the command line.
pub fn watch_with(mode: Mode, service: PathBuf, flags: &[&str], more: &[&str]) -> Option<Seen> {
    let word = mode.word();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth");
    let child = Command::new(service)
        .arg(&log)
        .arg("12")
        .args(flags)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let child = Ended(child);
    sleep(Duration::from_millis(800));
    let found = attached(word, child.0.id(), more)?;
    drop(child);
    Some(Seen {
        found,
        truth: parse_truth(&fs::read_to_string(log).unwrap()),
    })
}

/// What a watch of five seconds of a process says; `None`, with the reason printed, where the mode is not allowed.
pub fn attached(word: &str, pid: u32, more: &[&str]) -> Option<Value> {
    let output = Command::new(highwater())
        .args([
            "stalls",
            "--json",
            "--duration",
            "5s",
            "--mode",
            word,
            "--pid",
            &pid.to_string(),
        ])
        .args(more)
        .output()
        .unwrap();
    if output.status.code() == Some(4) {
        skipped(&format!(
            "mode {word}: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
        return None;
    }
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found = serde_json::from_slice(&output.stdout).unwrap();
    super::shape::check(&found);
    Some(found)
}

/// "stall THREAD START_NS END_NS"; a last line that the end cut off is no line.
pub fn parse_truth(text: &str) -> Vec<(u64, u64)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn services() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stalls/services")
}

/// Where the services are built, once for all tests.
pub fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stalls");
        fs::create_dir_all(&folder).unwrap();
        folder
    })
}

pub fn c(name: &str) -> PathBuf {
    compiled(name, &services().join(format!("{name}.c")))
}

/// The service with locks of many kinds.
pub fn woven() -> PathBuf {
    c("weave")
}

/// Pairs of threads that hand a word to each other, for ever.
pub fn pingpong() -> PathBuf {
    c("pingpong")
}

/// Two of its pairs, for a minute at most.
pub fn two_pairs() -> Ended {
    let mut command = Command::new(pingpong());
    command.args(["60", "2", "500"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ended(command.spawn().unwrap())
}

pub fn compiled(name: &str, source: &Path) -> PathBuf {
    let program = built().join(format!("{name}-{:?}", std::thread::current().id()));
    let status = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "{}", source.display());
    program
}

pub fn rust(name: &str) -> Option<PathBuf> {
    let program = built().join(name);
    let status = Command::new("rustc")
        .args(["--edition", "2024", "-O", "-g", "-o"])
        .args([&program, &services().join(format!("{name}.rs"))])
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        other => {
            skipped(&format!("rustc: {other:?}"));
            None
        }
    }
}

pub fn go(name: &str, options: &[&str]) -> Option<PathBuf> {
    let program = built().join(format!("{name}{}", options.concat()));
    let status = Command::new("go")
        .arg("build")
        .args(options)
        .arg("-o")
        .args([&program, &services().join(name).join("main.go")])
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        other => {
            skipped(&format!("go: {other:?}"));
            None
        }
    }
}

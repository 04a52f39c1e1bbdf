//! Real processes to look at, and what a snapshot says of them.
#![allow(dead_code)] // each test binary uses its part

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use observe::metric::Metric;
use observe::proc::{ProcRoot, read_start_ticks};
use observe::snapshot::{Expected, ProcessId, Role, Snapshot, Target};

pub const SECOND: i64 = 1_000_000_000;

pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

pub fn fixture_root(folder: &str) -> ProcRoot {
    ProcRoot::new(fixtures().join("proc").join(folder))
}

pub fn target(process: i64, pid: i32, start_ticks: u64) -> Target {
    Target {
        process: ProcessId(process),
        pid,
        start_ticks,
        arm: "glibc".to_owned(),
        replica: 0,
        role: Role::Subject,
        metrics_url: None,
        load_lines: None,
        cgroup: None,
        expected_allocator: Expected::System,
    }
}

/// A process that ends with the test, whatever happens.
pub struct Child {
    child: std::process::Child,
    input: Mutex<ChildStdin>,
    output: Mutex<BufReader<ChildStdout>>,
    folder: Option<tempfile::TempDir>,
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn target(&self, process: i64) -> Target {
        let start_ticks = read_start_ticks(&ProcRoot::default(), self.pid()).unwrap_or(0);
        target(process, self.pid(), start_ticks)
    }

    /// Waits for the next line of its output.
    pub fn read_line(&self) -> String {
        let mut line = String::new();
        self.output.lock().unwrap().read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "pid {} ended early", self.pid());
        line
    }

    /// Lets a program that waits for a line go on.
    pub fn write_line(&self) {
        self.write("\n");
    }

    pub fn write(&self, text: &str) {
        self.input
            .lock()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
    }

    pub fn kill_and_reap(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it and leaves the zombie.
    pub fn kill_and_leave(&mut self) {
        self.child.kill().unwrap();
        // WNOWAIT: waits for the end without taking the zombie away.
        let pid = rustix::process::Pid::from_child(&self.child);
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start(command: &mut Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = Mutex::new(child.stdin.take().unwrap());
    let output = Mutex::new(BufReader::new(child.stdout.take().unwrap()));
    Child {
        child,
        input,
        output,
        folder: None,
    }
}

pub fn spawn(program: &str, arguments: &[&str]) -> Child {
    start(Command::new(program).args(arguments))
}

/// Compiles a program of `fixtures/programs` into `folder`.
pub fn compile(source: &str, flags: &[&str], folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = fixtures().join("programs").join(source);
    let run = Command::new("gcc")
        .args(["-O0", "-w", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags)
        .output()
        .expect("gcc is needed for this test");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    program
}

/// Compiles and starts a program of `fixtures/programs`.
pub fn spawn_c(source: &str, flags: &[&str]) -> Child {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(source, flags, folder.path(), "program");
    let mut child = start(&mut Command::new(program));
    child.folder = Some(folder);
    child
}

pub fn value(snapshot: &Snapshot, process: i64, metric: Metric) -> Option<f64> {
    let found = |sample: &&observe::snapshot::Sample| {
        sample.process == ProcessId(process) && sample.metric == metric.name
    };
    snapshot
        .samples
        .iter()
        .find(found)
        .map(|sample| sample.value)
}

pub fn values(snapshots: &[Snapshot], process: i64, metric: Metric) -> Vec<f64> {
    snapshots
        .iter()
        .filter_map(|snapshot| value(snapshot, process, metric))
        .collect()
}

pub fn fact<'a>(snapshot: &'a Snapshot, process: i64, key: &str) -> Option<&'a str> {
    let found =
        |fact: &&observe::snapshot::Fact| fact.process == ProcessId(process) && fact.key == key;
    snapshot
        .facts
        .iter()
        .find(found)
        .map(|fact| fact.value.as_str())
}

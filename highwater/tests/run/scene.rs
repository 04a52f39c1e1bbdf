//! What the tests stand on: a folder with an experiment, the command, and the record that it leaves.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use record::run::Run;
use record::{Folder, ReadOptions, Reader};
use tempfile::TempDir;

/// A wait that takes longer has failed; on a busy machine everything takes its time.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A folder of its own for one test; gone afterwards.
pub struct Scene {
    pub folder: TempDir,
}

#[path = "../said/mod.rs"]
mod finished;
#[path = "../subjects/mod.rs"]
mod subjects;
pub use finished::Said;

impl Scene {
    /// A library made of one C text, in the scene's folder.
    pub fn library(&self, name: &str, text: &str) -> PathBuf {
        self.compile(name, text, &["-shared", "-fPIC"])
    }

    /// What `cc` with `flags` makes of one C text, in the scene's folder.
    pub fn compile(&self, name: &str, text: &str, flags: &[&str]) -> PathBuf {
        let (source, out) = (
            self.folder.path().join("source.c"),
            self.folder.path().join(name),
        );
        std::fs::write(&source, text).expect("the source");
        let mut cc = Command::new("cc");
        let status = cc.args(flags).arg("-o").arg(&out).arg(&source).status();
        assert!(status.expect("cc runs").success());
        out
    }

    pub fn new() -> Scene {
        Scene {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Writes an experiment file and gives its path.
    pub fn experiment(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("experiment.toml");
        std::fs::write(&path, text).expect("the experiment");
        path
    }

    /// `highwater ARGUMENTS`, in the scene's folder, in a process group of its own.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// Runs `highwater run` on the text to its end.
    pub fn run(&self, experiment: &str, more: &[&str]) -> Said {
        self.experiment(experiment);
        let arguments = [&["run", "experiment.toml"], more].concat();
        said(self.command(&arguments).output().expect("highwater starts"))
    }

    pub fn highwater(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).output().expect("highwater starts"))
    }

    /// Starts `highwater run` and leaves it running.
    pub fn start(&self, experiment: &str, more: &[&str]) -> Child {
        self.experiment(experiment);
        let arguments = [&["run", "experiment.toml"], more].concat();
        let mut command = self.command(&arguments);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("highwater starts")
    }

    /// The folder of the only run, once there is one with a record.
    pub fn run_folder(&self) -> Folder {
        let runs = self.folder.path().join("runs");
        wait("a run folder with a record", || {
            let entry = std::fs::read_dir(&runs).ok()?.flatten().next()?;
            let folder = Folder::open(&entry.path()).ok()?;
            Reader::open(&folder).is_ok().then_some(folder)
        })
    }

    /// The code that the verdict of the only run asks for: 0 when it is decided, else 3. How many readings a short run
    /// of real processes gets depends on the machine, and so does which of the two.
    pub fn verdict_code(&self) -> i32 {
        let report = self.highwater(&["report", &self.run_folder().id(), "--json"]);
        let json: serde_json::Value =
            serde_json::from_str(&report.out).unwrap_or_else(|error| panic!("{error}: {report:?}"));
        let code = match json["decided"].as_bool().expect("decided or not") {
            true => 0,
            false => 3,
        };
        assert_eq!(report.code, code, "{report:?}");
        code
    }

    pub fn record(&self) -> Run {
        Reader::read(&self.run_folder(), &ReadOptions::default()).expect("the record reads")
    }
}

pub fn said(output: Output) -> Said {
    Said::of(output)
}

/// Waits until there is something.
pub fn wait<T>(what: &str, mut snapshot: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = snapshot() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process with this pid and start time runs.
pub fn lives(pid: i32, start_ticks: u64) -> bool {
    experiment::service::is_alive(pid, start_ticks)
}

/// Path of a compiled program of `tests/subjects`.
pub fn program(name: &str) -> String {
    subjects::program("run-subjects", name)
}

/// Whether this is root; tests of limits need it.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

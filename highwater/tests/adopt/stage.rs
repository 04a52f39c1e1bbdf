//! What the tests stand on: a run that measured two arms, and a private root with units that a played systemctl
//! starts as real processes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// Program, library and runs that every test shares.
pub struct Measured {
    folder: TempDir,
}

impl Measured {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Made once: a real run of two arms, `plain` on the system's allocator and `bump` on a library.
pub fn measured() -> &'static Measured {
    static MEASURED: OnceLock<Measured> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let programs = here.join("tests/fixtures/programs");
        compile(
            &here.join("tests/adopt/service.c"),
            &[],
            &folder.path().join("service"),
        );
        let library = ["-shared", "-fPIC", "-fno-builtin"];
        compile(
            &programs.join("bump.c"),
            &library,
            &folder.path().join("libbump.so"),
        );
        // The latest is the one that most tests adopt from; the fewer arms, the faster it is judged.
        measure(folder.path(), &format!("name = \"odd\"\n{SUBJECT}{ODD}"));
        measure(folder.path(), &format!("name = \"adopt\"\n{SUBJECT}"));
        Measured { folder }
    })
}

fn measure(folder: &Path, experiment: &str) {
    fs::write(folder.join("experiment.toml"), experiment).expect("the experiment");
    let said = highwater(folder, &["run", "experiment.toml", "--quiet"]).output();
    let said = Said::of(said.expect("highwater starts"));
    let report = highwater(folder, &["report", "latest", "--json"]).output();
    let report = Said::of(report.expect("highwater starts")).json();
    // Three seconds decide it or not, by the machine.
    let code = if report["decided"] == true { 0 } else { 3 };
    assert_eq!(said.code, code, "{said:?}");
}

/// The run with the arms that are refused, or only tuned.
pub fn odd_run() -> String {
    let runs = fs::read_dir(measured().path("runs"))
        .expect("runs")
        .flatten();
    let mut names = runs.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.find(|name| name.contains("-odd-")).expect("a run")
}

const SUBJECT: &str = r#"
hypothesis = "bump is smaller"
control = "plain"
duration = "3s"
interval = "100ms"
warmup = "500ms"
replicas = 2
[subject]
command = "./service"
[[arms]]
name = "plain"
allocator = "glibc"
[[arms]]
name = "bump"
allocator = "./libbump.so"
environment = { BUMP_MODE = "a%b c" }
"#;

const ODD: &str = r#"
[[arms]]
name = "other-command"
command = "./service --more"
[[arms]]
name = "tuned"
allocator = "glibc"
environment = { MALLOC_ARENA_MAX = 1 }
[[arms]]
name = "tokened"
allocator = "glibc"
environment = { API_TOKEN = "abc" }
[[arms]]
name = "placed"
allocator = "glibc"
environment = { PLACE = "{data}" }
"#;

pub fn compile(source: &Path, flags: &[&str], to: &Path) {
    let done = Command::new("cc")
        .args(flags)
        .args(["-O1", "-Wl,--build-id", "-o"])
        .arg(to)
        .arg(source)
        .status();
    assert!(
        done.expect("a C compiler").success(),
        "{}",
        source.display()
    );
}

pub fn highwater(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null());
    command
}

pub use crate::said::Said;

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A root of its own with units that run; everything ends with it.
pub struct Stage {
    root: TempDir,
}

impl Stage {
    /// `svc@1.service` to `svc@N.service`, running.
    pub fn new(instances: usize) -> Stage {
        let root = tempfile::tempdir().expect("a folder");
        let stage = Stage { root };
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adopt/systemctl");
        fs::create_dir_all(stage.path("bin")).unwrap();
        fs::copy(fake, stage.path("bin/systemctl")).unwrap();
        fs::copy(measured().path("service"), stage.path("service")).unwrap();
        fs::create_dir_all(stage.path("etc/systemd/system")).unwrap();
        fs::create_dir_all(stage.path("usr/local/lib")).unwrap();
        fs::create_dir_all(stage.path("var/lib")).unwrap();
        for n in 1..=instances {
            stage.unit(&format!("svc@{n}.service"), "");
        }
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name.trim_start_matches('/'))
    }

    /// A unit that runs, with these variables of its own.
    pub fn unit(&self, name: &str, base: &str) {
        let folder = self.path("run/units").join(name);
        fs::create_dir_all(&folder).unwrap();
        for (file, text) in [
            ("base", base),
            ("env", base),
            ("load", "loaded"),
            ("active", "inactive"),
            ("pid", "0"),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        self.systemctl(&["daemon-reload"]);
        self.systemctl(&["start", name]);
    }

    /// Overwrites one of the played unit's files.
    pub fn set(&self, unit: &str, file: &str, text: &str) {
        fs::write(self.path("run/units").join(unit).join(file), text).unwrap();
    }

    pub fn pid(&self, unit: &str) -> i32 {
        let text = fs::read_to_string(self.path("run/units").join(unit).join("pid")).unwrap();
        // Empty for the instant in which the played systemctl writes it.
        text.trim().parse().unwrap_or(0)
    }

    pub fn drop_in(&self, folder: &str, name: &str, text: &str) -> PathBuf {
        let folder = self.path("etc/systemd/system").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        self.systemctl(&["daemon-reload"]);
        path
    }

    pub fn systemctl(&self, arguments: &[&str]) {
        let mut command = Command::new(self.path("bin/systemctl"));
        let done = self.surround(command.args(arguments)).output().expect("sh");
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    pub fn surround<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("FAKE_ROOT", self.root.path())
    }

    /// `highwater VERB ... --root ROOT`, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = highwater(&measured().path(""), arguments);
        command.arg("--root").arg(self.root.path());
        self.surround(&mut command);
        command
    }

    pub fn highwater(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().expect("highwater starts"))
    }

    /// Adopts arm `bump` by every instance, without waiting between them.
    pub fn adopt(&self, more: &[&str]) -> Said {
        self.highwater(&adopt_words(more))
    }

    pub fn status(&self) -> Value {
        self.highwater(&["adopt", "--status", "--json"]).json()["rollouts"].clone()
    }

    /// Which of the units have the arm's library mapped.
    pub fn running_bump(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("run/units")).unwrap().flatten();
        let mut names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.retain(|unit| {
            let maps =
                fs::read_to_string(format!("/proc/{}/maps", self.pid(unit))).unwrap_or_default();
            maps.contains("/libbump.so")
        });
        names.sort();
        names
    }

    pub fn all_run(&self) -> bool {
        let names = fs::read_dir(self.path("run/units")).unwrap().flatten();
        names.into_iter().all(|entry| {
            let pid = self.pid(&entry.file_name().to_string_lossy());
            pid > 0 && Path::new(&format!("/proc/{pid}/exe")).exists()
        })
    }

    /// Everything below etc and usr: kind, mode, owner, time and bytes of each file.
    pub fn tree(&self) -> BTreeMap<PathBuf, String> {
        let mut tree = BTreeMap::new();
        for folder in ["etc", "usr"] {
            walk(&self.path(folder), self.root.path(), &mut tree);
        }
        tree
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.path("run/units"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let pid = self.pid(&entry.file_name().to_string_lossy());
            let exe = fs::read_link(format!("/proc/{pid}/exe"));
            if pid > 0 && exe.is_ok_and(|exe| exe.starts_with(self.root.path())) {
                let pid = rustix::process::Pid::from_raw(pid).expect("not 0");
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn walk(path: &Path, root: &Path, tree: &mut BTreeMap<PathBuf, String>) {
    let data = fs::symlink_metadata(path).unwrap();
    let name = path.strip_prefix(root).unwrap().to_path_buf();
    let mode = data.permissions().mode();
    let owner = format!("{mode:o} {}:{}", data.uid(), data.gid());
    if data.is_dir() {
        tree.insert(name, owner);
        for entry in fs::read_dir(path).unwrap().flatten() {
            walk(&entry.path(), root, tree);
        }
    } else {
        let bytes = fs::read(path).unwrap_or_default();
        tree.insert(name, format!("{owner} {} {bytes:?}", data.mtime()));
    }
}

/// Adopts an arm by some units, `pause` between two instances; an instance that is well counts at once.
pub fn adopt_call<'a>(arm: &'a str, units: &'a str, pause: &'a str) -> [&'a str; 8] {
    [
        "adopt", arm, "--unit", units, "--pause", pause, "--settle", "0s",
    ]
}

/// The call that most tests make.
pub fn adopt_words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let words = adopt_call("bump", "svc@*.service", "0s");
    // Who tells by a check that an instance is not well need not wait long.
    let timeout = if more.contains(&"--health") {
        "2s"
    } else {
        "60s"
    };
    [&words[..], &["--timeout", timeout], more].concat()
}

/// Whether this user may act as the tests need it; says so where not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        testkit::skipped("adopting needs root");
    }
    root
}

/// Whether a program that a test needs is installed; prints the skip where it is not.
pub fn has_tool(program: &str) -> bool {
    let has_it = is_there(program);
    if !has_it {
        testkit::skipped(&format!("needs {program}"));
    }
    has_it
}

pub fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// A health check that hangs, ignores SIGTERM and starts another process that hangs; it notes both pids.
pub fn hanging(pids: &Path) -> String {
    format!(
        "command:sh -c 'trap \"\" TERM; sleep 20 & echo $$ $! >>{}; wait'",
        pids.display()
    )
}

/// The noted processes that still run.
pub fn left_behind(pids: &Path) -> Vec<String> {
    let text = fs::read_to_string(pids).expect("the check ran");
    let runs = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    text.split_whitespace()
        .map(str::to_owned)
        .filter(runs)
        .collect()
}

//! Postgres: its cluster made, served and put under pgbench.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::subject::{library, read_tables, skipped, totals};
use crate::{Server, three, unpacked};

/// It refuses to run as root.
const NOBODY: &str = "65534";
const ROWS: &str = "200000";

/// The programs, and where the libraries are that came with them.
struct Programs {
    bin: PathBuf,
    libraries: PathBuf,
    _unpacked: Option<tempfile::TempDir>,
}

impl Programs {
    fn find() -> Option<Programs> {
        let installed = PathBuf::from("/usr/lib/postgresql/15/bin");
        if installed.join("pgbench").exists() && installed.join("postgres").exists() {
            return Some(Programs {
                bin: installed,
                libraries: PathBuf::new(),
                _unpacked: None,
            });
        }
        let packages = ["postgresql-15", "postgresql-client-15", "libpq5"];
        let folder = unpacked(&packages)?;
        open_to_all(folder.path());
        let root = folder.path().join("root");
        Some(Programs {
            bin: root.join("usr/lib/postgresql/15/bin"),
            libraries: root.join("usr/lib/x86_64-linux-gnu"),
            _unpacked: Some(folder),
        })
    }

    /// As nobody, where we are root.
    fn command(&self, program: &str, preload: &OsString) -> Command {
        // SAFETY: asks for a number.
        let mut command = match unsafe { libc::geteuid() } {
            0 => {
                let mut command = Command::new("setpriv");
                let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
                command.args(ids).args(["--clear-groups", "env"]);
                command
            }
            _ => Command::new("env"),
        };
        command
            .arg(assignment("LD_LIBRARY_PATH", self.libraries.as_os_str()))
            .arg(assignment("LD_PRELOAD", preload))
            .arg(self.bin.join(program));
        command
    }
}

fn assignment(name: &str, value: &std::ffi::OsStr) -> OsString {
    let mut assignment = OsString::from(format!("{name}="));
    assignment.push(value);
    assignment
}

fn open_to_all(folder: &Path) {
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder, all).unwrap();
}

/// A copy that nobody can read.
fn lent(file: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join(file.file_name().unwrap());
    std::fs::copy(file, &copy).unwrap();
    copy
}

fn ran_well(name: &str, out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {text}{errors}");
    text
}

#[test]
#[ignore = "a minute, and Postgres"]
fn postgres_under_pgbench() {
    let Some(programs) = Programs::find() else {
        return;
    };
    let version = programs
        .command("postgres", &OsString::new())
        .arg("--version")
        .output();
    if !version.is_ok_and(|out| out.status.success()) {
        return skipped("Postgres does not start here: libraries of it are missing");
    }
    for (name, allocator) in three() {
        serves(&programs, &name, allocator.as_deref());
    }
}

fn serves(programs: &Programs, name: &str, allocator: Option<&Path>) {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let mut preload = lent(&library(), folder.path()).into_os_string();
    if let Some(file) = allocator {
        preload.push(":");
        preload.push(lent(file, folder.path()));
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = programs.command(program, &preload);
        let out = command.args(arguments).current_dir(folder.path()).output();
        ran_well(&format!("{program} over {name}"), &out.unwrap())
    };
    let at = folder.path().to_str().unwrap();
    run(
        "initdb",
        &["-D", "data", "-A", "trust", "-U", "bench", "--no-sync"],
    );
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut command = programs.command("postgres", &preload);
    command.args(["-D", "data", "-k", at, "-c", "listen_addresses="]);
    command.current_dir(folder.path()).stdin(Stdio::null());
    let mut server = Server(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let is_ready = || {
        let mut asked = programs.command("pg_isready", &OsString::new());
        std::thread::sleep(std::time::Duration::from_millis(100));
        asked.args(["-q", "-h", at]).status().unwrap().success()
    };
    assert!((0..300).any(|_| is_ready()), "{name}: it does not answer");
    let to = ["-h", at, "-U", "bench"];
    run(
        "pgbench",
        &[&to[..], &["-i", "-s", "2", "-q", "postgres"]].concat(),
    );
    let load = run(
        "pgbench",
        &[&to[..], &["-T", "5", "-c", "4", "-j", "2", "postgres"]].concat(),
    );
    assert!(
        load.contains("number of failed transactions: 0"),
        "{name}: {load}"
    );
    let count = ["-Atc", "select count(*) from pgbench_accounts", "postgres"];
    let counted = run("psql", &[&to[..], &count[..]].concat());
    assert_eq!(counted.trim(), ROWS, "{name}");

    let copy = read_tables(server.0.id()).unwrap_or_else(|anchor| panic!("{name}: {anchor:?}"));
    let snapshot = abi::read(&copy).unwrap();
    assert!(totals(&snapshot).live_blocks > 100, "{name}");
    assert!(snapshot.header.counters.forks_seen >= 5, "{name}");
    // A fast shutdown.
    // SAFETY: a signal to the child that this test started and has not waited for.
    unsafe { libc::kill(server.0.id() as i32, libc::SIGINT) };
    assert!(server.0.wait().unwrap().success(), "{name}");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(
        !log.contains("terminated by signal") && !log.contains("PANIC"),
        "{name}: {log}"
    );
}

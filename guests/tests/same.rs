//! A short run of the generated programs: each does the same with the probe, and under an attachment, as without. And
//! a watch that does harm is found.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::skipped;
#[path = "../../probe/preload/tests/library/mod.rs"]
mod library;
use library::library;

const PROGRAMS: &str = "100";
/// The run stops here on a slow machine, with fewer programs.
const SECONDS_MAX: &str = "60";

/// Of the attached programs; two for each arm that needs nothing fetched.
const ATTACHED: &str = "22";
const ATTACHED_SECONDS_MAX: &str = "30";

/// The tester with some arguments; where it finds a difference the program is kept. `None` without compilers.
fn guests(arguments: &[&str], more: &[(&str, &Path)]) -> Option<Output> {
    for compiler in ["cc", "c++"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            skipped(&format!("no {compiler} here"));
            return None;
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater-guests"));
    command.args(["--seed", "1", "--jobs", "2"]).args(arguments);
    for (name, path) in more {
        command.arg(name).arg(path);
    }
    Some(command.output().unwrap())
}

/// Programs that passed; a difference is a failure of the test.
fn passed(done: &Output, keep: tempfile::TempDir) -> u64 {
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let (errors, kept) = (String::from_utf8_lossy(&done.stderr), keep.keep());
        panic!("{text}{errors}\nkept in {}", kept.display());
    }
    number_before(&text, " passed, ")
}

/// The number at the end of what stands before these words.
fn number_before(text: &str, words: &str) -> u64 {
    let before = text.lines().find_map(|line| line.split_once(words));
    let number = before.and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What once differed, all of it.
#[test]
fn the_kept_cases_do_the_same_with_the_probe() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/cases.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let is_case = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let count = text.lines().filter(is_case).count() as u64;
    let keep = tempfile::tempdir().unwrap();
    let done = guests(
        &["--cases", file],
        &[("--probe", &library()), ("--keep", keep.path())],
    );
    let Some(done) = done else { return };
    assert_eq!(passed(&done, keep), count, "some could not be compared");
}

#[test]
fn programs_do_the_same_with_the_probe() {
    let keep = tempfile::tempdir().unwrap();
    let done = guests(
        &["--programs", PROGRAMS, "--seconds", SECONDS_MAX],
        &[("--probe", &library()), ("--keep", keep.path())],
    );
    let Some(done) = done else { return };
    // A run in which hardly any program can be compared shows nothing.
    assert!(passed(&done, keep) >= 20, "{done:?}");
}

/// As the tests of the whole workspace have it, where they were built: with fewer packages some dependencies have fewer
/// features, and all would be built anew.
fn highwater() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--workspace", "--no-run", "--locked"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    // A build script that reads what cargo tells of this package would run anew, here and in the build after it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    assert!(cargo.status().unwrap().success());
    let folder = here.parent().and_then(Path::parent).unwrap();
    folder.join("highwater")
}

#[test]
fn programs_do_the_same_while_they_are_watched() {
    if !is_root() {
        return skipped("uprobes need root");
    }
    let keep = tempfile::tempdir().unwrap();
    let done = guests(
        &[
            "--programs",
            ATTACHED,
            "--seconds",
            ATTACHED_SECONDS_MAX,
            "--only=explain",
            "--only=stalls",
        ],
        &[
            ("--probe", &library()),
            ("--highwater", &highwater()),
            ("--keep", keep.path()),
        ],
    );
    let Some(done) = done else { return };
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(passed(&done, keep) >= 5, "{text}");
    let linked = text
        .lines()
        .find(|line| line.starts_with("explain over static glibc"));
    assert!(
        number_before(linked.unwrap_or(""), " with breakpoints") > 0,
        "{text}"
    );
}

/// Watches nothing, and does this to the process `$pid`.
fn harm(folder: &Path, what: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join("harm");
    let text = format!(
        "#!/bin/sh\nwhile [ \"$1\" != --pid ]; do shift; done\npid=$2\n{what}\necho attached >&2\nexec sleep 0.5\n"
    );
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// The output of a short run with `what` done in place of `explain --pid`.
fn run_with_harm(what: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let harm = harm(folder.path(), what);
    let done = guests(
        &[
            "--programs",
            "4",
            "--no-shrink",
            "--only",
            "explain over glibc",
        ],
        &[
            ("--probe", &library()),
            ("--highwater", &harm),
            ("--keep", folder.path()),
        ],
    )?;
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn a_watch_that_does_nothing_is_no_difference() {
    let Some(text) = run_with_harm("") else {
        return;
    };
    assert!(text.contains(" passed, 0 failed"), "{text}");
}

#[test]
fn a_watch_that_ends_the_process_is_a_difference() {
    let Some(text) = run_with_harm("kill -TERM $pid") else {
        return;
    };
    assert!(
        text.contains("signal 15 instead of exit status 0"),
        "{text}"
    );
}

/// At the start of the program's own code, which has been executed.
#[test]
fn a_breakpoint_that_stays_is_a_difference() {
    if !is_root() {
        return skipped("code of a process can be read and written by root only");
    }
    let what = "start=$(grep -m 1 ' r-xp ' /proc/$pid/maps | cut -d - -f 1)
printf '\\314' | dd of=/proc/$pid/mem bs=1 seek=$((0x$start)) conv=notrunc 2>/dev/null";
    let Some(text) = run_with_harm(what) else {
        return;
    };
    assert!(text.contains("code is not its file's"), "{text}");
}

fn is_root() -> bool {
    // SAFETY: takes nothing, and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

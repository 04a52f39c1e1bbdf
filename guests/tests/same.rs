//! A short run of the generated programs: each does the same with the probe as without.

use std::process::Command;

#[path = "../../highwater/tests/skipped/mod.rs"]
mod skipped;
use skipped::skipped;
#[path = "../../probe/preload/tests/library/mod.rs"]
mod library;
use library::library;

const PROGRAMS: &str = "100";
/// The run stops here on a slow machine, with fewer programs.
const SECONDS_MAX: &str = "60";

#[test]
fn programs_do_the_same_with_the_probe() {
    let arguments = [
        "--seed",
        "1",
        "--programs",
        PROGRAMS,
        "--seconds",
        SECONDS_MAX,
    ];
    let Some(passed) = passed(&arguments) else {
        return;
    };
    // A run in which hardly any program can be compared shows nothing.
    assert!(passed >= 20, "{passed} passed");
}

/// What once differed, all of it.
#[test]
fn the_kept_cases_do_the_same_with_the_probe() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/cases.txt");
    let text = std::fs::read_to_string(file).unwrap();
    let is_case = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let count = text.lines().filter(is_case).count();
    if let Some(passed) = passed(&["--cases", file]) {
        assert_eq!(passed, count, "some could not be compared");
    }
}

/// How many programs were compared and did the same. `None` without a compiler.
fn passed(arguments: &[&str]) -> Option<usize> {
    for compiler in ["cc", "c++"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            skipped(&format!("no {compiler} here"));
            return None;
        }
    }
    let keep = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_highwater-guests"))
        .args(arguments)
        .args(["--jobs", "2", "--probe"])
        .arg(library())
        .arg("--keep")
        .arg(keep.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let kept = keep.keep();
        panic!(
            "{text}{}\nkept in {}",
            String::from_utf8_lossy(&done.stderr),
            kept.display()
        );
    }
    let line = text.lines().find_map(|line| line.split_once(" passed, "));
    Some(line.map_or(0, |(number, _)| number.parse().unwrap_or(0)))
}

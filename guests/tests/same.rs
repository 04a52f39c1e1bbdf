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
    for compiler in ["cc", "c++"] {
        if Command::new(compiler).arg("--version").output().is_err() {
            skipped(&format!("no {compiler} here"));
            return;
        }
    }
    let keep = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_highwater-guests"))
        .args([
            "--seed",
            "1",
            "--jobs",
            "2",
            "--programs",
            PROGRAMS,
            "--seconds",
            SECONDS_MAX,
        ])
        .arg("--probe")
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
    // A run in which hardly any program can be compared shows nothing.
    let passed = text
        .lines()
        .find_map(|line| line.split_once(" passed, "))
        .map_or(0, |(number, _)| number.parse().unwrap_or(0));
    assert!(passed >= 20, "{text}");
}

//! A short run of the generated programs: each does the same with the probe as without.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../../highwater/tests/skipped/mod.rs"]
mod skipped;
use skipped::skipped;

const PROGRAMS: &str = "60";
/// The run stops here on a slow machine, with fewer programs.
const SECONDS_MAX: &str = "60";

/// The probe, built now in this test's own profile; or the one that `HIGHWATER_PROBE_LIBRARY` names.
fn probe() -> PathBuf {
    if let Some(named) = std::env::var_os("HIGHWATER_PROBE_LIBRARY") {
        return named.into();
    }
    let here = std::env::current_exe().unwrap();
    let folder = here.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--lib", "--package", "highwater-probe"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let done = cargo.output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    folder.join("libhighwater_probe.so")
}

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
            "--programs",
            PROGRAMS,
            "--seconds",
            SECONDS_MAX,
        ])
        .arg("--probe")
        .arg(probe())
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

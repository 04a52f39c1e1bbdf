//! The built probe, for the tests that run programs under it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The probe, built now in this test's own profile (cargo builds no cdylib for a test); or the one
/// that `HIGHWATER_PROBE_LIBRARY` names.
pub fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            std::env::var_os("HIGHWATER_PROBE_LIBRARY").map_or_else(build, PathBuf::from)
        })
        .clone()
}

fn build() -> PathBuf {
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

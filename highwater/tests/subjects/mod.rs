//! The programs of this folder, compiled when they or a header are newer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Path of the program; each test binary has a `folder` of its own, so that none is replaced while it runs.
pub fn program(folder: &str, name: &str) -> String {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _alone = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&folder).expect("a folder for programs");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/subjects");
    let source = sources.join(format!("{name}.c"));
    let parts = [source, sources.join("bounded.h"), sources.join("eats.h")];
    let binary = folder.join(name);
    if modified(&binary) <= parts.iter().map(|part| modified(part)).max().flatten() {
        compile(&parts, &binary);
    }
    binary.display().to_string()
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// Written aside and renamed: a text that is being written cannot be executed.
fn compile([source, bounded, _]: &[PathBuf; 3], binary: &Path) {
    let aside = binary.with_extension(std::process::id().to_string());
    let mut cc = Command::new("cc");
    let cc = cc.args(["-O1", "-Wall", "-include"]).arg(bounded);
    let status = cc.arg("-o").arg(&aside).arg(source).status();
    assert!(
        status.expect("cc runs").success(),
        "cc {}",
        source.display()
    );
    std::fs::rename(aside, binary).expect("the program moves to its place");
}

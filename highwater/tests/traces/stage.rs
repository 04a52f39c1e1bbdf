//! What the tests of record and replay share: the built programs, subjects in C, the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;
use testkit::skipped;

/// Builds the recorder and the replayer beside the command; `None` (and a line that says so) when that fails.
pub fn is_ready() -> bool {
    static BUILT: OnceLock<bool> = OnceLock::new();
    *BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--locked",
            "-p",
            "highwater-probe",
            "-p",
            "highwater-replayer",
        ]);
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let is_built = build.status().is_ok_and(|status| status.success());
        if !is_built {
            skipped("the recorder and the replayer could not be built");
        }
        is_built
    })
}

/// Compiles a subject into a folder; `None` (and a line that says so) without a compiler.
pub fn subject(name: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/traces/subjects")
        .join(name);
    let program = folder.join(Path::new(name).file_stem().unwrap());
    let mut compile = Command::new("cc");
    compile
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-ldl");
    match compile.status() {
        Ok(status) if status.success() => Some(program),
        _ => {
            skipped("no C compiler");
            None
        }
    }
}

/// A folder of its own with a compiled subject in it, once everything is built; `None` (and a line that says so) else.
pub fn ready(name: &str) -> Option<(TempDir, String)> {
    let folder = tempfile::tempdir().unwrap();
    let program = is_ready().then(|| subject(name, folder.path())).flatten()?;
    Some((folder, program.into_os_string().into_string().unwrap()))
}

/// Each of these is refused, with this exit code and these words.
pub fn are_refused(folder: &Path, cases: &[(&[&str], i32, &str)]) {
    for (words, code, part) in cases {
        let output = run(folder, words);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}

/// The command, in a folder.
pub fn highwater(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).current_dir(folder);
    command
}

/// Runs the command in a folder.
pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    highwater(folder, arguments).output().unwrap()
}

/// What it printed on stdout.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed on stderr.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

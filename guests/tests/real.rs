//! The runner of real programs (`guests/real/run`) finds harm: a library that changes how programs end is a difference,
//! one that does nothing is none. The programs themselves run in `make real-short` and `make real-programs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::skipped;

/// It has a mapping like the probe's records, by which the runner tells that the probe is in a process.
const HARMLESS: &str = "#define _GNU_SOURCE\n#include <sys/mman.h>\n#include <unistd.h>
__attribute__((constructor)) static void map(void) {
    int file = memfd_create(\"highwater-probe\", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, 4096)) _exit(9);
    mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0); close(file); }";
/// Without it a comparison would say nothing.
const NO_PROBE: &str = "int nothing;";
/// Another exit status, in every process of the program.
const ENDS: &str =
    "#include <unistd.h>\n__attribute__((destructor)) static void end(void) { _exit(3); }";
/// A process that goes on after the program.
const LEAVES: &str = "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void leave(void) {
    if (fork() == 0) { for (int fd = 0; fd < 9; fd++) close(fd); setsid(); sleep(60); _exit(0); } }";

fn library(folder: &Path, source: &str) -> PathBuf {
    let (text, file) = (folder.join("library.c"), folder.join("library.so"));
    std::fs::write(&text, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&file);
    assert!(compiler.arg(&text).status().unwrap().success());
    file
}

/// A run of one small program with `source` in the probe's place.
fn run_with(source: &str) -> Option<Output> {
    for tool in ["cc", "python3", "git"] {
        if !Command::new(tool)
            .arg("--version")
            .output()
            .is_ok_and(|done| done.status.success())
        {
            skipped(&format!("no {tool} here"));
            return None;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let library = library(folder.path(), source);
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("real/run");
    let mut command = Command::new("python3");
    command
        .arg(runner)
        .args([
            "--short",
            "--arms",
            "probe",
            "--programs",
            "git",
            "--rounds",
            "1",
        ])
        .arg("--probe")
        .arg(&library)
        // No arm of these attaches it.
        .args(["--highwater", env!("CARGO_BIN_EXE_highwater-guests")])
        .arg("--packages")
        .arg(folder.path().join("packages"))
        .arg("--store")
        .arg(folder.path().join("results.jsonl"));
    Some(command.output().unwrap())
}

/// The exit status, and what was printed.
fn outcome(source: &str) -> Option<(Option<i32>, String)> {
    let done = run_with(source)?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    Some((
        done.status.code(),
        text + &String::from_utf8_lossy(&done.stderr),
    ))
}

#[test]
fn a_library_that_does_nothing_is_no_difference() {
    let Some((code, text)) = outcome(HARMLESS) else {
        return;
    };
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 programs, 0 differences"), "{text}");
}

#[test]
fn a_probe_in_no_process_is_a_difference() {
    let Some((code, text)) = outcome(NO_PROBE) else {
        return;
    };
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("was seen in no process"), "{text}");
}

#[test]
fn another_exit_status_is_a_difference() {
    let Some((code, text)) = outcome(ENDS) else {
        return;
    };
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("commands: "), "{text}");
}

#[test]
fn a_process_left_behind_is_a_difference() {
    let Some((code, text)) = outcome(LEAVES) else {
        return;
    };
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("processes left: "), "{text}");
}

/// The thread that waits for the probe may end while children are counted: its folder in /proc is gone then.
#[test]
fn a_thread_that_has_just_ended_is_no_fault() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("real");
    let program = "import pathlib, leftover
pathlib.Path.iterdir = lambda folder: iter([folder / '4194305'])
print(leftover.reap_orphans())";
    let done = match Command::new("python3")
        .args(["-c", program])
        .current_dir(folder)
        .output()
    {
        Ok(done) => done,
        Err(error) => return skipped(&format!("no python3 here: {error}")),
    };
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "[]\n", "{errors}");
}

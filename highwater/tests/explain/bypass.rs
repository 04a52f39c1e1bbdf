//! Programs whose calls cannot all come by the probe: bound past it, or built with a sanitizer.

use std::fs;
use std::process::Command;

use crate::stage::{assert_adds_up, cause, compile, explain, explained, parsed, probe, scratch};
use testkit::skipped;

#[test]
fn a_library_that_frees_past_the_probe_is_named_and_no_site() {
    if probe().is_none() {
        return;
    }
    let library = compile("gcc", "frees.c", &["-shared", "-fPIC"], "libfrees.so");
    let program = compile("gcc", "deepbind.c", &["-ldl"], "deepbind");
    let words = [&program, &library].map(|path| path.to_str().unwrap());
    let json = explained(12, &words);
    assert_eq!(cause(&json), "blind", "{json:#}");
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("libfrees.so"), "{sentence}");
    assert!(!sentence.contains("request_buffer"), "{sentence}");
    assert_adds_up(&json);
}

/// `ends.c` with a sanitizer, or `None`, with a line, where the compiler or the machine lacks it.
fn sanitized(sanitizer: &str) -> Option<String> {
    let program = scratch().join(format!("ends_{sanitizer}"));
    let source = crate::stage::source("ends.c");
    let built = Command::new("gcc")
        .arg(format!("-fsanitize={sanitizer}"))
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output();
    if !built.is_ok_and(|output| output.status.success()) {
        skipped(&format!("gcc has no -fsanitize={sanitizer}"));
        return None;
    }
    let alone = Command::new(&program).output().unwrap();
    if alone.status.code() != Some(7) {
        skipped(&format!(
            "-fsanitize={sanitizer} does not run here: {alone:?}"
        ));
        return None;
    }
    Some(program.to_str().unwrap().to_owned())
}

fn check(sanitizer: &str, name: &str) {
    let Some(program) = sanitized(sanitizer).filter(|_| probe().is_some()) else {
        return;
    };
    let json = parsed(&explain(&["--json", "--quiet", "--", &program]));
    let notes = json["notes"].to_string();
    assert!(notes.contains("exit status: 7"), "{json:#}");
    assert!(notes.contains(name), "{json:#}");
    let instead = format!("without -fsanitize={sanitizer}");
    assert!(notes.contains(&instead), "{json:#}");
    assert_ne!(cause(&json), "mapping", "{json:#}");
}

/// What a launcher puts around a program is not known; what highwater runs under itself is.
#[test]
fn a_program_that_starts_under_a_filter_runs_without_the_probe_and_the_answer_says_why() {
    if probe().is_none() {
        return;
    }
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../probe/preload/tests/awkward/starts_confined.c"
    );
    let program = scratch().join("starts_confined");
    let built = Command::new("gcc")
        .args([source, "-o"])
        .arg(&program)
        .output();
    assert!(built.unwrap().status.success());
    let program = program.to_str().unwrap();
    let json = explained(3, &[program, "stay"]);
    let reason = json["probe_absent"].to_string();
    assert!(reason.contains("seccomp filter"), "{json:#}");
    let json = explained(3, &[program, "churn"]);
    assert!(json["probe_absent"].is_null(), "{json:#}");
}

#[test]
fn a_program_with_address_sanitizer_runs_without_the_probe() {
    check("address", "AddressSanitizer");
}

#[test]
fn a_program_with_thread_sanitizer_runs_without_the_probe() {
    check("thread", "ThreadSanitizer");
}

#[test]
fn an_arm_with_a_sanitizer_runs_without_the_probe() {
    let Some(program) = sanitized("address").filter(|_| probe().is_some()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "name = \"sanitized\"\nhypothesis = \"it starts\"\ncontrol = \"plain\"\nreplicas = 1\nduration = \"1500ms\"\ninterval = \"250ms\"\n\
         warmup = \"0s\"\nprobe = true\n[subject]\ncommand = [{program:?}, \"stay\"]\n[[arms]]\nname = \"plain\"\n\
         [[arms]]\nname = \"same\"\n"
    );
    fs::write(folder.path().join("sanitized.toml"), text).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["run", "sanitized.toml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(!said.contains("vanished"), "{said}");
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ");
    assert!(
        said.contains(
            "arm same runs without the probe: the program is built with AddressSanitizer"
        ),
        "{said}"
    );
    assert!(!said.contains("ASan runtime does not come first"), "{said}");
}

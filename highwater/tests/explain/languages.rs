//! The same questions in other languages. Most are long and need a compiler: those are for `make test-long`.

use std::path::PathBuf;
use std::process::Command;

use crate::stage::{
    assert_adds_up, cause, compile, explained, probe, scratch, source, top_function,
};
use testkit::skipped;

/// Whether a tool is there; else says so.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("{tool} is missing"));
    }
    found && probe().is_some()
}

fn check(command: &[&str], cause_wanted: &str, function: &str) {
    let json = explained(16, command);
    assert_eq!(cause(&json), cause_wanted, "{command:?}: {json:#}");
    assert_adds_up(&json);
    let named = top_function(&json);
    assert!(named.contains(function), "{command:?}: {named} {json:#}");
}

fn built(name: &str, build: &mut Command) -> PathBuf {
    let program = scratch().join(name);
    let status = build.arg("-o").arg(&program).status();
    assert!(status.is_ok_and(|status| status.success()), "{name}");
    program
}

#[test]
#[ignore = "a minute: C++ with its containers"]
fn cplusplus() {
    if !has("g++") {
        return;
    }
    let program = compile("g++", "cxx.cpp", &["-ldl"], "cxx");
    let run = |which: &str, cause: &str, function: &str| {
        check(&[program.to_str().unwrap(), which], cause, function);
    };
    run("new", "leak", "open_session");
    run("array", "leak", "open_row");
    run("map", "filling", "remember");
}

#[test]
#[ignore = "a minute: Rust with its collections"]
fn rust() {
    if !has("rustc") {
        return;
    }
    let mut build = Command::new("rustc");
    let program = built("rusty", build.args(["-g", "-O"]).arg(source("rusty.rs")));
    let run = |which: &str, cause: &str, function: &str| {
        check(&[program.to_str().unwrap(), which], cause, function);
    };
    run("forget", "leak", "forget_ticket");
    run("intern", "leak", "intern_name");
    run("map", "filling", "remember");
}

#[test]
#[ignore = "half a minute: Go with C in it"]
fn go_with_c() {
    if Command::new("go").arg("version").output().is_err() || probe().is_none() {
        skipped("go is missing");
        return;
    }
    let program = scratch().join("gomix");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".");
    let status = build.current_dir(source("gomix")).status();
    assert!(status.is_ok_and(|status| status.success()));
    let program = program.to_str().unwrap();
    check(&[program, "c"], "leak", "keep_page");
    // C's malloc called from Go: the frame behind it lies on the goroutine's stack.
    check(&[program, "malloc"], "leak", "main.borrow");
    check(&[program, "go"], "managed", "");
}

/// From CPython 3.11 on: its frames are read, or it is asked for a map of its functions.
#[test]
fn functions_of_python_are_named() {
    if !has("python3") {
        return;
    }
    if !python_runs("import sys; sys.exit(sys.version_info < (3, 11))") {
        return skipped("this Python is older than 3.11");
    }
    let script = source("objects.py");
    let script = script.to_str().unwrap();
    let json = explained(16, &["python3", script, "buffers"]);
    // The list that holds the buffers holds their blocks.
    assert_eq!(cause(&json), "managed", "{json:#}");
    let sentence = json["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("keep_buffer (objects.py:"), "{json:#}");
    assert_eq!(top_function(&json), "keep_buffer", "{json:#}");
    let frame = &json["sites"][0]["frames"][0];
    assert!(frame["file"].as_str().unwrap().ends_with("objects.py"));
    let called_by = &json["sites"][0]["frames"][1]["function"];
    assert_eq!(called_by, "<module>", "{json:#}");
}

fn python_runs(code: &str) -> bool {
    let status = Command::new("python3").args(["-c", code]).status();
    status.is_ok_and(|status| status.success())
}

/// The interpreter and its module of foreign functions only do what the caller says; the library is somebody's.
#[test]
fn a_library_that_python_calls_is_named_itself() {
    if !has("python3") {
        return;
    }
    let script = source("objects.py");
    let library = compile("gcc", "rows.c", &["-shared", "-fPIC"], "librows.so");
    let (script, library) = (script.to_str().unwrap(), library.to_str().unwrap());
    for by in ["ctypes", "cffi"] {
        if !python_runs(&format!("import {by}")) {
            skipped(&format!("this Python has no {by}"));
            continue;
        }
        check(&["python3", script, by, library], "leak", "keep_row");
    }
}

#[test]
#[ignore = "a quarter of a minute: CPython"]
fn python() {
    if !has("python3") {
        return;
    }
    let script = source("objects.py");
    check(
        &["python3", script.to_str().unwrap(), "records"],
        "managed",
        "",
    );
}

//! What cannot be explained is said in clear words, with the exit code that docs/reference/explain.md gives.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::stage::{Running, cause, compile, explain, explained, parsed, probe, top_function};
use testkit::skipped;

fn refused(words: &[&str], code: i32, expected: &str) {
    let output = explain(words);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {err}");
    assert!(err.contains(expected), "{words:?}: {err}");
}

#[test]
fn mistakes_are_usage() {
    refused(&[], 2, "required");
    refused(&["--pid", "1", "--", "true"], 2, "cannot be used with");
    refused(
        &["--duration", "0s", "--pid", "1"],
        2,
        "longer than nothing",
    );
    refused(&["--diff", "9s,3s", "--pid", "1"], 2, "FROM,TO");
    refused(&["--flamegraph", "x.png", "--pid", "1"], 2, ".svg or .html");
    refused(
        &["--pprof", "/nowhere/at/all/x", "--pid", "1"],
        2,
        "is not there",
    );
}

/// What stands there would run with the rights of the program.
#[test]
fn a_probe_that_others_can_replace_is_refused() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libhighwater_probe.so");
    std::fs::write(&library, "").unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["explain", "--duration", "1s", "--", "sleep", "9"])
        .env("HIGHWATER_PROBE_LIBRARY", &library)
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_ne!(output.status.code(), Some(0), "{err}");
    for part in ["another user could replace it", "mode 777", "chmod go-w"] {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn programs_and_pids_that_are_not_there() {
    refused(&["--", "/nowhere/at-all"], 4, "no such file");
    refused(&["--", "no-such-program-anywhere"], 4, "not found in PATH");
    refused(&["--pid", "2147483000"], 4, "no process with pid");
    refused(&["--quiet", "--", "true"], 4, "ended at once");
}

#[test]
fn a_kernel_thread_has_no_memory() {
    // Pid 2 is kthreadd, except in a pid namespace of its own.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd") {
        refused(&["--pid", "2", "--quiet"], 4, "no memory of its own");
    } else {
        skipped("pid 2 is no kernel thread here");
    }
}

#[test]
fn a_process_of_another_user_is_said_to_be_one() {
    if !rustix::process::geteuid().is_root() {
        refused(&["--pid", "1", "--quiet"], 4, "may not be read");
        return;
    }
    let found = Command::new("setpriv").arg("--version").output();
    if found.is_err() {
        skipped("setpriv is missing, nobody to be");
        return;
    }
    let running = Running::start(Command::new("sleep").arg("30"));
    // The binary may lie where nobody may not look: then this says nothing.
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_highwater"))
        .args(["explain", "--quiet", "--pid", &running.pid()])
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(4) {
        assert!(err.contains("may not be read"), "{err}");
    } else {
        skipped(&format!("nobody cannot run the binary: {err}"));
    }
}

#[test]
fn a_static_program_without_symbols_is_blind_or_told_by_headers() {
    let program = compile("gcc", "shapes.c", &["-static", "-s"], "shapes-static");
    let words = [
        "--json",
        "--quiet",
        "--duration",
        "8s",
        "--every",
        "300ms",
        "--",
    ];
    let output = explain(&[&words[..], &[program.to_str().unwrap(), "leak"]].concat());
    let json = parsed(&output);
    assert!(
        json["probe_absent"].as_str().unwrap().contains("static"),
        "{json:#}"
    );
    // Some snapshots may find the heap by its headers: then it grows, and nobody can say where.
    let next = json["verdict"]["next_step"].as_str().unwrap();
    match cause(&json) {
        "filling" => assert_eq!(json["sites"], serde_json::json!([]), "{json:#}"),
        said => {
            assert!(said == "blind" && next.contains("dynamically"), "{json:#}");
            assert!(next.contains("do not strip"), "{json:#}");
        }
    }
}

#[test]
fn a_process_that_ends_meanwhile_is_said_to_have_ended() {
    let running = Running::start(Command::new("sleep").arg("2"));
    let output = explain(&["--quiet", "--duration", "30s", "--pid", &running.pid()]);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        out.contains("has ended") || err.contains("no process with pid"),
        "{out}{err}"
    );
}

/// Its file cannot be read to its end, ever: the answer comes all the same, without the names.
#[test]
fn names_that_never_come_do_not_hold_the_answer_back() {
    if probe().is_none() {
        return;
    }
    let program = compile("gcc", "pipe.c", &["-ldl"], "pipe");
    let plugin = compile(
        "gcc",
        "pipe.c",
        &["-shared", "-fPIC", "-DPLUGIN"],
        "pipe.so",
    );
    let json = explained(10, &[program.to_str().unwrap(), plugin.to_str().unwrap()]);
    assert_eq!(cause(&json), "leak", "{json:#}");
    assert!(json["rss_bytes"].as_u64() > Some(1 << 20), "{json:#}");
}

/// Killed with no chance to clean up, highwater leaves no program behind that nobody knows of.
#[test]
fn the_program_ends_with_a_highwater_that_is_killed() {
    let mut highwater = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["explain", "--quiet", "--duration", "600s", "--", "sh", "-c"])
        .arg("echo pid $$; exec sleep 600")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(highwater.stderr.take().unwrap());
    let mut lines = told.lines().map_while(Result::ok);
    let pid = lines.find_map(|line| line.strip_prefix("pid ").map(str::to_owned));
    let program = Path::new("/proc").join(pid.unwrap());
    assert!(program.exists());
    highwater.kill().unwrap();
    highwater.wait().unwrap();
    while lives(&program) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Neither gone nor waiting to be collected.
fn lives(process: &Path) -> bool {
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !stat.is_empty() && !state.starts_with('Z')
}

/// A container: other mounts, another /proc, and pids that mean something else here.
#[test]
fn a_program_in_namespaces_of_its_own_is_explained_as_any_other() {
    let apart = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"];
    let tried = Command::new(apart[0])
        .args(&apart[1..])
        .arg("true")
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        skipped("no namespaces here");
        return;
    }
    if probe().is_none() {
        return;
    }
    let program = compile("gcc", "shapes.c", &[], "shapes-apart");
    let json = explained(
        10,
        &[&apart[..], &[program.to_str().unwrap(), "leak"]].concat(),
    );
    assert_eq!(cause(&json), "leak", "{json:#}");
    assert_eq!(top_function(&json), "forget_session", "{json:#}");
}

/// What the program wrote over is not read; it is said, and the program runs on.
#[test]
fn a_probe_that_was_written_over_or_is_of_another_version_is_said_to_be() {
    if probe().is_none() {
        return;
    }
    let program = compile("gcc", "overwritten.c", &[], "overwritten");
    for (what, expected) in [("all", "wrote over it"), ("version", "layout version")] {
        let words = [
            "--json",
            "--quiet",
            "--duration",
            "3s",
            "--every",
            "300ms",
            "--",
        ];
        let output = explain(&[&words[..], &[program.to_str().unwrap(), what]].concat());
        let json = parsed(&output);
        let why = json["probe_absent"].as_str().unwrap_or_default();
        assert!(why.contains(expected), "{what}: {json:#}");
        assert_eq!(json["sites"], serde_json::json!([]), "{what}: {json:#}");
    }
}

//! Managed heaps of processes that run already: types, holders, sites and tasks, of programs of the corpus.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::stage::{Running, cause, explain, parsed, scratch};
use testkit::skipped;

fn case(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("corpus/memory").join(name)
}

/// The first of these that runs; else says so.
fn found(programs: &[&str]) -> Option<String> {
    let runs = |program: &&&str| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|out| out.status.success())
    };
    let found = programs
        .iter()
        .find(runs)
        .map(|program| (*program).to_owned());
    if found.is_none() {
        skipped(&format!("none of {} is installed", programs.join(", ")));
    }
    found
}

/// What `explain` answers for a process, once its heap is warm.
fn answer(command: &mut Command, words: &[&str]) -> Value {
    let running = Running::start(command);
    std::thread::sleep(std::time::Duration::from_secs(4));
    let pid = running.pid();
    let all = [
        &["--json", "--quiet", "--duration", "12s", "--pid", &pid],
        words,
    ]
    .concat();
    let json = parsed(&explain(&all));
    assert!(
        Path::new(&format!("/proc/{pid}")).exists(),
        "it lives: {json:#}"
    );
    json
}

fn sentence(json: &Value) -> &str {
    json["verdict"]["sentence"].as_str().unwrap_or_default()
}

/// Every interpreter whose layout is known is tried in crates/runtimes; this is the way to the answer.
#[test]
fn of_python_the_type_its_holder_and_the_function_are_named() {
    let Some(python) = found(&[
        "/usr/bin/python3.11",
        "python3.12",
        "python3.13",
        "python3.11",
    ]) else {
        return;
    };
    let json = answer(
        Command::new(python).arg(case("python/sessions_never_expire/app.py")),
        &[],
    );
    assert_eq!(cause(&json), "managed", "{json:#}");
    for part in [
        "__main__.Session",
        ".SESSIONS",
        "SessionStore.open_session (app.py:",
    ] {
        assert!(sentence(&json).contains(part), "{part}: {json:#}");
    }
    let managed = &json["managed"];
    assert_eq!(managed["paused_s"], 0.0, "{managed:#}");
    assert_eq!(managed["holders"][0]["kept"], "path", "{managed:#}");
}

/// Data in sockets and files that no process has mapped are in no RSS.
#[test]
fn what_is_in_no_mapping_is_named() {
    let Some(python) = found(&["python3.11", "python3"]) else {
        return;
    };
    for (name, word, expected, parts) in [
        (
            "feeds_never_read",
            "",
            "sockets",
            &["unread data of connections to 127.0.0.1:"][..],
        ),
        ("feeds_never_read", "closed", "flat", &[]),
        (
            "spool_in_memory",
            "",
            "files",
            &["/dev/shm/faxes-", "(tmpfs)"],
        ),
        (
            "recordings_without_a_name",
            "",
            "files",
            &["memfd:recording-0"],
        ),
    ] {
        let program = case(&format!("python/{name}/app.py"));
        let json = answer(Command::new(&python).arg(program).arg(word), &[]);
        assert_eq!(cause(&json), expected, "{name} {word}: {json:#}");
        for part in parts {
            assert!(sentence(&json).contains(part), "{part}: {json:#}");
        }
    }
}

fn built_by_go(name: &str, options: &[&str]) -> PathBuf {
    let program = scratch().join(format!("{}{}", name.replace('/', "-"), options.len()));
    let mut build = Command::new("go");
    build.arg("build").args(options).arg("-o").arg(&program);
    let status = build.arg("app.go").current_dir(case(name)).status();
    assert!(status.is_ok_and(|status| status.success()), "{name}");
    program
}

/// Blocks of C: which function of Go asked for them is on the goroutine's stack alone.
#[test]
fn of_go_the_function_that_calls_c_is_named_without_symbols_too() {
    if Command::new("go").arg("version").output().is_err() {
        skipped("go is missing");
        return;
    }
    for options in [&[][..], &["-ldflags=-s -w"]] {
        let program = built_by_go("go/c_thumbnails_not_freed", options);
        let json = answer(&mut Command::new(program), &[]);
        if json["uprobes"].is_null() {
            skipped("uprobes need root");
            return;
        }
        assert_eq!(cause(&json), "leak", "{json:#}");
        if cfg!(target_arch = "x86_64") {
            let place = "main.renderThumbnail (app.go:";
            assert!(sentence(&json).contains(place), "{options:?} {json:#}");
        }
    }
}

#[test]
fn of_go_the_goroutines_and_who_starts_them_are_named() {
    if Command::new("go").arg("version").output().is_err() {
        skipped("go is missing");
        return;
    }
    let program = built_by_go("go/goroutines_blocked_on_a_channel", &[]);
    let json = answer(&mut Command::new(program), &[]);
    assert_eq!(cause(&json), "leak", "{json:#}");
    assert!(sentence(&json).contains("started by main."), "{json:#}");
    let top = &json["managed"]["tasks"][0];
    assert!(
        top["waits_for"]
            .as_str()
            .is_some_and(|wait| wait.starts_with("chan")),
        "{top:#}"
    );
}

/// Without leave nothing stops a program: what can be read from outside is read.
#[test]
fn of_node_types_and_their_holder_are_named_without_a_pause() {
    let Some(node) = found(&["node"]) else {
        return;
    };
    let mut command = Command::new(node);
    command.arg(case("node/cache_without_bound/app.js"));
    let json = answer(&mut command, &[]);
    assert_eq!(json["overhead"]["pauses"]["count"], 0, "{json:#}");
    let managed = &json["managed"];
    if cfg!(not(target_arch = "x86_64")) {
        return assert!(managed.is_null(), "{json:#}");
    }
    assert_eq!(managed["paused_s"], 0.0, "{managed:#}");
    let types = managed["types"].as_array().unwrap();
    let translation = types.iter().find(|of| of["name"] == "Translation");
    let grown = translation.map(|of| of["objects"]["grown"].as_f64() > Some(100.0));
    assert_eq!(grown, Some(true), "{managed:#}");
    let holders = managed["holders"].to_string();
    assert!(holders.contains(".byText (Map)"), "{holders}");
    let missing = managed["missing"].to_string();
    assert!(missing.contains("--allow-pause"), "{missing}");
}

#[test]
fn of_node_the_heap_is_read_where_a_pause_is_allowed() {
    let Some(node) = found(&["node"]) else {
        return;
    };
    let mut command = Command::new(node);
    command.arg(case("node/cache_without_bound/app.js"));
    let json = answer(&mut command, &["--allow-pause", "2s"]);
    // How many snapshots there are depends on how long the program was stopped; sites have tests in crates/runtimes.
    let managed = &json["managed"];
    assert!(
        managed["runtime"]
            .as_str()
            .is_some_and(|name| name.starts_with("Node.js")),
        "{json:#}"
    );
    assert!(managed["snapshots"].as_u64() >= Some(2), "{managed:#}");
    assert!(
        managed["heap"]["used_bytes"].as_u64() > Some(1 << 20),
        "{managed:#}"
    );
    let paused_s = json["managed"]["paused_s"].as_f64().unwrap_or_default();
    assert!(paused_s > 0.0 && paused_s < 12.0, "{paused_s} {json:#}");
}

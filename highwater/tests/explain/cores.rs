//! What a process that has ended was made of: real cores of the kernel's.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use testkit::skipped;

use crate::stage::{compile, explain, parsed, part};

fn program(flags: &[&str], name: &str) -> PathBuf {
    compile("g++", "ended.cpp", flags, name)
}

fn ended() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| program(&[], "ended")).clone()
}

/// The program runs to where it waits; `meanwhile` is asked then; its core.
fn core_of<T>(
    program: &Path,
    shape: &str,
    meanwhile: impl Fn(u32) -> T,
) -> Option<(tempfile::TempDir, PathBuf, T)> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() != "core" {
        skipped(&format!(
            "cores go elsewhere here: kernel.core_pattern is {}",
            pattern.trim()
        ));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut running = Command::new(program)
        .arg(shape)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    let seen = meanwhile(running.id());
    running.stdin.take().unwrap().write_all(b"\n").unwrap();
    running.wait().unwrap();
    let cores: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    match cores.as_slice() {
        [core] => Some((folder, core.clone(), seen)),
        _ => {
            skipped("the kernel wrote no core: is its size limited?");
            None
        }
    }
}

fn asked(core: &Path, more: &[&str]) -> (Value, Option<i32>) {
    let mut words = vec!["--quiet", "--json", "--core", core.to_str().unwrap()];
    words.extend(more);
    let done = explain(&words);
    let text = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    (
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}")),
        done.status.code(),
    )
}

fn explained(shape: &str) -> Option<(Value, Option<i32>)> {
    let (_folder, core, ()) = core_of(&ended(), shape, |_| ())?;
    Some(asked(&core, &[]))
}

/// The blocks of one kind: a class, or so many bytes with their headers.
fn kind<'a>(json: &'a Value, name: &str, value: impl Into<Value>) -> &'a Value {
    let value = value.into();
    let kinds = json["in_use"]["kinds"].as_array().unwrap();
    kinds
        .iter()
        .find(|kind| kind[name] == value)
        .unwrap_or_else(|| panic!("no {value}: {json:#}"))
}

#[test]
fn objects_that_nothing_points_to_are_a_leak_by_their_class() {
    let Some((json, code)) = explained("leak") else {
        return;
    };
    assert_eq!(
        (json["verdict"]["cause"].as_str(), code),
        (Some("leak"), Some(0)),
        "{json:#}"
    );
    assert_eq!(json["signal"], "SIGABRT");
    let orders = kind(&json, "class", "Order");
    assert_eq!(orders["count"], 20_000);
    // The last one may still stand in a register or on the stack.
    assert!(
        orders["lost_count"].as_u64().unwrap() >= 19_990,
        "{orders:#}"
    );
    let others =
        json["in_use"]["lost_count"].as_u64().unwrap() - orders["lost_count"].as_u64().unwrap();
    assert_eq!(others, 0, "{json:#}");
}

#[test]
fn what_a_variable_holds_is_no_leak_and_the_variable_is_named() {
    for (flags, name) in [
        (&[][..], "ended"),
        (&["-no-pie", "-static"][..], "ended_fixed"),
    ] {
        let Some((_folder, core, ())) = core_of(&program(flags, name), "cache", |_| ()) else {
            return;
        };
        let (json, code) = asked(&core, &[]);
        assert_eq!(
            (json["verdict"]["cause"].as_str(), code),
            (Some("undecided"), Some(3)),
            "{json:#}"
        );
        let sessions = kind(&json, "block_bytes", 128);
        // The C library has some of that size in a static program.
        let count = sessions["count"].as_u64().unwrap();
        assert!((20_000..20_010).contains(&count), "{json:#}");
        assert_eq!(
            sessions["held_by"][0]["place"],
            format!("open_sessions ({name})")
        );
        assert_eq!(json["in_use"]["lost_count"], 0, "{json:#}");
    }
}

#[test]
fn free_heap_and_stacks_are_named() {
    for (shape, cause) in [("holes", "retention"), ("threads", "stacks")] {
        let Some((json, code)) = explained(shape) else {
            return;
        };
        assert_eq!(
            (json["verdict"]["cause"].as_str(), code),
            (Some(cause), Some(0)),
            "{json:#}"
        );
    }
}

#[test]
fn what_only_a_stack_holds_is_no_leak() {
    let Some((json, _)) = explained("passing") else {
        return;
    };
    assert_eq!(json["in_use"]["lost_count"], 0, "{json:#}");
    let nodes = kind(&json, "block_bytes", 80);
    let place = nodes["held_by"][0]["place"].as_str().unwrap();
    assert!(place.starts_with("the stack of thread"), "{nodes:#}");
}

/// The same account as of the process while it ran, part by part.
#[test]
fn a_core_has_the_account_of_the_process() {
    for shape in ["leak", "cache", "holes", "threads"] {
        let live = |pid: u32| {
            let pid = pid.to_string();
            parsed(&explain(&[
                "--json",
                "--quiet",
                "--read-only",
                "--duration",
                "1s",
                "--pid",
                &pid,
            ]))
        };
        let Some((_folder, core, live)) = core_of(&ended(), shape, live) else {
            return;
        };
        let (core, _) = asked(&core, &[]);
        for name in [
            "live_heap",
            "allocator_held",
            "fragmentation",
            "thread_stacks",
        ] {
            let (now, then) = (part(&core, name), part(&live, name));
            let close = 0.01 * live["rss_bytes"].as_f64().unwrap();
            assert!(
                (now - then).abs() <= close,
                "{shape}: {name} {now}, {then} alive\n{core:#}"
            );
        }
    }
}

#[test]
fn a_program_that_lies_elsewhere_now_is_found_with_exe() {
    let folder = tempfile::tempdir().unwrap();
    let (there, moved) = (folder.path().join("served"), folder.path().join("moved"));
    std::fs::copy(ended(), &there).unwrap();
    let Some((_folder, core, ())) = core_of(&there, "leak", |_| ()) else {
        return;
    };
    std::fs::rename(&there, &moved).unwrap();
    let (without, _) = asked(&core, &[]);
    let notes = without["notes"].to_string();
    assert!(
        notes.contains("Not there") && notes.contains("served"),
        "{notes}"
    );
    assert!(
        !without["in_use"].to_string().contains("Order"),
        "{without:#}"
    );
    let (with, _) = asked(&core, &["--exe", moved.to_str().unwrap()]);
    assert_eq!(kind(&with, "class", "Order")["count"], 20_000);
}

#[test]
fn a_core_that_was_cut_says_what_is_missing_and_accuses_nobody() {
    let Some((_folder, core, ())) = core_of(&ended(), "leak", |_| ()) else {
        return;
    };
    let length = std::fs::metadata(&core).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(&core)
        .unwrap()
        .set_len(length / 2)
        .unwrap();
    let (json, code) = asked(&core, &[]);
    assert_ne!(json["verdict"]["cause"], "leak");
    assert_eq!((code, &json["in_use"]), (Some(3), &Value::Null), "{json:#}");
    assert!(json["notes"].to_string().contains("ends early"), "{json:#}");
}

#[test]
fn what_is_no_core_is_an_error_that_says_so() {
    let program = ended();
    for (file, words) in [
        (program.to_str().unwrap(), "a program or a library"),
        ("/dev/zero", "not a regular file"),
        ("/nowhere/core", "No such file"),
    ] {
        let done = explain(&["--core", file]);
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(4), "{errors}");
        assert!(errors.contains(words) && errors.contains(file), "{errors}");
    }
    let both = explain(&["--core", "core", "--duration", "5s"]);
    assert_eq!(both.status.code(), Some(2));
}

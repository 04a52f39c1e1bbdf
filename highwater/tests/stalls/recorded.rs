//! A watch that is recorded, and analysed again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::watched::{BOTH, c, highwater, two_pairs, watch_with};
use testkit::skipped;

fn replayed(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(highwater());
    command.args(["stalls", "--replay"]).arg(file).args(more);
    command.output().unwrap()
}

fn value(output: &Output) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_recorded_watch_says_the_same_when_it_is_analysed_again() {
    for mode in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w.hws");
        let record = ["--record", file.to_str().unwrap()];
        let Some(seen) = watch_with(mode, c("exporter"), &[], &record) else {
            continue;
        };
        assert!(seen.row("lock").number("/total_ns") > 0);
        let again = value(&replayed(&file, &["--json"]));
        assert_eq!(again, seen.found, "of the recording, and of the watch");
        let asked = value(&replayed(&file, &["--json", "--threshold", "10s"]));
        assert_eq!(asked["findings"].as_array().unwrap().len(), 0);
        let text = replayed(&file, &[]);
        let text = String::from_utf8(text.stdout).unwrap();
        // Its columns are as wide as the widest name.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("ship_batch: network read from 127.0.0.1:"),
            "{text}"
        );
        assert!(text.contains("what this cost the subject"), "{text}");
    }
}

#[test]
fn what_a_killed_recorder_wrote_is_analysed() {
    let service = two_pairs();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.hws");
    let mut recorder = Command::new(highwater())
        .args(["stalls", "--json", "--pid", &service.0.id().to_string()])
        .args(["--record", file.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sleep(Duration::from_secs(4));
    recorder.kill().unwrap();
    let ended = recorder.wait_with_output().unwrap();
    if ended.status.code().is_some() {
        return skipped(&String::from_utf8_lossy(&ended.stderr));
    }
    let found = value(&replayed(&file, &["--json"]));
    let watched_ns = found["self_checks"]["watched_ns"].as_u64().unwrap();
    assert!((1..4_000_000_000).contains(&watched_ns), "{watched_ns}");
    let missing = found["self_checks"]["missing"].to_string();
    assert!(missing.contains("the end of the recording"), "{missing}");
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_watch() {
    let service = two_pairs();
    let Some(small) = Small::mount() else {
        return;
    };
    let file = small.folder.path().join("w.hws");
    let pid = service.0.id().to_string();
    let output = Command::new(highwater())
        .args(["stalls", "--json", "--duration", "5s", "--mode", "rootless"])
        .args(["--pid", &pid, "--record"])
        .arg(&file)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(4) && output.stdout.is_empty() {
        return skipped(&words);
    }
    assert_eq!(output.status.code(), Some(4), "{words}");
    assert!(words.contains("ends before the watch"), "{words}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let watched_ns = found["self_checks"]["watched_ns"].as_u64();
    assert!(watched_ns > Some(4_500_000_000), "{watched_ns:?}");
    let again = value(&replayed(&file, &["--json"]));
    assert_eq!(again["pid"], service.0.id());
    let missing = again["self_checks"]["missing"].to_string();
    assert!(missing.contains("the end of the recording"), "{missing}");
    // What is there already is left as it is.
    let output = Command::new(highwater())
        .args(["stalls", "--pid", &pid, "--record"])
        .arg(&file)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{words}");
    assert!(words.contains("exists already"), "{words}");
    assert!(replayed(&file, &["--json"]).status.success());
}

/// A file system of 16 KiB, gone at the end.
struct Small {
    folder: TempDir,
}

impl Small {
    /// `None`, with the reason printed, where this user may not mount.
    fn mount() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
            .arg(folder.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Small { folder }),
            Ok(output) => {
                skipped(&String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(error) => {
                skipped(&error.to_string());
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
fn what_is_no_recording_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("garbage.hws");
    fs::write(&file, b"not a recording").unwrap();
    let output = replayed(&file, &[]);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(words.contains("no recording of a watch"), "{words}");
    let both = replayed(&file, &["--pid", "1"]);
    assert_eq!(both.status.code(), Some(2), "one or the other");
}

//! The clock of the day is set while a watch runs: nothing of it is seen.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::watched::{BOTH, Ended, Mode, built, c, highwater, services};
use testkit::skipped;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A library that sets the clock of whatever program it is loaded into.
fn stepping() -> PathBuf {
    let library = built().join("stepped.so");
    let status = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &services().join("stepped.c")])
        .status()
        .unwrap();
    assert!(status.success());
    library
}

/// Seconds of the day's clock as a program under the library has them, which steps at once.
fn day_s(library: Option<&Path>) -> i64 {
    let mut date = Command::new("date");
    date.arg("+%s").env("STEP_AFTER_MS", "0");
    if let Some(library) = library {
        date.env("LD_PRELOAD", library);
    }
    let said = date.output().unwrap().stdout;
    String::from_utf8_lossy(&said).trim().parse().unwrap()
}

fn watched(library: &Path, mode: Mode, pid: u32) -> Option<Value> {
    let output = Command::new(highwater())
        .args([
            "stalls",
            "--json",
            "--duration",
            "6s",
            "--mode",
            mode.word(),
        ])
        .args(["--pid", &pid.to_string()])
        .env("LD_PRELOAD", library)
        .output()
        .unwrap();
    if output.status.code() == Some(4) {
        skipped(&String::from_utf8_lossy(&output.stderr));
        return None;
    }
    assert_eq!(output.status.code(), Some(0));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Both the service's and the watch's own clock jump by an hour, twice.
#[test]
fn a_clock_that_is_set_changes_nothing() {
    let library = stepping();
    let ahead = day_s(Some(&library)) - day_s(None);
    assert!((3_500..3_700).contains(&ahead), "no step: {ahead} s");
    for mode in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let service = Command::new(c("exporter"))
            .arg(folder.path().join("truth"))
            .arg("14")
            .env("LD_PRELOAD", &library)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let service = Ended(service);
        sleep(Duration::from_millis(800));
        let Some(found) = watched(&library, mode, service.0.id()) else {
            continue;
        };
        let rows = found["findings"].as_array().unwrap();
        let lock = rows.iter().find(|row| row["cause"] == "lock");
        let lock = lock.unwrap_or_else(|| panic!("{}: {found:#}", mode.word()));
        assert!(lock["count"].as_u64() > Some(1), "{lock:#}");
        assert!(found["self_checks"]["watched_ns"].as_u64() < Some(HOUR_NS / 2));
        for row in rows {
            for field in ["longest_ns", "total_ns", "period_ns"] {
                let ns = row[field].as_u64().unwrap_or(0);
                assert!(ns < HOUR_NS / 2, "{}: {field} of {row:#}", mode.word());
            }
        }
    }
}

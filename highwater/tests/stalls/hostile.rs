//! What may be wrong with a process or a machine: said in words, and what was found stands.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::watched::{BOTH, Ended, Mode, attached, c, highwater, pingpong, watch, woven};
use testkit::skipped;

#[test]
fn a_stripped_program_has_the_cause_without_the_name() {
    let program = woven();
    let stripped = program.with_extension("stripped");
    let status = Command::new("strip")
        .arg("-o")
        .args([&stripped, &program])
        .status();
    if !status.is_ok_and(|status| status.success()) {
        skipped("strip (binutils) is not there");
        return;
    }
    let Some(seen) = watch(Mode::Ebpf, stripped, &["crowd", "hold=150"]) else {
        return;
    };
    let row = seen.row("lock");
    assert!(row.text("/culprit/doing").contains("sleep"), "{:#}", row.0);
}

#[test]
fn a_process_that_ends_midway_leaves_its_findings() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("truth");
    let output = Command::new(highwater())
        .args(["stalls", "--json", "--duration", "60s", "--"])
        .arg(woven())
        .arg(log)
        .args(["4", "crowd", "hold=150"])
        .output()
        .unwrap();
    if output.status.code() == Some(4) {
        skipped(&String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = found["findings"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["cause"] == "lock"), "{found:#}");
}

#[test]
fn a_process_that_is_not_there_and_one_that_ends_are_said_in_words() {
    let gone = Command::new(highwater())
        .args(["stalls", "--pid", "4194304"])
        .output()
        .unwrap();
    assert_eq!(gone.status.code(), Some(4));
    let words = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert!(
        words.contains("there is no process with pid 4194304"),
        "{words}"
    );
    let short = Command::new(highwater())
        .args(["stalls", "--json", "--", "sleep", "0.3"])
        .output()
        .unwrap();
    if short.status.code() == Some(4) {
        skipped(&String::from_utf8_lossy(&short.stderr));
        return;
    }
    assert_eq!(
        short.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&short.stderr)
    );
    let found: Value = serde_json::from_slice(&short.stdout).unwrap();
    assert_eq!(found["schema"], "highwater.stalls/1");
}

/// Its locks name their owners by the numbers that threads have in there.
#[test]
fn a_process_in_a_namespace_of_its_own_is_watched_by_its_number_here() {
    // The test ends it; seconds that no load reaches, for when the test itself is killed.
    const UNTIL_ENDED: &str = "600";
    let folder = tempfile::tempdir().unwrap();
    let inside = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child"])
        .arg(c("exporter"))
        .arg(folder.path().join("truth"))
        .arg(UNTIL_ENDED)
        .stdout(Stdio::null())
        .spawn();
    let Ok(inside) = inside.map(Ended) else {
        skipped("unshare (util-linux) is not there");
        return;
    };
    sleep(Duration::from_millis(1_200));
    let parent = inside.0.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let child = children.unwrap_or_default();
    let Some(pid) = child.split_whitespace().next() else {
        skipped("this user may not make a namespace of pids");
        return;
    };
    for mode in BOTH {
        let Some(found) = attached(mode.word(), pid.parse().unwrap(), &[]) else {
            continue;
        };
        let rows = found["findings"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["cause"] == "lock")
            .unwrap_or_else(|| panic!("{found:#}"));
        assert_eq!(
            row["inferred"], false,
            "the owner's word is understood: {row:#}"
        );
        let stack = row["culprit"]["stack"].as_array().unwrap();
        assert!(stack.iter().any(|frame| frame == "ship_batch"), "{row:#}");
    }
}

/// Under its name lies another program since, whose functions are nobody's here.
#[test]
fn a_program_that_was_replaced_while_it_runs_goes_by_its_own_functions() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("service");
    fs::copy(c("exporter"), &program).unwrap();
    let service = Command::new(&program)
        .arg(folder.path().join("truth"))
        .arg("30")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let service = Ended(service);
    fs::remove_file(&program).unwrap();
    fs::copy(woven(), &program).unwrap();
    sleep(Duration::from_millis(1_200));
    let Some(found) = attached(Mode::Ebpf.word(), service.0.id(), &[]) else {
        return;
    };
    let rows = found["findings"].as_array().unwrap();
    let row = rows.iter().find(|row| row["cause"] == "lock");
    let row = row.unwrap_or_else(|| panic!("{found:#}"));
    let stack = row["culprit"]["stack"].as_array().unwrap();
    assert!(stack.iter().any(|frame| frame == "ship_batch"), "{row:#}");
}

/// The watcher is stopped for so long that the rings overflow: what is lost is counted, and nobody is said to have
/// run, or waited for a CPU, in the time that was not seen.
#[test]
fn a_ring_that_overflows_is_counted_and_makes_no_row() {
    const STOPPED: Duration = Duration::from_millis(2_500);
    for (mode, lost) in [
        (Mode::Ebpf, "lost_records"),
        (Mode::Rootless, "lost_samples"),
    ] {
        let service = Command::new(pingpong())
            .args(["9", "3", "90"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let service = Ended(service);
        sleep(Duration::from_millis(300));
        // At rest until nobody reads: under a rush the short waits would be left out, and no ring would fill.
        let own = rustix::process::Pid::from_child(&service.0);
        let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
        let watch = Command::new(highwater())
            .args([
                "stalls",
                "--json",
                "--duration",
                "5s",
                "--mode",
                mode.word(),
                "--pid",
            ])
            .arg(service.0.id().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        sleep(Duration::from_millis(1_500));
        let pid = rustix::process::Pid::from_child(&watch);
        let send = |signal| rustix::process::kill_process(pid, signal);
        let stopped = send(rustix::process::Signal::STOP);
        let _ = rustix::process::kill_process(own, rustix::process::Signal::CONT);
        sleep(STOPPED);
        let _ = send(rustix::process::Signal::CONT);
        let output = watch.wait_with_output().unwrap();
        if output.status.code() == Some(4) || stopped.is_err() {
            skipped(&format!(
                "mode {}: {}",
                mode.word(),
                String::from_utf8_lossy(&output.stderr)
            ));
            continue;
        }
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        if found["self_checks"][lost].as_u64() == Some(0) {
            skipped(&format!(
                "mode {}: too few switches on a machine this busy",
                mode.word()
            ));
            continue;
        }
        for row in found["findings"].as_array().unwrap() {
            let unseen = row["longest_ns"].as_u64() > Some(STOPPED.as_nanos() as u64 / 2);
            let invented = ["on-cpu", "cpu-starvation"]
                .iter()
                .any(|cause| row["cause"] == **cause);
            assert!(!(unseen && invented), "{} : {row:#}", mode.word());
        }
    }
}

#[test]
fn another_users_process_is_refused_in_words() {
    let service = Command::new("sleep").arg("20").spawn().map(Ended).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(highwater())
        .args([
            "stalls",
            "--duration",
            "1s",
            "--pid",
            &service.0.id().to_string(),
        ])
        .output();
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output {
        // Its folder may be closed to others, and then it cannot even be started.
        Ok(output) if output.status.code() == Some(4) => {
            assert!(
                words(&output.stderr).contains("highwater doctor"),
                "{}",
                words(&output.stderr)
            );
        }
        other => {
            let why = other.map(|output| words(&output.stderr));
            assert!(
                why.as_ref().is_ok_and(|why| why.starts_with("setpriv:")) || why.is_err(),
                "{why:?}"
            );
            skipped(&format!("{why:?}"));
        }
    }
}

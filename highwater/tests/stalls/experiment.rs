//! `stalls = true` in an experiment: stalls a minute by cause as a cost of every arm, over real processes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use testkit::skipped;

/// The weaving service of the benchmark: a lock held over a request of 150 ms every 0.35 s; or mended.
const EXPERIMENT: &str = r#"
name = "parked"
hypothesis = "mended, nothing waits for the lock"
control = "fault"
duration = "16s"
interval = "500ms"
warmup = "1s"
stalls = true
[subject]
command = "PROGRAM {data}/truth 120 parked hold=150 every=200"
[[arms]]
name = "fault"
[[arms]]
name = "mended"
command = "PROGRAM {data}/truth 120 parked hold=150 every=200 fixed"
"#;

#[test]
fn an_arms_stalls_stand_beside_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("weave");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(root.join("highwater/tests/stalls/services/weave.c"))
        .status();
    assert!(built.unwrap().success());
    let file = folder.path().join("stalls.toml");
    let text = EXPERIMENT.replace("PROGRAM", &program.display().to_string());
    fs::write(&file, text).unwrap();
    let highwater = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let run = highwater(&["run", "stalls.toml"]);
    let said = String::from_utf8_lossy(&run.stdout).into_owned();
    let runs = fs::read_dir(folder.path().join("runs")).unwrap().flatten();
    let run_folder = runs.map(|entry| entry.path()).find(|path| path.is_dir());
    let run_folder = run_folder.unwrap().display().to_string();
    let report = highwater(&["report", &run_folder, "--format", "json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let arm = |name: &str| {
        let mut arms = report["arms"].as_array().unwrap().iter();
        arms.find(|arm| arm["arm"] == name).unwrap().clone()
    };
    if arm("fault")["stalls"].is_null() {
        let events = format!("{:#}", report["events"]);
        assert!(events.contains("not watched for stalls"), "{events}");
        skipped("this user may not watch switches here");
        return;
    }
    assert!(said.contains("Stalls over 1 ms a minute"), "{said}");
    assert!(said.contains("Watching for stalls is part of it"), "{said}");
    let locks = |name: &str| {
        let arm = arm(name);
        arm["stalls"]["by_cause_per_minute"]["lock"]["value"]
            .as_f64()
            .unwrap()
    };
    // Eight threads wait some 170 times a minute each; a busy machine has them at work seldomer.
    let (fault, mended) = (locks("fault"), locks("mended"));
    assert!(
        fault > 60.0 && mended < fault / 4.0,
        "{fault} and {mended} a minute"
    );
    let page = fs::read_to_string(Path::new(&run_folder).join("report.html")).unwrap();
    assert!(page.contains("Stalls over 1 ms a minute"));
}

#[test]
fn a_subject_without_processes_here_has_no_stalls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("remote.toml");
    let text = EXPERIMENT
        .replace("[subject]", "[subject]\nkind = \"fake\"")
        .replace("command = ", "# ");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(["run", "--dry-run"])
        .arg(&file)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("`stalls` needs processes on this machine"),
        "{words}"
    );
}

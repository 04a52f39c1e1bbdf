//! `probe = true` in an experiment: the parts of each arm's heap, and what leaks, over real processes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::stage::{probe, shapes};

fn report(folder: &Path, duration_s: u64) -> (Value, String) {
    let shapes = shapes().display().to_string();
    let text = format!(
        "name = \"probed\"\nhypothesis = \"it leaks\"\ncontrol = \"leaks\"\nreplicas = 1\nduration = \"{duration_s}s\"\n\
         interval = \"250ms\"\nwarmup = \"2s\"\nprobe = true\n[subject]\ncommand = [{shapes:?}, \"leak\"]\n\
         [[arms]]\nname = \"leaks\"\n[[arms]]\nname = \"keeps\"\ncommand = [{shapes:?}, \"flat\"]\n"
    );
    fs::write(folder.join("probed.toml"), text).unwrap();
    let highwater = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_highwater"))
            .args(arguments)
            .current_dir(folder)
            .output()
            .unwrap()
    };
    let run = highwater(&["run", "probed.toml"]);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
    let json = highwater(&["report", "--format", "json"]);
    (serde_json::from_slice(&json.stdout).expect("JSON"), said)
}

fn arm(report: &Value, name: &str) -> Value {
    let mut arms = report["arms"].as_array().unwrap().iter();
    arms.find(|arm| arm["arm"] == name).unwrap().clone()
}

#[test]
fn an_arms_heap_stands_beside_its_memory() {
    if probe().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (json, said) = report(folder.path(), 20);
    assert!(said.contains("What the heap holds, by the probe"), "{said}");
    let (leaks, keeps) = (arm(&json, "leaks"), arm(&json, "keeps"));
    let level = |arm: &Value| arm["heap"]["live_heap"]["level_bytes"]["value"].as_f64();
    let (leaked, kept) = (
        level(&leaks).expect("a level"),
        level(&keeps).expect("a level"),
    );
    assert!(leaked > kept, "{leaked} {kept} {said}");
    let bytes = leaks["heap"]["probe_bytes"]
        .as_f64()
        .expect("what the probe takes");
    assert!((1e5..16e6).contains(&bytes), "{bytes}");
}

/// Said at the end at the latest. A debug build's snapshots of heaps are expensive, and may take 5 % of a core: 90 s are some
/// twenty.
#[test]
fn what_leaks_is_named_with_its_function_and_that_no_allocator_helps() {
    if probe().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (json, said) = report(folder.path(), 90);
    let cause = |name| arm(&json, name)["heap"]["causes"][0].clone();
    let leak = cause("leaks");
    assert_eq!(leak["cause"], "leak", "{said}");
    assert_eq!(leak["place"], "forget_session", "{said}");
    assert_eq!(cause("keeps")["cause"], "flat", "{said}");
    // In lines of 80 columns.
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("arms with another allocator cannot help"),
        "{said}"
    );
}

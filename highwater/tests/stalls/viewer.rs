//! A trace in a viewer that people use: the importer of the Firefox profiler, by its command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use report::stall::pictures::{Slice, trace};
use serde_json::Value;
use tempfile::TempDir;

use testkit::skipped;

/// A session of the profiler, which is a server of its own until it is stopped; its files lie in its home.
struct Session {
    program: PathBuf,
    home: TempDir,
}

impl Session {
    fn call(&self, words: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(words).env("HOME", self.home.path());
        command.output().unwrap()
    }

    /// Its server has half a second to come up, which a busy machine does not always give it: asked again then.
    fn load(&self, file: &Path) -> Output {
        let ask = || self.call(&["load", file.to_str().unwrap()]);
        let is_late =
            |out: &Output| String::from_utf8_lossy(&out.stderr).contains("did not become ready");
        for _ in 0..9 {
            let out = ask();
            if !is_late(&out) {
                return out;
            }
            self.call(&["stop", "--all"]);
            sleep(Duration::from_secs(2));
        }
        ask()
    }

    fn json(&self, words: &[&str]) -> Value {
        let out = self.call(words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        serde_json::from_slice(&out.stdout).unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.call(&["stop", "--all"]);
    }
}

fn profiler() -> Option<PathBuf> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    let program = page.join("node_modules/.bin/profiler-cli");
    if program.is_file() {
        return Some(program);
    }
    skipped("no Firefox profiler: run `npm ci` in highwater/tests/page");
    None
}

fn slice(tid: u64, what: &'static str, ms: [u64; 2], woken_by: Option<u64>) -> Slice {
    Slice {
        tid,
        start_ns: ms[0] * 1_000_000,
        end_ns: ms[1] * 1_000_000,
        what,
        activity: "fsync of <a>\n\u{1b}[31m".to_string(),
        frames: vec!["innermost".to_string(), "outermost".to_string()],
        woken_by,
    }
}

#[test]
fn the_firefox_profiler_reads_the_trace() {
    let Some(program) = profiler() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("trace.json");
    let names = [(40, "service"), (41, "worker \"1\""), (42, "writer")];
    let names = names.map(|(tid, name)| (tid, name.to_string()));
    let slices = [
        slice(41, "lock", [100, 150], Some(42)),
        slice(41, "idle", [150, 200], None),
        slice(42, "disk", [90, 149], None),
        slice(40, "idle", [90, 200], None),
    ];
    let written = trace(40, &BTreeMap::from(names), &slices);
    fs::write(&file, written.to_string()).unwrap();
    let session = Session { program, home };
    let loaded = session.load(&file);
    assert!(loaded.status.success(), "{loaded:?}");
    let profile = session.json(&["profile", "info", "--json"]);
    let process = &profile["processes"][0];
    assert_eq!(process["name"], "service", "{profile:#}");
    let threads = process["threads"].as_array().unwrap();
    let counted = |thread: &Value| {
        let handle = thread["threadHandle"].as_str().unwrap();
        let markers = session.json(&["thread", "markers", "--thread", handle, "--json"]);
        let kinds = markers["byType"].as_array().unwrap().clone();
        let kind = |kind: &Value| kind["markerName"].as_str().unwrap().to_string();
        let mut kinds: Vec<String> = kinds.iter().map(kind).collect();
        kinds.sort_unstable();
        (thread["name"].as_str().unwrap().to_string(), kinds)
    };
    let seen: BTreeMap<String, Vec<String>> = threads.iter().map(counted).collect();
    let of = |name: &str| {
        seen.get(name)
            .unwrap_or_else(|| panic!("{name}: {seen:#?}"))
    };
    assert!(
        of("worker \"1\"").iter().any(|kind| kind == "lock"),
        "{seen:?}"
    );
    assert!(of("writer").iter().any(|kind| kind == "wakes"), "{seen:?}");
    assert!(of("service").iter().any(|kind| kind == "idle"), "{seen:?}");
}

//! Adding, side by side, interrupted, at once, damaged.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::{Bench, find, stand_in_cargo, wait_for};

#[test]
fn two_versions_live_side_by_side_and_are_removed_one_by_one() {
    let bench = Bench::new();
    let said = bench.run(&["add", "mimalloc@2.0.9", "mimalloc@2.1.7"]);
    assert_eq!(said.code, 0, "{said:?}");
    let paths: Vec<String> = ["mimalloc@2.0.9", "mimalloc@2.1.7"]
        .iter()
        .map(|spec| bench.run(&["path", spec]).out.trim().to_owned())
        .collect();
    assert_ne!(paths[0], paths[1]);
    for path in &paths {
        let status = Command::new("/bin/true")
            .env("LD_PRELOAD", path)
            .status()
            .unwrap();
        assert!(status.success());
        assert!(
            Path::new(path)
                .parent()
                .unwrap()
                .join("licence-c_src-mimalloc-LICENSE")
                .exists()
        );
    }
    assert_eq!(bench.run(&["remove", "mimalloc@2.0.9"]).code, 0);
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert_eq!(bench.state("mimalloc@2.1.7"), "installed");
    assert!(bench.staging().is_empty());
}

#[test]
fn json_of_an_add_carries_the_facts() {
    let bench = Bench::new();
    let said = bench.run(&["add", "mimalloc@2.0.9", "--json"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    let entry = &answer["allocators"][0];
    assert_eq!(entry["state"], "installed");
    assert_eq!(entry["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(entry["source"], "crate libmimalloc-sys 0.1.30");
    assert_eq!(entry["defects"][0]["id"], "misaligned");
    assert!(entry["compiler"].as_str().is_some());
}

#[test]
fn an_interrupted_build_leaves_nothing_and_the_next_add_works() {
    let bench = Bench::new();
    let started = bench.file("started");
    bench.remove("cc");
    // `--version` aside, this compiler never ends by itself.
    bench.script(
        "cc",
        &format!("touch {}; exec sleep 600", started.display()),
    );
    let mut add = bench
        .command(&["add", "mimalloc@2.0.9"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&started);
    add.kill().unwrap();
    add.wait().unwrap();
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert_eq!(bench.run(&["path", "mimalloc@2.0.9"]).code, 4);
    assert_eq!(bench.staging().len(), 1);
    bench.remove("cc");
    bench.link("cc");
    assert_eq!(bench.run(&["add", "mimalloc@2.1.7"]).code, 0);
    assert!(
        bench.staging().is_empty(),
        "the add of another allocator clears it away, too"
    );
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(bench.state("mimalloc@2.0.9"), "installed");
    assert!(bench.staging().is_empty());
}

#[test]
fn two_adds_at_once_build_once() {
    let bench = Bench::new();
    let count = bench.file("count");
    bench.remove("cc");
    let real = find("cc");
    // Builds are counted, not the questions for the compiler's version.
    let script = "case $1 in --version) ;; *) echo x >> {count}; sleep 1 ;; esac; PATH={path} \
        exec {real} \"$@\"";
    let path = std::env::var("PATH").unwrap();
    let script = script.replace("{count}", &count.display().to_string());
    bench.script(
        "cc",
        &script
            .replace("{real}", &real.display().to_string())
            .replace("{path}", &path),
    );
    let adds: Vec<_> = (0..3)
        .map(|_| {
            bench
                .command(&["add", "mimalloc@2.0.9"])
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut add in adds {
        assert!(add.wait().unwrap().success());
    }
    assert_eq!(fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn a_damaged_library_is_noticed_and_add_repairs_it() {
    let bench = Bench::new();
    bench.run(&["add", "mimalloc@2.0.9"]);
    let library = bench.run(&["path", "mimalloc@2.0.9"]).out.trim().to_owned();
    let mut bytes = fs::read(&library).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&library, bytes).unwrap();
    let said = bench.run(&["path", "mimalloc@2.0.9"]);
    said.fails(
        4,
        &[
            "is damaged",
            "sha256",
            "highwater allocators add mimalloc@2.0.9",
        ],
    );
    assert_eq!(bench.state("mimalloc@2.0.9"), "damaged");
    assert_eq!(bench.run(&["add", "mimalloc@2.0.9"]).code, 0);
    assert_eq!(bench.state("mimalloc@2.0.9"), "installed");
    fs::remove_file(Path::new(&library).with_file_name("manifest.json")).unwrap();
    bench
        .run(&["path", "mimalloc@2.0.9"])
        .fails(4, &["manifest.json is gone"]);
}

#[test]
fn several_are_added_at_once_and_one_that_fails_keeps_no_other() {
    let bench = Bench::new();
    // The crate of 2.0.9 does not hold the version that its recipe expects.
    bench.script("cargo", &stand_in_cargo().replace("209", "301"));
    let words = [
        "add",
        "mimalloc@2.0.9",
        "mimalloc@2.1.7",
        "mimalloc@2.1.7",
        "--json",
    ];
    let said = bench.run(&words);
    said.fails(4, &["mimalloc@2.0.9 was not added"]);
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    let entries = answer["allocators"].as_array().unwrap();
    let specs: Vec<_> = entries.iter().map(|e| &e["spec"]).collect();
    assert_eq!(specs, ["mimalloc@2.1.7", "mimalloc@2.1.7"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert_eq!(bench.state("mimalloc@2.1.7"), "installed");
    assert!(bench.staging().is_empty());
}

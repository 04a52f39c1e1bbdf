//! Real allocators, with the clients as the user has them; only the cache is temporary.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::{Bench, real};

#[test]
#[ignore = "long: fetches and builds real allocators"]
fn real_allocators_are_added_twice_with_the_same_bytes() {
    let (first, second) = (Bench::new(), Bench::new());
    let specs = ["mimalloc@2.0.9", "jemalloc@5.3.0"];
    let sums = |bench: &Bench| {
        let mut words = vec!["add", "--json"];
        words.extend(specs);
        let said = real(bench, &words);
        assert_eq!(said.code, 0, "{said:?}");
        let answer: Value = serde_json::from_str(&said.out).unwrap();
        let entries = answer["allocators"].as_array().unwrap();
        entries
            .iter()
            .map(|e| e["sha256"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(sums(&first), sums(&second));
    let path = real(&first, &["path", "mimalloc@2.0.9"]).out;
    let mut cc = Command::new("cc");
    let status = cc
        .arg("--version")
        .env("LD_PRELOAD", path.trim())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

#[test]
#[ignore = "long: fetches Debian 13's C library"]
fn a_whole_c_library_runs_through_its_own_loader() {
    let bench = Bench::new();
    let said = real(
        &bench,
        &[
            "check",
            "glibc@2.41",
            "--only",
            "calloc,early,new",
            "--json",
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    let entry = &answer["allocators"][0];
    assert!(
        entry["path"].is_null(),
        "there is nothing to preload: {entry}"
    );
    let loader = entry["loader"]["program"].as_str().unwrap();
    let said = Command::new(loader)
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    assert!(String::from_utf8(said).unwrap().contains("2.41"));
    real(&bench, &["path", "glibc@2.41"])
        .fails(4, &["start the program through its loader", loader]);
}

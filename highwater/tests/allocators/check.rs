//! Each probe of a check finds what was broken for it, and nothing on glibc.

use std::fs;

use serde_json::Value;

use crate::bench::{Bench, compile, real};

const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocators/broken.c");

/// The exit code and the outcomes of probes under glibc's malloc with one thing broken.
fn outcomes(bench: &Bench, broken: &str, probes: &[&str]) -> (i32, Vec<String>) {
    let text = fs::read_to_string(BROKEN).unwrap();
    let define = format!("-DBREAK_{broken}");
    let library = compile(
        bench,
        &format!("{broken}.so"),
        &text,
        &[&define, "-pthread"],
    );
    let only = probes.join(",");
    let words = [
        "check",
        library.to_str().unwrap(),
        "--only",
        &only,
        "--json",
    ];
    let said = real(bench, &words);
    let answer: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let findings = answer["allocators"][0]["check"]["findings"]
        .as_array()
        .unwrap();
    assert_eq!(findings.len(), probes.len(), "{said:?}");
    let outcomes = findings
        .iter()
        .map(|f| f["outcome"].as_str().unwrap().to_owned());
    (said.code, outcomes.collect())
}

/// Each probe is clean on glibc, and finds the one thing that was broken for it.
fn assert_probes(pairs: &[(&str, &str)]) {
    let bench = Bench::new();
    let probes: Vec<&str> = pairs.iter().map(|(_, probe)| *probe).collect();
    let (code, found) = outcomes(&bench, "NOTHING", &probes);
    assert_eq!((code, found), (0, vec!["clean".to_owned(); probes.len()]));
    for (broken, probe) in pairs {
        let (code, found) = outcomes(&bench, broken, &[probe]);
        assert_eq!(code, 1, "{broken}: {found:?}");
        assert!(
            ["defect", "crash", "hang"].contains(&&*found[0]),
            "{broken}: {found:?}"
        );
    }
}

#[test]
fn a_probe_finds_what_is_broken_and_passes_what_is_not() {
    assert_probes(&[
        ("ALIGNMENT", "alignment"),
        ("OVERLAP", "overlap"),
        ("USABLE_SIZE", "usable-size"),
        ("OVERSIZE", "oversize"),
        ("ERRNO", "errno"),
        ("CALLOC", "calloc"),
        ("EARLY", "early"),
    ]);
}

#[test]
#[ignore = "long: probes with threads, 30 s"]
fn the_slow_probes_find_what_is_broken_and_pass_what_is_not() {
    assert_probes(&[
        ("THREADS", "threads"),
        ("FORK", "fork"),
        ("REALLOC", "realloc"),
    ]);
}

#[test]
fn a_probe_that_does_not_exist_is_named_with_the_nearest() {
    let bench = Bench::new();
    let said = real(&bench, &["check", "glibc", "--only", "alignmnet"]);
    said.fails(
        4,
        &["no probe is called \"alignmnet\"; the nearest is alignment"],
    );
}

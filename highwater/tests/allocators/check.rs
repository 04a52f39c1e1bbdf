//! Each probe of a check finds what was broken for it, names it, and stays silent on what is sound.

use std::fs;

use serde_json::Value;

use crate::bench::{Bench, compile, real};

pub const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocators/broken.c");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocators/own.c");

/// What a check says of one library: (probe, outcome, words) of each finding.
type Findings = Vec<(String, String, String)>;

/// A library of `source` with one thing broken; an empty name breaks nothing.
fn library(bench: &Bench, source: &str, broken: &str) -> String {
    let text = fs::read_to_string(source).unwrap();
    let define = format!("-DBREAK_{broken}");
    let name = format!("{broken}-lib.so");
    let library = compile(bench, &name, &text, &[&define, "-pthread", "-O1", "-w"]);
    library.to_str().unwrap().to_owned()
}

/// Checks libraries in one command; the exit code, and the findings of each in order.
fn check(bench: &Bench, libraries: &[String], more: &[&str]) -> (i32, Vec<Findings>) {
    let mut words = vec!["check", "--json"];
    words.extend(libraries.iter().map(String::as_str));
    words.extend(more);
    let said = real(bench, &words);
    let answer: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = |entry: &Value| {
        let list = entry["check"]["findings"].as_array().unwrap();
        list.iter()
            .map(|f| (text(&f["probe"]), text(&f["outcome"]), text(&f["words"])))
            .collect()
    };
    let entries = answer["allocators"].as_array().unwrap();
    assert_eq!(entries.len(), libraries.len(), "{said:?}");
    (said.code, entries.iter().map(findings).collect())
}

const BAD: &[&str] = &["defect", "crash", "hang"];

/// For each (source, what is broken, probe, words): that probe finds it and says so.
#[track_caller]
fn assert_found(cases: &[(&str, &str, &str, &str)]) {
    let bench = Bench::new();
    for (source, broken, probe, words) in cases {
        let library = library(&bench, source, broken);
        let (code, found) = check(&bench, &[library], &["--only", probe]);
        let (_, outcome, said) = &found[0][0];
        assert_eq!(code, 1, "{broken}: {found:?}");
        assert!(BAD.contains(&outcome.as_str()), "{broken}: {found:?}");
        assert!(said.contains(words), "{broken}: {said}");
    }
}

#[test]
fn a_probe_finds_and_names_what_is_broken() {
    assert_found(&[
        (BROKEN, "NO_ALIGNED", "symbols", "memalign is missing"),
        (BROKEN, "LARGE", "sizes", "returned nothing"),
        (BROKEN, "ALIGNMENT", "alignment", "misaligned"),
        (BROKEN, "PLAIN_ALIGNMENT", "alignment", "misaligned"),
        (BROKEN, "OVERLAP", "overlap", "live blocks overlap"),
        (BROKEN, "USABLE_SIZE", "usable-size", "usable size"),
        (BROKEN, "USABLE_SMALL", "usable-size", "usable size"),
        (BROKEN, "CALLOC", "calloc", "is not zero"),
        (BROKEN, "CALLOC_LARGE", "calloc", "is not zero"),
        (BROKEN, "CALLOC_COUNT", "calloc", "is not zero"),
        (BROKEN, "REALLOC", "realloc", "lost data"),
        (BROKEN, "REALLOC_LARGE", "realloc", "lost data"),
        (BROKEN, "OVERSIZE", "oversize", "returned a block"),
        (BROKEN, "EARLY", "early", "before the first constructor"),
        (BROKEN, "FREE", "reuse", "free gives nothing back"),
        (BROKEN, "THREAD_EXIT", "thread-ends", "SIGSEGV"),
        (OWN, "TABLE", "thread-ends", "300 threads allocate at once"),
        (OWN, "LOCK", "threads", ""),
    ]);
}

#[test]
#[ignore = "long: hangs and forks that are waited for, 60 s"]
fn the_slow_probes_find_and_name_what_is_broken() {
    assert_found(&[
        (BROKEN, "THREADS", "threads", "two owners"),
        (BROKEN, "FORK", "fork", "hangs in malloc"),
        (BROKEN, "FORK_CRASH", "fork", "a forked child allocates"),
        (OWN, "ATFORK", "fork", "hangs in malloc"),
        (OWN, "SHARED", "fork", "fork"),
        (
            BROKEN,
            "HANG",
            "sizes",
            "it hangs while blocks of every size",
        ),
        (BROKEN, "NEW", "new", "too small"),
        (BROKEN, "NEW_ALIGNED", "new", "misaligned"),
    ]);
}

/// Every probe that is quick.
const QUICK: &str = "symbols,sizes,alignment,overlap,usable-size,calloc,realloc,oversize,errno,early,\
    dlopen,new,new-throw,reuse,thread-ends";

#[test]
fn sound_libraries_pass_in_silence() {
    let bench = Bench::new();
    let sound = [library(&bench, BROKEN, ""), library(&bench, OWN, "")];
    let (code, found) = check(&bench, &sound, &["--only", QUICK]);
    for (probe, outcome, words) in found.iter().flatten() {
        assert_eq!((outcome.as_str(), words.as_str()), ("clean", ""), "{probe}");
    }
    assert_eq!((code, found.len()), (0, 2));
}

#[test]
#[ignore = "long: the whole check, a minute"]
fn sound_libraries_pass_the_whole_check() {
    let bench = Bench::new();
    let sound = [library(&bench, BROKEN, ""), library(&bench, OWN, "")];
    let (code, found) = check(&bench, &sound, &[]);
    for (probe, outcome, words) in found.iter().flatten() {
        assert_eq!((outcome.as_str(), words.as_str()), ("clean", ""), "{probe}");
    }
    assert_eq!(code, 0);
}

#[test]
fn a_deviation_is_said_and_fails_only_a_strict_check() {
    let bench = Bench::new();
    let library = [library(&bench, BROKEN, "ERRNO")];
    let (code, found) = check(&bench, &library, &["--only", "errno"]);
    assert_eq!((code, found[0][0].1.as_str()), (0, "deviation"));
    assert!(found[0][0].2.contains("errno 0"), "{found:?}");
    let (code, _) = check(&bench, &library, &["--only", "errno", "--strict"]);
    assert_eq!(code, 1);
}

#[test]
fn what_cannot_be_preloaded_is_a_finding() {
    let bench = Bench::new();
    let file = |name: &str| bench.file(name).to_str().unwrap().to_owned();
    compile(&bench, "empty.so", "int nothing;", &[]);
    fs::write(bench.file("text.so"), "not a library").unwrap();
    let musl = "libc.musl-x86_64.so.1";
    let soname = format!("-Wl,-soname,{musl}");
    compile(&bench, musl, "int nothing;", &["-nostdlib", &soname]);
    let text = fs::read_to_string(BROKEN).unwrap();
    let link = [
        "-nostdlib",
        "-w",
        "-Wl,--no-as-needed",
        "-L.",
        "-l:libc.musl-x86_64.so.1",
    ];
    compile(&bench, "musl.so", &text, &link);
    let broken = |name: &str| library(&bench, BROKEN, name);
    for (library, words) in [
        (file("empty.so"), "does not export malloc"),
        (file("text.so"), "is not an ELF file"),
        (file("musl.so"), "is linked against musl"),
        (broken("NO_REALLOC"), "does not export realloc"),
        (
            broken("UNDEFINED"),
            "undefined symbol: nobody_has_this_function",
        ),
        (broken("END"), "was killed by signal"),
    ] {
        let (code, found) = check(&bench, &[library], &[]);
        let (probe, outcome, said) = &found[0][0];
        assert_eq!((code, found[0].len()), (1, 1));
        assert_eq!((probe.as_str(), outcome.as_str()), ("load", "defect"));
        assert!(said.contains(words), "{said}");
    }
    real(&bench, &["check", &file("none.so")]).fails(4, &["no library at"]);
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

//! Experiment files: what parses, what is refused and in which words.
//!
//! `experiment/bad/*.toml` were written for these tests; the words that each must produce stand beside it in
//! `.txt`. `experiment/good/*.toml` must parse; what they freeze to stands in `.frozen.toml`. Overrides are the
//! `# --set` lines. After a deliberate change, `HIGHWATER_BLESS=1 cargo test --test experiment` writes the
//! expected files anew, to be read in the diff.

use std::path::{Path, PathBuf};

use allocators::Spec;
use experiment::file::{Experiment, Problems, freeze, parse_experiment};
use proptest::prelude::*;
use units::wording::{nearest, quoted};

const ALLOCATORS: &[&str] = &[
    "glibc",
    "jemalloc@5.3.0",
    "mimalloc@2.0.9",
    "mimalloc@2.1.7",
];

/// Stands in for the catalogue of allocators.
fn known(name: &str) -> Result<(), String> {
    if ALLOCATORS.contains(&name) {
        return Ok(());
    }
    let near = nearest(name, ALLOCATORS.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(format!("unknown allocator {}{near}", quoted(name)))
}

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/experiment")
        .join(kind)
}

fn fixtures(kind: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder(kind))
        .expect("the fixtures")
        .map(|entry| entry.expect("a fixture").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .filter(|path| !path.to_string_lossy().ends_with(".frozen.toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {kind}");
    files
}

fn parse_file(path: &Path) -> Result<Experiment, Problems> {
    let text = std::fs::read_to_string(path).expect("a fixture is text");
    let sets: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# --set "))
        .map(str::to_owned)
        .collect();
    let name = path.file_name().expect("a name").to_string_lossy();
    parse_experiment(&text, &name, Path::new("/base"), &sets, &known)
}

/// Compares with the file beside the fixture, or writes it when asked to.
fn assert_golden(path: &Path, got: &str) {
    if std::env::var_os("HIGHWATER_BLESS").is_some() {
        std::fs::write(path, got).expect("the expected file");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(got, expected, "{} differs", path.display());
}

#[test]
fn what_is_wrong_is_said_in_these_words() {
    for path in fixtures("bad") {
        match parse_file(&path) {
            Ok(_) => panic!("{} was accepted", path.display()),
            Err(problems) => assert_golden(&path.with_extension("txt"), &format!("{problems}\n")),
        }
    }
}

#[test]
fn good_files_freeze_to_themselves() {
    for path in fixtures("good") {
        let experiment = parse_file(&path).unwrap_or_else(|e| panic!("{}\n{e}", path.display()));
        let frozen = freeze(&experiment);
        assert_golden(&path.with_extension("frozen.toml"), &frozen);
        let again = parse_experiment(&frozen, "frozen", Path::new("/elsewhere"), &[], &known);
        let again = again.unwrap_or_else(|e| panic!("{}\n{e}", path.display()));
        assert_eq!(freeze(&again), frozen, "{}: frozen twice", path.display());
        let secret = |text: &String| text.contains("hunter");
        if !experiment.subject.environment.values().any(secret) {
            assert_eq!(again, experiment, "{}: something was lost", path.display());
        }
    }
}

#[test]
fn secrets_do_not_reach_the_frozen_file() {
    let experiment = parse_file(&folder("good").join("full.toml")).expect("it parses");
    assert_eq!(experiment.subject.environment["RELAY_TOKEN"], "hunter2");
    let frozen = freeze(&experiment);
    assert!(!frozen.contains("hunter"), "{frozen}");
    assert!(frozen.contains("[redacted]@db/relay"));
    let again =
        parse_experiment(&frozen, "frozen", Path::new("/"), &[], &known).expect("it parses");
    let names = experiment::file::redact::redacted_names;
    assert_eq!(names(&again), ["RELAY_DATABASE", "RELAY_TOKEN"]);
    assert!(names(&experiment).is_empty());
}

#[test]
fn defaults_are_the_documented_ones() {
    let small = parse_file(&folder("good").join("small.toml")).expect("it parses");
    assert_eq!(small.replicas, 2);
    assert_eq!(small.duration.as_secs(), 240);
    assert_eq!(small.interval.as_secs(), 1);
    assert_eq!(small.warmup.as_secs(), 30);
    assert_eq!(small.seed, 1);
    assert_eq!(small.base, Path::new("/base"));
    assert_eq!(small.subject.command, ["./relay", "--port", "{port}"]);
    assert_eq!(small.subject.stop.signal, libc::SIGTERM);
    assert_eq!(small.subject.stop.grace.as_secs(), 10);
    assert_eq!(small.arms[0].allocator, "", "the program as it comes");
}

#[test]
fn overrides_reach_arms_by_name() {
    let set = parse_file(&folder("good").join("set.toml")).expect("it parses");
    assert_eq!(set.name, "42");
    assert_eq!(set.hypothesis, "two words = one = \"quote\"");
    assert_eq!(set.duration.as_secs(), 3600);
    assert_eq!(set.subject.stop.signal, libc::SIGINT);
    assert_eq!(set.arms[0].allocator, "mimalloc@2.1.7");
    assert_eq!(set.arms[1].environment["MALLOC_CONF"], "narenas:2");
    assert_eq!(set.arms[1].environment["THREADS"], "4");
    assert_eq!(set.arms[1].arguments, ["--fast", "--port={port}"]);
    assert_eq!(set.subject.command, ["./other", "--port", "{port}"]);
}

/// Every example of the page is an experiment that parses; every key that the parser knows is on the page.
#[test]
fn the_documented_examples_parse_and_name_every_key() {
    let page = include_str!("../../docs/reference/experiment-file.md");
    let examples: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 6);
    for example in examples {
        parse_experiment(example, "page", Path::new("/"), &[], &known)
            .unwrap_or_else(|problems| panic!("{problems}\n{example}"));
    }
    // An unknown key far from any other makes the parser list what it knows.
    let wrong = "zzzzzz = 1\n[subject]\nzzzzzz = 1\n[subject.ready]\nzzzzzz = 1\n[subject.stop]\nzzzzzz = 1\n\
        [backing]\nzzzzzz = 1\n[load]\nzzzzzz = 1\n[revert]\nzzzzzz = 1\n[[arms]]\nzzzzzz = 1\n[[verify]]\nzzzzzz = 1\n\
        [[subject.attach]]\nzzzzzz = 1\n[[subject.series]]\nzzzzzz = 1\n";
    let problems = parse_experiment(wrong, "x", Path::new("/"), &[], &known).unwrap_err();
    let lists = problems
        .0
        .iter()
        .filter_map(|p| p.help.as_deref()?.strip_prefix("known: "));
    let keys: Vec<&str> = lists.flat_map(|list| list.split(", ")).collect();
    assert!(keys.len() > 50, "{keys:?}");
    for key in keys {
        let written = [format!("{key} = "), format!("[{key}]"), format!(".{key}]")];
        assert!(
            written.iter().any(|w| page.contains(w)),
            "`{key}` is not on the page"
        );
    }
}

#[test]
fn files_that_cannot_be_read_say_why() {
    use experiment::file::read_experiment;
    let folder = tempfile::tempdir().expect("a folder");
    let words = |path: &Path| read_experiment(path, &[], &known).unwrap_err().to_string();
    assert!(words(&folder.path().join("none.toml")).contains("none.toml: cannot be read: No such"));
    assert!(words(folder.path()).contains("cannot be read: Is a directory"));
    let binary = folder.path().join("x.toml");
    std::fs::write(&binary, b"name = 1\n\xff\xfe").expect("written");
    assert!(words(&binary).contains("line 2 is not UTF-8"));
    std::fs::write(&binary, "#".repeat(2 << 20)).expect("written");
    assert!(words(&binary).contains("larger than 1024 KiB"));
}

#[test]
fn the_experiments_that_are_ready_to_run_are_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let entries = std::fs::read_dir(&folder).expect("the experiments");
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let name = file.display().to_string();
        let offered = |spec: &str| Spec::parse(spec).map(drop).map_err(|e| e.to_string());
        let plan = parse_experiment(&text, &name, &folder, &[], &offered);
        plan.unwrap_or_else(|problems| panic!("{problems}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is in the file and after --set: a value or problems, never a panic, and problems are printable.
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}", set in "\\PC{0,60}") {
        if let Err(problems) = parse_experiment(&text, "f", Path::new("/b"), &[set], &known) {
            prop_assert!(!problems.to_string().is_empty());
        }
    }

    /// A good file with one stretch replaced by something else: the interesting wrong files are nearly right.
    #[test]
    fn a_damaged_file_never_panics(
        which in 0usize..5, from in 0usize..3000, length in 0usize..40, patch in "[ -~\\n]{0,12}",
        set in "[a-z]{1,8}(\\.[a-z0-9]{1,8}){0,3}=[ -~]{0,12}",
    ) {
        let path = &fixtures("good")[which];
        let text = std::fs::read_to_string(path).expect("a fixture");
        let from = from % text.len();
        let to = (from + length).min(text.len());
        let damaged = format!("{}{patch}{}", &text[..from], &text[to..]);
        match parse_experiment(&damaged, "f", Path::new("/b"), &[set], &known) {
            Ok(experiment) => {
                let frozen = freeze(&experiment);
                let again = parse_experiment(&frozen, "frozen", Path::new("/b"), &[], &known);
                prop_assert!(again.is_ok(), "{}\n{}", again.unwrap_err(), frozen);
                prop_assert_eq!(freeze(&again.unwrap()), frozen);
            }
            Err(problems) => {
                let words = problems.to_string();
                prop_assert!(words.lines().count() >= 1 && !words.contains('\x1b'));
            }
        }
    }
}

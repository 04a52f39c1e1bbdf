//! What build.rs says to every choice of features: compiled by itself and run, with the variables that cargo sets.

use std::path::PathBuf;
use std::process::Command;

const FEATURES: [&str; 7] = [
    "system",
    "jemalloc",
    "mimalloc2",
    "mimalloc3",
    "snmalloc",
    "rpmalloc",
    "tcmalloc",
];

struct Script {
    program: PathBuf,
    folder: PathBuf,
}

impl Script {
    fn build(test: &str) -> Script {
        let name = format!("highwater-alloc-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("build-script");
        let done = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args(["--edition", "2024", "-o"])
            .arg(&program)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        Script { program, folder }
    }

    fn say(&self, features: &[&str]) -> String {
        let variables = features
            .iter()
            .map(|name| (format!("CARGO_FEATURE_{}", name.to_uppercase()), "1"));
        let done = Command::new(&self.program)
            .env_clear()
            .envs(variables)
            .output()
            .unwrap();
        assert!(done.status.success(), "{features:?}");
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The lines that begin with this, without it.
fn lines<'a>(said: &'a str, start: &str) -> Vec<&'a str> {
    said.lines()
        .filter_map(|line| line.strip_prefix(start))
        .collect()
}

#[test]
fn one_feature_chooses_two_are_an_error_that_names_both_and_none_is_the_system_s() {
    let script = Script::build("choice");
    let chosen = |features: &[&str]| {
        let said = script.say(features);
        assert_eq!(
            lines(&said, "cargo::error="),
            Vec::<&str>::new(),
            "{features:?}"
        );
        let found = lines(&said, "cargo::rustc-cfg=chosen=");
        assert_eq!(found.len(), 1, "{features:?}: {said}");
        found[0].trim_matches('"').to_owned()
    };
    assert_eq!(chosen(&[]), "system");
    assert_eq!(chosen(&["meter"]), "system");
    for feature in FEATURES {
        let file = chosen(&[feature, "meter"]);
        assert!(feature.starts_with(&file), "{feature}: {file}");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/chosen/");
        assert!(PathBuf::from(format!("{source}{file}.rs")).exists());
    }
    for (at, one) in FEATURES.iter().enumerate() {
        for other in &FEATURES[at + 1..] {
            let said = script.say(&[one, other, "meter"]);
            let errors = lines(&said, "cargo::error=");
            assert_eq!(errors.len(), 1, "{one} and {other}: {said}");
            assert!(
                errors[0].contains(&format!("{one} and {other}"))
                    && errors[0].contains("cargo tree"),
                "{}",
                errors[0]
            );
            assert!(lines(&said, "cargo::rustc-cfg=").is_empty(), "{said}");
        }
    }
    assert!(
        script
            .say(&FEATURES)
            .contains("system and jemalloc and mimalloc2")
    );
}

/// Every file of `src/chosen` is one that a feature leads to, and every feature is in the manifest and in build.rs.
#[test]
fn features_files_and_manifest_agree() {
    let manifest = include_str!("../Cargo.toml");
    let features = manifest
        .split("[features]")
        .nth(1)
        .unwrap()
        .split("\n[")
        .next()
        .unwrap();
    let names: Vec<&str> = features
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .collect();
    assert_eq!(names, [&FEATURES[..], &["meter"]].concat());
    let script = Script::build("files");
    let said = script.say(&[]);
    let known = lines(&said, "cargo::rustc-check-cfg=");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/chosen")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = format!("\"{}\"", file.strip_suffix(".rs").unwrap());
        assert!(known[0].contains(&name), "{file}: {known:?}");
    }
}

//! The style as a test: sizes with a ratchet, the direction of imports, the purity of the pure stages,
//! names that must not appear. What STYLE asks for in prose and a machine can see is checked here.

use std::fs;
use std::path::{Path, PathBuf};

/// rustfmt keeps code at 100; text that it cannot break may reach this.
const COLUMNS_MAX: usize = 120;
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// The crates in the order of the pipeline; each may depend on those before it. That there is no way back, the compiler
/// sees to.
const CRATES: &[&str] = &[
    "units",
    "experiment",
    "allocators",
    "observe",
    "symbols",
    "bpf",
    "import",
    "oom",
    "trace",
    "replay",
    "heap",
    "runtimes",
    "sched",
    "record",
    "series",
    "memory",
    "stalls",
    "verdict",
    "report",
    "rollout",
];

/// Crates that touch no file, process or clock.
const PURE: &[&str] = &["series", "memory", "stalls", "verdict", "report"];

/// What a pure stage may not name.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::process",
    "std::net",
    "SystemTime::now",
    "Instant::now",
    "Zoned::now",
];

#[test]
fn files_and_functions_stay_small() {
    let mut faults = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX && !has_reason(&text) {
            faults.push(format!("{}: {lines} lines", file.display()));
        }
        for (line, length) in long_functions(&text) {
            faults.push(format!(
                "{}:{line}: a function of {length} lines",
                file.display()
            ));
        }
        for (at, line) in text.lines().enumerate() {
            // A row of a table cannot be folded.
            let is_row = line.trim_start().starts_with("//! |");
            if line.chars().count() > COLUMNS_MAX && !is_row {
                faults.push(format!(
                    "{}:{}: longer than {COLUMNS_MAX} columns",
                    file.display(),
                    at + 1
                ));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "too large; cut along a seam:\n{}",
        faults.join("\n")
    );
}

#[test]
fn imports_run_one_way() {
    let mut faults = Vec::new();
    let mut folders: Vec<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.retain(|name| name != "testkit");
    for name in folders {
        let text = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let manifest: toml::Table = text.parse().unwrap();
        let Some(place) = CRATES.iter().position(|known| *known == name) else {
            faults.push(format!("crates/{name} is in no place of the pipeline"));
            continue;
        };
        let dependencies = manifest.get("dependencies").and_then(|all| all.as_table());
        for dependency in dependencies.into_iter().flat_map(|all| all.keys()) {
            if CRATES[place..].contains(&dependency.as_str()) || dependency == "highwater" {
                faults.push(format!("crates/{name} imports {dependency}"));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "against the pipeline's direction:\n{}",
        faults.join("\n")
    );
}

#[test]
fn pure_stages_touch_nothing() {
    let mut faults = Vec::new();
    let mut files = Vec::new();
    for name in PURE {
        walk(&root().join(format!("crates/{name}/src")), &mut files);
    }
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        for (at, line) in product_lines(&fs::read_to_string(&file).unwrap()) {
            if let Some(name) = IMPURE.iter().find(|name| line.contains(*name)) {
                faults.push(format!("{}:{at}: uses {name}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "not pure:\n{}", faults.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    let faults: Vec<_> = sources()
        .into_iter()
        .filter(|file| !fs::read_to_string(file).unwrap().starts_with("//!"))
        .map(|file| file.display().to_string())
        .collect();
    assert!(
        faults.is_empty(),
        "no module doc in its first line:\n{}",
        faults.join("\n")
    );
}

/// Before its first item.
#[test]
fn every_crate_says_what_goes_in_what_comes_out_and_who_calls_it() {
    let crates = fs::read_dir(root().join("crates")).expect("a folder");
    for entry in crates.flatten() {
        let file = entry.path().join("src/lib.rs");
        let text = fs::read_to_string(&file).expect("a library");
        let words: Vec<&str> = text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .flat_map(str::split_whitespace)
            .collect();
        let words = words.join(" ");
        for part in ["In: ", "Out: ", "Called by: "] {
            assert!(words.contains(part), "{}: no {part:?}", file.display());
        }
    }
}

#[test]
fn no_folder_is_a_drawer() {
    let faults: Vec<_> = sources()
        .iter()
        .flat_map(|file| {
            file.ancestors()
                .skip(1)
                .map(Path::to_path_buf)
                .collect::<Vec<_>>()
        })
        .filter(|folder| {
            let name = folder
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            matches!(name, "common" | "utils" | "helpers" | "core")
        })
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// libtest shows what a passing test prints only with `--nocapture`: a skip that goes through `println!` is never
/// counted. `skipped` of `crates/testkit` writes past the capture.
#[test]
fn no_skip_is_swallowed() {
    let mut files = sources();
    for folder in ["highwater/tests", "alloc", "load/tests"] {
        walk(&root().join(folder), &mut files);
    }
    let starts = ["\"SKIP", "\"skip", "\"not run", "\"needs root"];
    let swallowed = |line: &str| {
        let printed = line.split_once("println!(").map(|(_, printed)| printed);
        printed.is_some_and(|printed| starts.iter().any(|start| printed.starts_with(start)))
    };
    let mut faults = Vec::new();
    for file in files {
        for (at, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            if swallowed(line) {
                faults.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "print it with skipped():\n{}",
        faults.join("\n")
    );
}

fn has_reason(text: &str) -> bool {
    text.lines()
        .take(12)
        .any(|line| line.contains("Long because"))
}

/// Lines outside comments and before the tests at the foot of the file, with their number.
fn product_lines(text: &str) -> Vec<(usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .collect()
}

/// (line, length) of functions over the limit, unless the comment above says "Long because".
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(indent) = function_indent(line) else {
            continue;
        };
        let close = format!("{}}}", " ".repeat(indent));
        let Some(length) = lines[start..].iter().position(|line| *line == close) else {
            continue;
        };
        let reason = lines[start.saturating_sub(8)..start]
            .iter()
            .any(|l| l.contains("Long because"));
        if length + 1 > FUNCTION_LINES_MAX && !reason {
            found.push((start + 1, length + 1));
        }
    }
    found
}

fn function_indent(line: &str) -> Option<usize> {
    let code = line.trim_start();
    let starts = [
        "fn ",
        "pub fn ",
        "pub(crate) fn ",
        "pub(super) fn ",
        "const fn ",
        "unsafe fn ",
    ];
    let is_function = starts.iter().any(|start| code.starts_with(start)) && !code.ends_with(';');
    is_function.then(|| line.len() - code.len())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

/// Every Rust source of the workspace that is ours.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [
        "highwater/src",
        "crates",
        "load/src",
        "probe",
        "replayer",
        "subjects",
    ] {
        walk(&root().join(folder), &mut found);
    }
    assert!(
        !found.is_empty(),
        "no sources found: the test looks in the wrong place"
    );
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

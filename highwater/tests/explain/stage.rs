//! Builds the programs, runs `explain` on them, reads its JSON.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use testkit::skipped;

/// Where this package's tests keep what they build.
pub fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explain");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/explain/subjects")
        .join(name)
}

/// Compiles with a C compiler; the program's path.
pub fn compile(compiler: &str, source_name: &str, flags: &[&str], name: &str) -> PathBuf {
    let program = scratch().join(name);
    let fresh = scratch().join(format!("{name}.{}", std::process::id()));
    let status = Command::new(compiler)
        .args(["-g", "-O1", "-fno-inline", "-pthread"])
        .arg(source(source_name))
        .args(flags)
        .arg("-o")
        .arg(&fresh)
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} {source_name}");
    std::fs::rename(&fresh, &program).unwrap();
    program
}

/// `shapes.c`, once per test run.
pub fn shapes() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| compile("gcc", "shapes.c", &[], "shapes"))
        .clone()
}

/// The probe's library, built like the tests themselves. `None`, with a line, where it cannot be.
pub fn probe() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(build_probe).clone()
}

fn build_probe() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_BIN_EXE_highwater")).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--locked", "-p", "highwater-probe"])
        .current_dir(root);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().ok()?;
    let library = folder.join("libhighwater_probe.so");
    if status.success() && library.is_file() {
        return Some(library);
    }
    skipped("the probe's library could not be built");
    None
}

/// `highwater explain` with these words.
pub fn explain(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
        .arg("explain")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Times the duration that a busy machine gets when there were too few snapshots to judge growth.
const LONGER: [u64; 3] = [1, 3, 9];

/// A probe without optimisation costs ten times as much, and so does a breakpoint in a virtual machine: within the
/// ordinary budget few samples would be left. What the budget does has tests of its own.
pub const UNBOUNDED: &str = "100";

/// Its JSON for a command, as the schema has it, with the text of stderr when something is wrong. On a machine with no
/// time to look it is given longer: what is tested is the answer.
pub fn explained(seconds: u64, command: &[&str]) -> Value {
    let mut json = Value::Null;
    for longer in LONGER {
        let duration = format!("{}s", seconds * longer);
        let mut words = vec!["--json", "--quiet", "--duration", &duration];
        words.extend(["--every", "300ms", "--budget", UNBOUNDED, "--"]);
        words.extend(command);
        json = parsed(&explain(&words));
        // Nothing is said of how RSS grows where that could not be judged.
        if json["rss_slope_bytes_per_hour"].is_number() {
            break;
        }
    }
    json
}

pub fn parsed(output: &Output) -> Value {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let json = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}\n{err}"));
    let faults = crate::schema::faults(&json);
    assert!(faults.is_empty(), "{faults:#?}\n{json:#}");
    json
}

/// The parts must add up to RSS, with little unexplained.
pub fn assert_adds_up(json: &Value) {
    let rss = json["rss_bytes"].as_f64().unwrap();
    let parts = json["parts"].as_array().unwrap();
    let summed = parts.iter().filter(|part| part["of_which"].is_null());
    let sum: f64 = summed.map(|part| part["bytes"].as_f64().unwrap()).sum();
    assert!((sum - rss).abs() < 16.0, "{sum} of {rss}: {json:#}");
    let unexplained = part(json, "unexplained");
    assert!(
        unexplained.abs() <= 0.05 * rss,
        "{unexplained} of {rss}: {json:#}"
    );
}

pub fn part(json: &Value, name: &str) -> f64 {
    let parts = json["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == name);
    part.unwrap_or_else(|| panic!("no part {name}"))["bytes"]
        .as_f64()
        .unwrap()
}

pub fn cause(json: &Value) -> &str {
    json["verdict"]["cause"].as_str().unwrap()
}

/// The function that the top site names.
pub fn top_function(json: &Value) -> &str {
    json["sites"][0]["frames"][0]["function"]
        .as_str()
        .unwrap_or("")
}

/// A program that runs beside the test and is ended with it.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        Running(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

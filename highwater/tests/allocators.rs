//! `highwater allocators` from outside, with a stand-in for cargo that lays out a tiny allocator
//! under the names the mimalloc recipes expect: everything else (lock, compiler, checks, the
//! rename)
//! is real, and no network is needed. The tests that fetch are marked as long.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const BUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocators/bump.c");
/// Longest wait for something that another process does; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cache folder and a folder of programs, both temporary.
struct Bench {
    folder: TempDir,
}

impl Bench {
    /// With a stand-in cargo, the real compiler, and what shell scripts need.
    fn new() -> Bench {
        let bench = Bench {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(bench.programs()).unwrap();
        bench.script("cargo", &stand_in_cargo());
        for program in ["cc", "ld", "as", "mkdir", "cp", "sleep", "touch"] {
            bench.link(program);
        }
        bench
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.programs().join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn link(&self, name: &str) {
        symlink(find(name), self.programs().join(name)).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.programs().join(name)).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.arg("allocators").args(words);
        command
            .env("HIGHWATER_CACHE", self.cache())
            .env("PATH", self.programs());
        command.env_remove("CC").env_remove("CXX");
        command
    }

    fn run(&self, words: &[&str]) -> Said {
        Said::of(self.command(words).output().unwrap())
    }

    /// The state that `list --json` gives an allocator.
    fn state(&self, spec: &str) -> String {
        let said = self.run(&["list", "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let answer: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(answer["schema"], "highwater.allocators/1");
        let entries = answer["allocators"].as_array().unwrap();
        let entry = entries.iter().find(|e| e["spec"] == spec).unwrap();
        entry["state"].as_str().unwrap().to_owned()
    }

    /// No folder of this allocator, whole or half, and nothing in work.
    fn assert_nothing_of(&self, spec: &str) {
        assert_eq!(self.state(spec), "absent");
        assert!(!self.cache().join("allocators").join(spec).exists());
    }

    fn staging(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("allocators/.staging"));
        entries
            .map(|e| e.map(|e| e.unwrap().path()).collect())
            .unwrap_or_default()
    }
}

#[derive(Debug)]
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {}", self.err);
        }
    }
}

/// Lays out what `cargo vendor` would, for the two crates that the tests add.
fn stand_in_cargo() -> String {
    let lay = |version: &str, number: &str| {
        let folder = format!("vendor/libmimalloc-sys-{version}/c_src/mimalloc");
        format!(
            "mkdir -p {folder}/src {folder}/include\n\
             cp {BUMP} {folder}/src/static.c\n\
             cp {BUMP} {folder}/LICENSE\n\
             echo '#define MI_MALLOC_VERSION {number} // tests' > {folder}/include/mimalloc.h\n"
        )
    };
    lay("0.1.30", "209") + &lay("0.1.39", "217")
}

fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|d| d.join(program))
        .find(|p| p.exists());
    found.unwrap_or_else(|| panic!("these tests need {program}"))
}

#[track_caller]
fn wait_for(path: &Path) {
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < end, "{} did not appear", path.display());
        sleep(Duration::from_millis(10));
    }
}

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
    bench.remove("cc");
    bench.link("cc");
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(bench.state("mimalloc@2.0.9"), "installed");
    assert!(
        bench.staging().is_empty(),
        "the interrupted add was cleared away"
    );
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
fn a_compiler_that_fails_shows_its_last_words_and_the_log() {
    let bench = Bench::new();
    bench.remove("cc");
    bench.script("cc", "echo 'static.c:7: something is wrong' >&2; exit 1");
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(
        4,
        &[
            "mimalloc@2.0.9 was not added",
            "| static.c:7: something is wrong",
            ".log",
        ],
    );
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert!(bench.staging().is_empty());
}

#[test]
fn missing_programs_are_named_with_what_to_install() {
    let bench = Bench::new();
    bench.remove("cc");
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["needs a C compiler", "gcc"]);
    bench.remove("cargo");
    bench
        .run(&["add", "mimalloc@2.0.9"])
        .fails(4, &["needs cargo, a C compiler"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

#[test]
fn names_that_are_not_offered_end_with_usage_before_any_work() {
    let bench = Bench::new();
    for (spec, words) in [
        ("mimalloc@2.0.8", "the nearest is mimalloc@2.0.9"),
        ("mimaloc@2.0.9", "the nearest is mimalloc@2.0.9"),
        ("mimalloc", "mimalloc needs a version"),
    ] {
        bench
            .run(&["add", "mimalloc@2.1.7", spec])
            .fails(2, &[words]);
    }
    bench.assert_nothing_of("mimalloc@2.1.7");
    bench
        .run(&["add", "mimalloc@2.0.9", "--route", "apt"])
        .fails(4, &["has no route by apt"]);
}

#[test]
fn what_the_crate_does_not_hold_is_not_installed() {
    let bench = Bench::new();
    // The crate of 2.0.9 with the version line of another mimalloc.
    bench.script("cargo", &stand_in_cargo().replace("209", "301"));
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["does not hold \"#define MI_MALLOC_VERSION 209"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

/// Compiles a shared library from C text.
fn compile(bench: &Bench, name: &str, text: &str, more: &[&str]) -> PathBuf {
    let (source, library) = (bench.file(&format!("{name}.c")), bench.file(name));
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .args(more);
    assert!(
        cc.current_dir(bench.folder.path())
            .status()
            .unwrap()
            .success()
    );
    library
}

#[test]
fn libraries_that_cannot_be_preloaded_are_refused_in_words() {
    let bench = Bench::new();
    let text = fs::read_to_string(BUMP).unwrap();
    let good = compile(&bench, "good.so", &text, &[]);
    assert_eq!(bench.run(&["path", good.to_str().unwrap()]).code, 0);

    let mut bytes = fs::read(&good).unwrap();
    // e_machine, little-endian at byte 18: EM_RISCV.
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    fs::write(bench.file("foreign.so"), bytes).unwrap();

    let musl = "libc.musl-x86_64.so.1";
    compile(
        &bench,
        musl,
        "int nothing;",
        &["-nostdlib", &format!("-Wl,-soname,{musl}")],
    );
    let link = [
        "-nostdlib",
        "-Wl,--no-as-needed",
        "-L.",
        "-l:libc.musl-x86_64.so.1",
    ];
    compile(&bench, "musl.so", &text, &link);

    compile(&bench, "empty.so", "int nothing;", &[]);
    compile(
        &bench,
        "crash.so",
        &format!(
            "{text}\n__attribute__((constructor)) static void f(void) {{ __builtin_trap(); }}"
        ),
        &[],
    );
    fs::write(bench.file("text.so"), "not a library").unwrap();
    for (file, words) in [
        ("foreign.so", "is built for riscv"),
        (
            "musl.so",
            "is linked against musl, and the program runs on glibc",
        ),
        ("empty.so", "does not export malloc"),
        ("crash.so", "was killed by signal"),
        ("text.so", "is not an ELF file"),
        ("none.so", "no library at"),
    ] {
        bench
            .run(&["path", bench.file(file).to_str().unwrap()])
            .fails(4, &[words]);
    }
}

#[test]
fn without_a_network_an_add_says_so_and_leaves_nothing() {
    let bench = Bench::new();
    let mut add = bench.command(&["add", "mimalloc@2.0.9"]);
    // The real cargo, an empty home, and a proxy where nobody listens.
    add.env("PATH", std::env::var_os("PATH").unwrap())
        .env("CARGO_HOME", bench.file("home"));
    add.env("CARGO_NET_RETRY", "0")
        .env("CARGO_HTTP_PROXY", "http://127.0.0.1:9");
    let said = Said::of(add.output().unwrap());
    said.fails(4, &["fetching crate libmimalloc-sys", "need the network"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
}

/// A tiny file system; gone with the value.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, size: &str) -> Option<Tmpfs> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at);
        mount
            .output()
            .is_ok_and(|o| o.status.success())
            .then(|| Tmpfs(at.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_cache_disk_is_said_and_leaves_nothing() {
    let bench = Bench::new();
    let Some(disk) = Tmpfs::mount(&bench.cache(), "48k") else {
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    };
    let said = bench.run(&["add", "mimalloc@2.0.9"]);
    said.fails(4, &["is full", "HIGHWATER_CACHE"]);
    bench.assert_nothing_of("mimalloc@2.0.9");
    assert!(bench.staging().is_empty());
    drop(disk);
}

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

#[test]
fn a_cache_folder_that_no_preload_can_name_is_refused_at_once() {
    let bench = Bench::new();
    let mut add = bench.command(&["add", "mimalloc@2.0.9"]);
    let said = Said::of(
        add.env("HIGHWATER_CACHE", bench.file("my cache"))
            .output()
            .unwrap(),
    );
    said.fails(4, &["a space or a colon", "HIGHWATER_CACHE"]);
}

/// The clients as the user has them; only the cache is temporary.
fn real(bench: &Bench, words: &[&str]) -> Said {
    let mut command = bench.command(words);
    Said::of(
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .output()
            .unwrap(),
    )
}

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

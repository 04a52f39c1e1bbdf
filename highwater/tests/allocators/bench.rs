//! A cache folder, a folder of programs, and a stand-in for cargo: what the tests work on.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub const BUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/allocators/bump.c");

/// Longest wait for something that another process does; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cache folder and a folder of programs, both temporary.
pub struct Bench {
    pub folder: TempDir,
}

impl Bench {
    /// With a stand-in cargo, the real compiler, and what shell scripts need.
    pub fn new() -> Bench {
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

    pub fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn script(&self, name: &str, text: &str) {
        let path = self.programs().join(name);
        let _ = fs::remove_file(&path);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn link(&self, name: &str) {
        symlink(find(name), self.programs().join(name)).unwrap();
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.programs().join(name)).unwrap();
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.arg("allocators").args(words);
        command
            .env("HIGHWATER_CACHE", self.cache())
            .env("PATH", self.programs());
        command.env_remove("CC").env_remove("CXX");
        command
    }

    pub fn run(&self, words: &[&str]) -> Said {
        Said::of(self.command(words).output().unwrap())
    }

    /// The state that `list --json` gives an allocator.
    pub fn state(&self, spec: &str) -> String {
        let said = self.run(&["list", "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let answer: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(answer["schema"], "highwater.allocators/1");
        let entries = answer["allocators"].as_array().unwrap();
        let entry = entries.iter().find(|e| e["spec"] == spec).unwrap();
        entry["state"].as_str().unwrap().to_owned()
    }

    /// No folder of this allocator, whole or half, and nothing in work.
    pub fn assert_nothing_of(&self, spec: &str) {
        assert_eq!(self.state(spec), "absent");
        assert!(!self.cache().join("allocators").join(spec).exists());
    }

    pub fn staging(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache().join("allocators/.staging"));
        entries
            .map(|e| e.map(|e| e.unwrap().path()).collect())
            .unwrap_or_default()
    }
}

pub use crate::said::Said;

impl Said {
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {}", self.err);
        }
    }
}

/// Lays out what `cargo vendor` would, for the two crates that the tests add.
pub fn stand_in_cargo() -> String {
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

pub fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path)
        .map(|d| d.join(program))
        .find(|p| p.exists());
    found.unwrap_or_else(|| panic!("these tests need {program}"))
}

#[track_caller]
pub fn wait_for(path: &Path) {
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < end, "{} did not appear", path.display());
        sleep(Duration::from_millis(10));
    }
}

/// Compiles a shared library from C text.
pub fn compile(bench: &Bench, name: &str, text: &str, more: &[&str]) -> PathBuf {
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

/// The clients as the user has them; only the cache is temporary.
pub fn real(bench: &Bench, words: &[&str]) -> Said {
    let mut command = bench.command(words);
    Said::of(
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .output()
            .unwrap(),
    )
}

//! The real programs of the smoke test: those on PATH, the others out of their Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What each program needs besides itself, where a package does not bring it.
const PACKAGES: &[(&str, &[&str])] = &[
    (
        "redis-server",
        &[
            "redis-server",
            "redis-tools",
            "libjemalloc2",
            "liblua5.1-0",
            "liblzf1",
            "lua-bitop",
            "lua-cjson",
        ],
    ),
    ("tor", &["tor"]),
];

/// Programs by name, for as long as the value lives.
pub struct Programs {
    unpacked: TempDir,
}

impl Programs {
    /// Fetches and unpacks what is not on PATH; what cannot be had is not there.
    pub fn gather() -> Programs {
        let unpacked = tempfile::tempdir().unwrap();
        for (program, packages) in PACKAGES {
            if on_path(program).is_none()
                && let Err(why) = unpack(packages, unpacked.path())
            {
                println!("{program}: {why}");
            }
        }
        Programs { unpacked }
    }

    fn root(&self) -> PathBuf {
        self.unpacked.path().join("root")
    }

    /// Where a program is; `None` when this machine cannot have it.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let unpacked = self.root().join("usr/bin").join(program);
        on_path(program).or_else(|| unpacked.is_file().then_some(unpacked))
    }

    /// What the unpacked programs need as `LD_LIBRARY_PATH`.
    pub fn libraries(&self) -> String {
        let triplet = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        self.root().join(triplet).display().to_string()
    }

    /// A program on libc.
    pub fn command(&self, program: &str) -> Command {
        let path = self.find(program).unwrap_or_else(|| program.into());
        let mut command = Command::new(path);
        command.env("LD_LIBRARY_PATH", self.libraries());
        command
    }
}

fn unpack(packages: &[&str], folder: &Path) -> Result<(), String> {
    let mut fetch = Command::new("apt-get");
    fetch.arg("download").args(packages).current_dir(folder);
    let fetched = fetch.output().map_err(|e| format!("apt-get: {e}"))?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        return Err(format!("apt-get download {packages:?}: {said}"));
    }
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "deb") {
            let mut dpkg = Command::new("dpkg-deb");
            dpkg.arg("-x").arg(entry.path()).arg(folder.join("root"));
            dpkg.status().map_err(|e| format!("dpkg-deb: {e}"))?;
        }
    }
    Ok(())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|d| d.join(program))
        .find(|p| p.is_file())
}

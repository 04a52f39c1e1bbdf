//! A wheel, by `pip download --require-hashes`; its files are laid out next to each other.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Fetch, check_sha256};
use crate::recipe::Wheel;
use crate::run::builder;

/// Fetches and unpacks a wheel; the returned folder is the root of its files.
pub fn fetch(wheel: &Wheel, with: &mut Fetch<'_>) -> Result<PathBuf> {
    let python = with
        .machine
        .find(&["python3"])
        .context("python3 is not on PATH")?;
    let wanted = format!(
        "{}=={} --hash=sha256:{}\n",
        wheel.package, wheel.version, wheel.sha256
    );
    let requirements = with.folder.join("requirements.txt");
    fs::write(&requirements, wanted)?;
    let wheels = with.folder.join("wheels");
    let mut download = builder(with.machine, &python);
    download
        .args([
            "-m",
            "pip",
            "download",
            "--require-hashes",
            "--no-deps",
            "--only-binary",
            ":all:",
        ])
        .args(["--disable-pip-version-check", "--requirement"])
        .arg(&requirements)
        .arg("--dest")
        .arg(&wheels);
    with.log
        .run(&mut download)
        .with_context(|| format!("fetching wheel {}", wheel.package))?;
    let Some(file) = fs::read_dir(&wheels)?.next() else {
        bail!(
            "pip download left no file of {} {}",
            wheel.package,
            wheel.version
        );
    };
    let file = file?.path();
    check_sha256(&file, &wheel.sha256)?;
    let root = with.folder.join("root");
    let mut unpack = builder(with.machine, &python);
    unpack.args(["-m", "zipfile", "-e"]).arg(&file).arg(&root);
    with.log
        .run(&mut unpack)
        .with_context(|| format!("unpacking wheel {}", wheel.package))?;
    Ok(root)
}

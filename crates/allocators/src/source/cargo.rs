//! A crate, fetched by `cargo vendor --locked` from a manifest with this one dependency.
//!
//! Each crate has its own lock: the `links` key of these crates forbids two versions of one library
//! in the same lock file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::Fetch;
use crate::recipe::Crate;
use crate::run::builder;

/// Fetches a crate; the returned folder is its root.
pub fn fetch(source: &Crate, with: &mut Fetch<'_>) -> Result<PathBuf> {
    let locked = locked_checksum(&source.lock_text, &source.name, &source.version);
    if locked.as_deref() != Some(&source.sha256) {
        bail!(
            "the checksum of crate {} {} in the recipe is not the one of its lock file; nothing \
             was installed",
            source.name,
            source.version
        );
    }
    fs::create_dir(with.folder.join("src"))?;
    fs::write(with.folder.join("src/lib.rs"), "")?;
    fs::write(with.folder.join("Cargo.toml"), manifest(source))?;
    fs::write(with.folder.join("Cargo.lock"), &source.lock_text)?;
    let cargo = with
        .machine
        .find(&["cargo"])
        .context("cargo is not on PATH")?;
    let mut command = builder(with.machine, &cargo);
    command
        .args(["vendor", "--locked", "--versioned-dirs", "vendor"])
        .current_dir(with.folder);
    with.log
        .run(&mut command)
        .with_context(|| format!("fetching crate {}", source.name))?;
    let folder = with
        .folder
        .join("vendor")
        .join(format!("{}-{}", source.name, source.version));
    if !folder.is_dir() {
        bail!(
            "cargo vendor left no folder for crate {} {}",
            source.name,
            source.version
        );
    }
    Ok(folder)
}

/// The manifest the lock was made for. Its own workspace, so that no manifest above it counts.
fn manifest(source: &Crate) -> String {
    // What follows the `+` takes no part in version requirements, and cargo warns about it.
    let version = source.version.split('+').next().unwrap_or_default();
    format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\n\
         {} = \"={version}\"\n\n[workspace]\n",
        source.name
    )
}

/// The checksum that a `Cargo.lock` records for one package.
pub fn locked_checksum(lock: &str, name: &str, version: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(serde::Deserialize)]
    struct Package {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).ok()?;
    let package = lock
        .package
        .into_iter()
        .find(|p| p.name == name && p.version == version);
    package?.checksum
}

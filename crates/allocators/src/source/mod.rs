//! Fetching a recipe's source through the ordinary client that owns it.

pub mod apt;
pub mod cargo;
pub mod pip;
mod successor;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::elf::hex;
use super::machine::Machine;
use super::recipe::Source;
use super::run::Log;

/// What fetching needs to know.
pub struct Fetch<'a> {
    pub machine: &'a Machine,
    /// An empty folder for what is fetched; the caller removes it.
    pub folder: &'a Path,
    /// Kept between runs: package lists and unpacked tools.
    pub shared: &'a Path,
    pub log: &'a mut Log,
}

/// What was fetched.
#[derive(Debug)]
pub struct Fetched {
    /// The recipe's paths are relative to it.
    pub folder: PathBuf,
    /// What it is in a line: the recipe's words, or what took its place in the archive.
    pub words: String,
}

/// Fetches a source.
///
/// # Errors
/// A client that is missing or fails (no network), and bytes whose sha256 is not the recipe's.
pub fn fetch(source: &Source, with: &mut Fetch<'_>) -> Result<Fetched> {
    let words = source.describe();
    let folder = match source {
        Source::System => bail!("what the machine has needs no fetching"),
        Source::Cargo(source) => cargo::fetch(source, with)?,
        Source::Apt(package) => return apt::fetch(package, &words, with),
        Source::AptTarball(package) => return apt::fetch_source(package, &words, with),
        Source::Pip(wheel) => pip::fetch(wheel, with)?,
    };
    Ok(Fetched { folder, words })
}

/// The programs a source cannot be fetched without, each with what to install for it.
pub fn clients(source: &Source) -> &'static [(&'static str, &'static str)] {
    match source {
        Source::System => &[],
        Source::Cargo(_) => &[("cargo", "Rust 1.78 or newer")],
        Source::Apt(_) => &[
            ("apt-get", "apt"),
            ("apt-cache", "apt"),
            ("dpkg-deb", "dpkg"),
        ],
        Source::AptTarball(_) => &[("apt-get", "apt"), ("apt-cache", "apt"), ("tar", "tar")],
        Source::Pip(_) => &[("python3", "python3-pip")],
    }
}

/// sha256 of a file in hex.
pub(super) fn sha256_file(path: &Path) -> Result<String> {
    let what = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(what)?;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher).with_context(what)?;
    Ok(hex(&hasher.finalize()))
}

/// Stops on a file that is not the one the recipe was written for.
pub(super) fn check_sha256(path: &Path, wanted: &str) -> Result<()> {
    let has = sha256_file(path)?;
    if has != wanted {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        bail!(
            "the checksum of {name} is not the recipe's: fetched {has}, expected {wanted}; \
             nothing was installed"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_altered_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.deb");
        std::fs::write(&file, "abc").unwrap();
        // sha256 of "abc", from FIPS 180-2.
        let good = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check_sha256(&file, good).unwrap();
        std::fs::write(&file, "abd").unwrap();
        let error = check_sha256(&file, good).unwrap_err().to_string();
        assert!(
            error.contains("x.deb") && error.contains("expected ba78"),
            "{error}"
        );
    }
}

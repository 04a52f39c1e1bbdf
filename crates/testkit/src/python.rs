//! Interpreters of Python that are installed.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;

use crate::fetched;

/// An interpreter of 3.`minor`: of pyenv, of `make runtimes`, else of the path.
pub fn python(minor: u8) -> Option<PathBuf> {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions"))
        .into_iter()
        .flatten()
        .flatten();
    let prefix = format!("3.{minor}.");
    let mut found =
        versions.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    let of_pyenv = found.next().map(|entry| entry.path().join("bin/python"));
    let name = format!("python3.{minor}");
    let fetched = fetched(&name, &format!("usr/bin/{name}"));
    let runs = |python: &PathBuf| {
        Command::new(python)
            .arg("-V")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    [of_pyenv, fetched, Some(PathBuf::from(name))]
        .into_iter()
        .flatten()
        .find(runs)
}

/// Those of several minor versions, each with its number.
pub fn pythons(minors: RangeInclusive<u8>) -> Vec<(u8, PathBuf)> {
    minors
        .filter_map(|minor| Some((minor, python(minor)?)))
        .collect()
}

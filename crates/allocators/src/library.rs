//! A library that an arm can run on, with all that a report says of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use super::cache::{Cache, Manifest};
use super::machine::{glibc_version, libc_file};
use super::recipe::{Defect, Recipe};
use super::source::sha256_file;
use super::verify::{Trial, preload_value, read_elf};

/// An allocator that is ready to be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Library {
    /// As the arm names it: `mimalloc@2.0.9`, `glibc`, or the path.
    pub spec: String,
    pub name: String,
    /// The upstream version; for `glibc` that of this machine; `None` for a file of the user's own.
    pub version: Option<String>,
    /// The file to preload; `None` means the system's own: nothing to preload.
    pub path: Option<PathBuf>,
    /// Libraries to preload before it.
    pub companions: Vec<PathBuf>,
    /// The loader to start the program through, where the arm is a whole C library.
    pub loader: Option<Loader>,
    /// The file's sha256 in hex; of the mapped libc for the system's own.
    pub sha256: Option<String>,
    /// GNU build id in hex, as the running process has it mapped.
    pub build_id: Option<String>,
    /// Where it came from: `crate libmimalloc-sys 0.1.30`, `deb libjemalloc2 5.3.0-1 (bookworm)`.
    pub source: String,
    /// How it was made of the source; `None` for what was not built here.
    pub build: Option<String>,
    pub licence: Option<String>,
    /// What is known to be wrong with this version.
    pub defects: Vec<Defect>,
    /// Where it departs from the standards and harms no memory.
    pub deviations: Vec<Defect>,
    /// Misuse that ends the program instead of corrupting it, by the names of a check.
    pub protections: Vec<String>,
    /// What the allocator itself can tell about its heap at run time.
    pub statistics: Option<String>,
    /// Texts in the library's bytes that show its version.
    pub version_strings: Vec<String>,
    /// How the version was seen when the library was added.
    pub version_shown: Option<String>,
    pub compiler: Option<String>,
    /// RFC 3339.
    pub built_at: Option<String>,
}

/// A C library of its own: `PROGRAM --library-path LIBRARY_PATH COMMAND...` starts a command on it.
///
/// The command's own children run on the system's libc again, and `/proc/PID/exe` is the loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loader {
    pub program: PathBuf,
    pub library_path: PathBuf,
}

impl Loader {
    /// The words to put before a command. With `argv0` the command keeps its name.
    pub fn prefix(&self, argv0: Option<&str>) -> Vec<OsString> {
        let mut words = vec![
            self.program.clone().into_os_string(),
            "--library-path".into(),
        ];
        words.push(self.library_path.clone().into_os_string());
        if let Some(name) = argv0 {
            words.extend(["--argv0".into(), name.into()]);
        }
        words
    }
}

impl Library {
    /// The value of `LD_PRELOAD`; `None` for the system's own allocator.
    ///
    /// # Errors
    /// A path with a space or a colon, which `LD_PRELOAD` cannot hold.
    pub fn preload(&self) -> Result<Option<OsString>> {
        self.path
            .as_deref()
            .map(|path| preload_value(path, &self.companions))
            .transpose()
    }

    /// A command that starts a program on this library. Add arguments after it.
    ///
    /// # Errors
    /// As [`Library::preload`].
    pub fn command(&self, program: &Path) -> Result<Command> {
        if let Some(loader) = &self.loader {
            let words = loader.prefix(None);
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg(program);
            return Ok(command);
        }
        let mut command = Command::new(program);
        if let Some(value) = self.preload()? {
            command.env("LD_PRELOAD", value);
        }
        Ok(command)
    }

    /// A library of the cache.
    pub fn built(recipe: &Recipe, manifest: Manifest, cache: &Cache) -> Library {
        let place = cache.place(recipe);
        let loader = manifest.loader.map(|loader| Loader {
            program: place.join(loader.file),
            library_path: place.clone(),
        });
        let companions = manifest.companions.iter().map(|c| place.join(&c.file));
        let preloaded = loader.is_none();
        Library {
            version: Some(manifest.version),
            path: preloaded.then(|| place.join(&manifest.library)),
            companions: companions.filter(|_| preloaded).collect(),
            loader,
            sha256: Some(manifest.sha256),
            build_id: manifest.build_id,
            source: manifest.source,
            build: Some(manifest.build).filter(|build| !build.is_empty()),
            version_shown: Some(manifest.version_shown),
            compiler: manifest.compiler,
            built_at: Some(manifest.built_at),
            ..Library::described(recipe)
        }
    }

    /// What the machine has: nothing to preload, and the facts of its C library.
    pub(super) fn system(recipe: &Recipe) -> Library {
        let mapped = libc_file();
        let facts = mapped
            .as_deref()
            .and_then(|path| Some((path, read_elf(path).ok()?)));
        Library {
            version: glibc_version(),
            sha256: facts.as_ref().and_then(|(path, _)| sha256_file(path).ok()),
            build_id: facts.and_then(|(_, elf)| elf.build_id),
            ..Library::described(recipe)
        }
    }

    /// A file of the user's own: read and tried, and nothing else known of it.
    ///
    /// # Errors
    /// A file that is not there or cannot be preloaded here, in words.
    pub(super) fn of_file(path: &Path) -> Result<Library> {
        let spec = path.display().to_string();
        let path = path
            .canonicalize()
            .with_context(|| format!("no library at {spec}"))?;
        let trial = Trial {
            library: path.clone(),
            companions: Vec::new(),
            loader: None,
        };
        let elf = trial.verify()?;
        Ok(Library {
            spec,
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            sha256: Some(sha256_file(&path)?),
            build_id: elf.build_id,
            source: "a file of your own".to_owned(),
            path: Some(path),
            ..Library::empty()
        })
    }

    pub fn described(recipe: &Recipe) -> Library {
        Library {
            spec: recipe.label(),
            name: recipe.name.clone(),
            source: recipe
                .routes
                .first()
                .map(|r| r.source.describe())
                .unwrap_or_default(),
            licence: Some(recipe.licence.clone()),
            defects: recipe.defects.clone(),
            deviations: recipe.deviations.clone(),
            protections: recipe.protections.clone(),
            statistics: Some(recipe.statistics.clone()),
            version_strings: recipe.version_proof.strings.clone(),
            ..Library::empty()
        }
    }

    /// A file of which nothing is known but its name.
    pub fn unknown(spec: &str) -> Library {
        Library {
            spec: spec.to_owned(),
            name: spec.to_owned(),
            source: "a file of your own".to_owned(),
            ..Library::empty()
        }
    }

    fn empty() -> Library {
        Library {
            spec: String::new(),
            name: String::new(),
            version: None,
            path: None,
            companions: Vec::new(),
            loader: None,
            sha256: None,
            build_id: None,
            source: String::new(),
            build: None,
            licence: None,
            defects: Vec::new(),
            deviations: Vec::new(),
            protections: Vec::new(),
            statistics: None,
            version_strings: Vec::new(),
            version_shown: None,
            compiler: None,
            built_at: None,
        }
    }
}

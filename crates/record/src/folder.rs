//! The folder of a run: `runs/2026-11-21-relay-1/` with the frozen experiment, `run.db` and the logs.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::{RecordError, Result};
use experiment::file::{Experiment, freeze};

/// More runs of one name on one day than that is a loop, not a person.
const RUNS_A_DAY_MAX: u32 = 100_000;
/// A run folder holds command lines and logs: its owner's business alone.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A run folder that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates `runs/<date>-<name>-<n>/` with the frozen experiment and `logs/`. `date` is the local calendar day,
    /// written 2026-11-21; `n` is the first number that is free, claimed atomically.
    pub fn create(runs: &Path, date: &str, experiment: &Experiment) -> Result<Folder> {
        let mut builder = DirBuilder::new();
        builder.mode(FOLDER_MODE).recursive(true);
        builder
            .create(runs)
            .map_err(|e| RecordError::io(runs, "creating the folder of runs", e))?;
        // Absolute: the supervisor and the collector need not share a working folder.
        let runs = std::path::absolute(runs).unwrap_or_else(|_| runs.to_path_buf());
        let path = claim(&runs, date, &experiment.name)?;
        let folder = Folder { path };
        let logs = folder.logs();
        builder
            .create(&logs)
            .map_err(|e| RecordError::io(&logs, "creating the logs folder", e))?;
        write_new(&folder.experiment_file(), &freeze(experiment))?;
        Ok(folder)
    }

    /// The run folder at `path`, which may also be its `run.db`.
    pub fn open(path: &Path) -> Result<Folder> {
        let folder = match path.file_name() {
            Some(name) if name == "run.db" => path.parent().unwrap_or(Path::new(".")),
            _ => path,
        };
        // "." and ".." have no name of their own, and the folder's name is the id of the run.
        let folder = folder
            .canonicalize()
            .map_err(|_| RecordError::Missing(path.to_path_buf()))?;
        let folder = Folder { path: folder };
        if !folder.database().is_file() {
            return Err(RecordError::Missing(folder.path));
        }
        Ok(folder)
    }

    /// The run meant by a person: a path, the name of a folder below `runs`, or "latest".
    pub fn find(runs: &Path, word: &str) -> Result<Folder> {
        if word == "latest" {
            let newest = list(runs)?.into_iter().next_back();
            return newest.ok_or_else(|| RecordError::Missing(runs.join("latest")));
        }
        let named = runs.join(word);
        if !word.contains('/') && named.is_dir() {
            return Folder::open(&named);
        }
        Folder::open(Path::new(word))
    }

    /// Name of the folder: the id of the run.
    pub fn id(&self) -> String {
        self.path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Keeps every other supervisor away for as long as the value lives; the kernel lets go of it with the process.
    pub fn hold(&self) -> Result<File> {
        let opening = |e| RecordError::io(&self.path, "opening the run folder", e);
        let folder = File::open(&self.path).map_err(opening)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(RecordError::Supervised(self.path.clone())),
            // Some network file systems have no locks: two supervisors are rarer than those.
            _ => Ok(folder),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn database(&self) -> PathBuf {
        self.path.join("run.db")
    }

    pub fn experiment_file(&self) -> PathBuf {
        self.path.join("experiment.toml")
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }
}

/// Every run below `runs`, oldest first by when its record was begun (the folder's time of creation).
pub fn list(runs: &Path) -> Result<Vec<Folder>> {
    let entries =
        std::fs::read_dir(runs).map_err(|e| RecordError::io(runs, "listing the runs", e))?;
    let mut found: Vec<_> = entries
        .filter_map(|entry| Folder::open(&entry.ok()?.path()).ok())
        .map(|folder| {
            // The frozen experiment is written once, at the start; run.db changes as long as the run goes on.
            let begun = folder
                .experiment_file()
                .metadata()
                .and_then(|meta| meta.modified())
                .ok();
            (begun, folder)
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.path.cmp(&b.1.path)));
    Ok(found.into_iter().map(|(_, folder)| folder).collect())
}

/// Creates the first folder of this name that does not exist yet.
fn claim(runs: &Path, date: &str, name: &str) -> Result<PathBuf> {
    for n in 1..=RUNS_A_DAY_MAX {
        let path = runs.join(format!("{date}-{name}-{n}"));
        match DirBuilder::new().mode(FOLDER_MODE).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(RecordError::io(&path, "creating the run folder", error)),
        }
    }
    let taken = std::io::Error::other("every number is taken");
    Err(RecordError::io(
        &runs.join(format!("{date}-{name}")),
        "creating the run folder",
        taken,
    ))
}

/// Writes a file that must not exist yet, readable by its owner only.
pub(super) fn write_new(path: &Path, text: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| RecordError::io(path, "writing a new file", error))
}

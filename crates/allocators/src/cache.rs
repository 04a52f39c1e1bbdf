//! The folder where built libraries live, and what may happen to it at any moment.
//!
//! ```text
//! CACHE/allocators/NAME@VERSION/   manifest.json, the library, licence texts: whole, or not there
//! CACHE/allocators/.staging/       where an add works; moved into place by one rename
//! CACHE/allocators/.locks/         one lock file per allocator
//! CACHE/allocators/.logs/          the log of the last build of each
//! CACHE/allocators/.shared/        package lists and tools, kept between adds
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::elf::hex;
use super::machine::Machine;
use super::recipe::{Recipe, Route};
use super::source::sha256_file;

/// Set this to keep built libraries elsewhere than in the user's cache folder.
pub const CACHE_VARIABLE: &str = "HIGHWATER_CACHE";
const MANIFEST: &str = "manifest.json";
const MANIFEST_SCHEMA: &str = "highwater.library/1";

/// The cache folder, and the machine that builds into it.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    pub(super) machine: Machine,
}

/// What is known of a library that was built: written last, read first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: String,
    pub name: String,
    pub version: String,
    /// Identity of the recipe's route, lock and own files: a changed recipe is another library.
    pub recipe_sha256: String,
    /// The client that fetched it: `cargo`, `apt`, `pip`.
    pub route: String,
    pub source: String,
    /// How it was made of the source, in a line.
    #[serde(default)]
    pub build: String,
    pub licence: String,
    pub licence_files: Vec<String>,
    /// File name inside this folder.
    pub library: String,
    pub sha256: String,
    pub bytes: u64,
    pub build_id: Option<String>,
    /// Libraries to preload before it; with a loader, the libraries beside it.
    pub companions: Vec<Companion>,
    /// The loader to start programs through: then nothing is preloaded.
    pub loader: Option<Companion>,
    /// How the version was seen in the built library, and the text that showed it.
    pub version_shown: String,
    pub architecture: String,
    pub libc: String,
    /// First line of `--version`; `None` when nothing was compiled.
    pub compiler: Option<String>,
    /// RFC 3339.
    pub built_at: String,
    pub seconds: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Companion {
    pub file: String,
    pub sha256: String,
}

/// What the cache holds of a recipe.
#[derive(Debug)]
pub enum State {
    Absent,
    /// Whole, and built from another edition of the recipe.
    Outdated,
    /// There, and not what was built; the words say why.
    Corrupt(String),
    Ready(Box<Manifest>),
}

impl Cache {
    /// The user's cache folder, or the folder that `HIGHWATER_CACHE` names.
    ///
    /// # Errors
    /// No home folder and no variable.
    pub fn open() -> Result<Cache> {
        let chosen = std::env::var_os(CACHE_VARIABLE).filter(|v| !v.is_empty());
        let root = match chosen {
            Some(folder) => std::path::absolute(folder)?,
            None => directories::ProjectDirs::from("", "", "highwater")
                .with_context(|| {
                    format!(
                        "this user has no home folder to keep allocators in; set \
                        {CACHE_VARIABLE} to a folder"
                    )
                })?
                .cache_dir()
                .to_owned(),
        };
        Ok(Cache::at(&root, Machine::here()))
    }

    /// A cache in a folder of one's own choice, built on a given machine.
    pub fn at(folder: &Path, machine: Machine) -> Cache {
        Cache {
            root: folder.join("allocators"),
            machine,
        }
    }

    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// The machine in a line: architecture, system, kernel.
    pub fn machine_words(&self) -> String {
        let kernel = rustix::system::uname();
        let release = kernel.release().to_string_lossy();
        let machine = &self.machine;
        format!(
            "{}, {} {}, Linux {release}",
            machine.architecture, machine.os, machine.os_version
        )
    }

    /// Where a recipe's library is, or would be.
    pub fn place(&self, recipe: &Recipe) -> PathBuf {
        self.root.join(recipe.label())
    }

    pub fn log_file(&self, recipe: &Recipe) -> PathBuf {
        self.root
            .join(".logs")
            .join(format!("{}.log", recipe.label()))
    }

    pub(super) fn shared(&self) -> PathBuf {
        self.root.join(".shared")
    }

    /// Reads the manifest and compares every library's bytes with it (0.4 ms per MB).
    ///
    /// # Errors
    /// A folder that cannot be read at all.
    pub fn state(&self, recipe: &Recipe) -> Result<State> {
        let place = self.place(recipe);
        let text = match fs::read_to_string(place.join(MANIFEST)) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !place.exists() => {
                return Ok(State::Absent);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(State::Corrupt("its manifest.json is gone".to_owned()));
            }
            Err(e) => {
                return Err(e)
                    .with_context(|| format!("reading {}", place.join(MANIFEST).display()));
            }
        };
        let Ok(manifest) = serde_json::from_str::<Manifest>(&text) else {
            return Ok(State::Corrupt("its manifest.json is damaged".to_owned()));
        };
        if let Some(why) = damage(&place, &manifest) {
            return Ok(State::Corrupt(why));
        }
        let ours = recipe
            .routes
            .iter()
            .any(|r| identity(recipe, r) == manifest.recipe_sha256);
        Ok(if ours {
            State::Ready(Box::new(manifest))
        } else {
            State::Outdated
        })
    }

    /// Takes a recipe's library away; `false` when there was none.
    ///
    /// # Errors
    /// A folder that cannot be removed.
    pub fn remove(&self, recipe: &Recipe) -> Result<bool> {
        let place = self.place(recipe);
        if !place.exists() {
            return Ok(false);
        }
        let _lock = self.lock(recipe, || {})?;
        // Out of sight by one rename first: a removal that is interrupted leaves no half library.
        let going = self.staging(recipe)?;
        let moved = going.path().join("removed");
        fs::rename(&place, &moved).with_context(|| format!("removing {}", place.display()))?;
        Ok(true)
    }

    /// One add or removal of an allocator at a time; `waiting` is called when another one is at it.
    pub(super) fn lock(&self, recipe: &Recipe, waiting: impl FnOnce()) -> Result<Lock> {
        let locks = self.root.join(".locks");
        fs::create_dir_all(&locks).with_context(|| {
            format!(
                "creating {}; set {CACHE_VARIABLE} to a folder you may write to",
                locks.display()
            )
        })?;
        lock(&locks.join(recipe.label()), waiting)
    }

    /// An empty folder beside the libraries, on the same disk. Call it with the lock held: what earlier,
    /// interrupted adds left, of this allocator or of another, is removed.
    pub(super) fn staging(&self, recipe: &Recipe) -> Result<Staging> {
        let folder = self.root.join(".staging");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let own = recipe.label();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match name.split_once('~') {
                Some((label, _)) if label == own => fs::remove_dir_all(entry.path())?,
                Some((label, _)) => self.sweep(label, &entry.path()),
                None => {}
            }
        }
        let prefix = format!("{own}~");
        // A builder that outlived its killed parent for a moment must not meet its successor.
        let path = folder.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Staging(path))
    }

    /// Removes what an add of another allocator left, unless that add still runs: it would hold its lock.
    fn sweep(&self, label: &str, left: &Path) {
        let Ok(file) = File::open(self.root.join(".locks").join(label)) else {
            return;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // It costs space only: whoever needs the name removes it too, or says why not.
            let _ = fs::remove_dir_all(left);
        }
    }

    /// An empty folder for a task that needs no lock; those of processes that are gone are removed.
    pub(super) fn scratch(&self, task: &str) -> Result<Staging> {
        let folder = self.root.join(".staging");
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let prefix = format!("{task}~");
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let gone = name
                .strip_prefix(&prefix)
                .is_some_and(|pid| !Path::new("/proc").join(pid).exists());
            if gone {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let path = folder.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Staging(path))
    }

    /// Moves a finished folder into its place by one rename; an older library leaves in the same
    /// step.
    pub(super) fn install(&self, recipe: &Recipe, finished: &Path) -> Result<()> {
        let place = self.place(recipe);
        // The bytes are on the disk before the name is: a power cut leaves no empty library.
        sync_folder(finished)?;
        let what = || format!("moving the library to {}", place.display());
        if place.exists() {
            exchange(finished, &place).with_context(what)?;
        } else {
            fs::rename(finished, &place).with_context(what)?;
        }
        sync_file(&self.root).with_context(what)
    }
}

impl Manifest {
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(folder.join(MANIFEST), text).context("writing manifest.json")
    }

    pub(super) fn schema() -> String {
        MANIFEST_SCHEMA.to_owned()
    }
}

/// What of a library's folder is not as its manifest says.
fn damage(place: &Path, manifest: &Manifest) -> Option<String> {
    let first = (&manifest.library, &manifest.sha256);
    let companions = manifest.companions.iter().chain(&manifest.loader);
    let companions = companions.map(|c| (&c.file, &c.sha256));
    for (file, wanted) in std::iter::once(first).chain(companions) {
        match sha256_file(&place.join(file)) {
            Err(_) => return Some(format!("its {file} cannot be read")),
            Ok(has) if has != *wanted => {
                return Some(format!(
                    "the sha256 of its {file} is {has}, and it was built as {wanted}"
                ));
            }
            Ok(_) => {}
        }
    }
    None
}

/// Swaps two folders in one step; where the file system cannot, in two.
fn exchange(finished: &Path, place: &Path) -> io::Result<()> {
    match renameat_with(CWD, finished, CWD, place, RenameFlags::EXCHANGE) {
        Err(rustix::io::Errno::INVAL) => {
            fs::rename(place, finished.with_extension("old"))?;
            fs::rename(finished, place)
        }
        other => Ok(other?),
    }
}

/// sha256 over everything of a recipe that decides what is built: not its words about defects.
pub(super) fn identity(recipe: &Recipe, route: &Route) -> String {
    let route = serde_json::to_string(route).expect("plain data becomes JSON");
    hex(&Sha256::digest(format!(
        "{}\n{}\n{route}",
        recipe.name, recipe.version
    )))
}

/// Held until it is dropped, or until the process ends in any way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes an exclusive lock on a file, which is made if it is not there.
pub(super) fn lock(path: &Path, waiting: impl FnOnce()) -> Result<Lock> {
    let what = || format!("locking {}", path.display());
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(what)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        waiting();
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                return Err(error).with_context(what);
            }
        }
    }
    Ok(Lock { _file: file })
}

/// A working folder that goes away however the work ends.
#[derive(Debug)]
pub(super) struct Staging(PathBuf);

impl Staging {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What stays is removed by the next add of the same allocator.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            sync_file(&path).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    sync_file(folder).with_context(|| format!("writing {}", folder.display()))
}

fn sync_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

//! Separate debug information: which file has the symbols of a mapped file that was stripped.
//!
//! Looked for, in this order: below `/usr/lib/debug/.build-id`, what `.gnu_debuglink` names beside the file, in
//! `.debug` and below `/usr/lib/debug`; the servers of `DEBUGINFOD_URLS`, where that is set; the symbols that the
//! file carries packed (`.gnu_debugdata`, MiniDebugInfo). A file counts only when its build id is that of the mapped
//! one, or, where the mapped file has none, when the check sum in `.gnu_debuglink` is right.
//!
//! All of these files are foreign: regular ones only, with the limits of [`crate::debug_files`]. What is opened is
//! given on as an open file, so that it cannot be exchanged afterwards.

mod debuginfod;
mod elf;
mod places;
#[cfg(test)]
mod tests;
mod unpack;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use debuginfod::Debuginfod;
use elf::Facts;
use observe::foreign::path_of;

/// Files that are looked for; of more nothing is.
const KNOWN_MAX: usize = 4096;
/// Files that are found, and stay open, for a path of theirs has to lead to the same file always.
const KEPT_MAX: usize = 256;

/// How far is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Files of this machine: no waiting.
    Local,
    /// The servers of debuginfod too.
    Servers,
}

/// Where symbols came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A file of this machine.
    DebugFile,
    Debuginfod,
    /// `.gnu_debugdata` of the file itself.
    MiniDebugInfo,
    /// The file itself, with its zstd sections unpacked.
    Itself,
}

/// A file with the symbols of another.
#[derive(Debug)]
pub struct Separate {
    /// Keeps it open: [`Separate::path`] leads to it.
    file: File,
    pub origin: Origin,
    /// Of the mapped file: offset, bytes, and the address that its symbols count from.
    segments: Vec<(u64, u64, u64)>,
    /// The mapped file names it in `.gnu_debuglink`.
    pub is_linked: bool,
}

impl Separate {
    /// For a library that opens by path.
    pub fn path(&self) -> PathBuf {
        path_of(&self.file)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The address, as the symbols count, of an offset in the mapped file. The offsets in a file of debug information
    /// are its own.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let holds = |(start, bytes, _): &&(u64, u64, u64)| {
            offset.checked_sub(*start).is_some_and(|at| at < *bytes)
        };
        let (start, _, address) = self.segments.iter().find(holds)?;
        Some(offset - start + address)
    }
}

/// Finds files with symbols; what was found for a file is remembered.
pub struct DebugFiles {
    /// "/usr/lib/debug".
    folders: Vec<PathBuf>,
    debuginfod: Option<Debuginfod>,
    known: HashMap<(PathBuf, Reach), Option<Arc<Separate>>>,
    kept: usize,
    /// Files that would have had the right name and have another build id or check sum.
    pub refused: u64,
}

impl DebugFiles {
    pub fn new(folders: Vec<PathBuf>, debuginfod: Option<Debuginfod>) -> DebugFiles {
        DebugFiles {
            folders,
            debuginfod,
            known: HashMap::new(),
            kept: 0,
            refused: 0,
        }
    }

    /// The file that has better symbols than the one at a path; `None` where there is none, or it needs none.
    pub fn find(&mut self, path: &Path, reach: Reach) -> Option<Arc<Separate>> {
        // Another file may have that name next time.
        if path.starts_with("/proc/self/fd") {
            return self.search(path, reach).map(Arc::new);
        }
        let reach = match self.debuginfod {
            Some(_) => reach,
            None => Reach::Local,
        };
        let key = (path.to_owned(), reach);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        // A server has nothing better than a file of this machine.
        let local = self.known.get(&(path.to_owned(), Reach::Local));
        if let Some(found) = local.cloned().flatten()
            && found.origin != Origin::MiniDebugInfo
        {
            return Some(found);
        }
        if self.known.len() >= KNOWN_MAX || self.kept >= KEPT_MAX {
            return None;
        }
        let found = self.search(path, reach).map(Arc::new);
        self.kept += usize::from(found.is_some());
        self.known.insert(key, found.clone());
        found
    }

    fn search(&mut self, path: &Path, reach: Reach) -> Option<Separate> {
        let (mapped, facts) = elf::open(path)?;
        let separate = |file, origin| Separate {
            file,
            origin,
            segments: facts.segments.clone(),
            is_linked: origin == Origin::DebugFile && facts.debug_link.is_some(),
        };
        if facts.has_debug_info {
            let unpacked = unpack::zstd_sections(&mapped, &facts)?;
            return Some(separate(unpacked, Origin::Itself));
        }
        let local = self
            .local(path, &facts)
            .map(|file| (file, Origin::DebugFile));
        let found = local.or_else(|| Some((self.fetched(&facts, reach)?, Origin::Debuginfod)));
        if let Some((file, origin)) = found {
            // A debug file may be packed with zstd too.
            let unpacked = elf::facts(&file).and_then(|own| unpack::zstd_sections(&file, &own));
            return Some(separate(unpacked.unwrap_or(file), origin));
        }
        if facts.has_symbols {
            return None;
        }
        let inner = unpack::mini_debug_info(&mapped, &facts)?;
        Some(separate(inner, Origin::MiniDebugInfo))
    }

    fn local(&mut self, path: &Path, facts: &Facts) -> Option<File> {
        for place in places::places(path, facts, &self.folders) {
            let Some((file, own)) = place.open() else {
                continue;
            };
            // A link may lead back to the file itself.
            if !own.has_debug_info && !own.has_symbols {
                continue;
            }
            if facts.is_of_same_build(&own, &file) {
                return Some(file);
            }
            self.refused += 1;
        }
        None
    }

    fn fetched(&mut self, facts: &Facts, reach: Reach) -> Option<File> {
        if reach == Reach::Local {
            return None;
        }
        let build_id = facts.build_id.as_deref()?;
        let file = self.debuginfod.as_mut()?.fetch(build_id)?;
        let own = elf::facts(&file)?;
        match own.build_id.as_deref() == Some(build_id) {
            true => Some(file),
            false => {
                self.refused += 1;
                None
            }
        }
    }
}

/// Whether a file has debug information of its own.
pub fn has_debug_info(path: &Path) -> bool {
    elf::open(path).is_some_and(|(_, facts)| facts.has_debug_info)
}

/// Of this command: the usual folder, and the servers of its environment. One for all, so that the time that servers
/// may take is spent once.
pub fn find(path: &Path, reach: Reach) -> Option<Arc<Separate>> {
    static SHARED: Mutex<Option<DebugFiles>> = Mutex::new(None);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let files = shared.get_or_insert_with(|| {
        DebugFiles::new(
            vec![PathBuf::from(places::DEBUG)],
            Debuginfod::of_environment(),
        )
    });
    files.find(path, reach)
}

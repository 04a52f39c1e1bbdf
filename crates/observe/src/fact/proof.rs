//! Which library answers `malloc` in a running process.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::readlinkat;

use super::image::Image;
use super::inside::{Inside, read_inside};
use super::library::{Binding, FileKey, Identity, Libraries, file_key};
use super::linker::{Loaded, Walk, read_loaded};
use super::maps::{MappedFile, Maps};
use super::memory::{Memory, ProcessMemory};
use crate::proc::open::{Folder, Lost};

const NAME: &str = "malloc";

/// What was proved.
#[derive(Debug, Clone)]
pub struct Proof {
    /// As the kernel names it, ` (deleted)` included.
    pub exe: String,
    pub digest: String,
    pub answer: Answer,
    /// How it was found, in words.
    pub method: String,
    /// How many of the objects that call malloc were seen to be bound to the answer, in words.
    pub bound: Option<String>,
    /// Other mapped files that export malloc, behind the answer in lookup order.
    pub others: Vec<String>,
    /// Every file mapped for code, to tell a library that is missing from one that is no use.
    pub code: Vec<Mapped>,
}

/// A mapped file and, when it could be opened, what it is on disk.
#[derive(Debug, Clone)]
pub struct Mapped {
    pub path: String,
    pub key: Option<FileKey>,
}

/// Who answers.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A mapped file.
    Library {
        path: String,
        key: Option<FileKey>,
        identity: Option<Arc<Identity>>,
        /// Address of malloc in the process, when it could be told.
        address: Option<u64>,
        /// It is the program itself that exports malloc.
        is_program: bool,
    },
    /// A static program: no library can answer.
    Static { inside: Inside },
    /// No mapped file exports malloc.
    Nobody { inside: Inside },
}

/// Why there is no proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproved {
    /// The dynamic linker is still at work.
    Early,
    /// The process is gone, or may not be read.
    Lost(Lost),
    /// In words.
    Odd(String),
}

impl From<Lost> for Unproved {
    fn from(lost: Lost) -> Self {
        Unproved::Lost(lost)
    }
}

/// One loaded object with what is known of its file.
struct Object<'a> {
    loaded: Loaded,
    mapped: Option<&'a MappedFile>,
    key: Option<FileKey>,
    binding: Arc<Binding>,
}

/// Reads all that is needed from one process.
pub struct ProofReader<'a> {
    pub folder: &'a Folder,
    /// /proc/PID.
    pub path: &'a Path,
    pub libraries: &'a mut Libraries,
}

impl ProofReader<'_> {
    /// Proves who answers malloc. With `patient`, a process whose dynamic linker is still at work
    /// is `Early`; without, what the maps tell must do.
    pub fn prove(&mut self, patient: bool) -> Result<Proof, Unproved> {
        let maps = self.read_maps()?;
        let exe = read_exe(self.folder)?;
        let walk = self.walk();
        let mut proof = match walk {
            Ok((memory, Walk::Objects(objects))) => self.by_lookup(&memory, &maps, objects),
            Ok((_, Walk::Static)) => self.of_static(),
            Ok((_, Walk::Early)) if patient => return Err(Unproved::Early),
            Ok((_, Walk::Early)) => {
                self.by_maps(&maps, &exe, "the dynamic linker has not set up its list")
            }
            Err(why) => self.by_maps(&maps, &exe, &why),
        };
        proof.digest = maps.digest();
        proof.code = maps.code().map(|file| self.mapped(file)).collect();
        proof.exe = exe;
        Ok(proof)
    }

    pub fn read_maps(&self) -> Result<Maps, Unproved> {
        let mut text = Vec::new();
        self.folder.read_long("maps", &mut text)?;
        Maps::parse(&text).map_err(|malformed| Unproved::Odd(malformed.to_string()))
    }

    fn walk(&self) -> Result<(ProcessMemory, Walk), String> {
        let words = |lost: Lost| format!("its memory may not be read: {lost}");
        let memory = ProcessMemory::new(self.folder.open_file("mem").map_err(words)?);
        let mut auxv = Vec::new();
        self.folder.read("auxv", &mut auxv).map_err(words)?;
        let walk = read_loaded(&memory, &auxv)?;
        Ok((memory, walk))
    }

    /// The whole proof: lookup order from the linker's list, checked with the bound slots.
    fn by_lookup(&mut self, memory: &ProcessMemory, maps: &Maps, list: Vec<Loaded>) -> Proof {
        let mut objects: Vec<Object<'_>> = list
            .into_iter()
            .map(|loaded| self.object(memory, maps, loaded))
            .collect();
        // The heap probe forwards every call to the next in line: that one answers.
        for object in objects.iter_mut().filter(|o| is_probe(&path_of(o))) {
            object.binding = Arc::default();
        }
        let votes = count_votes(memory, maps, &objects);
        let first = objects
            .iter()
            .position(|object| object.binding.malloc.is_some());
        let chosen = votes.choose(&objects, first);
        let Some(chosen) = chosen else {
            let inside = self
                .open_exe()
                .map_or(Inside::Stripped, |exe| read_inside(&exe));
            let method = "no object of the dynamic linker's list exports malloc";
            return proof(Answer::Nobody { inside }, method.to_owned());
        };
        let object = &objects[chosen];
        let answer = self.answer(object, chosen == 0);
        let mut proof = proof(answer, votes.method(first == Some(chosen)));
        proof.bound = votes.words(&path_of(object));
        proof.others = objects
            .iter()
            .enumerate()
            .filter(|(index, other)| *index != chosen && other.binding.malloc.is_some())
            .map(|(_, other)| path_of(other))
            .collect();
        proof
    }

    fn object<'m>(&mut self, memory: &ProcessMemory, maps: &'m Maps, loaded: Loaded) -> Object<'m> {
        let mapped = maps.at(loaded.dynamic);
        let file = mapped.and_then(|mapped| self.open_mapped(mapped, Some(memory)));
        let (key, binding) = match file {
            Some((key, file)) => (Some(key), self.libraries.binding(key, &file)),
            // Deleted, or out of sight: its own image in memory tells the same.
            None => (None, Arc::new(read_binding(memory, &loaded))),
        };
        Object {
            loaded,
            mapped,
            key,
            binding,
        }
    }

    fn answer(&mut self, object: &Object<'_>, is_program: bool) -> Answer {
        let file = object
            .mapped
            .and_then(|mapped| self.open_mapped(mapped, None));
        let identity = file.map(|(key, file)| self.libraries.identity(key, &file));
        let export = object.binding.malloc.filter(|export| !export.indirect);
        let address = export.map(|export| object.loaded.bias.wrapping_add(export.address));
        Answer::Library {
            path: path_of(object),
            key: object.key,
            identity,
            address,
            is_program,
        }
    }

    fn of_static(&mut self) -> Proof {
        let inside = self
            .open_exe()
            .map_or(Inside::Stripped, |exe| read_inside(&exe));
        let method = "the program is static: no dynamic linker is at work in it";
        proof(Answer::Static { inside }, method.to_owned())
    }

    /// Without its memory: the program first, then the mapped libraries from the highest address
    /// down, which is the order in which the kernel places what the linker loads one by one. An
    /// inference, and said to be one.
    fn by_maps(&mut self, maps: &Maps, exe: &str, why: &str) -> Proof {
        let method = format!("inferred from the maps, not proved: {why}");
        let has_linker = maps.code().any(|file| is_dynamic_linker(file.file_name()));
        if !has_linker {
            return Proof {
                method,
                ..self.of_static()
            };
        }
        let program = exe.strip_suffix(" (deleted)").unwrap_or(exe);
        let mut files: Vec<&MappedFile> = maps.code().collect();
        files.sort_by_key(|file| {
            // Old glibc linkers export a malloc too, behind all others; musl's is the C library.
            let last = is_dynamic_linker(file.file_name());
            (file.path != program, last, std::cmp::Reverse(file.start()))
        });
        let mut found: Vec<(&MappedFile, FileKey, File)> = Vec::new();
        for mapped in files.into_iter().filter(|file| !is_probe(&file.path)) {
            if let Some((key, file)) = self.open_mapped(mapped, None)
                && self.libraries.binding(key, &file).malloc.is_some()
            {
                found.push((mapped, key, file));
            }
        }
        let others = found
            .iter()
            .skip(1)
            .map(|(mapped, ..)| mapped.path.clone())
            .collect();
        let Some((mapped, key, file)) = found.into_iter().next() else {
            let inside = self
                .open_exe()
                .map_or(Inside::Stripped, |exe| read_inside(&exe));
            return proof(Answer::Nobody { inside }, method);
        };
        let answer = Answer::Library {
            path: mapped.path.clone(),
            key: Some(key),
            identity: Some(self.libraries.identity(key, &file)),
            address: None,
            is_program: mapped.path == program,
        };
        Proof {
            others,
            ..proof(answer, method)
        }
    }

    fn mapped(&self, file: &MappedFile) -> Mapped {
        let key = self.open_mapped(file, None).map(|(key, _)| key);
        Mapped {
            path: file.path.clone(),
            key,
        }
    }

    /// The very file that is mapped, even when it was deleted or lives in another mount namespace.
    /// `None` when it cannot be had, or when the path leads to another file by now.
    fn open_mapped(
        &self,
        mapped: &MappedFile,
        memory: Option<&ProcessMemory>,
    ) -> Option<(FileKey, File)> {
        // map_files leads to the inode itself, but needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN.
        let (start, end) = *mapped.ranges.first()?;
        let exact = self.path.join(format!("map_files/{start:x}-{end:x}"));
        if let Ok(file) = super::open_file(&exact) {
            return Some((file_key(&file)?, file));
        }
        // Mapped paths have no symbolic links, so none leads out of the root of the process.
        let inside = self
            .path
            .join("root")
            .join(mapped.path.trim_start_matches('/'));
        let file = super::open_file(&inside)
            .or_else(|_| super::open_file(&PathBuf::from(&mapped.path)))
            .ok()?;
        let key = file_key(&file)?;
        // On overlay and btrfs the inode of the maps is not that of stat(2): compare contents then.
        let same = !mapped.deleted
            && (key.inode == mapped.inode
                || memory.is_some_and(|memory| starts_alike(memory, mapped, &file)));
        same.then_some((key, file))
    }

    fn open_exe(&self) -> Option<File> {
        super::open_file(&self.path.join("exe")).ok()
    }
}

fn proof(answer: Answer, method: String) -> Proof {
    let (exe, digest) = (String::new(), String::new());
    Proof {
        exe,
        digest,
        answer,
        method,
        bound: None,
        others: Vec::new(),
        code: Vec::new(),
    }
}

fn read_exe(folder: &Folder) -> Result<String, Unproved> {
    let target = readlinkat(folder.dir(), "exe", Vec::new()).map_err(Lost::from)?;
    Ok(target.to_string_lossy().into_owned())
}

fn read_binding(memory: &ProcessMemory, loaded: &Loaded) -> Binding {
    let Some(image) = Image::read(memory, loaded.bias, loaded.dynamic) else {
        return Binding::default();
    };
    Binding {
        malloc: image.export(NAME),
        call_slots: image.call_slots(NAME),
    }
}

/// Compares the first 1,024 bytes, which hold the headers and, nearly always, the build id.
fn starts_alike(memory: &ProcessMemory, mapped: &MappedFile, file: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let (mut on_disk, mut in_memory) = ([0; 1024], [1; 1024]);
    file.read_exact_at(&mut on_disk, 0).is_ok()
        && memory.read(mapped.start(), &mut in_memory).is_some()
        && on_disk == in_memory
}

fn path_of(object: &Object<'_>) -> String {
    match object.mapped {
        Some(mapped) => mapped.path.clone(),
        None => object.loaded.name.clone(),
    }
}

/// highwater's own heap probe.
pub fn is_probe(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("libhighwater_probe")
}

fn is_dynamic_linker(name: &str) -> bool {
    name.starts_with("ld-linux")
        || name.starts_with("ld-2.")
        || name.starts_with("ld.so")
        || name.starts_with("ld-musl")
}

/// Where the calls of malloc really go: for each target file, the objects bound to it.
#[derive(Debug, Default)]
struct Votes {
    bound: BTreeMap<String, Vec<String>>,
    /// What the program itself, the first object, is bound to.
    program: Option<String>,
}

/// Reads the slots of all objects. A slot that points back into its own object (which exports no
/// malloc) or to a stub of the program is not bound yet, or is a stub that leads to the same place.
fn count_votes(memory: &ProcessMemory, maps: &Maps, objects: &[Object<'_>]) -> Votes {
    let mut votes = Votes::default();
    for (index, object) in objects.iter().enumerate() {
        for slot in &object.binding.call_slots {
            let address = memory
                .u64(object.loaded.bias.wrapping_add(*slot))
                .unwrap_or(0);
            let Some(target) = maps.at(address) else {
                if address != 0 {
                    let words = "memory that is no file".to_owned();
                    votes.bound.entry(words).or_default().push(path_of(object));
                }
                continue;
            };
            let behind = objects.iter().find(|o| o.binding.malloc.is_some());
            let target = match behind.and_then(|o| o.mapped) {
                Some(next) if is_probe(&target.path) => next,
                _ => target,
            };
            let owner = |o: &Object<'_>| o.mapped.is_some_and(|mapped| mapped.path == target.path);
            let exporter = objects
                .iter()
                .any(|o| owner(o) && o.binding.malloc.is_some());
            if !exporter && (owner(object) || objects.first().is_some_and(owner)) {
                continue;
            }
            if index == 0 {
                votes.program = Some(target.path.clone());
            }
            votes
                .bound
                .entry(target.path.clone())
                .or_default()
                .push(path_of(object));
        }
    }
    for objects in votes.bound.values_mut() {
        objects.sort();
        objects.dedup();
    }
    votes
}

impl Votes {
    /// What the program is bound to; else the first exporter, unless every bound slot is against
    /// it.
    fn choose(&self, objects: &[Object<'_>], first: Option<usize>) -> Option<usize> {
        let find = |path: &str| objects.iter().position(|object| path_of(object) == path);
        if let Some(chosen) = self.program.as_deref().and_then(find) {
            return Some(chosen);
        }
        let first_path = first.map(|first| path_of(&objects[first]));
        let for_first = first_path
            .as_ref()
            .is_some_and(|path| self.bound.contains_key(path));
        if for_first || self.bound.is_empty() {
            return first;
        }
        let most = self.bound.iter().max_by_key(|(_, callers)| callers.len());
        most.and_then(|(path, _)| find(path)).or(first)
    }

    fn method(&self, is_first: bool) -> String {
        match (self.bound.is_empty(), is_first) {
            (true, _) => "first in the dynamic linker's lookup order; no call is bound yet",
            (false, true) => "first in the dynamic linker's lookup order, and bound calls go there",
            (false, false) => {
                "bound calls go there, although another object is first in lookup order"
            }
        }
        .to_owned()
    }

    fn words(&self, answer: &str) -> Option<String> {
        let all: usize = self.bound.values().map(Vec::len).sum();
        if all == 0 {
            return None;
        }
        let agree = self.bound.get(answer).map_or(0, Vec::len);
        let mut words = format!("{agree} of {all} callers");
        for (path, callers) in self.bound.iter().filter(|(path, _)| *path != answer) {
            words += &format!("; {} to {path} ({})", callers.len(), callers.join(", "));
        }
        Some(words)
    }
}

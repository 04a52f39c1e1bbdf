//! Where the functions of an allocator may be that uprobes tell of.

use std::path::{Path, PathBuf};

use crate::smaps::Area;
use observe::fact::arm::is_glibc;
use observe::fact::library::Libraries;
use observe::fact::proof::{Answer, ProofReader, Unproved, is_probe};
use observe::fact::sanitizer::by_library;
use observe::proc::open::Folder;

/// Whose functions they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum On {
    /// The program's own, under whatever names it has them.
    #[default]
    Program,
    /// The library's that answers the process's calls of `malloc`: musl's, or one before the C library.
    Library,
    /// glibc's.
    Glibc,
}

/// A file that is mapped into the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// By which it is opened and probed.
    pub file: PathBuf,
    /// Its first address.
    pub base: u64,
    pub on: On,
}

/// A process whose allocator is looked for.
pub struct Process<'a> {
    /// /proc/PID.
    pub path: &'a Path,
    pub folder: &'a Folder,
    pub areas: &'a [Area],
}

impl Process<'_> {
    /// The program first, whose own allocator no library comes before; then the library that answers `malloc`, unless
    /// the probe counts its calls. `None`: its dynamic linker has not got that far.
    pub fn places(&self) -> Option<Vec<Place>> {
        if self.areas.iter().any(|area| is_probe(path_of(area))) {
            return Some(vec![self.program()]);
        }
        let mut libraries = Libraries::default();
        let mut reader = ProofReader {
            folder: self.folder,
            path: self.path,
            libraries: &mut libraries,
        };
        let library = match reader.prove(true) {
            Err(Unproved::Early) => return None,
            Err(_) => None,
            Ok(proof) => self.library(&proof.answer),
        };
        Some(
            [Some(self.program()), library]
                .into_iter()
                .flatten()
                .collect(),
        )
    }

    /// The C library, or the program where it is linked in: what maps memory.
    pub fn mapper(&self) -> Place {
        let is_libc = |area: &&Area| area.inode != 0 && is_libc(path_of(area));
        let Some(area) = self.areas.iter().find(is_libc) else {
            return self.program();
        };
        Place {
            file: self.file_of(area),
            base: area.start,
            on: On::Library,
        }
    }

    fn program(&self) -> Place {
        let file = self.path.join("exe");
        let exe = std::fs::read_link(&file).unwrap_or_default();
        let area = self
            .areas
            .iter()
            .find(|area| Path::new(path_of(area)) == exe);
        Place {
            file,
            base: area.map_or(0, |area| area.start),
            on: On::Program,
        }
    }

    fn library(&self, answer: &Answer) -> Option<Place> {
        let Answer::Library {
            path,
            is_program: false,
            ..
        } = answer
        else {
            return None;
        };
        // A sanitizer's runtime is no allocator to account for: its program runs without any of this.
        if by_library(path).is_some() {
            return None;
        }
        let area = self
            .areas
            .iter()
            .find(|area| area.inode != 0 && path_of(area) == path)?;
        Some(Place {
            file: self.file_of(area),
            base: area.start,
            on: match is_glibc(path) {
                true => On::Glibc,
                false => On::Library,
            },
        })
    }

    /// The very file that is mapped, where the kernel lets it be opened: by its path another one may be there by now.
    fn file_of(&self, area: &Area) -> PathBuf {
        let mapped = self
            .path
            .join(format!("map_files/{:x}-{:x}", area.start, area.end));
        match std::fs::metadata(&mapped) {
            Ok(_) => mapped,
            Err(_) => self
                .path
                .join("root")
                .join(path_of(area).trim_start_matches('/')),
        }
    }
}

fn is_libc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_glibc(path) || name.starts_with("ld-musl-") || name.starts_with("libc.musl-")
}

fn path_of(area: &Area) -> &str {
    area.name.trim_end_matches(" (deleted)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smaps::parse_smaps;

    fn places(areas: &[Area]) -> Option<Vec<Place>> {
        let path = Path::new("/proc/self");
        let folder = Folder::open(path).unwrap();
        let process = Process {
            path,
            folder: &folder,
            areas,
        };
        process.places()
    }

    fn own_areas() -> Vec<Area> {
        parse_smaps(&std::fs::read("/proc/self/smaps").unwrap()).unwrap()
    }

    /// Tests run on the C library's allocator.
    #[test]
    fn of_this_program_it_is_the_c_library_that_is_mapped() {
        let areas = own_areas();
        let places = places(&areas).unwrap();
        let [program, library] = &places[..] else {
            panic!("{places:?}");
        };
        assert_eq!((program.on, library.on), (On::Program, On::Glibc));
        let first = areas.iter().find(|area| is_glibc(path_of(area))).unwrap();
        assert_eq!(library.base, first.start);
        let (found, mapped) = (std::fs::read(&library.file), std::fs::read(path_of(first)));
        assert!(found.unwrap() == mapped.unwrap(), "{library:?}");
    }

    #[test]
    fn where_the_probe_is_mapped_no_library_is_probed_beside_it() {
        let mut areas = own_areas();
        areas.push(Area {
            name: "/opt/highwater/libhighwater_probe.so".into(),
            inode: 7,
            ..Area::default()
        });
        let places = places(&areas).unwrap();
        assert!(
            matches!(&places[..], [own] if own.on == On::Program),
            "{places:?}"
        );
    }
}

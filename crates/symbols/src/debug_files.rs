//! Whether a file may be given to the library that symbolises.
//!
//! That library opens paths by itself: the file, and the files with debug information that the file names. It unpacks
//! sections to the size that the file claims. So the file is checked first.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use object::{Object, ObjectSection, ReadCache};

use observe::fact::sections::tables_are_within;
use observe::foreign::open_file_within;

/// Largest file that is symbolised: its symbols are sorted in memory. Larger ones have no names.
pub const SYMBOLISED_BYTES_MAX: u64 = 2 << 30;

/// Bytes of a symbol table, 24 for each symbol; Chromium's has 30 MiB.
pub const SYMBOL_TABLE_BYTES_MAX: u64 = 256 << 20;

/// Bytes of all packed sections once unpacked.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Sections of a linked file: 30 to 60.
const SECTIONS_MAX: usize = 4096;

/// What may be read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readable {
    /// It is not a regular file, is too large, or is no ELF file.
    Nothing,
    /// The symbol table; not the debug information, which is too large or in a file that may not be opened.
    SymbolTable,
    All,
}

/// What may be read of the file at a path.
pub fn readable(path: &Path) -> Readable {
    let Ok(file) = open_file_within(path, SYMBOLISED_BYTES_MAX) else {
        return Readable::Nothing;
    };
    if !tables_are_within(&file, SYMBOL_TABLE_BYTES_MAX) {
        return Readable::Nothing;
    }
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return Readable::Nothing;
    };
    let (mut sections, mut unpacked_bytes) = (0, 0_u64);
    for section in elf.sections() {
        sections += 1;
        if sections > SECTIONS_MAX {
            return Readable::Nothing;
        }
        if let Ok(range) = section.compressed_file_range() {
            let is_packed = range.format != object::CompressionFormat::None;
            let bytes = if is_packed {
                range.uncompressed_size
            } else {
                0
            };
            unpacked_bytes = unpacked_bytes.saturating_add(bytes);
        }
    }
    match unpacked_bytes <= UNPACKED_BYTES_MAX && links_are_safe(&elf, path) {
        true => Readable::All,
        false => Readable::SymbolTable,
    }
}

/// Each file with debug information that it names is missing, or regular and not too large.
fn links_are_safe<'a>(elf: &object::File<'a, &'a ReadCache<File>>, path: &Path) -> bool {
    let mut package = path.as_os_str().to_owned();
    package.push(".dwp");
    let folder = path.canonicalize().ok();
    let folder = folder.as_deref().and_then(Path::parent);
    let names = [".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup"];
    let mut linked = names.iter().filter_map(|name| {
        let data = elf.section_by_name(name)?.data().ok()?;
        // The version, and whether it is the supplement itself, come first.
        let skip = if *name == ".debug_sup" { 3 } else { 0 };
        let text = data.get(skip..)?.split(|&byte| byte == 0).next()?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(text)))
    });
    // A link upwards leads out of the system's folders for debug information, which only root can write.
    let is_upwards = |link: &Path| link.components().any(|part| part == Component::ParentDir);
    let is_safe = |link: PathBuf| {
        let beside = folder.map(|folder| folder.join(&link));
        !is_upwards(&link) && beside.is_none_or(|beside| is_missing_or_regular(&beside))
    };
    is_missing_or_regular(Path::new(&package)) && linked.all(is_safe)
}

fn is_missing_or_regular(path: &Path) -> bool {
    match open_file_within(path, SYMBOLISED_BYTES_MAX) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe(path: &Path) {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
    }

    #[test]
    fn a_program_is_readable_with_its_debug_information() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(readable(&own), Readable::All);
    }

    #[test]
    fn a_pipe_or_a_text_is_not() {
        let folder = tempfile::tempdir().unwrap();
        pipe(&folder.path().join("pipe.so"));
        std::fs::write(folder.path().join("text.so"), "text").unwrap();
        for name in ["pipe.so", "text.so", "none.so"] {
            assert_eq!(readable(&folder.path().join(name)), Readable::Nothing);
        }
    }

    /// The library opens `NAME.dwp` beside each file.
    #[test]
    fn beside_a_pipe_for_debug_information_only_symbols_are_readable() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::copy("/proc/self/exe", &program).unwrap();
        assert_eq!(readable(&program), Readable::All);
        pipe(&folder.path().join("program.dwp"));
        assert_eq!(readable(&program), Readable::SymbolTable);
    }
}

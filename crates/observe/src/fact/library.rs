//! What a mapped file is: whether it answers `malloc`, who it is, which version.
//!
//! Files are read once and remembered: two hundred processes map the same few libraries.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use object::Object;
use regex::bytes::Regex;
use sha2::{Digest, Sha256};

use super::image::{Export, Image};
use super::maps::hex;
use super::memory::{FileMemory, Memory, PT_DYNAMIC};

/// Files that are remembered; the memory is emptied when it is full.
const FILES_MAX: usize = 4096;
/// Files larger than this get no sha256 and no search for a version (a Go or Chromium binary may be
/// hundreds of MB, and a snapshot waits for it): the build id tells them apart as well.
const HASHED_BYTES_MAX: u64 = 64 << 20;

/// The part of a file that matters for lookups. Addresses are before the load bias.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// Where it defines `malloc` for others.
    pub malloc: Option<Export>,
    /// Slots through which it calls `malloc`.
    pub call_slots: Vec<u64>,
}

/// Who a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub build_id: Option<String>,
    pub sha256: Option<String>,
    /// jemalloc, mimalloc, glibc ...; from the symbols that only it has.
    pub family: Option<&'static str>,
    /// As the library itself tells it, not as its file is called: Debian's libmimalloc.so.3.0 may
    /// be 3.0.1, and a package called 2.0 has delivered 3.0.1.
    pub version: Option<String>,
}

/// A file by what stat(2) says; a library that is replaced on disk is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    device: u64,
    pub inode: u64,
    bytes: u64,
    modified_ns: i128,
}

/// What was learned of files so far.
#[derive(Debug, Default)]
pub struct Libraries {
    bindings: HashMap<FileKey, Arc<Binding>>,
    identities: HashMap<FileKey, Arc<Identity>>,
}

/// `None` for what is not a regular file: nothing else can be mapped as code, and opening, say,
/// a pipe that was put in a library's place must not block.
pub fn file_key(file: &File) -> Option<FileKey> {
    let data = file.metadata().ok().filter(|data| data.is_file())?;
    Some(FileKey {
        device: data.dev(),
        inode: data.ino(),
        bytes: data.len(),
        modified_ns: i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec()),
    })
}

impl Libraries {
    /// How a file takes part in the lookup of `malloc`; an empty binding when it is no ELF file.
    pub fn binding(&mut self, key: FileKey, file: &File) -> Arc<Binding> {
        if let Some(known) = self.bindings.get(&key) {
            return known.clone();
        }
        let read = file
            .try_clone()
            .ok()
            .and_then(|file| read_binding(file, "malloc"));
        let binding = Arc::new(read.unwrap_or_default());
        if self.bindings.len() >= FILES_MAX {
            self.bindings.clear();
        }
        self.bindings.insert(key, binding.clone());
        binding
    }

    pub fn identity(&mut self, key: FileKey, file: &File) -> Arc<Identity> {
        if let Some(known) = self.identities.get(&key) {
            return known.clone();
        }
        let identity = Arc::new(read_identity(key, file));
        if self.identities.len() >= FILES_MAX {
            self.identities.clear();
        }
        self.identities.insert(key, identity.clone());
        identity
    }

    /// The identity of a file by its path, for the library that an arm asks for.
    pub fn identity_of(&mut self, path: &Path) -> std::io::Result<(FileKey, Arc<Identity>)> {
        let file = super::open_file(path)?;
        let key =
            file_key(&file).ok_or_else(|| std::io::Error::other("it is not a regular file"))?;
        Ok((key, self.identity(key, &file)))
    }
}

fn read_binding(file: File, name: &str) -> Option<Binding> {
    let memory = FileMemory::open(file).ok()?;
    let dynamic = memory.header(PT_DYNAMIC)?;
    let image = Image::read(&memory, 0, dynamic.address)?;
    Some(Binding {
        malloc: image.export(name),
        call_slots: image.call_slots(name),
    })
}

fn read_identity(key: FileKey, file: &File) -> Identity {
    let mut identity = Identity {
        build_id: None,
        sha256: None,
        family: None,
        version: None,
    };
    let Ok(copy) = file.try_clone() else {
        return identity;
    };
    let cache = object::ReadCache::new(std::io::BufReader::new(copy));
    if let Ok(elf) = object::File::parse(&cache) {
        identity.build_id = elf.build_id().ok().flatten().map(hex);
    }
    identity.family = family_of(file);
    if key.bytes <= HASHED_BYTES_MAX {
        let mut bytes = vec![0; key.bytes as usize];
        if file.read_exact_at(&mut bytes, 0).is_ok() {
            identity.sha256 = Some(hex(&Sha256::digest(&bytes)));
            identity.version = find_version(&bytes);
        }
    }
    if identity.family == Some("mimalloc") {
        identity.version = mimalloc_version(file).or(identity.version);
    }
    identity
}

/// Symbols that only one allocator exports.
const FAMILIES: [(&str, &str); 8] = [
    ("mallctl", "jemalloc"),
    ("mi_version", "mimalloc"),
    ("MallocExtension_Internal_GetNumericProperty", "tcmalloc"),
    ("tc_version", "gperftools"),
    ("rpmalloc", "rpmalloc"),
    ("__scudo_print_stats", "scudo"),
    ("scalable_malloc", "tbbmalloc"),
    ("gnu_get_libc_version", "glibc"),
];

/// jemalloc, mimalloc, glibc ...; from the symbols that only it has.
pub fn family_of(file: &File) -> Option<&'static str> {
    let memory = FileMemory::open(file.try_clone().ok()?).ok()?;
    let dynamic = memory.header(PT_DYNAMIC)?;
    let image = Image::read(&memory, 0, dynamic.address)?;
    let exports = |symbol: &str| image.export(symbol).is_some();
    FAMILIES
        .iter()
        .find(|(symbol, _)| exports(symbol))
        .map(|&(_, family)| family)
}

/// Version strings that allocators carry: jemalloc (`5.3.0-0-g<commit>`), glibc, gperftools,
/// oneTBB.
pub fn find_version(bytes: &[u8]) -> Option<String> {
    const PATTERNS: [&str; 4] = [
        r"GNU C Library \([^)]{1,80}\) [a-z]{1,20} release version [0-9.]{1,12}[0-9]",
        r"\b\d{1,3}\.\d{1,3}\.\d{1,3}-\d{1,5}-g[0-9a-f]{7,40}\b",
        r"\bgperftools \d{1,3}\.\d{1,3}(\.\d{1,3})?",
        r"\bTBBmalloc: VERSION\s+\d{4}\.\d{1,3}",
    ];
    PATTERNS.iter().find_map(|pattern| {
        let found = Regex::new(pattern).ok()?.find(bytes)?;
        Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
    })
}

/// mimalloc carries no version string in a release build, but a function that returns a constant.
fn mimalloc_version(file: &File) -> Option<String> {
    let memory = FileMemory::open(file.try_clone().ok()?).ok()?;
    let dynamic = memory.header(PT_DYNAMIC)?;
    let function = Image::read(&memory, 0, dynamic.address)?.export("mi_version")?;
    let mut code = [0; 12];
    memory.read(function.address, &mut code)?;
    parse_returned_constant(&code, memory.elf.machine).map(mimalloc_version_words)
}

/// 209 is 2.0.9 (up to 2.2 and 3.1); 30302 is 3.3.2 (later).
fn mimalloc_version_words(version: u32) -> String {
    match version {
        0..=9_999 => format!("{}.{}.{}", version / 100, version / 10 % 10, version % 10),
        _ => format!(
            "{}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        ),
    }
}

/// The constant that a function returns which does nothing else.
fn parse_returned_constant(code: &[u8; 12], machine: u16) -> Option<u32> {
    const X86_64: u16 = 62;
    const AARCH64: u16 = 183;
    match machine {
        X86_64 => {
            // endbr64 is optional; mov eax, imm32; ret.
            let code = code
                .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
                .unwrap_or(&code[..]);
            let constant = u32::from_le_bytes(code.get(1..5)?.try_into().ok()?);
            (code[0] == 0xb8 && code[5] == 0xc3).then_some(constant)
        }
        AARCH64 => {
            // bti c is optional; movz w0, #imm16; ret.
            let word = |at: usize| {
                u32::from_le_bytes([code[at], code[at + 1], code[at + 2], code[at + 3]])
            };
            let at = if word(0) == 0xd503_245f { 4 } else { 0 };
            let load = word(at);
            let is_load = load & 0xffe0_001f == 0x5280_0000 && word(at + 4) == 0xd65f_03c0;
            is_load.then_some(load >> 5 & 0xffff)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_they_stand_in_libraries() {
        // From Debian 12's libc6 2.36, libjemalloc2 5.3.0 and libtcmalloc-minimal4 2.10.
        let glibc =
            b"\0GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\nC";
        let expected = "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36";
        assert_eq!(find_version(glibc).as_deref(), Some(expected));
        let jemalloc = b"x\x005.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c\0";
        let expected = "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";
        assert_eq!(find_version(jemalloc).as_deref(), Some(expected));
        assert_eq!(
            find_version(b"\0gperftools 2.10\0").as_deref(),
            Some("gperftools 2.10")
        );
        assert_eq!(find_version(b"version 1.2.3"), None);
    }

    #[test]
    fn the_constant_that_mi_version_returns() {
        // As compiled by gcc 12 in Debian 12's libmimalloc2.0; the others by hand.
        let plain = [0xb8, 0xd1, 0, 0, 0, 0xc3, 0, 0, 0, 0, 0, 0];
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0x5e, 0x76, 0, 0, 0xc3, 0, 0];
        let arm = [0x20, 0x1a, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6, 0, 0, 0, 0];
        assert_eq!(parse_returned_constant(&plain, 62), Some(209));
        assert_eq!(parse_returned_constant(&marked, 62), Some(30_302));
        assert_eq!(parse_returned_constant(&arm, 183), Some(209));
        assert_eq!(parse_returned_constant(&arm, 62), None);
        assert_eq!(parse_returned_constant(&[0; 12], 62), None);
        assert_eq!(mimalloc_version_words(209), "2.0.9");
        assert_eq!(mimalloc_version_words(30_302), "3.3.2");
    }
}

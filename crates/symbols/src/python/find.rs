//! Finds the interpreter in a process: `_PyRuntime`, the version, the type of all types.

use observe::fact::image::Image;
use observe::fact::maps::{Mapping, parse_maps};
use observe::fact::memory::Memory;

use super::layout::{self, Layout, TYPE, Version};

/// Bytes of a file's constants that are searched for the version, where no symbol has it (up to 3.10).
const CONSTANTS_BYTES_MAX: u64 = 32 << 20;
const CONSTANTS_AT_ONCE: u64 = 1 << 20;
/// `3.10.13` and its zero bytes.
const VERSION_BYTES_MAX: usize = 10;

/// An interpreter that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtime {
    /// Address of `_PyRuntime`.
    pub address: u64,
    /// Address of `PyType_Type`.
    pub type_type: u64,
    pub version: Version,
    pub layout: Layout,
}

/// An interpreter of a version or build that is not known: a sentence that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(pub String);

/// `None`: no CPython. The files are tried in the order of their names' promise: `libpython` before others.
pub fn find(memory: &dyn Memory, maps: &[u8]) -> Option<Result<Runtime, Unsupported>> {
    let maps = parse_maps(maps).ok()?;
    let mut files: Vec<&Mapping> = maps.iter().filter(|mapping| mapping.offset == 0).collect();
    files.retain(|mapping| may_have_runtime(&mapping.path, &maps));
    files.sort_by_key(|mapping| !file_name(&mapping.path).starts_with("libpython"));
    files
        .iter()
        .find_map(|mapping| runtime_of(memory, mapping, &maps))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The interpreter is in `libpython`, in `python3`, or linked into a program of any name, which is mapped first.
fn may_have_runtime(path: &str, maps: &[Mapping]) -> bool {
    let file = file_name(path);
    let first = maps.first().is_some_and(|first| first.path == path);
    first || file.starts_with("libpython3") || file.starts_with("python3")
}

fn runtime_of(
    memory: &dyn Memory,
    mapping: &Mapping,
    maps: &[Mapping],
) -> Option<Result<Runtime, Unsupported>> {
    let (image, bias) = Image::mapped_at(memory, mapping.start)?;
    let symbol = |name: &str| Some(bias.wrapping_add(image.export(name)?.address));
    let (address, type_type) = (symbol("_PyRuntime")?, symbol("PyType_Type")?);
    let number = symbol("Py_Version").and_then(|at| memory.u32(at));
    let known = number.map(version_of_number);
    let Some(version) = known.or_else(|| search_version(memory, &mapping.path, maps)) else {
        let reason = "it runs CPython, of a version that is not known";
        return Some(Err(Unsupported(reason.to_owned())));
    };
    Some(checked(memory, address, type_type, version))
}

fn checked(
    memory: &dyn Memory,
    address: u64,
    type_type: u64,
    version: Version,
) -> Result<Runtime, Unsupported> {
    let unsupported = |why: &str| Err(Unsupported(format!("{}: {why}", name_of(version))));
    let Some(layout) = Layout::of(version.minor) else {
        return unsupported("its heap can be read in versions 3.8 to 3.14");
    };
    if version.minor >= 13 && layout::is_free_threaded(memory, address) {
        return unsupported("its heap cannot be read in a free-threaded build");
    }
    // The type of all types is its own type. A debug build has two more words before that field (3.8).
    if memory.u64(type_type.wrapping_add(TYPE)) != Some(type_type) {
        return unsupported("its objects are not laid out as in a release build (a debug build?)");
    }
    Ok(Runtime {
        address,
        type_type,
        version,
        layout: layout.corrected(memory, address),
    })
}

/// As users write it: `CPython 3.11.7`.
pub fn name_of(version: Version) -> String {
    match version.micro {
        Some(micro) => format!("CPython 3.{}.{micro}", version.minor),
        None => format!("CPython 3.{}", version.minor),
    }
}

/// `PY_VERSION_HEX`: `0x030b07f0`.
fn version_of_number(number: u32) -> Version {
    let [_, micro, minor, _] = number.to_le_bytes();
    Version {
        minor,
        micro: Some(micro),
    }
}

/// Searches for `PY_VERSION`, a constant string, in what is mapped read-only of a file; else believes its name.
fn search_version(memory: &dyn Memory, path: &str, maps: &[Mapping]) -> Option<Version> {
    let of_file = maps
        .iter()
        .filter(|mapping| mapping.path == path && !mapping.executable);
    let mut left = CONSTANTS_BYTES_MAX;
    for mapping in of_file {
        let end = mapping.end.min(mapping.start.saturating_add(left));
        left -= end - mapping.start;
        let starts = (mapping.start..end).step_by(CONSTANTS_AT_ONCE as usize);
        for start in starts {
            let length = CONSTANTS_AT_ONCE.min(end - start);
            let bytes = memory.bytes(start, length, CONSTANTS_AT_ONCE);
            if let Some(found) = bytes.and_then(|bytes| version_in(&bytes)) {
                return Some(found);
            }
        }
    }
    version_of_file(file_name(path))
}

/// A string that is nothing but `3.N.M`.
fn version_in(bytes: &[u8]) -> Option<Version> {
    let mut strings = bytes.split(|&byte| byte == 0);
    strings.find_map(|string| {
        let is_short = string.len() < VERSION_BYTES_MAX;
        let text = str::from_utf8(string).ok().filter(|_| is_short)?;
        let (minor, micro) = text.strip_prefix("3.")?.split_once('.')?;
        let (minor, micro) = (minor.parse().ok()?, micro.parse().ok()?);
        (8..=13).contains(&minor).then_some(Version {
            minor,
            micro: Some(micro),
        })
    })
}

/// `libpython3.9.so.1.0`, `python3.10`.
fn version_of_file(name: &str) -> Option<Version> {
    let rest = name.split_once("python3.")?.1;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    let minor = digits.parse().ok()?;
    Some(Version { minor, micro: None })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use observe::fact::memory::Made;

    pub const fn version(minor: u8, micro: Option<u8>) -> Version {
        Version { minor, micro }
    }

    #[test]
    fn versions() {
        assert_eq!(version_of_number(0x030b_07f0), version(11, Some(7)));
        assert_eq!(
            version_in(b"3.9\x003.10.13\x00"),
            Some(version(10, Some(13)))
        );
        assert_eq!(
            version_in(b"x3.9.1\x003.9.1x\x002.7.1\x003.9.999\x00"),
            None
        );
        assert_eq!(
            version_of_file("libpython3.9.so.1.0"),
            Some(version(9, None))
        );
        assert_eq!(version_of_file("python3.10"), Some(version(10, None)));
        assert_eq!(version_of_file("python3"), None);
        assert_eq!(name_of(version(9, None)), "CPython 3.9");
        assert_eq!(name_of(version(11, Some(2))), "CPython 3.11.2");
    }

    #[test]
    fn builds_that_cannot_be_read() {
        let own_type = |at: u64| Made {
            at: 0x1000,
            bytes: [at.to_le_bytes(), at.to_le_bytes()].concat(),
        };
        let good = checked(&own_type(0x1000), 0, 0x1000, version(9, None));
        assert_eq!(good.unwrap().layout.minor, 9);
        let debug = checked(&own_type(0x1008), 0, 0x1000, version(9, None)).unwrap_err();
        assert!(debug.0.contains("CPython 3.9: "), "{debug:?}");
        let later = checked(&own_type(0x1000), 0, 0x1000, version(15, Some(1))).unwrap_err();
        assert!(later.0.contains("3.8 to 3.14"), "{later:?}");
    }

    #[test]
    fn no_python_no_runtime() {
        let made = Made::default();
        let maps = b"1000-2000 r-xp 00000000 fe:00 7 /usr/bin/python3.9\n";
        assert_eq!(find(&made, maps), None);
        assert_eq!(find(&made, b"garbage\n"), None);
        assert_eq!(find(&made, b""), None);
    }
}

//! `/proc/PID/maps`: which files a process has mapped, and where.

use sha2::{Digest, Sha256};

use crate::proc::area::parse_area;
use crate::proc::fields::Malformed;

/// A mapping of a file. Anonymous ones are left out: there may be tens of thousands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    pub executable: bool,
    /// In the file, bytes.
    pub offset: u64,
    /// As printed: `fe:01`. Not always what stat(2) says (btrfs, overlay).
    pub device: String,
    pub inode: u64,
    /// As the process saw it, escapes undone; without the kernel's ` (deleted)`.
    pub path: String,
    pub deleted: bool,
}

/// One file with all of its mappings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    pub path: String,
    pub deleted: bool,
    pub device: String,
    pub inode: u64,
    /// (start, end) of each mapping, ordered by address.
    pub ranges: Vec<(u64, u64)>,
    /// Whether any of them is executable.
    pub executable: bool,
}

/// The mapped files of a process, ordered by their lowest address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maps {
    pub files: Vec<MappedFile>,
}

/// Mappings of files, in the order of the text. Lines that are no mapping are an error; a last line
/// that was cut off is left out.
pub fn parse_maps(text: &[u8]) -> Result<Vec<Mapping>, Malformed> {
    let whole = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&text[..whole]);
    let mut mappings = Vec::new();
    for line in text.lines() {
        let mapping = parse_line(line)
            .ok_or_else(|| Malformed::new("/proc/PID/maps", format!("not a mapping: {line:?}")))?;
        if mapping.inode != 0 {
            mappings.push(mapping);
        }
    }
    Ok(mappings)
}

fn parse_line(line: &str) -> Option<Mapping> {
    let area = parse_area(line)?;
    let (path, deleted) = match area.name.strip_suffix(" (deleted)") {
        Some(path) => (path.to_owned(), true),
        None => (area.name, false),
    };
    Some(Mapping {
        start: area.start,
        end: area.end,
        executable: area.rights[2] == b'x',
        offset: area.offset,
        device: area.device.to_owned(),
        inode: area.inode,
        path,
        deleted,
    })
}

impl Maps {
    pub fn new(mappings: Vec<Mapping>) -> Maps {
        let mut files: Vec<MappedFile> = Vec::new();
        for mapping in mappings {
            let same = files.iter_mut().find(|file| {
                file.inode == mapping.inode
                    && file.device == mapping.device
                    && file.path == mapping.path
            });
            match same {
                Some(file) => {
                    file.ranges.push((mapping.start, mapping.end));
                    file.executable |= mapping.executable;
                }
                None => files.push(MappedFile {
                    path: mapping.path,
                    deleted: mapping.deleted,
                    device: mapping.device,
                    inode: mapping.inode,
                    ranges: vec![(mapping.start, mapping.end)],
                    executable: mapping.executable,
                }),
            }
        }
        Maps { files }
    }

    pub fn parse(text: &[u8]) -> Result<Maps, Malformed> {
        Ok(Maps::new(parse_maps(text)?))
    }

    /// The file that is mapped at an address.
    pub fn at(&self, address: u64) -> Option<&MappedFile> {
        self.files.iter().find(|file| {
            file.ranges
                .iter()
                .any(|&(start, end)| (start..end).contains(&address))
        })
    }

    /// Files that code can come from: mapped executable, and not generated code in a memfd.
    pub fn code(&self) -> impl Iterator<Item = &MappedFile> {
        self.files
            .iter()
            .filter(|file| file.executable && !file.path.starts_with("/memfd:"))
    }

    /// Changes when, and only when, the code files change: a library loaded, replaced or gone.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for file in self.code() {
            hash.update(file.path.as_bytes());
            hash.update(format!("\0{}\0{}\0", file.device, file.inode).as_bytes());
        }
        hex(&hash.finalize()[..16])
    }
}

impl MappedFile {
    pub fn start(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.0)
    }

    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

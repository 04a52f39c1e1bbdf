//! What an ELF file says of where its symbols are.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment, ReadCache};

use crate::debug_files::{SYMBOL_TABLE_BYTES_MAX, SYMBOLISED_BYTES_MAX};
use observe::fact::sections::tables_are_within;
use observe::foreign::{open_file_within, path_of};

/// Loaded segments of a file: four to ten.
const SEGMENTS_MAX: usize = 256;
/// Longest build id: SHA-1 has 20 bytes.
const BUILD_ID_BYTES_MAX: usize = 64;
const CHUNK_BYTES: usize = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub build_id: Option<Vec<u8>>,
    /// Name and check sum.
    pub debug_link: Option<(Vec<u8>, u32)>,
    /// A symbol table that `strip` removes.
    pub has_symbols: bool,
    /// DWARF.
    pub has_debug_info: bool,
    /// Offset, bytes, address.
    pub segments: Vec<(u64, u64, u64)>,
    /// Where in the file the packed symbols are.
    pub mini_debug_info: Option<(u64, u64)>,
    /// Sections of debug information that are packed with zstd; bytes of them once unpacked.
    pub zstd_sections: usize,
    pub zstd_bytes: u64,
}

impl Facts {
    /// Whether a file with debug information is of this one: by the build id, or, without one, by the link's check sum.
    pub fn is_of_same_build(&self, other: &Facts, file: &File) -> bool {
        match (&self.build_id, &other.build_id) {
            (Some(own), Some(its)) => own == its,
            (Some(_), None) => false,
            (None, _) => {
                let link = self.debug_link.as_ref();
                link.is_some_and(|(_, sum)| check_sum(file) == Some(*sum))
            }
        }
    }
}

/// Opens a file for its symbols.
pub fn open(path: &Path) -> Option<(File, Facts)> {
    let file = open_file_within(path, SYMBOLISED_BYTES_MAX).ok()?;
    let facts = facts(&file)?;
    Some((file, facts))
}

pub fn facts(file: &File) -> Option<Facts> {
    if !tables_are_within(file, SYMBOL_TABLE_BYTES_MAX) {
        return None;
    }
    let cache = ReadCache::new(file.try_clone().ok()?);
    let elf = object::File::parse(&cache).ok()?;
    let mut facts = Facts {
        build_id: elf.build_id().ok().flatten().map(<[u8]>::to_vec),
        debug_link: elf
            .gnu_debuglink()
            .ok()
            .flatten()
            .map(|(name, sum)| (name.to_vec(), sum)),
        ..Facts::default()
    };
    facts.build_id = facts
        .build_id
        .filter(|id| id.len() > 2 && id.len() <= BUILD_ID_BYTES_MAX);
    let segments = elf.segments().take(SEGMENTS_MAX);
    facts.segments = segments
        .map(|segment| {
            (
                segment.file_range().0,
                segment.file_range().1,
                segment.address(),
            )
        })
        .collect();
    for section in elf.sections() {
        take(&mut facts, &section);
    }
    Some(facts)
}

fn take<'a>(facts: &mut Facts, section: &impl ObjectSection<'a>) {
    let (Ok(name), Some((offset, bytes))) = (section.name(), section.file_range()) else {
        return;
    };
    match name {
        ".symtab" => facts.has_symbols = bytes > 0,
        ".debug_info" | ".zdebug_info" => facts.has_debug_info = bytes > 0,
        ".gnu_debugdata" => facts.mini_debug_info = Some((offset, bytes)),
        _ => {}
    }
    let packed = section.compressed_file_range();
    if let Ok(range) = packed
        && range.format == object::CompressionFormat::Zstandard
    {
        facts.zstd_sections += 1;
        facts.zstd_bytes = facts.zstd_bytes.saturating_add(range.uncompressed_size);
    }
}

/// The CRC-32 of a whole file, as `.gnu_debuglink` has it.
fn check_sum(file: &File) -> Option<u32> {
    // Opened anew: the place in the file is its own.
    let mut file = File::open(path_of(file)).ok()?;
    let (mut sum, mut bytes) = (flate2::Crc::new(), vec![0; CHUNK_BYTES]);
    loop {
        match file.read(&mut bytes).ok()? {
            0 => return Some(sum.sum()),
            length => sum.update(&bytes[..length]),
        }
    }
}

//! The table of sections of an ELF file, read by itself.
//!
//! The object crate reads a file's symbol tables whole before it can be asked how large they are, and a file of a
//! process is whatever the process made of it. So their sizes are asked for here first ([`tables_are_within`]).

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Sections that are read; a Go program has about 25, one with cgo 45.
const SECTIONS_MAX: u16 = 4096;
const SECTION_HEADER_BYTES: usize = 64;
/// Largest table of the sections' names.
const NAMES_BYTES_MAX: u64 = 1 << 20;
const SHT_SYMTAB: u32 = 2;
const SHT_NOBITS: u32 = 8;
const SHT_DYNSYM: u32 = 11;
const SHF_WRITE: u64 = 1;

/// One section, 64 bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    kind: u32,
    flags: u64,
    pub address: u64,
    offset: u64,
    pub bytes: u64,
    /// Of a symbol table: the number of its table of names.
    pub link: u32,
}

impl Section {
    /// Variables that the file gives a value.
    pub fn is_data(&self) -> bool {
        self.address != 0 && self.flags & SHF_WRITE != 0 && self.kind != SHT_NOBITS
    }

    /// Symbols for debuggers and linkers, which `strip` removes.
    pub fn is_symbol_table(&self) -> bool {
        self.kind == SHT_SYMTAB
    }

    /// Its contents, if they are no more than `bytes_max` and lie inside the file.
    pub fn read(&self, file: &File, bytes_max: u64) -> Option<Vec<u8>> {
        let length = file.metadata().ok()?.len();
        if self.bytes > bytes_max || self.offset.checked_add(self.bytes)? > length {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(self.bytes).ok()?];
        file.read_exact_at(&mut bytes, self.offset).ok()?;
        Some(bytes)
    }
}

/// The sections and the entry point. `None` when it is not a 64-bit ELF file with sections.
pub fn read_sections(file: &File) -> Option<(Vec<Section>, u64)> {
    let mut start = [0; 64];
    file.read_exact_at(&mut start, 0).ok()?;
    let half = |at: usize| u16::from_le_bytes([start[at], start[at + 1]]);
    if !start.starts_with(b"\x7fELF\x02\x01") || usize::from(half(58)) != SECTION_HEADER_BYTES {
        return None;
    }
    let (count, names) = (half(60).min(SECTIONS_MAX), half(62));
    let mut table = vec![0; usize::from(count) * SECTION_HEADER_BYTES];
    file.read_exact_at(&mut table, u64_at(&start, 40)?).ok()?;
    let headers = table.chunks_exact(SECTION_HEADER_BYTES);
    let mut sections: Vec<(u32, Section)> = headers.filter_map(parse_section).collect();
    let names = sections
        .get(usize::from(names))?
        .1
        .read(file, NAMES_BYTES_MAX)?;
    for (name, section) in &mut sections {
        section.name = name_at(&names, *name).unwrap_or_default();
    }
    let sections = sections.into_iter().map(|(_, section)| section).collect();
    Some((sections, u64_at(&start, 24)?))
}

/// Whether each of a file's symbol tables has at most so many bytes. True for a file without sections, which has none.
pub fn tables_are_within(file: &File, bytes_max: u64) -> bool {
    let sections = read_sections(file).map_or_else(Vec::new, |(sections, _)| sections);
    let is_table = |section: &&Section| matches!(section.kind, SHT_SYMTAB | SHT_DYNSYM);
    sections
        .iter()
        .filter(is_table)
        .all(|table| table.bytes <= bytes_max)
}

fn parse_section(header: &[u8]) -> Option<(u32, Section)> {
    let section = Section {
        name: String::new(),
        kind: u32_at(header, 4)?,
        flags: u64_at(header, 8)?,
        address: u64_at(header, 16)?,
        offset: u64_at(header, 24)?,
        bytes: u64_at(header, 32)?,
        link: u32_at(header, 40)?,
    };
    Some((u32_at(header, 0)?, section))
}

fn name_at(names: &[u8], at: u32) -> Option<String> {
    let rest = names.get(at as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_sections_are_found_and_their_tables_have_a_size() {
        let own = File::open("/proc/self/exe").unwrap();
        let (sections, entry) = read_sections(&own).unwrap();
        assert!(sections.iter().any(|section| section.name == ".text") && entry > 0);
        assert!(sections.iter().any(Section::is_symbol_table));
        assert!(tables_are_within(&own, 1 << 30) && !tables_are_within(&own, 24));
    }

    /// A table that claims to be larger than memory, in a file that is sparse.
    #[test]
    fn a_table_that_is_too_large_is_seen_without_reading_it() {
        let mut file = vec![0; 64 + 3 * SECTION_HEADER_BYTES + 16];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(40, &64_u64.to_le_bytes());
        put(58, &64_u16.to_le_bytes());
        put(60, &3_u16.to_le_bytes());
        put(62, &1_u16.to_le_bytes());
        // The names, and the symbols.
        put(128 + 24, &256_u64.to_le_bytes());
        put(128 + 32, &16_u64.to_le_bytes());
        put(192 + 4, &SHT_SYMTAB.to_le_bytes());
        put(192 + 32, &(1_u64 << 40).to_le_bytes());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("elf");
        std::fs::write(&path, &file).unwrap();
        let made = File::open(&path).unwrap();
        assert_eq!(read_sections(&made).unwrap().0.len(), 3);
        assert!(!tables_are_within(&made, 256 << 20));
        std::fs::write(&path, b"#!/bin/sh").unwrap();
        assert!(
            tables_are_within(&File::open(&path).unwrap(), 0),
            "it has none"
        );
    }
}

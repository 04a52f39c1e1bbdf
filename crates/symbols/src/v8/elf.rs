//! The symbols of a file, read at once: one by one, those of Node take a quarter of a million readings.

use std::fs::File;

use object::elf::Sym64;
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef, SectionIndex};

/// A larger table of symbols, or of their names, is not read: memory is bounded.
const TABLE_BYTES_MAX: u64 = 96 << 20;

pub struct Symbol<'a> {
    pub name: &'a [u8],
    pub address: u64,
    pub bytes: u64,
    section: SectionIndex,
}

type Elf<'a> = object::File<'a, &'a ReadCache<File>>;

/// The symbols of a section (`.dynsym`) whose names are in another one (`.dynstr`); none where one of them is missing.
pub fn symbols<'a>(file: &Elf<'a>, table: &str, names: &str) -> Vec<Symbol<'a>> {
    let data = |name: &str| {
        let section = file.section_by_name(name)?;
        let is_small = section.size() <= TABLE_BYTES_MAX;
        is_small.then(|| section.data().ok()).flatten()
    };
    let (Some(table), Some(names)) = (data(table), data(names)) else {
        return Vec::new();
    };
    let count = table.len() / size_of::<Sym64<Endianness>>();
    let Ok((symbols, _)) = object::slice_from_bytes::<Sym64<Endianness>>(table, count) else {
        return Vec::new();
    };
    let endian = file.endianness();
    let symbol = |symbol: &Sym64<Endianness>| {
        let name = names.get(symbol.st_name.get(endian) as usize..)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        Some(Symbol {
            name: &name[..end],
            address: symbol.st_value.get(endian),
            bytes: symbol.st_size.get(endian),
            section: SectionIndex(symbol.st_shndx.get(endian).into()),
        })
    };
    symbols.iter().filter_map(symbol).collect()
}

/// The number that a variable has in its file.
pub fn number(file: &Elf<'_>, data: &ReadCache<File>, symbol: &Symbol<'_>) -> Option<i32> {
    let section = file.section_by_index(symbol.section).ok()?;
    let (start, size) = section.file_range()?;
    let offset = symbol.address.checked_sub(section.address())?;
    if offset.checked_add(4)? > size {
        return None;
    }
    let bytes = data.read_bytes_at(start.checked_add(offset)?, 4).ok()?;
    Some(i32::from_le_bytes(bytes.try_into().ok()?))
}

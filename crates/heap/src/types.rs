//! Types of the objects in glibc's heap: an object with virtual functions begins with a pointer to its class's table of
//! them, in the program's image or a library's, and in front of that table stands what the class is called.
//!
//! Source: the Itanium C++ ABI, 2.5.2 (virtual table components) and 2.9.4 (RTTI layout). No symbols are needed.

use std::collections::BTreeMap;

use super::glibc::Chunk;
use super::smaps::Area;
use observe::fact::memory::Memory;
use symbols::demangle::demangled;

/// Tables that are told apart; objects of further ones are not counted.
const TABLES_MAX: usize = 4_096;
/// Longest name that is believed.
const NAME_BYTES_MAX: usize = 2_048;

/// Objects of one class. Bytes with the headers of their blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Objects {
    pub count: u64,
    pub bytes: u64,
}

/// What of the heap begins with a pointer into an image, by where it points to.
#[derive(Debug, Clone, Default)]
pub struct Census {
    /// Mapped files that no code lies in, merged, ordered.
    images: Vec<(u64, u64)>,
    pub by_table: BTreeMap<u64, Objects>,
}

impl Census {
    pub fn new(areas: &[Area]) -> Census {
        let is_data =
            |area: &&Area| area.inode != 0 && area.readable && !area.executable && !area.shared;
        let mut images: Vec<(u64, u64)> = Vec::new();
        for area in areas.iter().filter(is_data) {
            match images.last_mut() {
                Some(last) if last.1 == area.start => last.1 = area.end,
                _ => images.push((area.start, area.end)),
            }
        }
        Census {
            images,
            by_table: BTreeMap::new(),
        }
    }

    /// A block in use and its first word.
    pub fn note(&mut self, chunk: Chunk, first: Option<u64>) {
        let Some(first) = first else { return };
        if !first.is_multiple_of(8) || !self.is_in_image(first) {
            return;
        }
        if self.by_table.len() >= TABLES_MAX && !self.by_table.contains_key(&first) {
            return;
        }
        let objects = self.by_table.entry(first).or_default();
        objects.count += 1;
        objects.bytes += chunk.bytes;
    }

    pub fn is_in_image(&self, address: u64) -> bool {
        let next = self.images.partition_point(|(_, end)| *end <= address);
        self.images
            .get(next)
            .is_some_and(|(start, _)| *start <= address)
    }

    /// The class whose objects point to that table; `None`: it is no table of a class, or one without RTTI.
    pub fn class(&self, memory: &dyn Memory, table: u64) -> Option<String> {
        let word = |at: u64| memory.u64(at).filter(|word| self.is_in_image(*word));
        // An object's own table has its beginning at its beginning.
        let to_top = memory.u64(table.checked_sub(16)?)?;
        let information = word(table - 8).filter(|_| to_top == 0)?;
        // `type_info` is an object too.
        word(information)?;
        let name = memory.name(word(information.checked_add(8)?)?)?;
        // In front of the name of a class that only one object file knows (`gcc/cp/rtti.cc`).
        class_of(name.strip_prefix('*').unwrap_or(&name))
    }
}

/// `N4shop5OrderE` is `shop::Order`.
fn class_of(name: &str) -> Option<String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_name) {
        return None;
    }
    let symbol = format!("_ZTS{name}");
    let whole = demangled(&symbol);
    whole.strip_prefix("typeinfo name for ").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    fn area(start: u64, end: u64, inode: u64) -> Area {
        Area {
            start,
            end,
            inode,
            readable: true,
            ..Area::default()
        }
    }

    /// At 0x1000 a table's two words in front, at 0x1010 the table; `type_info` at 0x1020, its name at 0x1030.
    fn image(to_top: u64, name: &[u8]) -> Made {
        let words = [to_top, 0x1020, 0x5555, 0, 0x1008, 0x1030];
        let mut bytes: Vec<u8> = words
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
        bytes.extend(name);
        bytes.resize(0x1000, 0);
        Made { at: 0x1000, bytes }
    }

    #[test]
    fn objects_are_counted_by_class_and_classes_named_from_their_information() {
        let mut census = Census::new(&[
            area(0x1000, 0x1800, 7),
            area(0x1800, 0x2000, 7),
            area(0x9000, 0xa000, 0),
        ]);
        for (start, first) in [
            (0x9000, 0x1010),
            (0x9040, 0x1010),
            (0x9080, 0x1011),
            (0x90c0, 0x9000),
            (0x9100, 0),
        ] {
            census.note(Chunk { start, bytes: 64 }, Some(first));
        }
        let expected = Objects {
            count: 2,
            bytes: 128,
        };
        assert_eq!(census.by_table, [(0x1010, expected)].into());
        let class = |memory: &Made| census.class(memory, 0x1010);
        assert_eq!(
            class(&image(0, b"N4shop5OrderE\0")).as_deref(),
            Some("shop::Order")
        );
        assert_eq!(
            class(&image(0, b"*8WebOrder\0")).as_deref(),
            Some("WebOrder")
        );
        assert_eq!(class(&image(16, b"8WebOrder\0")), None, "a base's table");
        for nothing in [&b"\0"[..], b"no name\0", b"12\0", b"\xff\xff\0"] {
            assert_eq!(class(&image(0, nothing)), None, "{nothing:?}");
        }
        assert_eq!(census.class(&image(0, b"1A\0"), 8), None);
    }
}

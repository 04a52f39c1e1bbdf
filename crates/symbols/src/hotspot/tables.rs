//! What HotSpot says of its own structures: `gHotSpotVMStructs`, `gHotSpotVMTypes` and how their rows are laid out, all
//! exported by libjvm.so (`src/hotspot/share/runtime/vmStructs.hpp`).

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache};
use observe::fact::open_file;
use procfs::process::{MMapPath, Process};

use crate::memory::Memory;

/// JDK 17 has some 1,300 fields and 800 types.
const ROWS_MAX: usize = 16_384;
const NAME_MAX: usize = 128;
const PAGE: u64 = 4096;
/// Pages of libjvm that the names and rows are on.
const PAGES_MAX: usize = 2_048;

/// A field: its offset, or of a static one its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub at: u64,
    pub is_static: bool,
}

/// All that is wanted of the tables. Offsets and sizes in bytes.
#[derive(Debug, Default)]
pub struct Tables {
    fields: HashMap<(String, String), Field>,
    sizes: HashMap<String, u64>,
}

impl Tables {
    /// `symbol`: the address of an exported variable. `types`: those that are kept.
    fn read(
        memory: Memory,
        symbol: impl Fn(&str) -> Option<u64>,
        types: &[&str],
    ) -> Option<Tables> {
        let mut pages = Pages::of(memory);
        let value = |pages: &mut Pages, name: &str| pages.word(symbol(name)?);
        let is_wide = |stride: &u64| (8..=4_096).contains(stride);
        let mut tables = Tables::default();

        let structs = |field: &str| format!("gHotSpotVMStructEntry{field}");
        let mut row = value(&mut pages, "gHotSpotVMStructs")?;
        let stride = value(&mut pages, &structs("ArrayStride")).filter(is_wide)?;
        let [type_name, field_name, is_static, offset, address] = [
            "TypeNameOffset",
            "FieldNameOffset",
            "IsStaticOffset",
            "OffsetOffset",
            "AddressOffset",
        ]
        .map(|field| value(&mut pages, &structs(field)));
        for _ in 0..ROWS_MAX {
            // The last row has no name.
            let name = pages.word(row.checked_add(type_name?)?)?;
            if name == 0 {
                break;
            }
            let of = pages.text(name)?;
            if types.contains(&of.as_str()) {
                let field = pages.word(row.checked_add(field_name?)?)?;
                let field = pages.text(field)?;
                let is_static = pages.word(row.checked_add(is_static?)?)? as u32 != 0;
                let place = if is_static { address? } else { offset? };
                let at = pages.word(row.checked_add(place)?)?;
                tables.fields.insert((of, field), Field { at, is_static });
            }
            row = row.checked_add(stride)?;
        }

        let entry = |field: &str| format!("gHotSpotVMTypeEntry{field}");
        let mut row = value(&mut pages, "gHotSpotVMTypes")?;
        let stride = value(&mut pages, &entry("ArrayStride")).filter(is_wide)?;
        let type_name = value(&mut pages, &entry("TypeNameOffset"))?;
        let size = value(&mut pages, &entry("SizeOffset"))?;
        for _ in 0..ROWS_MAX {
            let name = pages.word(row.checked_add(type_name)?)?;
            if name == 0 {
                break;
            }
            let of = pages.text(name)?;
            if types.contains(&of.as_str()) {
                let size = pages.word(row.checked_add(size)?)?;
                tables.sizes.insert(of, size);
            }
            row = row.checked_add(stride)?;
        }
        Some(tables)
    }

    /// Offset of a field in its structure.
    pub fn offset(&self, of: &str, field: &str) -> Option<usize> {
        let found = self.field(of, field).filter(|field| !field.is_static)?;
        // No structure of HotSpot's is larger.
        usize::try_from(found.at).ok().filter(|at| *at < 65_536)
    }

    pub fn address(&self, of: &str, field: &str) -> Option<u64> {
        let found = self.field(of, field).filter(|field| field.is_static)?;
        Some(found.at)
    }

    pub fn size(&self, of: &str) -> Option<usize> {
        let size = usize::try_from(*self.sizes.get(of)?).ok()?;
        (1..65_536).contains(&size).then_some(size)
    }

    fn field(&self, of: &str, field: &str) -> Option<Field> {
        let key = (of.to_owned(), field.to_owned());
        self.fields.get(&key).copied()
    }
}

/// Of the HotSpot in a process what it says of these types. `None`: there is none, or it has not started yet.
pub fn published(pid: u32, types: &[&str]) -> Option<Tables> {
    let (path, start) = libjvm(pid)?;
    let symbols = exported(&path, start)?;
    let symbol = |name: &str| {
        let found = symbols.iter().find(|(known, _)| known == name);
        found.map(|(_, address)| *address)
    };
    Tables::read(Memory { pid }, symbol, types)
}

/// Where libjvm.so is mapped first, and its file.
fn libjvm(pid: u32) -> Option<(String, u64)> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    let maps = process.maps().ok()?;
    maps.iter()
        .find_map(|map| match &map.pathname {
            MMapPath::Path(path) if map.offset == 0 && path.ends_with("libjvm.so") => {
                Some((path.to_string_lossy().into_owned(), map.address.0))
            }
            _ => None,
        })
        .map(|(path, start)| (format!("/proc/{pid}/root{path}"), start))
}

/// Exported variables with their addresses.
fn exported(path: &str, start: u64) -> Option<Vec<(String, u64)>> {
    let cache: ReadCache<File> = ReadCache::new(open_file(Path::new(path)).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let first = file.segments().map(|segment| segment.address()).min()?;
    let bias = start.wrapping_sub(first);
    let named = file.dynamic_symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?;
        let is_wanted = name.starts_with("gHotSpotVM");
        is_wanted.then(|| (name.to_owned(), bias.wrapping_add(symbol.address())))
    });
    Some(named.collect())
}

/// Pages that were read, each once.
struct Pages {
    memory: Memory,
    read: HashMap<u64, Vec<u8>>,
}

impl Pages {
    fn of(memory: Memory) -> Pages {
        Pages {
            memory,
            read: HashMap::new(),
        }
    }

    fn byte(&mut self, address: u64) -> Option<u8> {
        let (page, at) = (address / PAGE, (address % PAGE) as usize);
        if !self.read.contains_key(&page) {
            if self.read.len() == PAGES_MAX {
                return None;
            }
            let mut bytes = vec![0; PAGE as usize];
            let count = self.memory.read(page * PAGE, &mut bytes).ok()?;
            bytes.truncate(count);
            self.read.insert(page, bytes);
        }
        self.read.get(&page)?.get(at).copied()
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(address.checked_add(at as u64)?)?;
        }
        Some(u64::from_le_bytes(bytes))
    }

    fn text(&mut self, address: u64) -> Option<String> {
        let mut text = String::new();
        for at in 0..NAME_MAX as u64 {
            match self.byte(address.checked_add(at)?)? {
                0 => return Some(text),
                byte => text.push(char::from(byte)),
            }
        }
        None
    }
}

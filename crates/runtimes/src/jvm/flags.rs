//! Flags (`-XX:+DisableAttachMechanism`) and version of a JVM, read from its memory.
//!
//! For a JVM without counters: `-XX:-UsePerfData`, or `-XX:+PerfDisableSharedMem`, which is common in production.
//! Source: HotSpot's `vmStructs.hpp`, whose tables libjvm exports for debuggers, with the layout of their own entries.
//!
//! ```text
//! gHotSpotVMTypes   -> JVMFlag: size
//! gHotSpotVMStructs -> JVMFlag::flags, numFlags: addresses; _name, _addr: offsets
//! flags[i] -> name, address of the value
//! ```

use std::collections::HashMap;

use symbols::memory::Memory;

/// libjvm exports about 1,000.
const SYMBOLS_MAX: u64 = 20_000;

/// JDK 25 has about 1,800 fields in its table.
const ENTRIES_MAX: u64 = 20_000;

/// JDK 25 has about 1,500.
const FLAGS_MAX: u64 = 20_000;

const NAME_BYTES_MAX: usize = 64;
const PROGRAM_HEADERS_MAX: u64 = 64;

const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// Of an entry in an ELF64 symbol table.
const SYMBOL_BYTES: u64 = 24;

/// A process's memory; every read may fail.
#[derive(Clone, Copy)]
struct ProcessMemory(Memory);

impl ProcessMemory {
    fn array<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.0.read(address, &mut bytes).ok()? == N).then_some(bytes)
    }

    fn u16(self, address: u64) -> Option<u64> {
        self.array(address)
            .map(|bytes| u16::from_ne_bytes(bytes).into())
    }

    fn u32(self, address: u64) -> Option<u32> {
        self.array(address).map(u32::from_ne_bytes)
    }

    fn u64(self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_ne_bytes)
    }

    fn text(self, address: u64) -> Option<String> {
        let mut bytes = [0; NAME_BYTES_MAX];
        let got = self.0.read(address, &mut bytes).ok()?;
        let end = bytes[..got].iter().position(|&byte| byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }
}

/// A boolean flag of the JVM in a process; `base` is where its libjvm is mapped. `None`: it could not be found.
pub(super) fn read_flag(pid: u32, base: u64, name: &str) -> Option<bool> {
    let tables = Tables::open(pid, base)?;
    let memory = tables.memory;
    let size = tables.size("JVMFlag")?;
    let fields = tables.fields("JVMFlag");
    let flags = memory.u64(fields.get("flags")?.address)?;
    let count = memory.u64(fields.get("numFlags")?.address)?;
    let (name_at, value_at) = (fields.get("_name")?.offset, fields.get("_addr")?.offset);
    for number in 0..count.min(FLAGS_MAX) {
        let flag = flags.checked_add(number.checked_mul(size)?)?;
        let found = memory
            .u64(flag.checked_add(name_at)?)
            .and_then(|at| memory.text(at));
        if found.as_deref() == Some(name) {
            let value = memory.u64(flag.checked_add(value_at)?)?;
            return match memory.array(value)? {
                [0u8] => Some(false),
                [1] => Some(true),
                _ => None,
            };
        }
    }
    None
}

/// `17.0.15+6`
pub(super) fn read_version(pid: u32, base: u64) -> Option<String> {
    let tables = Tables::open(pid, base)?;
    let fields = tables.fields("Abstract_VM_Version");
    let version = tables
        .memory
        .text(tables.memory.u64(fields.get("_s_vm_release")?.address)?)?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && !version.is_empty()).then_some(version)
}

/// Addresses of the symbols `gHotSpotVM...` of a mapped library.
fn exported(memory: ProcessMemory, base: u64) -> Option<HashMap<String, u64>> {
    let (strings, symbols) = dynamic(memory, base)?;
    let mut exported = HashMap::new();
    // The tables lie one behind the other, and nothing else gives the number of symbols as easily.
    let count = strings.checked_sub(symbols)? / SYMBOL_BYTES;
    for number in 0..count.min(SYMBOLS_MAX) {
        let symbol = symbols + number * SYMBOL_BYTES;
        let name = memory.text(strings.checked_add(memory.u32(symbol)?.into())?);
        if let Some(name) = name.filter(|name| name.starts_with("gHotSpotVM")) {
            exported.insert(name, base.checked_add(memory.u64(symbol + 8)?)?);
        }
    }
    Some(exported)
}

/// Addresses of the string table and the symbol table, from the dynamic section.
fn dynamic(memory: ProcessMemory, base: u64) -> Option<(u64, u64)> {
    if memory.array(base)? != *b"\x7fELF\x02" {
        return None;
    }
    let headers = base.checked_add(memory.u64(base + 32)?)?;
    let (size, count) = (memory.u16(base + 54)?, memory.u16(base + 56)?);
    let headers =
        (0..count.min(PROGRAM_HEADERS_MAX)).filter_map(|number| headers.checked_add(number * size));
    let mut dynamic = headers.filter(|&header| memory.u32(header) == Some(PT_DYNAMIC));
    let header = dynamic.next()?;
    let section = base.checked_add(memory.u64(header + 16)?)?;
    let entries = memory.u64(header + 40)? / 16;
    let find = |tag| {
        let mut entries =
            (0..entries.min(ENTRIES_MAX)).filter_map(|number| section.checked_add(number * 16));
        let entry = entries.find(|&entry| memory.u64(entry) == Some(tag))?;
        let address = memory.u64(entry + 8)?;
        // glibc adds the base in place, musl does not.
        if address < base {
            base.checked_add(address)
        } else {
            Some(address)
        }
    };
    Some((find(DT_STRTAB)?, find(DT_SYMTAB)?))
}

#[derive(Debug, Clone, Copy, Default)]
struct Field {
    /// Of a static field.
    address: u64,
    /// In its object, of another.
    offset: u64,
}

/// The tables for debuggers.
struct Tables {
    memory: ProcessMemory,
    exported: HashMap<String, u64>,
}

impl Tables {
    fn open(pid: u32, base: u64) -> Option<Tables> {
        let memory = ProcessMemory(Memory { pid });
        Some(Tables {
            memory,
            exported: exported(memory, base)?,
        })
    }

    fn value(&self, symbol: &str) -> Option<u64> {
        self.memory.u64(*self.exported.get(symbol)?)
    }

    /// Addresses of a table's entries, up to the one without a name.
    fn entries(&self, table: &str) -> Option<Vec<(String, u64)>> {
        let (first, stride) = (
            self.value(&format!("{table}s"))?,
            self.value(&format!("{table}EntryArrayStride"))?,
        );
        let name_at = self.value(&format!("{table}EntryTypeNameOffset"))?;
        let mut entries = Vec::new();
        for number in 0..ENTRIES_MAX {
            let entry = first.checked_add(number.checked_mul(stride)?)?;
            let name = self.memory.u64(entry.checked_add(name_at)?)?;
            if name == 0 {
                break;
            }
            // Names that are too long are of templates.
            entries.extend(self.memory.text(name).map(|name| (name, entry)));
        }
        Some(entries)
    }

    /// Of a type, bytes.
    fn size(&self, name: &str) -> Option<u64> {
        let entries = self.entries("gHotSpotVMType")?;
        let (_, entry) = entries.into_iter().find(|(found, _)| found == name)?;
        let size_at = self.value("gHotSpotVMTypeEntrySizeOffset")?;
        self.memory.u64(entry.checked_add(size_at)?)
    }

    fn fields(&self, of: &str) -> HashMap<String, Field> {
        let entries = self.entries("gHotSpotVMStruct").unwrap_or_default();
        let entries = entries.into_iter().filter(|(found, _)| found == of);
        entries.filter_map(|(_, entry)| self.field(entry)).collect()
    }

    fn field(&self, entry: u64) -> Option<(String, Field)> {
        let at = |part: &str| {
            let offset = self.value(&format!("gHotSpotVMStructEntry{part}Offset"))?;
            self.memory.u64(entry.checked_add(offset)?)
        };
        let name = self.memory.text(at("FieldName")?)?;
        Some((
            name,
            Field {
                address: at("Address")?,
                offset: at("Offset")?,
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_has_no_flags() {
        let page = vec![0u8; 4096];
        let address = page.as_ptr() as u64;
        for base in [0, 1, address, u64::MAX] {
            assert_eq!(read_flag(std::process::id(), base, "UsePerfData"), None);
        }
        let mut header = b"\x7fELF\x02".to_vec();
        header.resize(4096, 0xff);
        assert_eq!(
            read_flag(std::process::id(), header.as_ptr() as u64, "UsePerfData"),
            None
        );
    }
}

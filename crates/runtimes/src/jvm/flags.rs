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

use observe::fact::image::Image;
use observe::fact::memory::Memory;

/// JDK 25 has about 1,800 fields in its table.
const ENTRIES_MAX: u64 = 20_000;

/// JDK 25 has about 1,500.
const FLAGS_MAX: u64 = 20_000;

/// Longer names, which are of templates, are of no use.
const NAME_BYTES_MAX: usize = 64;

fn text(memory: &dyn Memory, address: u64) -> Option<String> {
    memory
        .name(address)
        .filter(|name| name.len() < NAME_BYTES_MAX)
}

/// A boolean flag of the JVM in that memory; `base` is where its libjvm is mapped. `None`: it could not be found.
pub(super) fn read_flag(memory: &dyn Memory, base: u64, name: &str) -> Option<bool> {
    let [flag] = read_flags(memory, base, [name]);
    flag
}

/// The same of several.
pub(super) fn read_flags<const N: usize>(
    memory: &dyn Memory,
    base: u64,
    names: [&str; N],
) -> [Option<bool>; N] {
    let mut values = [None; N];
    // What was found before memory could not be read any more counts.
    let _ = find_flags(memory, base, names, &mut values);
    values
}

fn find_flags<const N: usize>(
    memory: &dyn Memory,
    base: u64,
    names: [&str; N],
    values: &mut [Option<bool>; N],
) -> Option<()> {
    let tables = Tables::open(memory, base)?;
    let size = tables.size("JVMFlag")?;
    let fields = tables.fields("JVMFlag");
    let flags = memory.u64(fields.get("flags")?.address)?;
    let count = memory.u64(fields.get("numFlags")?.address)?;
    let (name_at, value_at) = (fields.get("_name")?.offset, fields.get("_addr")?.offset);
    for number in 0..count.min(FLAGS_MAX) {
        let flag = flags.checked_add(number.checked_mul(size)?)?;
        let found = memory
            .u64(flag.checked_add(name_at)?)
            .and_then(|at| text(memory, at));
        let wanted = names.iter().position(|name| found.as_deref() == Some(name));
        if let Some(wanted) = wanted {
            let value = memory.u64(flag.checked_add(value_at)?)?;
            values[wanted] = match memory.bytes(value, 1, 1)?[..] {
                [0] => Some(false),
                [1] => Some(true),
                _ => None,
            };
        }
        if values.iter().all(Option::is_some) {
            break;
        }
    }
    Some(())
}

/// `17.0.15+6`
pub(super) fn read_version(memory: &dyn Memory, base: u64) -> Option<String> {
    let fields = Tables::open(memory, base)?.fields("Abstract_VM_Version");
    let version = text(memory, memory.u64(fields.get("_s_vm_release")?.address)?)?;
    let is_plain = version.bytes().all(|byte| byte.is_ascii_graphic());
    (is_plain && !version.is_empty()).then_some(version)
}

#[derive(Debug, Clone, Copy, Default)]
struct Field {
    /// Of a static field.
    address: u64,
    /// In its object, of another.
    offset: u64,
}

/// The tables for debuggers.
struct Tables<'m> {
    memory: &'m dyn Memory,
    bias: u64,
    libjvm: Image<'m>,
}

impl<'m> Tables<'m> {
    fn open(memory: &'m dyn Memory, base: u64) -> Option<Tables<'m>> {
        let (libjvm, bias) = Image::mapped_at(memory, base)?;
        Some(Tables {
            memory,
            bias,
            libjvm,
        })
    }

    fn value(&self, symbol: &str) -> Option<u64> {
        let address = self.libjvm.export(symbol)?.address;
        self.memory.u64(self.bias.wrapping_add(address))
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
            entries.extend(text(self.memory, name).map(|name| (name, entry)));
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
        let name = text(self.memory, at("FieldName")?)?;
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
    use observe::fact::memory::Made;

    #[test]
    fn what_is_no_library_has_no_flags() {
        let mut header = b"\x7fELF\x02\x01".to_vec();
        header.resize(4096, 0xff);
        for bytes in [vec![0u8; 4096], header] {
            let memory = Made { at: 0x1000, bytes };
            for base in [0, 1, 0x1000, u64::MAX] {
                assert_eq!(read_flag(&memory, base, "UsePerfData"), None);
                assert_eq!(read_version(&memory, base), None);
            }
        }
    }
}

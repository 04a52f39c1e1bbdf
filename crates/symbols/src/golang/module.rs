//! `runtime.moduledata`: where the tables and the variables of a Go program are.

use std::ops::Range;

use observe::fact::memory::Memory;

use super::binary::Binary;
use super::version::Tables;
use super::words::{find_word, quantum};

/// Data that is searched for it in a stripped program.
const DATA_BYTES_MAX: u64 = 64 << 20;

/// A slice of the runtime's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    pub at: u64,
    pub count: u64,
}

/// The fields of `runtime.firstmoduledata` that are read. All addresses are of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Module {
    pub names: Slice,
    pub units: Slice,
    pub files: Slice,
    pub values: Slice,
    pub functions: Slice,
    pub index: Slice,
    pub text: Range<u64>,
    pub data: Range<u64>,
    pub bss: Range<u64>,
    pub noptrbss: Range<u64>,
    pub noptrdata: Range<u64>,
    pub gofunc: u64,
    pub tables: Tables,
    /// Smallest step between two instructions: 1 on amd64, 4 on arm64.
    pub quantum: u64,
}

impl Module {
    /// Reads it, and checks that it is one.
    pub fn read(memory: &dyn Memory, at: u64, table: u64, tables: &Tables) -> Option<Module> {
        let word = |offset: u64| memory.u64(at.checked_add(offset)?);
        let slice = |offset: u64| {
            let (at, count) = (word(offset)?, word(offset + 8)?);
            Some(Slice { at, count })
        };
        let range = |offset: u64| Some(word(offset)?..word(offset + 8)?);
        if word(0)? != table {
            return None;
        }
        let module = Module {
            names: slice(8)?,
            units: slice(32)?,
            files: slice(56)?,
            values: slice(80)?,
            functions: slice(104)?,
            index: slice(128)?,
            text: range(176)?,
            noptrdata: range(192)?,
            data: range(208)?,
            bss: range(224)?,
            noptrbss: range(240)?,
            gofunc: word(tables.gofunc)?,
            tables: *tables,
            quantum: quantum(memory, table)?,
        };
        let is_one = module.names.at > table && module.text.start < module.text.end;
        is_one.then_some(module)
    }

    /// Of a running program; by its symbol, or by its first word, which is the address of the table of functions.
    pub fn find(memory: &dyn Memory, binary: &Binary, tables: &Tables) -> Option<Module> {
        let table = binary.pclntab()?;
        let named = binary.variable("runtime.firstmoduledata");
        let named = named.and_then(|at| Module::read(memory, at, table, tables));
        named.or_else(|| {
            let data = binary.sections.iter().filter(|section| section.is_data());
            let mut ranges = data.map(|section| {
                let start = section.address.wrapping_add(binary.bias);
                start..start.saturating_add(section.bytes.min(DATA_BYTES_MAX))
            });
            ranges.find_map(|range| {
                find_word(memory, range, &mut |at, word| {
                    (word == table).then(|| Module::read(memory, at, table, tables))?
                })
            })
        })
    }
}

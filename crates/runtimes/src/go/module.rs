//! `runtime.moduledata`: where the tables and the variables of a Go program are.

use std::ops::Range;

use observe::fact::memory::Memory;

use super::binary::Binary;
use super::layout::Layout;

/// `pcHeader.magic` since Go 1.20.
pub const MAGIC: u32 = 0xffff_fff1;
/// Data that is searched for it in a stripped program.
const DATA_BYTES_MAX: u64 = 64 << 20;
const CHUNK: u64 = 1 << 16;

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
    pub noptrdata: Range<u64>,
    pub gofunc: u64,
    /// See [`Layout::wrapper`].
    pub wrapper: u8,
    /// Smallest step between two instructions: 1 on amd64, 4 on arm64.
    pub quantum: u64,
}

impl Module {
    /// Reads it, and checks that it is one.
    pub fn read(memory: &dyn Memory, at: u64, table: u64, layout: &Layout) -> Option<Module> {
        let word = |offset: u64| memory.u64(at.checked_add(offset)?);
        let slice = |offset: u64| {
            let (at, count) = (word(offset)?, word(offset + 8)?);
            Some(Slice { at, count })
        };
        let range = |offset: u64| Some(word(offset)?..word(offset + 8)?);
        if word(0)? != table || memory.u32(table)? != MAGIC {
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
            gofunc: word(layout.gofunc)?,
            wrapper: layout.wrapper,
            quantum: word_quantum(memory, table)?,
        };
        let is_one = module.names.at > table && module.text.start < module.text.end;
        is_one.then_some(module)
    }

    /// Of a running program; by its symbol, or by its first word, which is the address of the table of functions.
    pub fn find(memory: &dyn Memory, binary: &Binary, layout: &Layout) -> Option<Module> {
        let table = binary.pclntab()?;
        let named = binary.variable("runtime.firstmoduledata");
        let named = named.and_then(|at| Module::read(memory, at, table, layout));
        named.or_else(|| {
            let data = binary.sections.iter().filter(|section| section.is_data());
            let mut ranges = data.map(|section| {
                let start = section.address.wrapping_add(binary.bias);
                start..start.saturating_add(section.bytes.min(DATA_BYTES_MAX))
            });
            ranges.find_map(|range| {
                find_word(memory, range, &mut |at, word| {
                    (word == table).then(|| Module::read(memory, at, table, layout))?
                })
            })
        })
    }
}

fn word_quantum(memory: &dyn Memory, table: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(table, &mut bytes)?;
    // Two zero bytes, the step, the size of a pointer.
    let quantum = u64::from(bytes[6]);
    (bytes[4..6] == [0, 0] && matches!(quantum, 1 | 2 | 4) && bytes[7] == 8).then_some(quantum)
}

/// The header of a table of functions: its first word but for the step between instructions.
pub fn find_pclntab(memory: &dyn Memory, range: Range<u64>) -> Option<u64> {
    find_word(memory, range, &mut |at, word| {
        let is_header = word & !(0xff << 48) == 0x0800_0000_0000_0000 | u64::from(MAGIC);
        (is_header && word_quantum(memory, at).is_some()).then_some(at)
    })
}

/// Calls `test` with each aligned word of a range until it finds something. What cannot be read is left out.
pub fn find_word<T>(
    memory: &dyn Memory,
    range: Range<u64>,
    test: &mut dyn FnMut(u64, u64) -> Option<T>,
) -> Option<T> {
    let mut at = range.start.checked_next_multiple_of(8)?;
    while at < range.end {
        let length = CHUNK.min(range.end - at) & !7;
        if length == 0 {
            return None;
        }
        if let Some(bytes) = memory.bytes(at, length, CHUNK) {
            let (words, _) = bytes.as_chunks();
            let mut words = words.iter().zip(0..);
            let found =
                words.find_map(|(word, index)| test(at + 8 * index, u64::from_le_bytes(*word)));
            if found.is_some() {
                return found;
            }
        }
        at += length;
    }
    None
}

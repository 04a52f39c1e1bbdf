//! The table of functions that every Go program carries, stripped or not: from an address to its functions, inlined
//! ones too, and to the size of the frame there.

use std::collections::HashMap;
use std::ops::Range;

use observe::fact::memory::Memory;

use super::module::{Module, Slice};
use super::paged::Paged;
use super::words::{u32_at, u64_at};
use crate::demangle::demangled;

/// `funcdata` and `pcdata` tables of a function, by number.
const FUNCDATA_INLINED: u32 = 3;
const PCDATA_INLINED: u32 = 2;
/// Tables of one function that are believed; the runtime has 8.
const TABLES_MAX: u32 = 64;
/// Room for `struct _func` and for `struct inlinedCall` of every version.
const FUNCTION_BYTES_MAX: usize = 44;
const INLINED_BYTES_MAX: usize = 20;
/// Bytes of one table of values that are decoded. The largest function of the standard library has about 20 kB.
const VALUES_BYTES_MAX: u64 = 1 << 20;
/// Functions that are compared by their names, and bytes of all names. A Kubernetes server has 100,000 and 6 MB.
const FUNCTIONS_MAX: u64 = 1 << 21;
const NAMES_BYTES_MAX: u64 = 64 << 20;
/// Functions that were inlined into each other at one address.
const INLINED_MAX: usize = 64;

/// One function at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// In the code of the function that it was compiled into: for an inlined one's caller, the place of the call.
    pub at: u64,
    pub is_inlined: bool,
    /// The compiler made it, to adapt one call to another.
    pub is_wrapper: bool,
}

/// `struct _func`, as far as it is read.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    record: u64,
    pub entry: u64,
    name: u32,
    frame_sizes: u32,
    files: u32,
    lines: u32,
    values: u32,
    unit: u32,
    kind: u8,
    flags: u8,
    tables: u8,
}

/// What a call is of: `struct _func` or `struct inlinedCall`.
struct Named {
    name: u32,
    kind: u8,
    is_inlined: bool,
}

impl Function {
    /// It is the outermost on its stack.
    pub fn is_outermost(&self) -> bool {
        self.flags & 1 != 0
    }

    /// It changes the stack pointer in a way that the table does not describe.
    pub fn moves_stack(&self) -> bool {
        self.flags & 2 != 0
    }
}

/// Reads the tables. `M`: the file of the program, at the addresses of the process.
pub struct Table<M> {
    memory: M,
    module: Module,
}

impl<M: Memory> Table<M> {
    pub fn new(memory: M, module: Module) -> Table<M> {
        Table { memory, module }
    }

    pub fn holds(&self, pc: u64) -> bool {
        self.module.text.contains(&pc)
    }

    /// The function whose code holds an address.
    pub fn function(&self, pc: u64) -> Option<Function> {
        let (_, record) = self.entry(self.index_of(pc)?)?;
        self.read(self.at(self.module.functions, record)?)
    }

    /// Its code, up to the next function.
    pub fn code(&self, pc: u64) -> Option<Range<u64>> {
        let index = self.index_of(pc)?;
        let start = self.module.text.start;
        let at = |index| start.checked_add(self.entry(index)?.0.into());
        Some(at(index)?..at(index + 1)?)
    }

    fn index_of(&self, pc: u64) -> Option<u64> {
        if !self.holds(pc) {
            return None;
        }
        let offset = u32::try_from(pc - self.module.text.start).ok()?;
        // The last entry is only the end of the one before.
        let (mut low, mut high) = (0, self.module.index.count.min(1 << 32).checked_sub(1)?);
        while low + 1 < high {
            let middle = low.midpoint(high);
            match self.entry(middle)?.0 <= offset {
                true => low = middle,
                false => high = middle,
            }
        }
        (self.entry(low)?.0 <= offset).then_some(low)
    }

    /// The code of functions with these names, in the order of the names.
    pub fn named(&self, wanted: &[&str]) -> Vec<Option<Range<u64>>> {
        let mut found = vec![None; wanted.len()];
        let places = self.places_of(wanted).unwrap_or_default();
        let paged = Table::new(Paged::new(&self.memory), self.module.clone());
        let entries = self.module.index.count.min(FUNCTIONS_MAX);
        for index in 0..entries.saturating_sub(1) {
            let code = paged.entry(index).zip(paged.entry(index + 1));
            let Some(((start, record), (end, _))) = code else {
                break;
            };
            let named = self.at(self.module.functions, record);
            let named = named.and_then(|record| paged.memory.u32(record.checked_add(4)?));
            let Some(number) = named.and_then(|name| places.get(&name)) else {
                continue;
            };
            // A function in assembly has a wrapper of the same name.
            if paged.kind(record) != Some(self.module.tables.wrapper) {
                let at = |offset: u32| self.module.text.start.saturating_add(offset.into());
                found[*number] = Some(at(start)..at(end));
            }
        }
        found
    }

    /// Where in the table of names these are, and the number of each.
    fn places_of(&self, wanted: &[&str]) -> Option<HashMap<u32, usize>> {
        let Slice { at, count } = self.module.names;
        let names = self
            .memory
            .bytes(at, count.min(NAMES_BYTES_MAX), NAMES_BYTES_MAX)?;
        let (mut places, mut start) = (HashMap::new(), 0);
        for name in names.split(|byte| *byte == 0) {
            if let Some(number) = wanted.iter().position(|one| one.as_bytes() == name) {
                places.insert(start as u32, number);
            }
            start += name.len() + 1;
        }
        Some(places)
    }

    fn entry(&self, index: u64) -> Option<(u32, u32)> {
        let both = self
            .memory
            .u64(self.module.index.at.checked_add(8 * index)?)?;
        Some((both as u32, (both >> 32) as u32))
    }

    fn read(&self, record: u64) -> Option<Function> {
        let mut bytes = [0; FUNCTION_BYTES_MAX];
        let bytes = bytes.get_mut(..self.module.tables.function_bytes)?;
        self.memory.read(record, bytes)?;
        let [.., kind, flags, _, tables] = *bytes else {
            return None;
        };
        let word = |at| u32_at(bytes, at);
        Some(Function {
            record,
            entry: self.module.text.start.checked_add(word(0)?.into())?,
            name: word(4)?,
            frame_sizes: word(16)?,
            files: word(20)?,
            lines: word(24)?,
            values: word(28)?.min(TABLES_MAX),
            unit: word(32)?,
            kind,
            flags,
            tables,
        })
    }

    fn kind(&self, record: u32) -> Option<u8> {
        let function = self.read(self.at(self.module.functions, record)?)?;
        Some(function.kind)
    }

    fn at(&self, slice: Slice, offset: u32) -> Option<u64> {
        let offset = u64::from(offset);
        (offset < slice.count).then(|| slice.at.checked_add(offset))?
    }

    fn name(&self, offset: u32) -> Option<String> {
        let name = self.memory.name(self.at(self.module.names, offset)?)?;
        Some(without_shapes(&demangled(&name)))
    }

    pub fn name_of(&self, function: &Function) -> Option<String> {
        self.name(function.name)
    }

    /// Bytes between the stack pointer at `pc` and the return address (amd64) or the caller's stack pointer (arm64).
    pub fn frame_bytes(&self, function: &Function, pc: u64) -> Option<u64> {
        u64::try_from(self.value(function, function.frame_sizes, pc)?).ok()
    }

    /// The functions at an address of an instruction, innermost first.
    pub fn calls(&self, pc: u64) -> Vec<Call> {
        let Some(function) = self.function(pc) else {
            return Vec::new();
        };
        let tree = self.inlined_tree(&function);
        let (mut calls, mut at) = (Vec::new(), pc);
        while let Some((inlined, parent)) = tree.and_then(|tree| self.inlined(&function, tree, at))
            && calls.len() < INLINED_MAX
        {
            calls.push(self.call(&function, &inlined, at));
            // An inlined call's place is in front of it in the program, not always at a lower address.
            at = parent;
        }
        let outer = Named {
            name: function.name,
            kind: function.kind,
            is_inlined: false,
        };
        calls.push(self.call(&function, &outer, at));
        calls
    }

    fn call(&self, function: &Function, named: &Named, at: u64) -> Call {
        let line = self.value(function, function.lines, at);
        Call {
            name: self.name(named.name).unwrap_or_default(),
            file: self.file(function, at),
            line: line.and_then(|line| u32::try_from(line).ok()),
            at,
            is_inlined: named.is_inlined,
            is_wrapper: named.kind == self.module.tables.wrapper,
        }
    }

    fn file(&self, function: &Function, pc: u64) -> Option<String> {
        let number = u32::try_from(self.value(function, function.files, pc)?).ok()?;
        let index = u64::from(function.unit.checked_add(number)?);
        if index >= self.module.units.count {
            return None;
        }
        let offset = self
            .memory
            .u32(self.module.units.at.checked_add(4 * index)?)?;
        self.memory.name(self.at(self.module.files, offset)?)
    }

    fn inlined_tree(&self, function: &Function) -> Option<u64> {
        if u32::from(function.tables) <= FUNCDATA_INLINED {
            return None;
        }
        let offset = self.word_behind(function, function.values + FUNCDATA_INLINED)?;
        (offset != u32::MAX).then(|| self.module.gofunc.checked_add(offset.into()))?
    }

    /// The numbers of a function's tables stand behind its record: those of values, then the others.
    fn word_behind(&self, function: &Function, index: u32) -> Option<u32> {
        let behind = self.module.tables.function_bytes as u64 + 4 * u64::from(index);
        self.memory.u32(function.record.checked_add(behind)?)
    }

    /// What was inlined at an address, and the address of its call.
    fn inlined(&self, function: &Function, tree: u64, pc: u64) -> Option<(Named, u64)> {
        if function.values <= PCDATA_INLINED {
            return None;
        }
        let values = self.word_behind(function, PCDATA_INLINED)?;
        let index = u64::try_from(self.value(function, values, pc)?).ok()?;
        let layout = self.module.tables.inlined;
        let mut entry = [0; INLINED_BYTES_MAX];
        let entry = entry.get_mut(..layout.bytes)?;
        let at = tree.checked_add(index.checked_mul(layout.bytes as u64)?)?;
        self.memory.read(at, entry)?;
        let parent = u32_at(entry, layout.parent)?;
        let parent = function.entry.checked_add(parent.into())?;
        let named = Named {
            name: u32_at(entry, layout.name)?,
            kind: *entry.get(layout.kind)?,
            is_inlined: true,
        };
        Some((named, parent))
    }

    /// The value for an address in a table of them. `None`: it has none (-1 in the runtime).
    fn value(&self, function: &Function, table: u32, pc: u64) -> Option<i32> {
        if table == 0 {
            return None;
        }
        let start = self.at(self.module.values, table)?;
        let end = self
            .module
            .values
            .at
            .checked_add(self.module.values.count)?;
        let mut bytes = Bytes::new(
            &self.memory,
            start,
            end.min(start.saturating_add(VALUES_BYTES_MAX)),
        );
        let (mut at, mut value, mut is_first) = (function.entry, -1i32, true);
        loop {
            let change = bytes.varint()?;
            if change == 0 && !is_first {
                return None;
            }
            // Zigzag: the lowest bit is the sign.
            value = value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
            let step = u64::from(bytes.varint()?) * self.module.quantum;
            at = at.checked_add(step)?;
            if pc < at {
                return (value >= 0).then_some(value);
            }
            is_first = false;
        }
    }
}

/// Bytes one after the other, read in chunks.
struct Bytes<'a> {
    memory: &'a dyn Memory,
    next: u64,
    end: u64,
    chunk: [u8; 64],
    used: usize,
    filled: usize,
}

impl Bytes<'_> {
    fn new(memory: &dyn Memory, start: u64, end: u64) -> Bytes<'_> {
        Bytes {
            memory,
            next: start,
            end,
            chunk: [0; 64],
            used: 0,
            filled: 0,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.used == self.filled {
            let left = self.end.checked_sub(self.next)?;
            self.filled = left.min(self.chunk.len() as u64) as usize;
            self.memory
                .read(self.next, &mut self.chunk[..self.filled])?;
            self.next += self.filled as u64;
            self.used = 0;
        }
        let byte = *self.chunk[..self.filled].get(self.used)?;
        self.used += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// `main.f[go.shape.int]` as the runtime prints it: `main.f[...]`.
fn without_shapes(name: &str) -> String {
    match (name.find('['), name.rfind(']')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}[...]{}", &name[..start], &name[end + 1..])
        }
        _ => name.to_owned(),
    }
}

/// Words of memory that was read already.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    (0..bytes.len() / 8).filter_map(|index| u64_at(bytes, 8 * index))
}

//! The code of a program's file, and what its symbols and relocations say of jumps out of a function.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadCache, SectionKind, SymbolIndex,
    SymbolKind,
};

use super::{Leads, Step, Text, decode};

type Elf<'a> = object::File<'a, &'a ReadCache<&'a File>>;

/// Sections whose relocations fill the pointers that jumps go through.
const RELOCATIONS: [&str; 3] = [".rela.plt", ".rela.iplt", ".rela.dyn"];
/// An Elf64_Rela: where, which symbol and kind, what is added.
const RELA_BYTES: usize = 24;

pub struct FileText<'a> {
    exe: &'a File,
    /// Addresses of sections of code, with their offsets in the file.
    sections: Vec<(Range<u64>, u64)>,
    /// Where functions start and end.
    bounds: BTreeSet<u64>,
    /// `memset` and its like.
    first_argument: BTreeSet<u64>,
    /// What jumps through pointers lead to, by where these are.
    pointers: BTreeMap<u64, Leads>,
    /// Functions of an allocator that return nothing.
    frees: BTreeSet<u64>,
}

impl<'a> FileText<'a> {
    pub fn new(exe: &'a File, file: &Elf<'a>, frees: BTreeSet<u64>) -> FileText<'a> {
        let (mut bounds, mut first_argument) = (BTreeSet::new(), BTreeSet::new());
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() == SymbolKind::Text && symbol.is_definition() {
                bounds.extend([
                    symbol.address(),
                    symbol.address().saturating_add(symbol.size()),
                ]);
            }
            // In a static program what chooses among its variants has the name (STT_GNU_IFUNC).
            if symbol.address() != 0 && returns_first(symbol.name().unwrap_or_default()) {
                first_argument.insert(symbol.address());
            }
        }
        let pointers = pointers(file, &first_argument);
        let sections = file.sections().filter(|of| of.kind() == SectionKind::Text);
        let sections = sections.filter_map(|section| {
            let (offset, bytes) = section.file_range()?;
            Some((section.address()..section.address() + bytes, offset))
        });
        FileText {
            exe,
            sections: sections.collect(),
            bounds,
            first_argument,
            pointers,
            frees,
        }
    }

    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |(range, _): &&(Range<u64>, u64)| range.contains(&address);
        let (range, offset) = self.sections.iter().find(holds)?;
        Some(address - range.start + offset)
    }

    /// Of an entry of the procedure linkage table: a jump through a pointer, perhaps behind an `endbr64`.
    fn pointer_of_stub(&self, at: u64) -> Option<Option<u64>> {
        const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        let mut first = ENDBR64.map(|_| 0);
        self.read(at, &mut first);
        let at = if first == ENDBR64 { at + 4 } else { at };
        match decode(self, at)?.1 {
            Step::JumpBy(pointer) => Some(pointer),
            _ => None,
        }
    }
}

impl Text for FileText<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let Some(offset) = self.offset_of(address) else {
            return 0;
        };
        self.exe.read_at(into, offset).unwrap_or(0)
    }

    fn leads(&self, target: u64) -> Leads {
        if self.first_argument.contains(&target) {
            return Leads::ToFirstArgument;
        }
        if self.frees.contains(&target) {
            return Leads::Unknown;
        }
        match self.pointer_of_stub(target) {
            Some(pointer) => pointer.map_or(Leads::Unknown, |at| self.leads_by(at)),
            None => Leads::Code(target),
        }
    }

    fn leads_by(&self, pointer: u64) -> Leads {
        match self.pointers.get(&pointer) {
            Some(Leads::Code(at)) if self.frees.contains(at) => Leads::Unknown,
            Some(leads) => *leads,
            None => Leads::Unknown,
        }
    }

    fn is_bound(&self, address: u64) -> bool {
        self.bounds.contains(&address)
    }
}

fn returns_first(name: &str) -> bool {
    let bare = name.trim_start_matches('_');
    matches!(
        bare,
        "memset" | "memcpy" | "memmove" | "memset_chk" | "memcpy_chk" | "memmove_chk"
    )
}

/// Pointers that the dynamic linker fills with functions like `memset`, by name, or in a static program by the address
/// of what chooses among its variants; and with functions of the file itself, which a library calls by way of a pointer
/// where another library might come before it.
fn pointers(file: &Elf<'_>, known: &BTreeSet<u64>) -> BTreeMap<u64, Leads> {
    let symbols = file.dynamic_symbol_table();
    let leads = |info: u64, addend: u64| {
        let index = match info >> 32 {
            0 => return known.contains(&addend).then_some(Leads::ToFirstArgument),
            index => SymbolIndex(index as usize),
        };
        let symbol = symbols.as_ref()?.symbol_by_index(index).ok()?;
        if returns_first(symbol.name().unwrap_or_default()) {
            return Some(Leads::ToFirstArgument);
        }
        let is_own = symbol.kind() == SymbolKind::Text && symbol.is_definition();
        is_own.then(|| Leads::Code(symbol.address()))
    };
    let sections = RELOCATIONS
        .iter()
        .filter_map(|name| file.section_by_name(name));
    let mut found = BTreeMap::new();
    for section in sections {
        for entry in section.data().unwrap_or_default().chunks_exact(RELA_BYTES) {
            let word = |at: usize| entry[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            if let Some(leads) = leads(word(8), word(16)) {
                found.insert(word(0), leads);
            }
        }
    }
    found
}

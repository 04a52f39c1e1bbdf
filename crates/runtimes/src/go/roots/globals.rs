//! Global variables: where they are, how large, and of what type.

use std::fs::File;
use std::ops::Range;

use object::read::ReadCache;
use object::{Object, ObjectSymbol, SymbolKind};
use observe::fact::memory::Memory;

use super::super::budget::Budget;
use super::super::names::is_runtime;
use super::blocks::BLOCK;
use super::types::{self, Parts, Type};
use crate::{RootCount, is_of_the_standard_library};
use symbols::golang::binary::Binary;
use symbols::golang::module::Module;
use symbols::golang::pclntab::words;

/// Variables that are kept; a Kubernetes server has about 60,000.
const VARIABLES_MAX: usize = 500_000;
/// Of one variable that is read.
pub const BYTES_MAX: u64 = 256 << 20;
/// Marks a variable that the compiler made for the contents of another: `main..stmp_3`.
pub const STATIC_PART: &str = "..stmp_";
const HEAP: &str = "runtime.mheap_";
const PROCESSORS: &str = "runtime.allp";

/// Whose a variable is. In this order they are roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Program,
    Standard,
    Runtime,
}

#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    pub address: u64,
    pub bytes: u64,
    pub group: Group,
    pub kind: Option<Type>,
}

/// Variables that may point into the heap, by address.
#[derive(Debug, Default)]
pub struct Globals {
    pub variables: Vec<Variable>,
    /// The address of `runtime.mheap_`. `None`: the program has no symbols.
    pub heap: Option<u64>,
    /// The address of `runtime.allp`.
    pub processors: Option<u64>,
    /// As the last snapshot counted them.
    pub last: Vec<RootCount>,
    /// `.data` and `.bss`.
    pub ranges: [Range<u64>; 2],
}

impl Globals {
    /// `dwarf_bytes`: of the program's DWARF that may be read.
    pub fn read(
        memory: &dyn Memory,
        binary: &Binary,
        module: &Module,
        dwarf_bytes: u64,
        budget: &mut Budget,
    ) -> Globals {
        let mut globals = Globals {
            ranges: [module.data.clone(), module.bss.clone()],
            ..Globals::default()
        };
        let file = || binary.readable();
        let _ = file().and_then(|file| globals.read_symbols(file, binary.bias, budget));
        globals.variables.sort_by_key(|variable| variable.address);
        globals.variables.dedup_by_key(|variable| variable.address);
        globals.add_parts(memory, budget);
        let at = |variable: &Variable| variable.address.wrapping_sub(binary.bias);
        let typed = globals
            .variables
            .iter()
            .filter(|variable| variable.group != Group::Runtime);
        let wanted = typed
            .map(|variable| (at(variable), variable.group == Group::Program))
            .collect();
        let mut types = file()
            .map(|file| types::read(file, &wanted, dwarf_bytes, budget))
            .unwrap_or_default();
        for variable in &mut globals.variables {
            variable.kind = types.remove(&at(variable));
        }
        globals
    }

    /// Values that the compiler has laid out, which have no symbols: each starts where a word points to.
    fn add_parts(&mut self, memory: &dyn Memory, budget: &mut Budget) {
        let mut starts = Vec::new();
        for range in &self.ranges {
            let bytes = range.end.saturating_sub(range.start).min(BYTES_MAX);
            each_word(memory, range.start, bytes, budget, &mut |word| {
                let is_part = word.is_multiple_of(8) && self.holds(word) && self.at(word).is_none();
                if is_part && starts.len() < VARIABLES_MAX {
                    starts.push(word);
                }
            });
        }
        starts.sort_unstable();
        starts.dedup();
        let ends = |start: u64| {
            let variable = self.variables.get(
                self.variables
                    .partition_point(|variable| variable.address <= start),
            );
            let part = starts
                .get(starts.partition_point(|part| *part <= start))
                .copied();
            let range = self
                .ranges
                .iter()
                .find(|range| range.contains(&start))
                .map(|range| range.end);
            [variable.map(|variable| variable.address), part, range]
                .into_iter()
                .flatten()
                .min()
        };
        let part = |start: &u64| Variable {
            name: STATIC_PART.to_owned(),
            address: *start,
            bytes: ends(*start).unwrap_or(*start) - start,
            group: Group::Runtime,
            kind: None,
        };
        let parts: Vec<Variable> = starts.iter().map(part).collect();
        if budget.keep(parts.len() * size_of::<Variable>()) {
            self.variables.extend(parts);
            self.variables.sort_by_key(|variable| variable.address);
        }
    }

    fn read_symbols(&mut self, file: File, bias: u64, budget: &mut Budget) -> Option<()> {
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).ok()?;
        for symbol in elf
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Data)
        {
            let address = symbol.address().wrapping_add(bias);
            let Ok(name) = symbol.name() else { continue };
            match name {
                HEAP => self.heap = Some(address),
                PROCESSORS => self.processors = Some(address),
                _ => {}
            }
            let is_scanned = self.ranges.iter().any(|range| range.contains(&address));
            if !is_scanned || symbol.size() < 8 || self.variables.len() == VARIABLES_MAX {
                continue;
            }
            if !budget.keep(size_of::<Variable>() + name.len()) {
                break;
            }
            self.variables.push(Variable {
                group: group_of(name),
                name: name.replace("%2e", "."),
                address,
                bytes: symbol.size().min(BYTES_MAX),
                kind: None,
            });
        }
        Some(())
    }

    /// Where the variable of a root is, or its field, or the pointer that leads to that.
    pub fn range_of(&self, root: &str) -> Option<Range<u64>> {
        let behind =
            |variable: &Variable| Some((variable.name.len(), root.strip_prefix(&variable.name)?));
        let is_field = |rest: &str| rest.is_empty() || rest.starts_with('.');
        let named = self
            .variables
            .iter()
            .filter(|variable| !variable.name.contains(STATIC_PART));
        let found = named.filter_map(|variable| Some((variable, behind(variable)?)));
        let found = found
            .filter(|(_, (_, rest))| is_field(rest))
            .max_by_key(|(_, (length, _))| *length);
        let (variable, (_, rest)) = found?;
        let (mut at, mut bytes) = (variable.address, variable.bytes);
        let mut kind = variable.kind.as_ref();
        for name in rest.split('.').skip(1) {
            let Some(Parts::Fields(fields)) = kind.map(|kind| &kind.parts) else {
                break;
            };
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                break;
            };
            at = at.checked_add(field.offset)?;
            bytes = field.kind.bytes;
            kind = Some(&field.kind);
        }
        Some(at..at.checked_add(bytes)?)
    }

    pub fn holds(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }

    /// The variable that holds an address.
    pub fn at(&self, address: u64) -> Option<(usize, &Variable)> {
        let after = self
            .variables
            .partition_point(|variable| variable.address <= address);
        let index = after.checked_sub(1)?;
        let variable = &self.variables[index];
        (address - variable.address < variable.bytes).then_some((index, variable))
    }
}

fn group_of(name: &str) -> Group {
    // The compiler's own, beside the variables of a package: caches of types, and what is run at the start.
    const MADE: [&str; 4] = [
        "..typeAssert.",
        "..interfaceSwitch.",
        "..inittask",
        "..dict.",
    ];
    let is_made = name.starts_with("go:") || name.starts_with("type:") || !name.contains('.');
    let is_made = is_made || MADE.iter().any(|made| name.contains(made));
    match name {
        _ if is_made || is_runtime(name) => Group::Runtime,
        _ if is_of_the_standard_library(name, Some(".go")) => Group::Standard,
        _ => Group::Program,
    }
}

/// The aligned words of a range. `false`: the budget is spent.
pub fn each_word(
    memory: &dyn Memory,
    start: u64,
    bytes: u64,
    budget: &mut Budget,
    each: &mut dyn FnMut(u64),
) -> bool {
    let Some(mut at) = start.checked_next_multiple_of(8) else {
        return true;
    };
    let end = start.saturating_add(bytes);
    while at < end {
        if !budget.step() {
            return false;
        }
        let length = BLOCK.min(end - at);
        if let Some(bytes) = memory.bytes(at, length, BLOCK) {
            words(&bytes).for_each(&mut *each);
        }
        at += length;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_compiler_made_holds_nothing_of_the_programs() {
        let of = |name: &str| group_of(name);
        for made in [
            "shop..typeAssert.5",
            "shop..interfaceSwitch.0",
            "type:.eq.shop.Order",
        ] {
            assert!(of(made) == Group::Runtime, "{made}");
        }
        assert!(of("shop.orders") == Group::Program);
        assert!(of("net/http.DefaultTransport") == Group::Standard);
    }
}

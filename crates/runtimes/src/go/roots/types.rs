//! Types of global variables, by the program's DWARF.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugInfo, DebugStr, DwAt, EndianSlice,
    LittleEndian, UnitHeader,
};
use object::read::ReadCache;
use object::{Object, ObjectSection};

use super::super::budget::Budget;
use crate::is_of_the_standard_library;

/// Fields on the path behind a variable.
const DEPTH_MAX: usize = 3;
/// Fields of all variables together; about 150 bytes each.
const FIELDS_MAX: usize = 50_000;
/// Typedefs of typedefs that are followed.
const TYPEDEFS_MAX: usize = 8;
/// `DW_AT_go_kind`, and its value for a struct: strings and slices are structs in DWARF, too.
const GO_KIND: DwAt = DwAt(0x2900);
const GO_STRUCT: u64 = 25;
const OP_ADDR: u8 = 3;

/// A type, as far as it is expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    pub name: String,
    pub bytes: u64,
    pub parts: Parts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    None,
    Fields(Vec<Field>),
    /// It points to a struct with these fields, and of this size.
    Target(Vec<Field>, u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub offset: u64,
    pub kind: Type,
}

/// The types of variables, by their addresses in the file. `wanted`: whether their fields are, too. Of the DWARF at
/// most `bytes_max` are read (a Kubernetes server has about 40 MB of it), and kept for the time of this call.
pub fn read(
    file: File,
    wanted: &HashMap<u64, bool>,
    bytes_max: u64,
    budget: &mut Budget,
) -> HashMap<u64, Type> {
    let none = HashMap::new;
    let cache = ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return none();
    };
    let mut left = bytes_max;
    let mut section = |name: &str| {
        let section = elf.section_by_name(name)?;
        let data = section.compressed_data().ok()?;
        left = left.checked_sub(data.uncompressed_size)?;
        Some(data.decompress().ok()?.into_owned())
    };
    let (Some(info), Some(abbreviations)) = (section(".debug_info"), section(".debug_abbrev"))
    else {
        return none();
    };
    let strings = section(".debug_str").unwrap_or_default();
    let slice = |bytes| EndianSlice::new(bytes, LittleEndian);
    let mut dwarf = Dwarf {
        info: DebugInfo::from(slice(&info)),
        abbreviations: DebugAbbrev::from(slice(&abbreviations)),
        strings: DebugStr::from(slice(&strings)),
        units: Vec::new(),
        fields: 0,
    };
    dwarf.find_units();
    let variables = dwarf.variables(wanted, budget);
    let typed = variables.into_iter().filter_map(|(address, at)| {
        let depth = if *wanted.get(&address)? { 0 } else { DEPTH_MAX };
        Some((address, dwarf.kind(at, depth, &mut Vec::new())?))
    });
    typed.collect()
}

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = gimli::DebuggingInformationEntry<Bytes<'a>>;

struct Dwarf<'a> {
    info: DebugInfo<Bytes<'a>>,
    abbreviations: DebugAbbrev<Bytes<'a>>,
    strings: DebugStr<Bytes<'a>>,
    /// By offset.
    units: Vec<(UnitHeader<Bytes<'a>>, Arc<Abbreviations>)>,
    /// That were expanded.
    fields: usize,
}

impl<'a> Dwarf<'a> {
    fn find_units(&mut self) {
        let mut known: HashMap<usize, Arc<Abbreviations>> = HashMap::new();
        let mut units = self.info.units();
        while let Ok(Some(unit)) = units.next() {
            let at = unit.debug_abbrev_offset().0;
            let parsed = known.get(&at).cloned();
            let parsed =
                parsed.or_else(|| Some(Arc::new(unit.abbreviations(&self.abbreviations).ok()?)));
            let Some(parsed) = parsed else { continue };
            known.insert(at, Arc::clone(&parsed));
            self.units.push((unit, parsed));
        }
    }

    /// Addresses of variables, and where their types are.
    fn variables(&self, wanted: &HashMap<u64, bool>, budget: &mut Budget) -> Vec<(u64, usize)> {
        let mut found = Vec::new();
        for (unit, abbreviations) in &self.units {
            if !budget.step() {
                break;
            }
            let _ = self.variables_of(unit, abbreviations, wanted, &mut found);
        }
        found
    }

    fn variables_of(
        &self,
        unit: &UnitHeader<Bytes<'a>>,
        abbreviations: &Abbreviations,
        wanted: &HashMap<u64, bool>,
        found: &mut Vec<(u64, usize)>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(abbreviations, None)?;
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            // Those inside functions have no fixed address.
            if abbreviation.tag() != gimli::DW_TAG_variable || depth != 1 {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
            let value = |name: DwAt| attributes.iter().find(|attribute| attribute.name() == name);
            let address = value(gimli::DW_AT_location)
                .and_then(|one| address_in(one.exprloc_value()?.0.slice()));
            let kind = value(gimli::DW_AT_type).and_then(|one| offset_in(unit, &one.value()));
            if let (Some(address), Some(kind)) =
                (address.filter(|at| wanted.contains_key(at)), kind)
            {
                found.push((address, kind));
            }
        }
        Ok(())
    }

    fn unit_of(&self, at: usize) -> Option<&(UnitHeader<Bytes<'a>>, Arc<Abbreviations>)> {
        let start =
            |unit: &UnitHeader<Bytes<'a>>| unit.debug_info_offset().map_or(0, |offset| offset.0);
        let after = self.units.partition_point(|(unit, _)| start(unit) <= at);
        self.units.get(after.checked_sub(1)?)
    }

    fn entry(&self, at: usize) -> Option<(Entry<'a>, &UnitHeader<Bytes<'a>>)> {
        let (unit, abbreviations) = self.unit_of(at)?;
        let offset = gimli::DebugInfoOffset(at).to_unit_offset(unit)?;
        Some((unit.entry(abbreviations, offset).ok()?, unit))
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let name = entry.attr(gimli::DW_AT_name)?.string_value(&self.strings)?;
        Some(name.to_string_lossy().into_owned())
    }

    /// The type at an offset. `path`: the structs that it is in, which are not expanded again.
    fn kind(&mut self, at: usize, depth: usize, path: &mut Vec<usize>) -> Option<Type> {
        let (entry, unit) = self.entry(at)?;
        let name = self.name(&entry)?;
        let target = entry
            .attr_value(gimli::DW_AT_type)
            .and_then(|value| offset_in(unit, &value));
        let (kind, is_pointer) = match entry.tag() {
            gimli::DW_TAG_pointer_type => (self.structure(target), true),
            _ => (self.structure(Some(at)), false),
        };
        let mut bytes = match is_pointer {
            true => 8,
            false => self.bytes(at)?,
        };
        let Some((at, target_bytes)) = kind.filter(|_| depth < DEPTH_MAX) else {
            return Some(Type {
                name,
                bytes,
                parts: Parts::None,
            });
        };
        let parts = match self.fields(at, depth, path) {
            fields if fields.is_empty() => Parts::None,
            fields if is_pointer => Parts::Target(fields, target_bytes),
            fields => {
                bytes = target_bytes;
                Parts::Fields(fields)
            }
        };
        Some(Type { name, bytes, parts })
    }

    /// The offset and the size of a struct of the program behind names for it.
    fn structure(&self, at: Option<usize>) -> Option<(usize, u64)> {
        let at = self.behind_names(at?)?;
        let (entry, _) = self.entry(at)?;
        let kind = entry.attr(GO_KIND)?.udata_value()?;
        let is_of_program = !is_of_the_standard_library(&self.name(&entry)?, Some(".go"));
        let bytes = entry.attr(gimli::DW_AT_byte_size)?.udata_value()?;
        (entry.tag() == gimli::DW_TAG_structure_type && kind == GO_STRUCT && is_of_program)
            .then_some((at, bytes))
    }

    fn behind_names(&self, mut at: usize) -> Option<usize> {
        for _ in 0..TYPEDEFS_MAX {
            let (entry, unit) = self.entry(at)?;
            if entry.tag() != gimli::DW_TAG_typedef {
                return Some(at);
            }
            at = offset_in(unit, &entry.attr_value(gimli::DW_AT_type)?)?;
        }
        None
    }

    fn bytes(&self, at: usize) -> Option<u64> {
        let (entry, _) = self.entry(self.behind_names(at)?)?;
        let bytes = entry
            .attr(gimli::DW_AT_byte_size)
            .and_then(|bytes| bytes.udata_value());
        // Maps, channels and functions are pointers.
        Some(bytes.unwrap_or(8))
    }

    fn fields(&mut self, at: usize, depth: usize, path: &mut Vec<usize>) -> Vec<Field> {
        if path.contains(&at) {
            return Vec::new();
        }
        path.push(at);
        let members = self.members(at).unwrap_or_default();
        let mut fields = Vec::new();
        for (name, offset, kind) in members {
            self.fields += 1;
            if self.fields > FIELDS_MAX {
                break;
            }
            let kind = self.kind(kind, depth + 1, path);
            fields.extend(kind.map(|kind| Field { name, offset, kind }));
        }
        path.pop();
        fields
    }

    /// Name, offset and type of each field that may hold a pointer.
    fn members(&self, at: usize) -> Option<Vec<(String, u64, usize)>> {
        let (unit, abbreviations) = self.unit_of(at)?;
        let offset = gimli::DebugInfoOffset(at).to_unit_offset(unit)?;
        let mut entries = unit.entries_at_offset(abbreviations, offset).ok()?;
        entries.next_dfs().ok()??;
        let mut members = Vec::new();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.depth() < 1 || members.len() == FIELDS_MAX {
                break;
            }
            if entry.depth() > 1 || entry.tag() != gimli::DW_TAG_member {
                continue;
            }
            let offset = entry
                .attr(gimli::DW_AT_data_member_location)
                .and_then(|offset| offset.udata_value());
            let kind = entry
                .attr_value(gimli::DW_AT_type)
                .and_then(|value| offset_in(unit, &value));
            if let (Some(name), Some(offset), Some(kind)) = (self.name(entry), offset, kind) {
                members.push((name, offset, kind));
            }
        }
        members.retain(|(_, _, kind)| !self.is_number(*kind));
        Some(members)
    }

    fn is_number(&self, at: usize) -> bool {
        let entry = self.behind_names(at).and_then(|at| self.entry(at));
        entry.is_some_and(|(entry, _)| entry.tag() == gimli::DW_TAG_base_type)
    }
}

/// Of an expression that is an address.
fn address_in(expression: &[u8]) -> Option<u64> {
    let (operation, address) = expression.split_first()?;
    (*operation == OP_ADDR).then(|| Some(u64::from_le_bytes(address.try_into().ok()?)))?
}

/// In all of `.debug_info`.
fn offset_in(unit: &UnitHeader<Bytes>, value: &AttributeValue<Bytes>) -> Option<usize> {
    match value {
        AttributeValue::UnitRef(offset) => Some(offset.to_debug_info_offset(unit)?.0),
        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
        _ => None,
    }
}

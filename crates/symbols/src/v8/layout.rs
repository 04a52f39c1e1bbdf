//! Where V8's objects have their fields, as its own file says.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use object::ReadCache;
use observe::fact::open_file;

use super::elf::{number, symbols};

/// The first version with positions at a fixed place of a ScopeInfo (`scope-info.tq`).
const FIXED_POSITIONS: (i32, i32) = (12, 9);
/// From this version on Code has the address of its instructions; before, they follow it.
const INSTRUCTIONS_APART: (i32, i32) = (11, 2);
/// From this version on the order of what is not exported was not compared.
const UNKNOWN: (i32, i32) = (14, 0);
/// From this version on functions have a handle in place of a pointer to their code.
const WITH_HANDLES: (i32, i32) = (13, 0);

/// Offsets are from the beginning of the object, in bytes.
#[derive(Debug, Clone)]
pub struct Layout {
    pub frame: FrameLayout,
    pub instance_type: u64,
    pub shared_of_function: u64,
    pub shared: SharedLayout,
    pub scope: ScopeLayout,
    pub string: StringLayout,
    pub script_name: u64,
    pub script_source: u64,
    /// `None`: functions that were inlined are not known.
    pub code: Option<CodeLayout>,
}

/// From the frame pointer.
#[derive(Debug, Clone)]
pub struct FrameLayout {
    pub kind: i64,
    pub function: i64,
    pub bytecode: i64,
    /// Kinds of frames that are somebody's work, with a name for it.
    pub named: Vec<(u64, &'static str)>,
}

#[derive(Debug, Clone)]
pub struct SharedLayout {
    pub own_type: u16,
    pub script_type: u16,
    pub scope_type: u16,
    pub name: u64,
    pub script: u64,
}

/// Indices of words behind the map.
#[derive(Debug, Clone)]
pub struct ScopeLayout {
    pub locals: usize,
    pub first: usize,
    /// Start and end of the function; `None`: they follow the names.
    pub positions: Option<usize>,
}

#[derive(Debug, Clone)]
pub struct StringLayout {
    /// Types from here on are no strings.
    pub types: u16,
    pub length: u64,
    pub one_byte: u64,
    pub two_byte: u64,
    pub first: u64,
    pub second: u64,
    pub actual: u64,
    pub parent: u64,
    pub offset: u64,
}

/// What a JSFunction has of its code.
#[derive(Debug, Clone, Copy)]
pub enum CodeOf {
    Pointer(u64),
    /// The number of an entry of the dispatch table.
    Handle(u64),
}

#[derive(Debug, Clone)]
pub struct CodeLayout {
    pub of_function: CodeOf,
    pub own_type: u16,
    pub start: u64,
    /// `start` holds an address.
    pub is_apart: bool,
    pub size: u64,
    pub positions: u64,
    pub deoptimisation: u64,
    /// Indices in the deoptimisation data.
    pub inlined_count: usize,
    pub literals: usize,
    pub inlining: usize,
}

/// What V8 publishes of its objects: the numbers of a file by their names, without `v8dbg_`.
#[derive(Debug, Clone)]
pub struct Numbers(BTreeMap<String, i32>);

impl Numbers {
    /// `None`: there is no V8 in the file, or one that describes nothing.
    pub fn read(path: &Path) -> Option<Numbers> {
        const VERSION: &str = "_ZN2v88internal7Version6";
        /// Node has some 500.
        const NUMBERS_MAX: usize = 4_096;
        let cache: ReadCache<File> = ReadCache::new(open_file(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let mut numbers = BTreeMap::new();
        for symbol in symbols(&file, ".dynsym", ".dynstr") {
            let Ok(name) = str::from_utf8(symbol.name) else {
                continue;
            };
            let Some(name) = name
                .strip_prefix("v8dbg_")
                .or_else(|| name.strip_prefix(VERSION))
            else {
                continue;
            };
            if numbers.len() == NUMBERS_MAX {
                return None;
            }
            if let Some(number) = number(&file, &cache, &symbol) {
                numbers.insert(name.to_owned(), number);
            }
        }
        (!numbers.is_empty()).then_some(Numbers(numbers))
    }

    /// Without compressed pointers: small numbers are in the upper half of a word of eight bytes.
    pub fn has_whole_words(&self) -> bool {
        let sizes = [("TaggedSize", 8), ("SmiShiftSize", 31)];
        let is_it = |(name, size): &(&str, u64)| self.get(name).is_none_or(|is| is == *size);
        sizes.iter().all(is_it)
    }

    fn signed(&self, name: &str) -> Option<i64> {
        self.0.get(name).map(|number| i64::from(*number))
    }

    /// `None`: there is none of this name, or it is below zero.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0
            .get(name)
            .and_then(|number| u64::try_from(*number).ok())
    }

    /// The same, as an index.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.get(name)
            .and_then(|number| usize::try_from(number).ok())
    }

    /// The same, as a type of objects (`MAP_TYPE`).
    pub fn instance_type(&self, name: &str) -> Option<u16> {
        self.get(name).and_then(|number| u16::try_from(number).ok())
    }

    /// The offset of a field. Its type is a part of the symbol's name, and differs between versions.
    pub fn field(&self, class: &str, field: &str) -> Option<u64> {
        let start = format!("class_{class}__{field}__");
        let (name, number) = self.0.range(start.clone()..).next()?;
        name.starts_with(&start)
            .then(|| u64::try_from(*number).ok())?
    }

    /// Of V8: 11.3.
    pub fn version(&self) -> Option<(i32, i32)> {
        let part = |name: &str| self.0.get(name).copied();
        Some((part("major_E")?, part("minor_E")?))
    }
}

impl Layout {
    /// `None`: there is no V8 in the file, or one that describes itself in another way.
    pub fn read(path: &Path) -> Option<Layout> {
        Layout::of(&Numbers::read(path)?)
    }

    pub fn of(numbers: &Numbers) -> Option<Layout> {
        let version = numbers.version()?;
        if !numbers.has_whole_words() {
            return None;
        }
        let name = numbers.field("SharedFunctionInfo", "name_or_scope_info")?;
        let script = ["script_or_debug_info", "script"];
        let mut script = script
            .iter()
            .filter_map(|field| numbers.field("SharedFunctionInfo", field));
        Some(Layout {
            frame: FrameLayout::of(numbers)?,
            instance_type: numbers.field("Map", "instance_type")?,
            shared_of_function: numbers.field("JSFunction", "shared")?,
            shared: SharedLayout {
                own_type: numbers
                    .instance_type("type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE")?,
                script_type: numbers.instance_type("type_Script__SCRIPT_TYPE")?,
                scope_type: numbers.instance_type("type_ScopeInfo__SCOPE_INFO_TYPE")?,
                name,
                script: script.next()?,
            },
            scope: ScopeLayout {
                locals: numbers.index("scopeinfo_idx_ncontextlocals")?,
                first: numbers.index("scopeinfo_idx_first_vars")?,
                positions: (version >= FIXED_POSITIONS).then_some(3),
            },
            string: StringLayout::of(numbers)?,
            script_name: numbers.field("Script", "name")?,
            script_source: numbers.field("Script", "source")?,
            code: CodeLayout::of(numbers, version).filter(|_| version < UNKNOWN),
        })
    }
}

impl FrameLayout {
    fn of(numbers: &Numbers) -> Option<FrameLayout> {
        let named = [
            ("frametype_IrregexpFrame", "RegExp"),
            ("frametype_WasmFrame", "WebAssembly"),
        ];
        let named = named.iter();
        Some(FrameLayout {
            kind: numbers.signed("off_fp_context_or_frame_type")?,
            function: numbers.signed("off_fp_function")?,
            bytecode: numbers.signed("off_fp_bytecode_array")?,
            named: named
                .filter_map(|(kind, name)| Some((numbers.get(kind)?, *name)))
                .collect(),
        })
    }
}

impl StringLayout {
    fn of(numbers: &Numbers) -> Option<StringLayout> {
        Some(StringLayout {
            types: numbers.instance_type("FirstNonstringType")?,
            length: numbers.field("String", "length")?,
            one_byte: numbers.field("SeqOneByteString", "chars")?,
            two_byte: numbers.field("SeqTwoByteString", "chars")?,
            first: numbers.field("ConsString", "first")?,
            second: numbers.field("ConsString", "second")?,
            actual: numbers.field("ThinString", "actual")?,
            parent: numbers.field("SlicedString", "parent")?,
            offset: numbers.field("SlicedString", "offset")?,
        })
    }
}

impl CodeLayout {
    /// Half of it is not exported: its order is (`src/objects/code.h`).
    fn of(numbers: &Numbers, version: (i32, i32)) -> Option<CodeLayout> {
        let of_code = |field| numbers.field("Code", field);
        let shared = numbers.field("JSFunction", "shared")?;
        let has_wrapper = of_code("wrapper").is_some();
        let of_function = match numbers.field("JSFunction", "code") {
            Some(field) => CodeOf::Pointer(field),
            None if version >= WITH_HANDLES => CodeOf::Handle(shared.checked_sub(8)?),
            None if has_wrapper => CodeOf::Pointer(shared.checked_sub(8)?),
            None => CodeOf::Pointer(shared + 24),
        };
        let is_apart = version >= INSTRUCTIONS_APART;
        let positions = match (
            of_code("source_position_table"),
            of_code("instruction_size"),
        ) {
            (Some(positions), _) => positions,
            (None, _) if has_wrapper => of_code("instruction_start")?.checked_sub(24)?,
            (None, size) => size?.checked_sub(16)?,
        };
        // 11.3 has only the tables: address of the instructions, flags, the builtin's number, size.
        let start = of_code("instruction_start").unwrap_or(positions + 16);
        let size = of_code("instruction_size").unwrap_or(start + 16);
        let index = |name: &str| numbers.index(&format!("DeoptimizationData{name}Index"));
        let shared_index =
            index("SharedFunctionInfo").or_else(|| index("WrappedSharedFunctionInfo"));
        Some(CodeLayout {
            of_function,
            own_type: numbers.instance_type("type_Code__CODE_TYPE")?,
            start,
            is_apart,
            size,
            positions,
            deoptimisation: of_code("deoptimization_data").or(positions.checked_sub(8))?,
            inlined_count: index("InlinedFunctionCount").unwrap_or(1),
            literals: index("LiteralArray").unwrap_or(2),
            inlining: index("InliningPositions").unwrap_or(shared_index.unwrap_or(6) + 1),
        })
    }
}

//! Which functions of a program allocate and free, by their names in its symbol tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};

use bpf::uprobes::entry::{ARGUMENTS, TELLS, entry};
use observe::exits::text::FileText;
use observe::exits::{Exit, exits};

/// What a function does; the numbers say which argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Returns a block of so many bytes.
    Give {
        bytes: usize,
    },
    /// Of the product of both.
    GiveMany {
        count: usize,
        bytes: usize,
    },
    /// Takes a block and returns another one. `calls_on`: without a block it calls a function that is probed itself.
    Again {
        block: usize,
        bytes: usize,
        calls_on: bool,
    },
    /// Writes where the block is.
    GiveInto {
        place: usize,
        bytes: usize,
    },
    Take {
        block: usize,
    },
}

impl Role {
    /// Arguments up to the last one that is read.
    fn arguments(self) -> usize {
        let last = match self {
            Role::Give { bytes } => bytes,
            Role::GiveMany { count, bytes } => count.max(bytes),
            Role::Again { block, bytes, .. } => block.max(bytes),
            Role::GiveInto { place, bytes } => place.max(bytes),
            Role::Take { block } => block,
        };
        last + 1
    }
}

/// A function of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub role: Role,
    /// Where it is probed, in the file.
    pub file_offset: u64,
    /// A trap there needs no step of the kernel's.
    pub is_emulated: bool,
    /// Where its arguments are there, in the kernel's `pt_regs`, bytes.
    pub arguments: [i16; ARGUMENTS],
    /// Where its code lies in the process.
    pub code: Range<u64>,
    /// Where it returns, in the file; nothing of one that frees.
    pub exits: Vec<Exit>,
}

impl Function {
    pub fn gives(&self) -> bool {
        !matches!(self.role, Role::Take { .. })
    }

    pub fn frees(&self) -> bool {
        matches!(self.role, Role::Take { .. } | Role::Again { .. })
    }
}

/// Read of a function whose symbol does not say how long it is.
const TOLD_AT_LEAST: usize = 64;

/// Beginnings of names under which an allocator's functions are linked in beside the C library's.
const PREFIXES: [&str; 9] = [
    "",
    "_rjem_",
    "_rjem_je_",
    "je_",
    "mi_",
    "tc_",
    "rp",
    "sn_",
    "scalable_",
];

/// Names behind a prefix. A size in an argument is what matters; alignment is not.
const FAMILY: [(&str, Role); 32] = [
    ("malloc", Role::Give { bytes: 0 }),
    ("valloc", Role::Give { bytes: 0 }),
    ("pvalloc", Role::Give { bytes: 0 }),
    ("calloc", many(0, 1)),
    ("realloc", again(0, 1)),
    ("memalign", Role::Give { bytes: 1 }),
    ("aligned_alloc", Role::Give { bytes: 1 }),
    ("posix_memalign", Role::GiveInto { place: 0, bytes: 2 }),
    ("free", Role::Take { block: 0 }),
    ("cfree", Role::Take { block: 0 }),
    // jemalloc's own.
    ("mallocx", Role::Give { bytes: 0 }),
    ("rallocx", again(0, 1)),
    ("dallocx", Role::Take { block: 0 }),
    ("sdallocx", Role::Take { block: 0 }),
    // mimalloc's own; what others there are call these.
    ("zalloc", Role::Give { bytes: 0 }),
    ("malloc_small", Role::Give { bytes: 0 }),
    ("zalloc_small", Role::Give { bytes: 0 }),
    ("malloc_aligned", Role::Give { bytes: 0 }),
    ("zalloc_aligned", Role::Give { bytes: 0 }),
    ("realloc_aligned", again(0, 1)),
    ("free_size", Role::Take { block: 0 }),
    ("free_aligned", Role::Take { block: 0 }),
    ("free_size_aligned", Role::Take { block: 0 }),
    ("new_nothrow", Role::Give { bytes: 0 }),
    // snmalloc's for Rust.
    ("rust_alloc", Role::Give { bytes: 1 }),
    ("rust_alloc_zeroed", Role::Give { bytes: 1 }),
    ("rust_realloc", again(0, 3)),
    ("rust_dealloc", Role::Take { block: 0 }),
    // gperftools'.
    ("new", Role::Give { bytes: 0 }),
    ("newarray", Role::Give { bytes: 0 }),
    ("delete", Role::Take { block: 0 }),
    ("deletearray", Role::Take { block: 0 }),
];

/// Zig's own, which takes a slice as pointer and length.
const ZIG: [(&str, Role); 2] = [
    ("heap.SmpAllocator.alloc", Role::Give { bytes: 1 }),
    ("heap.SmpAllocator.free", Role::Take { block: 1 }),
];

/// Operators of C++, by the beginning of their names. They count beside an allocator of the program's, whose fast path
/// they may hold, and where they do not call on one of its functions.
const OPERATORS: [(&str, Role); 4] = [
    ("_Znwm", Role::Give { bytes: 0 }),
    ("_Znam", Role::Give { bytes: 0 }),
    ("_ZdlPv", Role::Take { block: 0 }),
    ("_ZdaPv", Role::Take { block: 0 }),
];

const fn many(count: usize, bytes: usize) -> Role {
    Role::GiveMany { count, bytes }
}

const fn again(block: usize, bytes: usize) -> Role {
    Role::Again {
        block,
        bytes,
        calls_on: false,
    }
}

/// Whether a function of that name is one of an allocator.
pub fn is_family(name: &str) -> bool {
    role_of(name).is_some()
}

/// The part of a function that was not inlined frees just as well: calls go past the whole one.
fn role_of_part(name: &str) -> Option<(Role, bool)> {
    let whole = name.split_once(".part.")?.0;
    role_of(whole).filter(|(role, _)| matches!(role, Role::Take { .. }))
}

/// (role, an operator)
fn role_of(name: &str) -> Option<(Role, bool)> {
    // Beside malloc itself the bare names of other allocators mean anything.
    let of_c = &FAMILY[..10];
    let family = PREFIXES.iter().find_map(|prefix| {
        let rest = name.strip_prefix(prefix)?;
        let known = if prefix.is_empty() { of_c } else { &FAMILY };
        known.iter().find(|(known, _)| *known == rest)
    });
    let bare = || FAMILY[10..14].iter().find(|(known, _)| *known == name);
    let zig = || ZIG.iter().find(|(known, _)| *known == name);
    let operator = || OPERATORS.iter().find(|(start, _)| is_operator(name, start));
    let own = family.or_else(bare).or_else(zig);
    own.map(|(_, role)| (*role, false))
        .or_else(|| operator().map(|(_, role)| (*role, true)))
}

/// `_Znwm`, and with alignment or nothrow behind it; not another function whose name goes on.
fn is_operator(name: &str, start: &str) -> bool {
    let rest = name.strip_prefix(start);
    rest.is_some_and(|rest| {
        let rest = rest.trim_start_matches("St11align_val_t");
        rest.is_empty() || rest == "m" || rest == "mSt11align_val_t" || rest == "RKSt9nothrow_t"
    })
}

/// The C library's that map memory.
const MAPPERS: [(&str, Role); 4] = [
    ("mmap", Role::Give { bytes: 1 }),
    ("mmap64", Role::Give { bytes: 1 }),
    ("__mmap", Role::Give { bytes: 1 }),
    ("mremap", again(0, 2)),
];

/// A file's functions that map memory; see [`read_functions`].
///
/// # Errors
/// As there.
pub fn read_mappers(exe: &File, base: u64) -> io::Result<Vec<Function>> {
    let role_of = |name: &str| {
        let known = MAPPERS.iter().find(|(known, _)| *known == name);
        known.map(|(_, role)| (*role, false))
    };
    read_by_names(exe, base, &role_of)
}

/// The program's functions that allocate and free; none where it has no symbols, or its allocator is a library's.
/// `base`: where it is mapped, of a program that may be anywhere.
///
/// # Errors
/// The file cannot be read as a program.
pub fn read_functions(exe: &File, base: u64) -> io::Result<Vec<Function>> {
    let role_of = |name: &str| role_of(name).or_else(|| role_of_part(name));
    let functions = read_by_names(exe, base, &role_of)?;
    let is_whole = functions.iter().any(Function::gives) && !functions.iter().all(Function::gives);
    Ok(if is_whole { functions } else { Vec::new() })
}

/// What a function of a name does, and whether it is an operator of C++.
type Roles<'a> = &'a dyn Fn(&str) -> Option<(Role, bool)>;

fn read_by_names(exe: &File, base: u64, role_of: Roles<'_>) -> io::Result<Vec<Function>> {
    let cache = ReadCache::new(exe);
    let file = object::File::parse(&cache).map_err(io::Error::other)?;
    let bias = match file.kind() {
        ObjectKind::Dynamic => base,
        _ => 0,
    };
    let named = named(&file, role_of);
    let frees = named.iter().filter(|(_, (function, _))| !function.gives());
    let frees: BTreeSet<u64> = frees.map(|(address, _)| *address).collect();
    let text = FileText::new(exe, &file, frees);
    let starts: Vec<u64> = named.keys().copied().collect();
    let has_family = named.values().any(|(_, is_operator)| !is_operator);
    let mut functions = Vec::new();
    for (mut function, is_operator) in named.into_values() {
        let calls = calls_any(&file, &function.code, &starts);
        if is_operator && (calls || !has_family) {
            continue;
        }
        if let Role::Again { calls_on, .. } = &mut function.role {
            *calls_on = calls;
        }
        let Some(file_offset) = text.offset_of(function.code.start) else {
            continue;
        };
        function.file_offset = file_offset;
        function.exits = exits_of(&text, &function);
        let bytes = (function.code.end - function.code.start) as usize;
        let mut code = vec![0; bytes.clamp(TOLD_AT_LEAST, TELLS)];
        let read = exe.read_at(&mut code, function.file_offset)?;
        let entry = entry(&code[..read], function.role.arguments());
        function.file_offset += entry.skip;
        function.is_emulated = entry.is_emulated;
        function.arguments = entry.arguments;
        function.code = function.code.start + bias..function.code.end + bias;
        functions.push(function);
    }
    Ok(functions)
}

/// In the file.
fn exits_of(text: &FileText<'_>, function: &Function) -> Vec<Exit> {
    if !function.gives() {
        return Vec::new();
    }
    let found = exits(text, function.code.start).into_iter();
    let found = found.filter_map(|exit| {
        let at = text.offset_of(exit.at)?;
        Some(Exit { at, ..exit })
    });
    found.collect()
}

/// By address, with whether it is an operator.
fn named<'a>(
    file: &object::File<'a, &'a ReadCache<&File>>,
    role_of: Roles<'_>,
) -> BTreeMap<u64, (Function, bool)> {
    let mut found = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_code = symbol.kind() == SymbolKind::Text && symbol.is_definition();
        let name = symbol.name().unwrap_or_default();
        let known = role_of(name).filter(|_| is_code);
        let Some((role, is_operator)) = known else {
            continue;
        };
        let function = Function {
            name: name.to_owned(),
            role,
            file_offset: 0,
            is_emulated: false,
            arguments: [0; ARGUMENTS],
            code: symbol.address()..symbol.address() + symbol.size().max(1),
            exits: Vec::new(),
        };
        found
            .entry(symbol.address())
            .or_insert((function, is_operator));
    }
    found
}

/// Whether a function calls, or ends in, another one of these: by direct calls and jumps, whose bytes mean something
/// else by a chance of one in 2^32 each.
fn calls_any<'a>(
    file: &object::File<'a, &'a ReadCache<&File>>,
    code: &Range<u64>,
    starts: &[u64],
) -> bool {
    const CALL: u8 = 0xe8;
    const JUMP: u8 = 0xe9;
    let holds = |section: &object::Section<'a, '_, &'a ReadCache<&File>>| {
        (section.address()..section.address() + section.size()).contains(&code.start)
    };
    let Some(section) = file.sections().find(|section| holds(section)) else {
        return false;
    };
    let bytes = section.data_range(code.start, code.end - code.start);
    let bytes = bytes.ok().flatten().unwrap_or_default();
    bytes.windows(5).enumerate().any(|(at, window)| {
        let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
        let next = code.start + at as u64 + 5;
        let target = next.wrapping_add_signed(i64::from(distance));
        matches!(window[0], CALL | JUMP)
            && target != code.start
            && starts.binary_search(&target).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_prefix_and_name() {
        let give = Role::Give { bytes: 0 };
        for name in [
            "malloc",
            "_rjem_malloc",
            "_rjem_mallocx",
            "mallocx",
            "mi_zalloc",
            "rpmalloc",
            "tc_new",
        ] {
            assert_eq!(role_of(name), Some((give, false)), "{name}");
        }
        assert_eq!(role_of("sn_rust_realloc"), Some((again(0, 3), false)));
        assert_eq!(role_of("_ZnwmSt11align_val_t"), Some((give, true)));
        let take = Some((Role::Take { block: 0 }, true));
        assert_eq!(role_of("_ZdlPvmSt11align_val_t"), take);
        for name in [
            "xmalloc",
            "new",
            "delete",
            "zalloc",
            "rust_alloc",
            "_ZnwmPv",
            "mallocx_fill",
            "heap.SmpAllocator.allocator",
        ] {
            assert_eq!(role_of(name), None, "{name}");
        }
    }
}

//! Allocators inside a program: static ones, and those that a program was linked with under
//! another name than `malloc`.

use std::fs::File;
use std::io::BufReader;

use object::{Object, ObjectSymbol};

/// Symbols looked at in one program; a large Rust or C++ service has some 300,000.
const SYMBOLS_MAX: usize = 4_000_000;

/// Names that only one allocator defines, prefixes of bindings included.
const MARKS: [(&str, &str); 16] = [
    ("mallctl", "jemalloc"),
    ("je_mallctl", "jemalloc"),
    ("_rjem_mallctl", "jemalloc"),
    ("_rjem_malloc", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("_mi_malloc_generic", "mimalloc"),
    ("sn_malloc", "snmalloc"),
    ("sn_rust_alloc", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("rpaligned_alloc", "rpmalloc"),
    ("tc_malloc", "gperftools"),
    ("TCMallocInternalMalloc", "tcmalloc"),
    ("__scudo_print_stats", "scudo"),
    ("scalable_malloc", "tbbmalloc"),
    ("__libc_malloc", "glibc"),
    ("__malloc_donate", "musl"),
];

/// What a program's symbol table tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inside {
    /// It defines these allocators; may be none (a Go program, or one that only calls malloc).
    Defines(Vec<&'static str>),
    /// The table was stripped: cannot be told.
    Stripped,
}

/// Allocators that a program defines itself, by its full symbol table (which is not needed to
/// run, so that it may be missing).
pub fn read_inside(file: &File) -> Inside {
    let Ok(file) = file.try_clone() else {
        return Inside::Stripped;
    };
    let cache = object::ReadCache::new(BufReader::new(file));
    let Ok(elf) = object::File::parse(&cache) else {
        return Inside::Stripped;
    };
    let mut found: Vec<&'static str> = Vec::new();
    let mut count = 0;
    for symbol in elf.symbols().take(SYMBOLS_MAX) {
        count += 1;
        if !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let mark = MARKS.iter().find(|(mark, _)| *mark == name);
        if let Some(&(_, family)) = mark.filter(|(_, family)| !found.contains(family)) {
            found.push(family);
        }
    }
    if count == 0 {
        Inside::Stripped
    } else {
        Inside::Defines(found)
    }
}

impl std::fmt::Display for Inside {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Inside::Stripped => out.write_str("unknown (its symbols are stripped)"),
            Inside::Defines(found) if found.is_empty() => out.write_str("none that is known"),
            Inside::Defines(found) => out.write_str(&found.join(", ")),
        }
    }
}

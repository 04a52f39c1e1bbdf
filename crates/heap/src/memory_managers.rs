//! Who manages memory in a process: allocators, and runtimes with a heap of their own.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

use super::smaps::Area;
use observe::fact::arm::is_system_libc;
use observe::fact::library::{Libraries, family_of, file_key, find_version};
use observe::fact::open_file;
use observe::fact::program::{Libc, read_program};
use observe::fact::sanitizer::{Sanitizer, by_function, by_library};
use observe::fact::sections::tables_are_within;
use symbols::debug_files::SYMBOL_TABLE_BYTES_MAX;

/// Symbols looked at in the program; a large service has some 300,000.
const SYMBOLS_MAX: usize = 4_000_000;

/// Larger programs are not searched for texts.
const SEARCHED_BYTES_MAX: u64 = 256 << 20;

/// How an allocator came into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Preloaded,
    Linked,
    Libc,
}

/// One allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator {
    /// jemalloc, mimalloc, glibc ...
    pub name: String,
    pub version: Option<String>,
    pub how: How,
    pub path: String,
    /// The program carries it under names of its own, where no library comes before it.
    pub inside_program: bool,
}

/// A runtime that manages memory above malloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Go,
    Jvm,
    Node,
    Python,
    Dotnet,
    Ruby,
    Php,
    /// Erlang's and Elixir's.
    Beam,
}

impl Runtime {
    pub fn word(self) -> &'static str {
        match self {
            Runtime::Go => "Go",
            Runtime::Jvm => "JVM",
            Runtime::Node => "Node",
            Runtime::Python => "Python",
            Runtime::Dotnet => ".NET",
            Runtime::Ruby => "Ruby",
            Runtime::Php => "PHP",
            Runtime::Beam => "BEAM",
        }
    }

    /// Whether what its objects hold is freed only when they are collected, which may be minutes later. Python and PHP
    /// count references.
    pub fn collects(self) -> bool {
        !matches!(self, Runtime::Python | Runtime::Php)
    }
}

/// What is known of a process once its libraries are mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryManagers {
    pub allocators: Vec<Allocator>,
    pub runtimes: Vec<Runtime>,
    /// No dynamic linker: no library can be put before it.
    pub is_static: bool,
    pub is_musl: bool,
    /// The dynamic linker ignores LD_PRELOAD: it gains rights at its start.
    pub gains_rights: bool,
    /// Its runtime is the allocator, in mappings of its own, beside shadow memory.
    pub sanitizer: Option<Sanitizer>,
    /// The program has no symbol table.
    pub is_stripped: bool,
}

/// Marks of an allocator inside a program: a symbol that begins so, or a text in its data.
const MARKS: [(&str, &str); 22] = [
    ("_rjem_malloc", "jemalloc"),
    ("_rjem_mallocx", "jemalloc"),
    ("_rjem_je_malloc", "jemalloc"),
    ("je_malloc", "jemalloc"),
    ("mallctl", "jemalloc"),
    ("mallocx", "jemalloc"),
    ("mi_malloc", "mimalloc"),
    ("_mi_malloc_generic", "mimalloc"),
    ("sn_malloc", "snmalloc"),
    ("sn_rust_alloc", "snmalloc"),
    ("rpmalloc", "rpmalloc"),
    ("tc_malloc", "gperftools"),
    ("TCMallocInternalMalloc", "tcmalloc"),
    ("scalable_malloc", "tbbmalloc"),
    ("__scudo_print_stats", "scudo"),
    ("heap.SmpAllocator.", "zig smp_allocator"),
    ("heap.smp_allocator", "zig smp_allocator"),
    ("heap.SmpAllocator", "zig smp_allocator"),
    ("heap.debug_allocator.", "zig DebugAllocator"),
    ("__libc_malloc", "glibc"),
    ("__malloc_donate", "musl"),
    ("__libc_malloc_impl", "musl"),
];

/// Texts that only one allocator holds, for a program without symbols.
const TEXTS: [(&[u8], &str); 5] = [
    (b"<jemalloc>: ", "jemalloc"),
    (b"MIMALLOC_", "mimalloc"),
    (b"mimalloc: ", "mimalloc"),
    (b"TCMALLOC_", "tcmalloc"),
    (b"GLIBC_TUNABLES", "glibc"),
];

/// Where to look. The process may be gone by then: its files are read by their paths then.
pub struct Subject<'a> {
    /// /proc/PID.
    pub process: &'a Path,
    /// What /proc/PID/exe pointed to.
    pub exe: &'a Path,
    /// Names in LD_PRELOAD.
    pub preloads: &'a [String],
}

/// Looks at the program and every library that is mapped.
pub fn read_managers(
    subject: &Subject<'_>,
    areas: &[Area],
    libraries: &mut Libraries,
) -> MemoryManagers {
    let mut found = MemoryManagers::default();
    read_exe(subject, &mut found);
    let mut paths: Vec<&str> = areas
        .iter()
        .filter(|area| area.executable && area.inode != 0)
        .map(|area| area.name.trim_end_matches(" (deleted)"))
        .collect();
    paths.dedup();
    for path in paths
        .into_iter()
        .filter(|path| Path::new(path) != subject.exe)
    {
        found.runtimes.extend(runtime_of(path));
        found
            .allocators
            .extend(read_library(subject, path, found.is_musl, libraries));
    }
    found
        .allocators
        .dedup_by(|a, b| a.path == b.path && a.name == b.name);
    found.runtimes.dedup();
    found
}

/// Names in LD_PRELOAD, as the process was started with it.
pub fn read_preloads(process: &Path) -> Vec<String> {
    let environment = std::fs::read(process.join("environ")).unwrap_or_default();
    let preload = environment
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(b"LD_PRELOAD="))
        .unwrap_or_default();
    let words = String::from_utf8_lossy(preload).into_owned();
    words
        .split([':', ' '])
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect()
}

fn read_library(
    subject: &Subject<'_>,
    path: &str,
    is_musl: bool,
    libraries: &mut Libraries,
) -> Option<Allocator> {
    if path.contains("libhighwater_probe") {
        return None;
    }
    let inside = subject
        .process
        .join("root")
        .join(path.trim_start_matches('/'));
    let file = open_file(&inside)
        .or_else(|_| open_file(Path::new(path)))
        .ok()?;
    let key = file_key(&file)?;
    // Who a file is costs a hash of it all: only of allocators.
    let libc = is_system_libc(path);
    // musl exports nothing that only it has.
    let name = family_of(&file).or((is_musl && libc).then_some("musl"))?;
    let identity = libraries.identity(key, &file);
    let file_name = path.rsplit('/').next().unwrap_or(path);
    let preloaded = subject
        .preloads
        .iter()
        .any(|preload| preload == path || preload.rsplit('/').next() == Some(file_name));
    let how = match () {
        () if libc => How::Libc,
        () if preloaded => How::Preloaded,
        () => How::Linked,
    };
    Some(Allocator {
        name: name.to_owned(),
        version: identity.version.clone(),
        how,
        path: path.to_owned(),
        inside_program: false,
    })
}

fn read_exe(subject: &Subject<'_>, found: &mut MemoryManagers) {
    let path = subject.exe.to_string_lossy().into_owned();
    found.runtimes.extend(runtime_of(&path));
    let link = subject.process.join("exe");
    let link = if link.exists() {
        link
    } else {
        subject.exe.to_path_buf()
    };
    if let Ok(program) = read_program(&link) {
        found.is_static = program.interpreter.is_none();
        found.is_musl = program.libc == Libc::Musl;
        found.gains_rights = program.gains_rights;
        found.sanitizer = program.needed.iter().find_map(|name| by_library(name));
    }
    let Ok(file) = open_file(&link) else { return };
    if !tables_are_within(&file, SYMBOL_TABLE_BYTES_MAX) {
        return;
    }
    let cache = object::ReadCache::new(BufReader::new(&file));
    let Ok(elf) = object::File::parse(&cache) else {
        return;
    };
    if elf.section_by_name(".go.buildinfo").is_some() || elf.section_by_name(".gopclntab").is_some()
    {
        found.runtimes.push(Runtime::Go);
    }
    let mut names = Vec::new();
    found.is_stripped = elf.symbols().next().is_none();
    for symbol in elf.symbols().chain(elf.dynamic_symbols()).take(SYMBOLS_MAX) {
        if !symbol.is_definition() {
            continue;
        }
        match symbol.name() {
            Ok("_PyRuntime") => found.runtimes.push(Runtime::Python),
            Ok(name) => {
                names.extend(mark_of(name));
                found.sanitizer = found.sanitizer.or_else(|| by_function(name));
            }
            Err(_) => {}
        }
    }
    // Up to hundreds of MB, and needed for few programs.
    let is_wanted = found.is_stripped || !names.is_empty();
    let data = match is_wanted {
        true => read_texts(&file, &elf),
        false => Vec::new(),
    };
    if found.is_stripped {
        let texts = TEXTS.iter().filter(|(text, _)| contains(&data, text));
        names.extend(texts.map(|(_, name)| *name));
    }
    add_inside(found, &path, names, &data);
}

fn add_inside(found: &mut MemoryManagers, path: &str, mut names: Vec<&'static str>, data: &[u8]) {
    names.sort_unstable();
    names.dedup();
    // A dynamic program that names glibc's tunables does not contain glibc.
    names.retain(|name| found.is_static || !matches!(*name, "glibc" | "musl"));
    for name in names {
        let libc = matches!(name, "glibc" | "musl");
        found.is_musl |= name == "musl";
        found.allocators.push(Allocator {
            name: name.to_owned(),
            version: if libc {
                None
            } else {
                find_version(data).filter(|v| v.contains(name))
            },
            how: if libc { How::Libc } else { How::Linked },
            path: path.to_owned(),
            inside_program: true,
        });
    }
}

fn mark_of(symbol: &str) -> Option<&'static str> {
    let whole = |mark: &str| {
        if mark.ends_with('.') {
            symbol.starts_with(mark)
        } else {
            symbol == mark
        }
    };
    MARKS
        .iter()
        .find(|(mark, _)| whole(mark))
        .map(|(_, name)| *name)
}

/// The read-only data of the program.
fn read_texts<'a>(file: &File, elf: &impl Object<'a>) -> Vec<u8> {
    let small = file
        .metadata()
        .is_ok_and(|data| data.len() <= SEARCHED_BYTES_MAX);
    let section = elf.section_by_name(".rodata").filter(|_| small);
    section
        .and_then(|section| section.data().ok().map(<[u8]>::to_vec))
        .unwrap_or_default()
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    let finder = regex::bytes::Regex::new(&regex::escape(&String::from_utf8_lossy(text)));
    finder.is_ok_and(|finder| finder.is_match(data))
}

fn runtime_of(path: &str) -> Option<Runtime> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        _ if name.starts_with("libjvm.so") => Some(Runtime::Jvm),
        _ if name.starts_with("libpython") => Some(Runtime::Python),
        _ if name.starts_with("libcoreclr.so") => Some(Runtime::Dotnet),
        _ if name.starts_with("libruby") || name == "ruby" => Some(Runtime::Ruby),
        "node" | "nodejs" | "libnode.so" | "deno" | "bun" => Some(Runtime::Node),
        _ if is_php(name) => Some(Runtime::Php),
        _ if name.starts_with("beam.") => Some(Runtime::Beam),
        _ => None,
    }
}

/// `php`, `php8.2`, `php-fpm8.2`, `php-cgi`, `libphp.so`.
fn is_php(name: &str) -> bool {
    let program = name.strip_prefix("php").map(|rest| {
        let rest = rest.strip_prefix("-fpm").or(rest.strip_prefix("-cgi"));
        rest.unwrap_or(&name["php".len()..])
    });
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    name.starts_with("libphp") || program.is_some_and(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_runtimes_by_name() {
        assert_eq!(mark_of("_rjem_malloc"), Some("jemalloc"));
        assert_eq!(
            mark_of("heap.SmpAllocator.alloc"),
            Some("zig smp_allocator")
        );
        assert_eq!(mark_of("je_malloc_like"), None);
        assert_eq!(
            runtime_of("/usr/lib/jvm/server/libjvm.so"),
            Some(Runtime::Jvm)
        );
        assert_eq!(runtime_of("/usr/bin/nodejs-helper"), None);
        for php in ["php", "php8.2", "php-fpm", "php-fpm8.2", "libphp.so"] {
            assert_eq!(runtime_of(php), Some(Runtime::Php), "{php}");
        }
        assert_eq!(runtime_of("phpize"), None);
        assert_eq!(
            runtime_of("/usr/lib/erlang/bin/beam.smp"),
            Some(Runtime::Beam)
        );
    }
}

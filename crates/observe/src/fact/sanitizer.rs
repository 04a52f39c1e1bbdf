//! A program that is built with a sanitizer: its runtime replaces malloc, and must be the first library of all.
//!
//! With another library preloaded, AddressSanitizer ends the program at its start ("ASan runtime does not come first
//! in initial library list"), and ThreadSanitizer dies in calls that arrive before it is ready.

use std::io::BufReader;
use std::path::Path;

use object::{Object, ObjectSymbol};

use super::open_file;

/// Symbols that are read; a large service has some 300,000.
const SYMBOLS_MAX: usize = 4_000_000;

/// A sanitizer whose runtime has a malloc of its own. UBSan has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sanitizer {
    Address,
    HwAddress,
    Thread,
    Memory,
    Leak,
}

/// The name in its library (libasan.so.8, libclang_rt.asan-x86_64.so), and the function that every program calls first,
/// which a program with the static runtime defines.
const MARKS: [(&str, &str, Sanitizer); 5] = [
    ("asan", "__asan_init", Sanitizer::Address),
    ("hwasan", "__hwasan_init", Sanitizer::HwAddress),
    ("tsan", "__tsan_init", Sanitizer::Thread),
    ("msan", "__msan_init", Sanitizer::Memory),
    ("lsan", "__lsan_init", Sanitizer::Leak),
];

impl Sanitizer {
    pub fn word(self) -> &'static str {
        match self {
            Sanitizer::Address => "AddressSanitizer",
            Sanitizer::HwAddress => "HWAddressSanitizer",
            Sanitizer::Thread => "ThreadSanitizer",
            Sanitizer::Memory => "MemorySanitizer",
            Sanitizer::Leak => "LeakSanitizer",
        }
    }

    /// The compiler's word for it.
    pub fn flag(self) -> &'static str {
        match self {
            Sanitizer::Address => "address",
            Sanitizer::HwAddress => "hwaddress",
            Sanitizer::Thread => "thread",
            Sanitizer::Memory => "memory",
            Sanitizer::Leak => "leak",
        }
    }

    /// Why nothing can be preloaded, and what to do instead.
    pub fn problem(self) -> String {
        let reports = match self {
            Sanitizer::Thread | Sanitizer::Memory => "",
            _ => {
                "it reports unreachable blocks itself when the program ends (ASAN_OPTIONS=detect_leaks=1); "
            }
        };
        format!(
            "the program is built with {}, whose runtime replaces malloc and must be loaded first: {reports}build it \
             without -fsanitize={} to explain it",
            self.word(),
            self.flag()
        )
    }
}

/// By the libraries that it needs, or by the runtime inside it. A program that cannot be read has none.
pub fn read_sanitizer(path: &Path, needed: &[String]) -> Option<Sanitizer> {
    needed.iter().find_map(|name| by_library(name)).or_else(|| {
        let file = open_file(path).ok()?;
        let cache = object::ReadCache::new(BufReader::new(&file));
        let elf = object::File::parse(&cache).ok()?;
        let symbols = elf.dynamic_symbols().chain(elf.symbols());
        let mut defined = symbols
            .take(SYMBOLS_MAX)
            .filter(|symbol| symbol.is_definition());
        defined.find_map(|symbol| by_function(symbol.name().ok()?))
    })
}

/// By the name of a library that a program needs.
pub fn by_library(name: &str) -> Option<Sanitizer> {
    let file = name.rsplit('/').next()?;
    let rest = file
        .strip_prefix("libclang_rt.")
        .or_else(|| file.strip_prefix("lib"))?;
    let word = rest.split(['.', '-', '_']).next()?;
    let found = MARKS.iter().find(|(library, ..)| *library == word);
    found.map(|(.., sanitizer)| *sanitizer)
}

/// By the name of a function that a program defines.
pub fn by_function(name: &str) -> Option<Sanitizer> {
    let found = MARKS.iter().find(|(_, function, _)| *function == name);
    found.map(|(.., sanitizer)| *sanitizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_by_library_and_by_function() {
        assert_eq!(by_library("libasan.so.8"), Some(Sanitizer::Address));
        assert_eq!(by_library("/usr/lib/libtsan.so.2"), Some(Sanitizer::Thread));
        assert_eq!(
            by_library("libclang_rt.hwasan-x86_64.so"),
            Some(Sanitizer::HwAddress)
        );
        assert_eq!(by_library("liblsan.so.0"), Some(Sanitizer::Leak));
        assert_eq!(by_library("libubsan.so.1"), None);
        assert_eq!(by_library("libasandra.so"), None);
        assert_eq!(by_function("__msan_init"), Some(Sanitizer::Memory));
        assert_eq!(by_function("__asan_init_v4"), None);
    }

    /// As clang links them: the runtime is in the program, also where its symbol table is stripped.
    #[test]
    fn a_program_with_the_runtime_inside_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        for (_, function, sanitizer) in MARKS {
            let source = folder.path().join("with.c");
            let text = format!("void {function}(void) {{}}\nint main(void) {{ return 0; }}\n");
            std::fs::write(&source, text).unwrap();
            for flags in [["-rdynamic", "-s"], ["-O1", "-g0"]] {
                let program = folder.path().join("with");
                let mut compile = std::process::Command::new("cc");
                let built = compile
                    .args(flags)
                    .arg(&source)
                    .arg("-o")
                    .arg(&program)
                    .status();
                if !built.is_ok_and(|status| status.success()) {
                    return testkit::skipped("no C compiler");
                }
                assert_eq!(read_sanitizer(&program, &[]), Some(sanitizer), "{function}");
            }
        }
    }
}

//! Names of variables, from the symbol tables of the files that they lie in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use crate::pages::PAGE_BYTES;
use observe::foreign::path_of;
use symbols::demangle::demangled;
use symbols::separate::{self, Reach};

/// Files whose tables are kept, and names of one.
const FILES_MAX: usize = 256;
const NAMES_MAX: usize = 1 << 18;

/// Variables of one file: (address in the file, bytes, symbol), ordered.
#[derive(Debug, Default)]
struct Variables {
    /// Address of the file's first byte, as the file has it.
    base: u64,
    /// The first address behind all of it, zero-initialised data included.
    end: u64,
    known: Vec<(u64, u64, String)>,
}

/// What lies at an address of a file's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    Variable(String),
    /// Its symbols are stripped, or tell of none there.
    Nothing,
    /// The file's memory ends before it.
    Behind,
}

/// Read once for each file.
#[derive(Debug, Default)]
pub struct DataSymbols {
    files: BTreeMap<String, Option<Variables>>,
}

impl DataSymbols {
    /// What is at an address. `base`: where the file's first byte is mapped.
    /// `open`: the file, if it is the one that is mapped.
    pub fn name(
        &mut self,
        path: &str,
        open: impl FnOnce() -> Option<File>,
        base: u64,
        address: u64,
    ) -> Option<Named> {
        if !self.files.contains_key(path) {
            if self.files.len() >= FILES_MAX {
                return None;
            }
            let read = open().and_then(|file| variables(&file));
            self.files.insert(path.to_owned(), read);
        }
        let variables = self.files.get(path)?.as_ref()?;
        let at = address.wrapping_sub(base).wrapping_add(variables.base);
        if at >= variables.end {
            return Some(Named::Behind);
        }
        let after = variables.known.partition_point(|(start, ..)| *start <= at);
        let before = after
            .checked_sub(1)
            .and_then(|index| variables.known.get(index));
        let holds = before.filter(|(start, bytes, _)| at - start < *bytes);
        Some(holds.map_or(Named::Nothing, |(_, _, symbol)| {
            Named::Variable(demangled(symbol).into_owned())
        }))
    }
}

fn variables(file: &File) -> Option<Variables> {
    let cache = ReadCache::new(BufReader::new(file));
    let elf = object::File::parse(&cache).ok()?;
    let first = elf.segments().min_by_key(|segment| segment.address())?;
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let mut known = named(all);
    known.extend(separate_names(file).unwrap_or_default());
    known.sort_unstable();
    known.dedup_by(|a, b| a.0 == b.0);
    let ends = elf
        .segments()
        .map(|segment| segment.address().saturating_add(segment.size()));
    Some(Variables {
        end: ends.max().unwrap_or(0).next_multiple_of(PAGE_BYTES),
        base: first.address().saturating_sub(first.file_range().0),
        known,
    })
}

/// Of a file that was stripped they are elsewhere, at the same addresses.
fn separate_names(file: &File) -> Option<Vec<(u64, u64, String)>> {
    let separate = separate::find(&path_of(file), Reach::Servers)?;
    let cache = ReadCache::new(BufReader::new(separate.file()));
    let elf = object::File::parse(&cache).ok()?;
    Some(named(elf.symbols()))
}

/// Variables: address, bytes, symbol.
fn named<'a>(symbols: impl Iterator<Item = impl ObjectSymbol<'a>>) -> Vec<(u64, u64, String)> {
    let is_variable = |kind| matches!(kind, SymbolKind::Data | SymbolKind::Unknown);
    symbols
        .filter(|symbol| is_variable(symbol.kind()) && symbol.is_definition() && symbol.size() > 0)
        .take(NAMES_MAX)
        .filter_map(|symbol| {
            let name = symbol.name().ok()?.to_owned();
            Some((symbol.address(), symbol.size(), name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// The address of a variable by the whole program's symbols.
    fn address_of(path: &Path, name: &str) -> u64 {
        let bytes = std::fs::read(path).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        let symbol = elf.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.unwrap().address()
    }

    #[test]
    fn a_variable_of_a_stripped_program_has_its_name_from_the_debug_file() {
        let folder = tempfile::tempdir().unwrap();
        let tool = |program: &str, words: &[&str]| {
            let done = Command::new(program)
                .args(words)
                .current_dir(folder.path())
                .output();
            done.is_ok_and(|done| done.status.success())
        };
        let source =
            "long open_sessions[64]; int main(int c, char **v) { return open_sessions[c] = c; }";
        std::fs::write(folder.path().join("server.c"), source).unwrap();
        let is_built = tool(
            "gcc",
            &["-g", "-Wl,--build-id=sha1", "-o", "whole", "server.c"],
        ) && tool("objcopy", &["--only-keep-debug", "whole", "server.debug"])
            && tool(
                "objcopy",
                &[
                    "--strip-all",
                    "--add-gnu-debuglink=server.debug",
                    "whole",
                    "server",
                ],
            )
            && tool("objcopy", &["--strip-all", "whole", "bare"]);
        if !is_built {
            return testkit::skipped("no gcc or objcopy");
        }
        let at = address_of(&folder.path().join("whole"), "open_sessions") + 8;
        let name = |file: &str| {
            let path = folder.path().join(file);
            let open = || File::open(&path).ok();
            DataSymbols::default().name(file, open, 0, at)
        };
        assert_eq!(
            name("server"),
            Some(Named::Variable("open_sessions".to_owned()))
        );
        assert_eq!(name("server"), name("whole"));
        assert_eq!(name("bare"), Some(Named::Nothing));
    }
}

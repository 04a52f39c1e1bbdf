//! The functions of a file by its symbols alone: of the C library, and of files whose debug information may not be
//! read.
//!
//! The C library is on every stack, and its lines explain nothing: unpacking its debug information (4 MB packed, where
//! a machine has it) takes 40 ms of a CPU, half of a watch's start.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use blazesym::symbolize::{
    FindSymOpts, ProcessMemberPath, Reason, ResolvedSym, SrcLang, Symbolize, TranslateFileOffset,
};
use blazesym::{Mmap, Result};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use observe::foreign::{self, open_file_within};
use symbols::debug_files::{Readable, SYMBOLISED_BYTES_MAX, readable};
use symbols::separate::{Reach, find};

#[derive(Debug, Default)]
pub struct SymbolTable {
    path: PathBuf,
    /// By address; none lies within another.
    functions: Vec<Function>,
    segments: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    bytes: u64,
    name: String,
}

#[derive(Debug)]
struct Segment {
    /// In the file.
    start: u64,
    bytes: u64,
    /// As the file's symbols count.
    address: u64,
}

impl SymbolTable {
    /// # Errors
    /// The file cannot be opened, or is no library.
    pub fn read(member: &ProcessMemberPath) -> io::Result<SymbolTable> {
        let bytes = mapped(&member.maps_file).or_else(|_| mapped(&member.symbolic_path))?;
        let library = object::File::parse(&*bytes).map_err(io::Error::other)?;
        let mut functions = functions(&library);
        let separate = find(path_of(member), Reach::Servers);
        if let Some(separate) = separate {
            let taken = mapped(&separate.path())?;
            let taken = object::File::parse(&*taken).map_err(io::Error::other)?;
            functions.extend(self::functions(&taken));
        }
        let segments = library.segments().map(|segment| Segment {
            start: segment.file_range().0,
            bytes: segment.file_range().1,
            address: segment.address(),
        });
        Ok(SymbolTable {
            path: member.symbolic_path.clone(),
            functions: sorted(functions),
            segments: segments.collect(),
        })
    }

    fn at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|f| f.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        (address - function.start < function.bytes).then_some(function)
    }
}

/// The file's own name where it leads to the same file, so that what is found for it serves all processes; else the
/// mapping itself, which leads to the file wherever the process has its root, and needs privileges.
fn path_of(member: &ProcessMemberPath) -> &Path {
    let id = |path: &Path| {
        std::fs::metadata(path)
            .ok()
            .map(|file| (file.dev(), file.ino()))
    };
    match (id(&member.maps_file), id(&member.symbolic_path)) {
        (Some(mapped), named) if named != Some(mapped) => &member.maps_file,
        _ => &member.symbolic_path,
    }
}

/// Whether its symbols lie where the usual reader does not find them: that follows a link, and nothing else.
pub fn is_stripped(member: &ProcessMemberPath) -> bool {
    find(path_of(member), Reach::Servers).is_some_and(|found| !found.is_linked)
}

/// Ten thousand names are strewn over it: a read for each takes longer than all else here.
fn mapped(path: &Path) -> io::Result<Mmap> {
    if readable(path) == Readable::Nothing {
        return Err(io::Error::other("it may not be read"));
    }
    let file = open_file_within(path, SYMBOLISED_BYTES_MAX)?;
    let mapped = Mmap::builder().open(foreign::path_of(&file));
    mapped.map_err(io::Error::other)
}

fn functions(file: &object::File<'_>) -> Vec<Function> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let code = symbols.filter(|s| s.kind() == SymbolKind::Text && s.address() != 0 && s.size() > 0);
    let named = code.filter_map(|symbol| {
        Some(Function {
            start: symbol.address(),
            bytes: symbol.size(),
            name: symbol.name().ok()?.to_owned(),
        })
    });
    named.collect()
}

/// One for each address: of `free`, `__free` and `__libc_free` that which a program calls.
fn sorted(mut functions: Vec<Function>) -> Vec<Function> {
    let hidden = |name: &str| name.len() - name.trim_start_matches('_').len();
    functions.sort_by(|a, b| {
        let key = |f: &Function| (f.start, hidden(&f.name), f.name.len());
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    functions.dedup_by_key(|function| function.start);
    functions
}

impl Symbolize for SymbolTable {
    fn find_sym(
        &self,
        address: u64,
        _: &FindSymOpts,
    ) -> Result<std::result::Result<ResolvedSym<'_>, Reason>> {
        let Some(function) = self.at(address) else {
            return Ok(Err(Reason::UnknownAddr));
        };
        Ok(Ok(ResolvedSym {
            name: &function.name,
            module: Some(OsStr::new(&self.path)),
            addr: function.start,
            size: usize::try_from(function.bytes).ok(),
            lang: SrcLang::Unknown,
            code_info: None,
            inlined: Box::default(),
            _non_exhaustive: (),
        }))
    }
}

impl TranslateFileOffset for SymbolTable {
    fn file_offset_to_virt_offset(&self, offset: u64) -> Result<Option<u64>> {
        let holds = |s: &&Segment| (s.start..s.start + s.bytes).contains(&offset);
        let segment = self.segments.iter().find(holds);
        Ok(segment.map(|segment| offset - segment.start + segment.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u64, bytes: u64, name: &str) -> Function {
        Function {
            start,
            bytes,
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_function_goes_by_the_name_that_programs_call_it_by() {
        let all = [
            function(64, 16, "__libc_free"),
            function(64, 16, "free"),
            function(64, 16, "__free"),
            function(64, 16, "cfree"),
            function(16, 32, "start_thread"),
        ];
        let kept = [function(16, 32, "start_thread"), function(64, 16, "free")];
        assert_eq!(sorted(all.into()), kept);
    }

    #[test]
    fn between_two_functions_is_neither() {
        let library = SymbolTable {
            path: PathBuf::new(),
            functions: vec![function(16, 32, "start_thread"), function(64, 16, "free")],
            segments: Vec::new(),
        };
        let name = |at| library.at(at).map(|f| f.name.as_str());
        let names = [15, 16, 47, 48, 64, 79, 80].map(name);
        let (one, other) = (Some("start_thread"), Some("free"));
        assert_eq!(names, [None, one, one, None, other, other, None]);
    }
}

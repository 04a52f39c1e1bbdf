//! The program file of a process: is it a Go program, of which version, and where are its variables.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use observe::fact::memory::{FileMemory, Memory};
use observe::fact::sections::{Section, read_sections, tables_are_within};

use super::words::{find_pclntab, u32_at, u64_at};

const SYMBOL_BYTES: usize = 24;
/// Largest symbol or name table that is read. A Kubernetes server's are about 10 MB.
const TABLE_BYTES_MAX: u64 = 64 << 20;
const AT_ENTRY: u64 = 9;
const VERSION_BYTES_MAX: u64 = 256;

/// Variables of the runtime that are read, as the symbol table names them.
const VARIABLES: [&str; 12] = [
    "runtime.MemProfileRate",
    "runtime.allglen",
    "runtime.allgptr",
    "runtime.buildVersion",
    "runtime.disableMemoryProfiling",
    "runtime.firstmoduledata",
    "runtime.gcController",
    "runtime.mProfCycle",
    "runtime.mbuckets",
    "runtime.memstats",
    "runtime.pclntab",
    "runtime.waitReasonStrings",
];

pub struct Binary {
    pub path: String,
    pub file: FileMemory,
    /// What is added to an address of the file; 0 unless it is position-independent.
    pub bias: u64,
    pub sections: Vec<Section>,
    /// (address with the bias, bytes); empty when the program is stripped.
    variables: HashMap<&'static str, (u64, u64)>,
    /// As in the build information: `go1.26.8`.
    pub version: Option<String>,
}

impl Binary {
    /// The program of a process; `Ok(None)` when it is not one that Go built.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub fn open(pid: u32) -> io::Result<Option<Binary>> {
        let link = format!("/proc/{pid}/exe");
        let file = File::open(&link)?;
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let path = std::fs::read_link(&link)?.to_string_lossy().into_owned();
        let Some((sections, entry)) = read_sections(&file) else {
            return Ok(None);
        };
        if !sections.iter().any(|section| is_of_go(&section.name)) {
            return Ok(None);
        }
        let auxv = std::fs::read(format!("/proc/{pid}/auxv"))?;
        let bias = parse_entry(&auxv).map_or(0, |running| running.wrapping_sub(entry));
        let variables = read_variables(&file, &sections, bias).unwrap_or_default();
        let Ok(file) = FileMemory::open(file) else {
            return Ok(None);
        };
        let info = sections.iter().find(|one| one.name == ".go.buildinfo");
        Ok(Some(Binary {
            path: path.trim_end_matches(" (deleted)").to_owned(),
            version: info.and_then(|info| read_version(&file, info.address)),
            file,
            bias,
            sections,
            variables,
        }))
    }

    /// The file, where its symbol tables are small enough for the object crate, which reads them whole.
    pub fn readable(&self) -> Option<File> {
        let file = self.file.file();
        tables_are_within(file, TABLE_BYTES_MAX).then(|| file.try_clone().ok())?
    }

    /// Where a variable is in the process.
    pub fn variable(&self, name: &str) -> Option<u64> {
        Some(self.variables.get(name)?.0)
    }

    /// Where it is, and its size.
    pub fn sized(&self, name: &str) -> Option<(u64, u64)> {
        self.variables.get(name).copied()
    }

    /// Where the table of functions is in the process: in a section of its own, unless the C linker has put it among
    /// the data of a position-independent program.
    pub fn pclntab(&self) -> Option<u64> {
        let of = |name: &str| {
            let mut sections = self.sections.iter();
            let section = sections.find(|section| section.name.ends_with(name))?;
            let start = section.address.wrapping_add(self.bias);
            Some(start..start.saturating_add(section.bytes.min(TABLE_BYTES_MAX)))
        };
        let named = of(".gopclntab").map(|section| section.start);
        let named = named.or_else(|| self.variable("runtime.pclntab"));
        named.or_else(|| find_pclntab(&Mapped(self), of(".data.rel.ro")?))
    }

    /// Offset in the file of a running address; the address itself where no segment holds it.
    pub fn offset(&self, address: u64) -> u64 {
        let at = address.wrapping_sub(self.bias);
        let mut segments = self.file.headers.iter();
        let holds = segments.find(|one| {
            one.kind == observe::fact::memory::PT_LOAD
                && at
                    .checked_sub(one.address)
                    .is_some_and(|within| within < one.file_bytes)
        });
        holds.map_or(address, |one| at - one.address + one.offset)
    }
}

/// The file at the addresses of the process. Its read-only parts are read from here and not from the process: reading
/// there would make pages resident that the program itself never touches.
pub struct Mapped<'a>(pub &'a Binary);

impl Memory for Mapped<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        self.0.file.read(address.checked_sub(self.0.bias)?, out)
    }
}

fn is_of_go(section: &str) -> bool {
    section == ".go.buildinfo" || section.ends_with(".gopclntab")
}

fn read_variables(
    file: &File,
    sections: &[Section],
    bias: u64,
) -> Option<HashMap<&'static str, (u64, u64)>> {
    let symbols = sections.iter().find(|section| section.is_symbol_table())?;
    let names = sections
        .get(symbols.link as usize)?
        .read(file, TABLE_BYTES_MAX)?;
    let table = symbols.read(file, TABLE_BYTES_MAX)?;
    let parse = |entry: &[u8]| {
        let name = bytes_at(&names, u32_at(entry, 0)?)?;
        let variable = VARIABLES.iter().find(|one| one.as_bytes() == name)?;
        let address = u64_at(entry, 8)?.wrapping_add(bias);
        Some((*variable, (address, u64_at(entry, 16)?)))
    };
    // Kind 1 is an object: two symbols in three are functions, whose names are not compared.
    let objects = table
        .chunks_exact(SYMBOL_BYTES)
        .filter(|entry| entry[4] & 15 == 1);
    Some(objects.filter_map(parse).collect())
}

/// The version in the build information: a header of 32 bytes, then its length and its text.
fn read_version(file: &FileMemory, address: u64) -> Option<String> {
    const INLINE: u8 = 2;
    let mut header = [0; 33];
    file.read(address, &mut header)?;
    let length = header[32];
    // Up to 127 bytes, the length is one byte.
    if !header.starts_with(b"\xff Go buildinf:") || header[15] & INLINE == 0 || length > 127 {
        return None;
    }
    read_text(file, address + 33, u64::from(length))
}

/// A text of the runtime's whose length is known; `None` when it is too long for a version or not text.
pub fn read_text(memory: &dyn Memory, address: u64, length: u64) -> Option<String> {
    let bytes = memory.bytes(address, length, VERSION_BYTES_MAX)?;
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// Where the program was entered: an address of the process.
fn parse_entry(auxv: &[u8]) -> Option<u64> {
    let mut entries = auxv.chunks_exact(16);
    let entry = entries.find(|entry| u64_at(entry, 0) == Some(AT_ENTRY))?;
    u64_at(entry, 8)
}

fn bytes_at(names: &[u8], at: u32) -> Option<&[u8]> {
    let rest = names.get(at as usize..)?;
    Some(&rest[..rest.iter().position(|&byte| byte == 0)?])
}

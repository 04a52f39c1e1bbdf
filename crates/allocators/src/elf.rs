//! What a library's file says of itself before anybody loads it: machine, libc, exports, build id.

use std::fmt;

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, FileHeader, VersionIndex};
use object::{Endianness, Object, ObjectKind, ObjectSymbol, elf};

/// The part of an ELF file that decides whether it can be preloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    /// `e_machine`.
    pub machine: u16,
    /// The C library it was linked against, if it names one.
    pub libc: Libc,
    /// GNU build id in hex.
    pub build_id: Option<String>,
    /// `DT_NEEDED` in order.
    pub needed: Vec<String>,
    /// The program interpreter (`PT_INTERP`); programs have one, libraries do not.
    pub interpreter: Option<String>,
    /// Defined dynamic function and object names, sorted.
    pub exports: Vec<String>,
    /// The newest `GLIBC_x.y` it asks for.
    pub glibc_needed: Option<(u32, u32)>,
    /// It is a shared object (also a position-independent program).
    pub shared: bool,
}

/// A family of C libraries. A library of one cannot enter a process of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    Glibc,
    Musl,
    /// It links against none: it fits either.
    None,
}

impl fmt::Display for Libc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Libc::Glibc => "glibc",
            Libc::Musl => "musl",
            Libc::None => "no libc",
        })
    }
}

/// Reads an ELF file's headers and dynamic tables.
///
/// # Errors
/// Bytes that are not a 64-bit ELF file, or a damaged one.
pub fn parse_elf(bytes: &[u8]) -> Result<Elf> {
    if bytes.len() < 5 || bytes[..4] != elf::ELFMAG {
        bail!("is not an ELF file (it has {} bytes)", bytes.len());
    }
    if bytes[4] != elf::ELFCLASS64 {
        bail!("is a 32-bit library; highwater's subjects are 64-bit programs");
    }
    let file = ElfFile64::<Endianness>::parse(bytes).context("is a damaged ELF file")?;
    let needed = parse_needed(&file)?;
    let interpreter = parse_interpreter(&file)?;
    Ok(Elf {
        machine: file.elf_header().e_machine(file.endian()),
        libc: libc_of(&needed, interpreter.as_deref()),
        build_id: file.build_id().ok().flatten().map(hex),
        glibc_needed: parse_glibc_needed(&file),
        exports: parse_exports(&file),
        shared: file.kind() == ObjectKind::Dynamic,
        needed,
        interpreter,
    })
}

fn parse_needed(file: &ElfFile64<'_, Endianness>) -> Result<Vec<String>> {
    // A static program has no dynamic table at all.
    let Ok(table) = file.elf_dynamic_table() else {
        return Ok(Vec::new());
    };
    let mut needed = Vec::new();
    for entry in table.iter() {
        if entry.tag == elf::DT_NEEDED {
            let name = table.string(entry).context("has a damaged dynamic table")?;
            needed.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(needed)
}

fn parse_interpreter(file: &ElfFile64<'_, Endianness>) -> Result<Option<String>> {
    use object::read::elf::ProgramHeader;
    for segment in file.elf_program_headers() {
        let found = segment.interpreter(file.endian(), file.data());
        if let Some(path) = found.context("has a damaged program header")? {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

/// musl's library is called `libc.musl-ARCH.so.1`, or plainly `libc.so` when its compiler wrapper
/// linked it.
fn libc_of(needed: &[String], interpreter: Option<&str>) -> Libc {
    let musl = |name: &str| name.contains("musl") || name == "libc.so";
    if interpreter.is_some_and(|i| i.contains("ld-musl")) || needed.iter().any(|n| musl(n)) {
        Libc::Musl
    } else if needed
        .iter()
        .any(|n| n == "libc.so.6" || n.starts_with("ld-linux"))
    {
        Libc::Glibc
    } else {
        Libc::None
    }
}

fn parse_exports(file: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let mut exports: Vec<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect();
    exports.sort_unstable();
    exports.dedup();
    exports
}

fn parse_glibc_needed(file: &ElfFile64<'_, Endianness>) -> Option<(u32, u32)> {
    let sections = file.elf_section_table();
    let versions = sections
        .versions(file.endian(), file.data())
        .ok()
        .flatten()?;
    let mut newest = None;
    // Version indexes are dense from 2; the table ends the walk by an error.
    for index in 2..=elf::VERSYM_VERSION {
        let Ok(version) = versions.version(VersionIndex(index)) else {
            break;
        };
        let Some(version) = version else { continue };
        let name = String::from_utf8_lossy(version.name());
        newest = newest.max(name.strip_prefix("GLIBC_").and_then(parse_major_minor));
    }
    newest
}

/// `2.36` to (2, 36).
pub(super) fn parse_major_minor(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The architecture as the kernel names it.
pub fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_X86_64 => "x86_64".to_owned(),
        elf::EM_AARCH64 => "aarch64".to_owned(),
        elf::EM_386 => "i386".to_owned(),
        elf::EM_ARM => "arm".to_owned(),
        elf::EM_RISCV => "riscv".to_owned(),
        elf::EM_PPC64 => "ppc64".to_owned(),
        elf::EM_S390 => "s390".to_owned(),
        other => format!("machine {other}"),
    }
}

/// Why `library` cannot be preloaded into `program`, in words; `None` when nothing speaks against
/// it.
///
/// A musl library stops a glibc program from starting; one of another architecture is silently left
/// out by the loader; a static program has no loader that could preload anything.
pub fn misfit(library: &Elf, program: &Elf) -> Option<String> {
    if library.machine != program.machine {
        let (has, wants) = (machine_name(library.machine), machine_name(program.machine));
        return Some(format!("is built for {has}, and the program for {wants}"));
    }
    if program.interpreter.is_none() {
        return Some(
            "cannot enter a static program: it has no loader to preload anything".to_owned(),
        );
    }
    if library.libc != Libc::None && library.libc != program.libc {
        return Some(format!(
            "is linked against {}, and the program runs on {}: it would not start",
            library.libc, program.libc
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_program_is_read() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let elf = parse_elf(&bytes).unwrap();
        assert_eq!(machine_name(elf.machine), std::env::consts::ARCH);
        assert!(elf.shared);
    }

    #[test]
    fn what_is_no_elf_is_said() {
        for (bytes, words) in [
            (&b""[..], "not an ELF"),
            (b"#!/bin/sh\n", "not an ELF"),
            (b"\x7fELF\x01\x01\x01\0\0\0\0", "32-bit"),
            (b"\x7fELF\x02\x01\x01\0\0\0\0", "damaged"),
        ] {
            let error = parse_elf(bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    fn elf(machine: u16, libc: Libc, interpreter: Option<&str>) -> Elf {
        Elf {
            machine,
            libc,
            build_id: None,
            needed: Vec::new(),
            interpreter: interpreter.map(str::to_owned),
            exports: Vec::new(),
            glibc_needed: None,
            shared: true,
        }
    }

    #[test]
    fn misfits_are_named() {
        let program = elf(
            elf::EM_X86_64,
            Libc::Glibc,
            Some("/lib64/ld-linux-x86-64.so.2"),
        );
        let library = |machine, libc| elf(machine, libc, None);
        let why = |l: &Elf, p: &Elf| misfit(l, p).unwrap_or_default();
        assert_eq!(
            misfit(&library(elf::EM_X86_64, Libc::Glibc), &program),
            None
        );
        assert_eq!(misfit(&library(elf::EM_X86_64, Libc::None), &program), None);
        assert!(
            why(&library(elf::EM_AARCH64, Libc::Glibc), &program).contains("built for aarch64")
        );
        assert!(why(&library(elf::EM_X86_64, Libc::Musl), &program).contains("against musl"));
        let fixed = elf(elf::EM_X86_64, Libc::None, None);
        assert!(why(&library(elf::EM_X86_64, Libc::Glibc), &fixed).contains("static program"));
    }

    #[test]
    fn libc_is_told_from_needed_and_interpreter() {
        let needed = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            libc_of(&needed(&["libm.so.6", "libc.so.6"]), None),
            Libc::Glibc
        );
        assert_eq!(
            libc_of(&needed(&["libc.musl-x86_64.so.1"]), None),
            Libc::Musl
        );
        assert_eq!(libc_of(&needed(&["libc.so"]), None), Libc::Musl);
        assert_eq!(libc_of(&[], Some("/lib/ld-musl-aarch64.so.1")), Libc::Musl);
        assert_eq!(libc_of(&[], None), Libc::None);
    }
}

//! Bytes at addresses: of a running process, or of a file as it would be mapped.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::proc::pagemap::{PageState, Pagemap};

/// Longest name that is read out of a foreign memory.
const NAME_BYTES_MAX: usize = 4096;

/// Program headers looked at; real files have about 15.
const HEADERS_MAX: u16 = 128;

/// Something with addresses. Reads never panic and are bounded by their buffer; what is not
/// there is `None`.
pub trait Memory {
    /// Fills `out` from `address` on, or says that it cannot.
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()>;

    /// Whether the page of an address is in RAM now, so that reading it changes nothing in the process. `false` where
    /// that cannot be told.
    fn is_present(&self, _address: u64) -> bool {
        false
    }

    fn u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    fn u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// `length` bytes, when they are no more than `most`.
    fn bytes(&self, address: u64, length: u64, most: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(length.min(most.saturating_add(1))).ok()?];
        if length > most {
            return None;
        }
        self.read(address, &mut bytes)?;
        Some(bytes)
    }

    /// A name up to its zero byte; cut at 4096 bytes.
    fn name(&self, address: u64) -> Option<String> {
        let mut name = Vec::new();
        while name.len() < NAME_BYTES_MAX {
            let at = address.checked_add(name.len() as u64)?;
            // Up to a boundary of 64 bytes at a time: never over the end of a mapped page.
            let mut chunk = [0; 64];
            let chunk = &mut chunk[..64 - (at % 64) as usize];
            self.read(at, chunk)?;
            match chunk.iter().position(|&byte| byte == 0) {
                Some(end) => {
                    name.extend_from_slice(&chunk[..end]);
                    return Some(String::from_utf8_lossy(&name).into_owned());
                }
                None => name.extend_from_slice(chunk),
            }
        }
        Some(String::from_utf8_lossy(&name).into_owned())
    }
}

/// Bytes of a test, from an address on.
#[derive(Default)]
pub struct Made {
    pub at: u64,
    pub bytes: Vec<u8>,
}

impl Memory for Made {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let at = usize::try_from(address.checked_sub(self.at)?).ok()?;
        out.copy_from_slice(self.bytes.get(at..at.checked_add(out.len())?)?);
        Some(())
    }
}

/// `/proc/PID/mem`. The kernel asks for the same right as for `process_vm_readv` (that of a
/// debugger), but this one is not among the system calls that container runtimes filter, and it
/// needs no unsafe code.
#[derive(Debug)]
pub struct ProcessMemory {
    mem: File,
    pagemap: Option<Pagemap>,
}

impl ProcessMemory {
    pub fn new(mem: OwnedFd) -> ProcessMemory {
        ProcessMemory {
            mem: File::from(mem),
            pagemap: None,
        }
    }

    /// With the process's `/proc/PID/pagemap`, which tells what is present.
    pub fn with_pagemap(self, pagemap: Option<Pagemap>) -> ProcessMemory {
        ProcessMemory { pagemap, ..self }
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        // Offsets are signed: addresses above i64::MAX (vsyscall) are never wanted here.
        if address > i64::MAX as u64 {
            return None;
        }
        self.mem.read_exact_at(out, address).ok()
    }

    fn is_present(&self, address: u64) -> bool {
        let mut state = [PageState::Absent];
        let read = |map: &Pagemap| map.states(address, &mut state);
        self.pagemap.as_ref().and_then(read).is_some() && state == [PageState::Present]
    }
}

/// One program header of an ELF file, 64 bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramHeader {
    pub kind: u32,
    pub offset: u64,
    pub address: u64,
    pub file_bytes: u64,
    pub memory_bytes: u64,
}

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;
pub const PT_INTERP: u32 = 3;
pub const PT_PHDR: u32 = 6;
const PROGRAM_HEADER_BYTES: usize = 56;

/// A table of program headers; what is cut off is left out.
pub fn parse_program_headers(bytes: &[u8]) -> Vec<ProgramHeader> {
    let header = |entry: &[u8]| ProgramHeader {
        kind: u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]),
        offset: word(entry, 8),
        address: word(entry, 16),
        file_bytes: word(entry, 32),
        memory_bytes: word(entry, 40),
    };
    bytes
        .chunks_exact(PROGRAM_HEADER_BYTES)
        .map(header)
        .collect()
}

/// Reads the program headers that a running process was started with.
pub fn read_program_headers(
    memory: &dyn Memory,
    address: u64,
    count: u64,
) -> Option<Vec<ProgramHeader>> {
    let most = u64::from(HEADERS_MAX) * PROGRAM_HEADER_BYTES as u64;
    let length = count.checked_mul(PROGRAM_HEADER_BYTES as u64)?;
    Some(parse_program_headers(&memory.bytes(address, length, most)?))
}

/// A little-endian word inside a slice that is known to be long enough.
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The first 64 bytes of an ELF file, as far as they are of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfHeader {
    pub machine: u16,
    pub headers_offset: u64,
    pub headers: u16,
}

/// `Err` says in words why it is not a 64-bit little-endian ELF file.
pub fn parse_elf_header(bytes: &[u8]) -> Result<ElfHeader, &'static str> {
    let header = bytes
        .get(..64)
        .filter(|header| header.starts_with(b"\x7fELF"));
    let header = header.ok_or("it is not an ELF file")?;
    if header[4] != 2 || header[5] != 1 {
        return Err("it is not a 64-bit little-endian ELF file");
    }
    if u16::from_le_bytes([header[54], header[55]]) as usize != PROGRAM_HEADER_BYTES {
        return Err("its program headers have an unknown size");
    }
    Ok(ElfHeader {
        machine: u16::from_le_bytes([header[18], header[19]]),
        headers_offset: word(header, 32),
        headers: u16::from_le_bytes([header[56], header[57]]).min(HEADERS_MAX),
    })
}

/// An ELF file, read at the addresses at which it would be mapped (before the load bias).
#[derive(Debug)]
pub struct FileMemory {
    file: File,
    pub elf: ElfHeader,
    pub headers: Vec<ProgramHeader>,
}

impl FileMemory {
    /// `Err` says in words why the file is no use.
    pub fn open(file: File) -> Result<FileMemory, String> {
        let mut start = [0; 64];
        file.read_exact_at(&mut start, 0)
            .map_err(|_| "it is too short for an ELF file")?;
        let elf = parse_elf_header(&start)?;
        let mut table = vec![0; usize::from(elf.headers) * PROGRAM_HEADER_BYTES];
        file.read_exact_at(&mut table, elf.headers_offset)
            .map_err(|_| "its program headers lie outside the file")?;
        Ok(FileMemory {
            file,
            elf,
            headers: parse_program_headers(&table),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn header(&self, kind: u32) -> Option<ProgramHeader> {
        self.headers
            .iter()
            .copied()
            .find(|header| header.kind == kind)
    }
}

impl Memory for FileMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let segment = self.headers.iter().find(|header| {
            header.kind == PT_LOAD
                && address >= header.address
                && address - header.address < header.file_bytes
        })?;
        let offset = segment.offset.checked_add(address - segment.address)?;
        self.file.read_exact_at(out, offset).ok()
    }
}

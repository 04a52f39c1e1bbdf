//! Bytes at the addresses of a process that has ended: from the core, or, for what the kernel left out because a file
//! has it (code, constants), from that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::elf::{Headers, MappedPart, Segment};
use crate::kernel::BEHIND;
use crate::pages::{PAGE_BYTES, PageBits};
use observe::fact::memory::Memory;
use observe::foreign::open_file_within;

/// Read at once where pages are counted.
const CHUNK_BYTES: usize = 1 << 20;

/// The memory of a core.
#[derive(Debug)]
pub struct CoreMemory {
    file: File,
    length: u64,
    segments: Vec<Segment>,
    mapped: Vec<(MappedPart, Option<usize>)>,
    files: Vec<File>,
    registers: Vec<u8>,
    /// Files that are not those which the process had mapped, or are not there.
    pub absent: Vec<String>,
}

impl CoreMemory {
    /// `found`: where the file of a path lies.
    pub fn new(file: File, headers: &Headers, found: impl Fn(&str) -> PathBuf) -> CoreMemory {
        let mut memory = CoreMemory {
            length: file.metadata().map_or(0, |data| data.len()),
            file,
            segments: headers.segments.clone(),
            mapped: Vec::new(),
            files: Vec::new(),
            registers: headers.registers.clone(),
            absent: Vec::new(),
        };
        let executable = headers.segments.iter().filter(|segment| segment.executable);
        let starts: BTreeSet<u64> = executable.map(|segment| segment.start).collect();
        // gcore leaves code out, with its area.
        let begins_as_code = |part: &MappedPart| {
            let mut magic = [0; 4];
            memory.read_core(part.start, &mut magic).is_some() && magic == object::elf::ELFMAG
        };
        let is_code = |part: &&MappedPart| starts.contains(&part.start) || begins_as_code(part);
        let code = headers.mapped.iter().filter(is_code);
        let code: BTreeSet<&str> = code.map(|part| &*part.path).collect();
        let mut paths: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for part in &headers.mapped {
            let index = *paths.entry(&part.path).or_insert_with(|| {
                // Other files are data: nothing of them is named.
                let is_code = code.contains(&*part.path);
                is_code
                    .then(|| memory.open(part, &found(&part.path)))
                    .flatten()
            });
            memory.mapped.push((part.clone(), index));
        }
        memory
    }

    /// The file, if it begins as it did in memory.
    fn open(&mut self, part: &MappedPart, path: &Path) -> Option<usize> {
        let begins = || {
            let file = open_file_within(path, symbols::debug_files::SYMBOLISED_BYTES_MAX).ok()?;
            let mut own = vec![0; PAGE_BYTES as usize];
            let length = file.read_at(&mut own, part.offset).ok()?;
            let mut theirs = vec![0; length];
            let is_same = match self.read_core(part.start, &mut theirs) {
                Some(()) if part.offset == 0 => own[..length] == theirs[..],
                // What was written to, or left out, cannot be compared.
                _ => true,
            };
            is_same.then_some(file)
        };
        match begins() {
            Some(file) => {
                self.files.push(file);
                Some(self.files.len() - 1)
            }
            None => {
                self.absent.push(part.path.clone());
                None
            }
        }
    }

    /// Ordered by address.
    pub fn parts(&self) -> impl Iterator<Item = &MappedPart> {
        self.mapped.iter().map(|(part, _)| part)
    }

    pub fn part_at(&self, address: u64) -> Option<&MappedPart> {
        let next = self.mapped.partition_point(|(part, _)| part.end <= address);
        let (part, _) = self.mapped.get(next)?;
        (part.start <= address).then_some(part)
    }

    /// The file of a part, where it is there.
    pub fn file_of(&self, path: &str) -> Option<&File> {
        let (_, index) = self.mapped.iter().find(|(part, _)| part.path == path)?;
        index.map(|index| &self.files[index])
    }

    /// Of what the headers promise, bytes that the file does not have.
    pub fn missing_bytes(&self) -> u64 {
        let missing = |segment: &Segment| {
            let end = segment.offset.saturating_add(segment.file_bytes);
            end.saturating_sub(self.length.max(segment.offset))
        };
        let segments = self.segments.iter();
        segments.map(missing).fold(0, u64::saturating_add)
    }

    /// Pages of an area that the core has, other than those that are all zero: a page that was never touched is
    /// written as zeros.
    pub fn pages(&self, segment: &Segment) -> PageBits {
        let mut pages = PageBits::new(segment.start, segment.start + segment.file_bytes);
        let end = segment
            .file_bytes
            .min(self.length.saturating_sub(segment.offset));
        let mut bytes = vec![0; CHUNK_BYTES.min(end as usize)];
        let mut at = 0;
        while at < end {
            at = self.data_from(segment.offset + at) - segment.offset;
            if at >= end {
                break;
            }
            at &= !(PAGE_BYTES - 1);
            let chunk = &mut bytes[..(end - at).min(CHUNK_BYTES as u64) as usize];
            if self.file.read_exact_at(chunk, segment.offset + at).is_err() {
                break;
            }
            for (page, bytes) in chunk.chunks(PAGE_BYTES as usize).enumerate() {
                if bytes.iter().any(|&byte| byte != 0) {
                    let from = segment.start + at + page as u64 * PAGE_BYTES;
                    pages.set(from, from + 1);
                }
            }
            at += chunk.len() as u64;
        }
        pages
    }

    /// The next place in the file that is no hole.
    fn data_from(&self, offset: u64) -> u64 {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(place) => place.max(offset),
            Err(rustix::io::Errno::NXIO) => u64::MAX,
            Err(_) => offset,
        }
    }

    /// Registers of all threads, as addresses behind all memory.
    pub fn registers(&self) -> (u64, u64) {
        (BEHIND, BEHIND + self.registers.len() as u64)
    }

    fn read_core(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let next = self
            .segments
            .partition_point(|segment| segment.end <= address);
        let segment = self.segments.get(next)?;
        let at = address.checked_sub(segment.start)?;
        (at.checked_add(out.len() as u64)? <= segment.file_bytes).then_some(())?;
        self.file
            .read_exact_at(out, segment.offset.checked_add(at)?)
            .ok()
    }

    fn read_file(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let next = self.mapped.partition_point(|(part, _)| part.end <= address);
        let (part, file) = self.mapped.get(next)?;
        let at = address.checked_sub(part.start)?;
        (at.checked_add(out.len() as u64)? <= part.end - part.start).then_some(())?;
        let file = &self.files[(*file)?];
        file.read_exact_at(out, part.offset.checked_add(at)?).ok()
    }
}

impl Memory for CoreMemory {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        if let Some(at) = address.checked_sub(BEHIND) {
            let at = usize::try_from(at).ok()?;
            out.copy_from_slice(self.registers.get(at..at.checked_add(out.len())?)?);
            return Some(());
        }
        self.read_core(address, out)
            .or_else(|| self.read_file(address, out))
    }
}

//! What an ELF core says of the process: its areas, mapped files and threads.
//!
//! Sources: elf(5), core(5); `fs/binfmt_elf.c` (`elf_core_dump`, `fill_files_note`) and `include/linux/elfcore.h` of
//! the kernel. gdb's gcore and systemd-coredump write the same.

use std::fs::File;
use std::os::unix::fs::FileExt;

use object::elf::{
    ELFMAG, EM_AARCH64, EM_X86_64, ET_CORE, FileHeader64, NT_AUXV, NT_FILE, NT_PRPSINFO,
    NT_PRSTATUS, PF_R, PF_W, PF_X, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader64, SectionHeader64,
};
use object::{LittleEndian, pod};

use super::NoCore;
use crate::kernel::BEHIND;
use crate::places::Thread;

const HEADER_BYTES: usize = size_of::<FileHeader64<LittleEndian>>();
const PROGRAM_HEADER_BYTES: usize = size_of::<ProgramHeader64<LittleEndian>>();

/// More areas than a process may have ask for `vm.max_map_count` above its default of 65,530.
const SEGMENTS_MAX: usize = 1 << 20;
/// Longest note that is read (paths of mapped files), and all that threads may bring: registers are 0.2 to 11 KiB.
const NOTE_BYTES_MAX: u64 = 64 << 20;
const REGISTERS_BYTES_MAX: usize = 64 << 20;

/// One area of addresses, and what of it the file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// In the file, bytes.
    pub offset: u64,
    pub file_bytes: u64,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
}

/// A part of a file that was mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedPart {
    pub start: u64,
    pub end: u64,
    /// In the file, bytes.
    pub offset: u64,
    pub path: String,
}

/// All that the headers and notes tell.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// Ordered by address.
    pub segments: Vec<Segment>,
    /// Ordered by address.
    pub mapped: Vec<MappedPart>,
    /// The first is the one that the signal was for.
    pub threads: Vec<Thread>,
    /// Of all threads, one after the other: words that may be pointers.
    pub registers: Vec<u8>,
    pub pid: i32,
    /// 0: no signal.
    pub signal: i32,
    /// As far as the kernel keeps it, 80 bytes.
    pub command: String,
    /// Pairs of a kind and a value (getauxval(3)).
    pub auxiliary: Vec<(u64, u64)>,
    /// Notes that were cut off or too long.
    pub is_cut: bool,
}

/// # Errors
/// It is no core, or one of another kind of machine.
pub fn read_headers(file: &File) -> Result<Headers, NoCore> {
    let length = file.metadata()?.len();
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|_| NoCore::Short(length))?;
    let header = header_of(&bytes)?;
    let mut headers = Headers::default();
    let mut layout = Layout::Unknown;
    if header.e_machine.get(LittleEndian) == EM_X86_64 {
        layout = Layout::X86_64;
    } else if header.e_machine.get(LittleEndian) == EM_AARCH64 {
        layout = Layout::Aarch64;
    }
    for segment in program_headers(file, header)? {
        let of = |word: object::U64<LittleEndian>| word.get(LittleEndian);
        let (start, offset) = (of(segment.p_vaddr), of(segment.p_offset));
        match segment.p_type.get(LittleEndian) {
            PT_LOAD => {
                let flags = segment.p_flags.get(LittleEndian);
                let Some(end) = start.checked_add(of(segment.p_memsz)) else {
                    continue;
                };
                headers.segments.push(Segment {
                    start,
                    end,
                    offset,
                    file_bytes: of(segment.p_filesz).min(end - start),
                    readable: flags & PF_R != 0,
                    writable: flags & PF_W != 0,
                    executable: flags & PF_X != 0,
                });
            }
            PT_NOTE => read_notes(file, offset, of(segment.p_filesz), layout, &mut headers),
            _ => {}
        }
    }
    order(&mut headers.segments);
    if headers.segments.is_empty() {
        return Err(NoCore::Headers);
    }
    headers.mapped.sort_by_key(|part| part.start);
    Ok(headers)
}

/// By address. A hostile file may have areas over each other, and many that share their bytes: only the first has them.
fn order(segments: &mut Vec<Segment>) {
    // The kernel's page of old system calls lies above all that is a program's.
    segments.retain(|segment| segment.start < segment.end && segment.end <= BEHIND);
    segments.sort_by_key(|segment| segment.offset);
    let mut end = 0;
    for segment in segments.iter_mut() {
        if segment.offset < end {
            segment.file_bytes = 0;
        }
        end = end.max(segment.offset.saturating_add(segment.file_bytes));
    }
    segments.sort_by_key(|segment| segment.start);
    let mut end = 0;
    segments.retain(|segment| {
        let follows = segment.start >= end;
        end = end.max(segment.end);
        follows
    });
}

fn header_of(bytes: &[u8; HEADER_BYTES]) -> Result<&FileHeader64<LittleEndian>, NoCore> {
    if bytes[..4] != ELFMAG {
        return Err(NoCore::Foreign);
    }
    // Class 2: 64 bit; data 1: little-endian.
    if bytes[4..6] != [2, 1] {
        return Err(NoCore::Machine(0));
    }
    let (header, _) = pod::from_bytes::<FileHeader64<LittleEndian>>(bytes)
        .map_err(|()| NoCore::Short(HEADER_BYTES as u64))?;
    let machine = header.e_machine.get(LittleEndian);
    match header.e_type.get(LittleEndian) {
        ET_CORE if matches!(machine, EM_X86_64 | EM_AARCH64) => Ok(header),
        ET_CORE => Err(NoCore::Machine(machine)),
        _ => Err(NoCore::Program),
    }
}

fn program_headers(
    file: &File,
    header: &FileHeader64<LittleEndian>,
) -> Result<Vec<ProgramHeader64<LittleEndian>>, NoCore> {
    let mut count = usize::from(header.e_phnum.get(LittleEndian));
    if count == usize::from(PN_XNUM) {
        // Too many for the header: in the first section's.
        let mut bytes = [0; size_of::<SectionHeader64<LittleEndian>>()];
        file.read_exact_at(&mut bytes, header.e_shoff.get(LittleEndian))
            .map_err(|_| NoCore::Headers)?;
        let section = pod::from_bytes::<SectionHeader64<LittleEndian>>(&bytes);
        let (section, _) = section.map_err(|()| NoCore::Headers)?;
        count = section.sh_info.get(LittleEndian) as usize;
    }
    if count == 0 || count > SEGMENTS_MAX {
        return Err(NoCore::Headers);
    }
    let mut bytes = vec![0; count * PROGRAM_HEADER_BYTES];
    file.read_exact_at(&mut bytes, header.e_phoff.get(LittleEndian))
        .map_err(|_| NoCore::Headers)?;
    let (all, _) = pod::slice_from_bytes::<ProgramHeader64<LittleEndian>>(&bytes, count)
        .map_err(|()| NoCore::Headers)?;
    Ok(all.to_vec())
}

/// Where the registers lie in `struct elf_prstatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    X86_64,
    Aarch64,
    Unknown,
}

const REGISTERS_AT: usize = 112;

impl Layout {
    /// fs_base; Arm has a note of its own.
    fn local_data_at(self) -> Option<usize> {
        (self == Layout::X86_64).then_some(REGISTERS_AT + 21 * 8)
    }

    fn stack_pointer_at(self) -> usize {
        match self {
            // rsp is the 20th of 27 registers.
            Layout::X86_64 => REGISTERS_AT + 19 * 8,
            // Behind x0 to x30.
            Layout::Aarch64 => REGISTERS_AT + 31 * 8,
            Layout::Unknown => usize::MAX - 8,
        }
    }
}

/// Each note is {name size, description size, type}, the name and the description, each filled up to 4 bytes.
fn read_notes(file: &File, offset: u64, bytes: u64, layout: Layout, headers: &mut Headers) {
    let (mut at, end) = (offset, offset.saturating_add(bytes));
    while at.checked_add(12).is_some_and(|next| next <= end) {
        let mut head = [0; 12];
        if file.read_exact_at(&mut head, at).is_err() {
            headers.is_cut = true;
            return;
        }
        let word = |place: usize| {
            u32::from_le_bytes(head[place..place + 4].try_into().unwrap_or_default())
        };
        let (name_bytes, length, kind) = (word(0), u64::from(word(4)), word(8));
        let text_at = at + 12 + u64::from(name_bytes).next_multiple_of(4);
        let Some(next) = text_at.checked_add(length.next_multiple_of(4)) else {
            return;
        };
        if length <= NOTE_BYTES_MAX && text_at + length <= end {
            let mut text = vec![0; length as usize];
            match file.read_exact_at(&mut text, text_at) {
                Ok(()) => read_note(kind, &text, layout, headers),
                Err(_) => headers.is_cut = true,
            }
        } else {
            headers.is_cut = true;
        }
        at = next;
    }
}

fn read_note(kind: u32, text: &[u8], layout: Layout, headers: &mut Headers) {
    match kind {
        NT_PRSTATUS => {
            let tid = signed(text, 32);
            if headers.threads.is_empty() {
                headers.signal = i32::from(text.get(12).copied().unwrap_or_default());
            }
            if let Some(stack_pointer) = word(text, layout.stack_pointer_at()) {
                headers.threads.push(Thread {
                    tid,
                    stack_pointer,
                    local_data: layout
                        .local_data_at()
                        .and_then(|at| word(text, at))
                        .unwrap_or(0),
                });
            }
        }
        NT_PRPSINFO => {
            headers.pid = signed(text, 24);
            let name = |from: usize, to: usize| {
                let bytes = text.get(from..to.min(text.len())).unwrap_or_default();
                let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                String::from_utf8_lossy(bytes).trim().to_owned()
            };
            headers.command = match name(56, 136) {
                words if words.is_empty() => name(40, 56),
                words => words,
            };
        }
        NT_AUXV => {
            let words: Vec<u64> = words(text).collect();
            headers.auxiliary = words
                .as_chunks::<2>()
                .0
                .iter()
                .map(|&[k, v]| (k, v))
                .collect();
        }
        NT_FILE => return headers.mapped.extend(mapped_parts(text)),
        _ => {}
    }
    // Registers of all kinds, in the others too: what is no pointer does no harm.
    if headers.registers.len() + text.len() <= REGISTERS_BYTES_MAX {
        headers.registers.extend(&text[..text.len() & !7]);
    } else {
        headers.is_cut = true;
    }
}

/// {count, page size, count x {start, end, offset in pages}, paths that each end with a zero byte}.
fn mapped_parts(text: &[u8]) -> Vec<MappedPart> {
    let (Some(count), Some(page_bytes)) = (word(text, 0), word(text, 8)) else {
        return Vec::new();
    };
    let numbers = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(24));
    let Some(paths) = numbers.and_then(|bytes| text.get(16 + bytes..)) else {
        return Vec::new();
    };
    let paths = paths.split(|&byte| byte == 0);
    let parts = text[16..].chunks_exact(24).take(count as usize).zip(paths);
    parts
        .filter_map(|(numbers, path)| {
            let of = |index: usize| word(numbers, index * 8);
            Some(MappedPart {
                start: of(0)?,
                end: of(1)?,
                offset: of(2)?.checked_mul(page_bytes)?,
                path: String::from_utf8_lossy(path).into_owned(),
            })
        })
        .filter(|part| part.start < part.end)
        .collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    words(bytes.get(at..at.checked_add(8)?)?).next()
}

fn signed(bytes: &[u8], at: usize) -> i32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, i32::from_le_bytes)
}

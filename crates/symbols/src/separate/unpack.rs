//! Symbols that are packed within a file, unpacked into one without a name, for the library that symbolises reads
//! neither xz nor zstd.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use object::elf::{FileHeader64, SHF_COMPRESSED, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, ReadCache, U64, pod};
use ruzstd::decoding::StreamingDecoder;

use super::elf::Facts;
use crate::xz::XzReader;
use observe::foreign::path_of;

/// MiniDebugInfo has some MiB at most.
const MINI_BYTES_MAX: u64 = 256 << 20;
/// As the limit for all packed sections elsewhere.
const ZSTD_BYTES_MAX: u64 = 1 << 30;

/// The ELF file within `.gnu_debugdata`.
pub fn mini_debug_info(mapped: &File, facts: &Facts) -> Option<File> {
    let (offset, bytes) = facts.mini_debug_info?;
    let packed = part(mapped, offset, bytes).ok()?;
    let reader = XzReader::new(packed).ok()?;
    let mut inner = tempfile::tempfile().ok()?;
    let written = io::copy(&mut reader.take(MINI_BYTES_MAX), &mut inner).ok()?;
    (written < MINI_BYTES_MAX).then_some(inner)
}

/// A copy of a file whose sections are unpacked; `None` where none is packed with zstd, or they are too large.
pub fn zstd_sections(file: &File, facts: &Facts) -> Option<File> {
    if facts.zstd_sections == 0 || facts.zstd_bytes > ZSTD_BYTES_MAX {
        return None;
    }
    let mut copy = tempfile::tempfile().ok()?;
    let length = file.metadata().ok()?.len();
    io::copy(&mut part(file, 0, length).ok()?, &mut copy).ok()?;
    unpack_sections(file, &mut copy).ok()?;
    Some(copy)
}

/// Writes each section behind the end of the copy, and has its header lead there.
fn unpack_sections(file: &File, copy: &mut File) -> io::Result<()> {
    let cache = ReadCache::new(file.try_clone()?);
    let header = FileHeader64::<LittleEndian>::parse(&cache).map_err(io::Error::other)?;
    let endian = header.endian().map_err(io::Error::other)?;
    let table = header
        .section_headers(endian, &cache)
        .map_err(io::Error::other)?;
    for (index, section) in table.iter().enumerate() {
        let found = section.compression(endian, &cache).ok().flatten();
        let Some((how, offset, packed_bytes)) = found else {
            continue;
        };
        if how.ch_type.get(endian) != object::elf::ELFCOMPRESS_ZSTD {
            continue;
        }
        let start = copy.seek(SeekFrom::End(0))?.next_multiple_of(16);
        copy.seek(SeekFrom::Start(start))?;
        let bytes = how.ch_size.get(endian);
        let decoder =
            StreamingDecoder::new(part(file, offset, packed_bytes)?).map_err(io::Error::other)?;
        if io::copy(&mut decoder.take(bytes), copy)? != bytes {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut plain: SectionHeader64<LittleEndian> = *section;
        plain.sh_offset = U64::new(endian, start);
        plain.sh_size = U64::new(endian, bytes);
        let flags = section.sh_flags.get(endian) & !u64::from(SHF_COMPRESSED);
        plain.sh_flags = U64::new(endian, flags);
        let at = header.e_shoff.get(endian) + (index * size_of_val(section)) as u64;
        copy.write_all_at(pod::bytes_of(&plain), at)?;
    }
    copy.flush()
}

/// Bytes of a file, read apart from where others read it.
fn part(file: &File, offset: u64, bytes: u64) -> io::Result<impl Read> {
    let mut own = File::open(path_of(file))?;
    own.seek(SeekFrom::Start(offset))?;
    Ok(io::BufReader::new(own).take(bytes))
}

//! A core as it lies on the disk: as it is, or packed by systemd-coredump with zstd, and then unpacked into a file
//! without a name.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use ruzstd::decoding::StreamingDecoder;

use super::NoCore;
use observe::foreign::open_file_within;

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Largest core: its page bits are 32 MiB.
const FILE_BYTES_MAX: u64 = 1 << 40;
/// Largest core that is unpacked.
const UNPACKED_BYTES_MAX: u64 = 64 << 30;
const CHUNK_BYTES: usize = 1 << 16;

/// The file, or what is packed in it.
pub fn open(path: &Path) -> Result<File, NoCore> {
    let mut file = open_file_within(path, FILE_BYTES_MAX)?;
    let mut first = [0; 4];
    let length = file.read(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    match first[..length] == ZSTD {
        true => unpack(file),
        false => Ok(file),
    }
}

/// Zeros become holes.
fn unpack(packed: File) -> Result<File, NoCore> {
    let mut reader = BufReader::new(packed);
    let failed = |error: String| NoCore::Unpacking(error);
    let mut unpacked = BufWriter::new(nameless()?);
    let mut bytes = vec![0; CHUNK_BYTES];
    let mut sum = 0;
    // One frame after the other.
    while !io::BufRead::fill_buf(&mut reader)?.is_empty() {
        let mut decoder =
            StreamingDecoder::new(&mut reader).map_err(|error| failed(error.to_string()))?;
        loop {
            let read = decoder
                .read(&mut bytes)
                .map_err(|error| failed(error.to_string()))?;
            if read == 0 {
                break;
            }
            sum += read as u64;
            if sum > UNPACKED_BYTES_MAX {
                return Err(failed("it has more than 64 GiB unpacked".to_owned()));
            }
            match bytes[..read].iter().all(|&byte| byte == 0) {
                true => drop(unpacked.seek(SeekFrom::Current(read as i64))?),
                false => unpacked.write_all(&bytes[..read])?,
            }
        }
    }
    let file = unpacked
        .into_inner()
        .map_err(|error| NoCore::Unreadable(error.into_error()))?;
    file.set_len(sum)?;
    Ok(file)
}

/// In the folder for temporary files: it goes when it is closed.
fn nameless() -> io::Result<File> {
    let folder = std::env::temp_dir();
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR);
    let named = |error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(
            error.kind(),
            format!("no room to unpack in {}: {error}", folder.display()),
        )
    };
    Ok(File::from(opened.map_err(named)?))
}

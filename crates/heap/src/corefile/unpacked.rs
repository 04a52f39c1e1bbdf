//! A core as it lies on the disk: as it is, or packed with zstd, lz4, xz (by systemd-coredump) or gzip, and then
//! unpacked into a file without a name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use rustix::fs::{Mode, OFlags};
use ruzstd::decoding::StreamingDecoder;

use super::NoCore;
use observe::foreign::open_file_within;
use symbols::xz::{self, XzReader};

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LZ4: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Largest core: its page bits are 32 MiB.
const FILE_BYTES_MAX: u64 = 1 << 40;
/// Largest core that is unpacked.
const UNPACKED_BYTES_MAX: u64 = 64 << 30;
const CHUNK_BYTES: usize = 1 << 16;

/// A core's bytes.
pub struct Unpacked {
    pub file: File,
    /// What kept the rest from being unpacked.
    pub cut_by: Option<String>,
}

/// How a core is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Zstd,
    Lz4,
    Xz,
    Gzip,
}

impl Format {
    fn of(first: &[u8]) -> Option<Format> {
        let formats: [(&[u8], Format); 4] = [
            (&ZSTD, Format::Zstd),
            (&LZ4, Format::Lz4),
            (&xz::MAGIC, Format::Xz),
            (&GZIP, Format::Gzip),
        ];
        let found = formats
            .into_iter()
            .find(|(magic, _)| first.starts_with(magic));
        found.map(|(_, format)| format)
    }

    /// Of one frame; memory: zstd 100 MiB, lz4 8 MiB, xz 64 MiB and gzip 64 KiB at most.
    fn decoder<'a>(self, packed: &'a mut BufReader<File>) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Format::Zstd => Box::new(StreamingDecoder::new(packed).map_err(io::Error::other)?),
            Format::Lz4 => Box::new(FrameDecoder::new(packed)),
            Format::Xz => Box::new(XzReader::new(packed)?),
            Format::Gzip => Box::new(GzDecoder::new(packed)),
        })
    }

    /// Whether another frame may follow.
    fn has_frames(self) -> bool {
        self != Format::Xz
    }
}

/// The file, or what is packed in it, as far as it can be unpacked.
pub fn open(path: &Path) -> Result<Unpacked, NoCore> {
    let mut packed = BufReader::with_capacity(CHUNK_BYTES, open_file_within(path, FILE_BYTES_MAX)?);
    match Format::of(packed.fill_buf()?) {
        Some(format) => unpack(packed, format),
        None => {
            let mut file = packed.into_inner();
            file.seek(SeekFrom::Start(0))?;
            Ok(Unpacked { file, cut_by: None })
        }
    }
}

/// A core that was cut off is read as far as it goes.
fn unpack(mut packed: BufReader<File>, format: Format) -> Result<Unpacked, NoCore> {
    let mut sink = Sparse {
        file: BufWriter::new(nameless()?),
        sum: 0,
    };
    let mut cut_by = None;
    while cut_by.is_none() && !packed.fill_buf()?.is_empty() {
        let frame = format.decoder(&mut packed);
        cut_by = frame.and_then(|mut frame| sink.take(&mut frame)).err();
        if sink.sum > UNPACKED_BYTES_MAX {
            return Err(NoCore::Unpacking(
                "it has more than 64 GiB unpacked".to_owned(),
            ));
        }
        if !format.has_frames() {
            break;
        }
    }
    let cut_by = cut_by.map(|error| error.to_string());
    match (sink.sum, cut_by) {
        (0, Some(why)) => Err(NoCore::Unpacking(why)),
        (_, cut_by) => Ok(Unpacked {
            file: sink.finish()?,
            cut_by,
        }),
    }
}

/// A file in which zeros are holes.
struct Sparse {
    file: BufWriter<File>,
    sum: u64,
}

impl Sparse {
    fn take(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let mut bytes = vec![0; CHUNK_BYTES];
        while self.sum <= UNPACKED_BYTES_MAX {
            let read = match from.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if read == 0 {
                break;
            }
            self.sum += read as u64;
            match bytes[..read].iter().all(|&byte| byte == 0) {
                true => drop(self.file.seek(SeekFrom::Current(read as i64))?),
                false => self.file.write_all(&bytes[..read])?,
            }
        }
        Ok(())
    }

    fn finish(self) -> io::Result<File> {
        let file = self.file.into_inner().map_err(|error| error.into_error())?;
        file.set_len(self.sum)?;
        Ok(file)
    }
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

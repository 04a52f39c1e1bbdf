//! Reading of .xz files with bounded memory.
//!
//! The container is read here, block by block, so that a block that asks for a large dictionary is refused before it
//! gets one; the LZMA2 within is the library's. Read are streams with LZMA2 alone, as xz, liblzma and systemd write
//! them. Check sums are not compared: what is unpacked is a file whose headers are checked anyway.

use std::io::{self, Read};

use lzma_rust2::Lzma2Reader;

/// Of `xz -9`.
pub const DICTIONARY_BYTES_MAX: u32 = 64 << 20;
pub const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const STREAM_HEADER_BYTES: usize = 12;
const LZMA2: u64 = 0x21;

/// Unpacks the first stream of a file.
pub struct XzReader<R: Read> {
    state: State<R>,
    check_bytes: usize,
}

enum State<R: Read> {
    /// In front of a block or the index.
    Between(Counted<R>),
    Block(Box<Lzma2Reader<Counted<R>>>),
    End,
}

/// Counts what is read, for blocks are padded to four bytes.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(bytes)?;
        self.count += length as u64;
        Ok(length)
    }
}

impl<R: Read> XzReader<R> {
    /// # Errors
    /// It does not begin as an .xz file.
    pub fn new(mut inner: R) -> io::Result<XzReader<R>> {
        let mut header = [0; STREAM_HEADER_BYTES];
        inner.read_exact(&mut header)?;
        if header[..6] != MAGIC {
            return Err(invalid("it is no .xz file"));
        }
        // The .xz File Format, 2.1.1.2: none, then three sizes of each of 4, 8, 16, 32 and 64 bytes.
        let check_bytes = match usize::from(header[7] & 0xf) {
            0 => 0,
            kind => 4 << ((kind - 1) / 3),
        };
        Ok(XzReader {
            state: State::Between(Counted { inner, count: 0 }),
            check_bytes,
        })
    }

    /// Starts the next block, or ends at the index.
    fn next(&mut self, mut from: Counted<R>) -> io::Result<State<R>> {
        let size = usize::from(byte(&mut from)?);
        if size == 0 {
            return Ok(State::End);
        }
        let mut header = vec![0; (size + 1) * 4 - 1];
        from.read_exact(&mut header)?;
        let dictionary_bytes = dictionary(&header)?;
        if dictionary_bytes > DICTIONARY_BYTES_MAX {
            return Err(invalid("it needs a dictionary of more than 64 MiB"));
        }
        from.count = 0;
        Ok(State::Block(Box::new(Lzma2Reader::new(
            from,
            dictionary_bytes,
            None,
        ))))
    }

    /// Behind a block: its padding and its check sum.
    fn close(&mut self, mut from: Counted<R>) -> io::Result<Counted<R>> {
        let padding = (4 - from.count % 4) % 4;
        let behind = padding + self.check_bytes as u64;
        let skipped = io::copy(&mut from.by_ref().take(behind), &mut io::sink())?;
        match skipped == behind {
            true => Ok(from),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl<R: Read> Read for XzReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(0),
                State::Between(from) => self.state = self.next(from)?,
                State::Block(mut block) => {
                    let length = block.read(bytes)?;
                    if length > 0 {
                        self.state = State::Block(block);
                        return Ok(length);
                    }
                    self.state = State::Between(self.close(block.into_inner())?);
                }
            }
        }
    }
}

/// Of a block's header without its first byte.
fn dictionary(header: &[u8]) -> io::Result<u32> {
    let (&flags, mut rest) = header
        .split_first()
        .ok_or_else(|| invalid("a block has no header"))?;
    if flags & 3 != 0 {
        return Err(invalid("it uses filters beside LZMA2"));
    }
    // Sizes of the block, packed and unpacked.
    for has in [flags & 0x40, flags & 0x80] {
        if has != 0 {
            number(&mut rest)?;
        }
    }
    let (filter, properties) = (number(&mut rest)?, number(&mut rest)?);
    match (filter, properties, rest.first()) {
        (LZMA2, 1, Some(40)) => Ok(u32::MAX),
        (LZMA2, 1, Some(&size @ 0..40)) => Ok((2 | u32::from(size & 1)) << (size / 2 + 11)),
        _ => Err(invalid("it uses filters beside LZMA2")),
    }
}

/// Seven bits a byte, the lowest first.
fn number(rest: &mut &[u8]) -> io::Result<u64> {
    let mut value = 0;
    for place in 0..9 {
        let byte = byte(rest)?;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(invalid("a number in a block's header is too long"))
}

fn byte(from: &mut impl Read) -> io::Result<u8> {
    let mut byte = [0];
    from.read_exact(&mut byte)?;
    Ok(byte[0])
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// By the xz tool.
    fn packed(plain: &[u8], options: &[&str]) -> Option<Vec<u8>> {
        let mut xz = Command::new("xz")
            .args(options)
            .args(["-c", "-T1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut input = xz.stdin.take().unwrap();
        let plain = plain.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&plain));
        let done = xz.wait_with_output().ok()?;
        let _ = writer.join();
        Some(done.stdout)
    }

    fn unpacked(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        XzReader::new(packed)?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn what_xz_packs_is_unpacked() {
        let plain: Vec<u8> = (0..400_000_u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        for options in [
            &["-6"][..],
            &["-0", "--check=none"],
            &["--check=sha256", "--block-size=100001"],
            &["--check=crc32", "--block-size=65536"],
        ] {
            let Some(packed) = packed(&plain, options) else {
                return testkit::skipped("no xz");
            };
            assert!(unpacked(&packed).unwrap() == plain, "{options:?}");
            let cut = unpacked(&packed[..packed.len() / 2]);
            assert!(cut.is_err());
        }
        assert_eq!(unpacked(&packed(b"", &[]).unwrap()).unwrap(), b"");
    }

    #[test]
    fn a_large_dictionary_and_other_filters_are_refused() {
        for (options, why) in [
            (&["--lzma2=dict=96MiB"][..], "64 MiB"),
            (&["--x86", "--lzma2=preset=1"][..], "filters"),
        ] {
            let Some(packed) = packed(b"plain text", options) else {
                return testkit::skipped("no xz");
            };
            let error = unpacked(&packed).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(unpacked(b"no archive").is_err());
    }
}

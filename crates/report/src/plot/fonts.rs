//! Letters for pictures: DejaVu Sans, regular and bold, as the build packed them.

use std::io::Read;

use lzma_rust2::Lzma2Reader;

/// Each font after its length, four bytes.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fonts.lzma2"));
/// As the build packs them: 8 MiB.
const DICTIONARY_BYTES: u32 = 8 << 20;
/// No font of ours is as large.
const FONT_BYTES_MAX: u64 = 4 << 20;

/// Regular, then bold, as TrueType files.
///
/// # Errors
/// This program is damaged.
pub fn fonts() -> std::io::Result<[Vec<u8>; 2]> {
    let mut reader = Lzma2Reader::new(PACKED, DICTIONARY_BYTES, None);
    let mut font = || -> std::io::Result<Vec<u8>> {
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes)?;
        let bytes = u64::from(u32::from_le_bytes(bytes)).min(FONT_BYTES_MAX);
        let mut font = vec![0; bytes as usize];
        reader.read_exact(&mut font)?;
        Ok(font)
    };
    Ok([font()?, font()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_out_as_they_are() {
        let fonts = fonts().unwrap();
        assert!(fonts[0] == dejavu::sans::regular() && fonts[1] == dejavu::sans::bold());
    }
}

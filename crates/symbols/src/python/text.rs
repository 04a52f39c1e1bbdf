//! Strings of the heap.

use observe::fact::memory::Memory;

use super::layout::{Layout, SIZE, STR_STATE};

/// Longest text that is read: a name with its file and folders.
const TEXT_BYTES_MAX: u64 = 1_024;

/// What a string says of itself: `state` of `PyASCIIObject`, the same in 3.8 to 3.14.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StrState {
    /// Bytes of a character: 1, 2 or 4.
    pub width: u64,
    /// The characters stand behind the object.
    pub is_compact: bool,
    pub is_ascii: bool,
}

pub fn parse_state(state: u32) -> StrState {
    StrState {
        width: u64::from(state >> 2 & 0b111),
        is_compact: state & 1 << 5 != 0,
        is_ascii: state & 1 << 6 != 0,
    }
}

/// The text of a string object. `None`: it is too long, or no string.
pub fn text(memory: &dyn Memory, layout: &Layout, string: u64) -> Option<String> {
    let state = parse_state(memory.u32(string.checked_add(STR_STATE)?)?);
    let length = memory.u64(string.checked_add(SIZE)?)?;
    let [ascii, others, elsewhere] = layout.str_bytes;
    let at = match (state.is_compact, state.is_ascii) {
        (true, true) => string.checked_add(ascii)?,
        (true, false) => string.checked_add(others)?,
        (false, _) => memory.u64(string.checked_add(elsewhere - 8)?)?,
    };
    let length = length.checked_mul(state.width)?;
    let bytes = memory.bytes(at, length, TEXT_BYTES_MAX)?;
    match state.width {
        1 => Some(bytes.into_iter().map(char::from).collect()),
        2 => String::from_utf16(&words(&bytes, u16::from_le_bytes)).ok(),
        4 => {
            let letters = words(&bytes, u32::from_le_bytes);
            letters.into_iter().map(char::from_u32).collect()
        }
        _ => None,
    }
}

fn words<const N: usize, W>(bytes: &[u8], word: fn([u8; N]) -> W) -> Vec<W> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().map(|bytes| word(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::fact::memory::Made;

    /// A string at 0x1000 with its characters at an offset.
    fn read(minor: u8, state: u32, length: u64, at: usize, letters: &[u8]) -> Option<String> {
        let mut bytes = vec![0; 128];
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
        bytes[32..36].copy_from_slice(&state.to_le_bytes());
        bytes[at..at + letters.len()].copy_from_slice(letters);
        let made = Made { at: 0x1000, bytes };
        text(&made, &Layout::of(minor).unwrap(), 0x1000)
    }

    #[test]
    fn strings_of_each_form() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(8, 0xe4, 4, 48, b"name"), some("name"));
        assert_eq!(read(13, 0x64, 4, 40, b"name"), some("name"));
        assert_eq!(read(12, 0x24, 4, 56, b"caf\xe9"), some("caf\u{e9}"));
        assert_eq!(read(11, 0xa8, 1, 72, &[0x97, 0x30]), some("\u{3097}"));
        assert_eq!(read(11, 0xa8, 1, 72, &[0, 0xd8]), None, "half a pair");
        assert_eq!(read(12, 0x30, 1, 56, &[0, 0xf6, 1, 0]), some("\u{1f600}"));
        let elsewhere = [&0x1060_u64.to_le_bytes()[..], &[0; 32], b"far"].concat();
        assert_eq!(read(12, 0x44, 3, 56, &elsewhere), some("far"));
        assert_eq!(read(12, 0x64, u64::MAX, 40, b""), None);
        assert_eq!(read(12, 0x7c, 1, 40, b"x"), None, "no such width");
    }
}

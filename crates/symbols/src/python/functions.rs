//! Functions of Python by their code objects, read from the process.
//!
//! Offsets are of `Include/cpython/code.h` and `Include/cpython/unicodeobject.h` of 3.11. A code object may be gone by
//! the time that it is looked up: what says of itself that it is none is not believed.

use std::collections::HashMap;
use std::fs::File;

use crate::frame::{Frame, PYTHON_MODULE};
use observe::fact::memory::{Memory, ProcessMemory};

/// Functions that are remembered; the memory is emptied when it is full.
const KNOWN_MAX: usize = 20_000;

/// Of any object: its type. Of a type: its name, as C has it.
const TYPE: u64 = 8;
const TYPE_NAME: u64 = 24;
/// Of a code object.
const FIRST_LINE: u64 = 72;
const FILE_NAME: u64 = 112;
const QUALIFIED_NAME: u64 = 128;
/// Of a string: how many characters, what it is, and the characters of one that is in one piece, of ASCII alone or not.
const LENGTH: u64 = 16;
const STATE: u64 = 32;
const ASCII: u64 = 48;
const OTHERS: u64 = 72;
/// Of what it is: bytes of a character, whether it is in one piece, and whether it is of ASCII alone.
const STATE_KIND: u32 = 0b1_1100;
const STATE_COMPACT: u32 = 0b10_0000;
const STATE_ASCII: u32 = 0b100_0000;

/// Longest name, bytes: that of a file with its folders.
const NAME_BYTES_MAX: u64 = 1_024;

/// The functions of one process.
#[derive(Debug, Default)]
pub struct PythonFunctions {
    known: HashMap<u64, Option<Frame>>,
}

impl PythonFunctions {
    /// The function of a code object; `None` where there is none at that address any more.
    pub fn at(&mut self, pid: i32, code: u64) -> Option<Frame> {
        if let Some(known) = self.known.get(&code) {
            return known.clone();
        }
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        let found = function(&ProcessMemory::new(memory.into()), code);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(code, found.clone());
        found
    }
}

fn function(memory: &impl Memory, code: u64) -> Option<Frame> {
    let word = |at: u64, offset| memory.u64(at.checked_add(offset)?);
    let of_type = word(code, TYPE)?;
    if memory.name(word(of_type, TYPE_NAME)?)? != "code" {
        return None;
    }
    Some(Frame {
        function: Some(text(memory, word(code, QUALIFIED_NAME)?)?),
        file: text(memory, word(code, FILE_NAME)?),
        line: memory.u32(code.checked_add(FIRST_LINE)?),
        module: PYTHON_MODULE.to_owned(),
        offset: code,
        ..Frame::default()
    })
}

fn text(memory: &impl Memory, string: u64) -> Option<String> {
    let state = memory.u32(string.checked_add(STATE)?)?;
    let length = memory.u64(string.checked_add(LENGTH)?)?;
    if state & STATE_COMPACT == 0 {
        return None;
    }
    let at = match state & STATE_ASCII {
        0 => string.checked_add(OTHERS)?,
        _ => string.checked_add(ASCII)?,
    };
    let width = (state & STATE_KIND) >> STATE_KIND.trailing_zeros();
    let length = length.checked_mul(width.into())?;
    let bytes = memory.bytes(at, length, NAME_BYTES_MAX)?;
    let letters: Option<String> = match width {
        1 => Some(bytes.into_iter().map(char::from).collect()),
        2 => String::from_utf16(&words(&bytes, u16::from_le_bytes)).ok(),
        4 => {
            let letters = words(&bytes, u32::from_le_bytes);
            letters.into_iter().map(char::from_u32).collect()
        }
        _ => None,
    };
    letters
}

fn words<const N: usize, W>(bytes: &[u8], word: fn([u8; N]) -> W) -> Vec<W> {
    let (words, _) = bytes.as_chunks::<N>();
    words.iter().map(|bytes| word(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at 0x1000.
    struct Page(Vec<u8>);

    impl Memory for Page {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let at = usize::try_from(address.checked_sub(0x1000)?).ok()?;
            out.copy_from_slice(self.0.get(at..at.checked_add(out.len())?)?);
            Some(())
        }
    }

    impl Page {
        fn put(&mut self, address: u64, bytes: &[u8]) {
            let at = (address - 0x1000) as usize;
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        fn string(&mut self, address: u64, text: &str, state: u32) {
            self.put(address + LENGTH, &(text.len() as u64).to_le_bytes());
            self.put(address + STATE, &state.to_le_bytes());
            self.put(address + ASCII, text.as_bytes());
        }
    }

    /// A code object at 0x1000, its type at 0x1200, its name and file at 0x1400 and 0x1600.
    fn page(type_name: &[u8]) -> Page {
        let mut page = Page(vec![0; 0x1000]);
        page.put(0x1000 + TYPE, &0x1200_u64.to_le_bytes());
        page.put(0x1000 + FIRST_LINE, &17_u32.to_le_bytes());
        page.put(0x1000 + QUALIFIED_NAME, &0x1400_u64.to_le_bytes());
        page.put(0x1000 + FILE_NAME, &0x1600_u64.to_le_bytes());
        page.put(0x1200 + TYPE_NAME, &0x1300_u64.to_le_bytes());
        page.put(0x1300, type_name);
        // As an interned string of 3.11.7 has it: interned, of one byte, compact, ASCII, ready.
        page.string(0x1400, "Shop.remember", 0xe5);
        page.string(0x1600, "/srv/shop.py", 0xe4);
        page
    }

    #[test]
    fn a_function_has_its_class_its_file_and_its_first_line() {
        let found = function(&page(b"code\0"), 0x1000).unwrap();
        assert_eq!(found.function.as_deref(), Some("Shop.remember"));
        assert_eq!(found.file.as_deref(), Some("/srv/shop.py"));
        assert_eq!((found.line, found.module.as_str()), (Some(17), "python"));
    }

    #[test]
    fn what_is_no_code_object_any_more_is_no_function() {
        assert_eq!(function(&page(b"dict\0"), 0x1000), None);
        for wild in [0, 0x1008, 0x1ffc, 0x2000, u64::MAX - 4, u64::MAX] {
            assert_eq!(function(&page(b"code\0"), wild), None, "{wild:#x}");
        }
        let mut long = page(b"code\0");
        long.put(0x1400 + LENGTH, &u64::MAX.to_le_bytes());
        assert_eq!(function(&long, 0x1000), None);
    }

    #[test]
    fn letters_of_any_width_are_read() {
        let named = |state: u32, letters: &[u8], count: u64| {
            let mut page = page(b"code\0");
            page.string(0x1400, "", state);
            page.put(0x1400 + LENGTH, &count.to_le_bytes());
            page.put(0x1400 + OTHERS, letters);
            function(&page, 0x1000)?.function
        };
        assert_eq!(named(0xa4, b"caf\xe9", 4).as_deref(), Some("caf\u{e9}"));
        assert_eq!(
            named(0xa8, &[0x53, 0, 0x97, 0x30], 2).as_deref(),
            Some("S\u{3097}")
        );
        assert_eq!(
            named(0xb0, &[0, 0xf6, 1, 0], 1).as_deref(),
            Some("\u{1f600}")
        );
        assert_eq!(named(0xb0, &[0, 0, 0xff, 0xff], 1), None, "no letter");
        assert_eq!(named(0x84, b"caf\xe9", 4), None, "elsewhere");
        assert_eq!(named(0xb0, &[], u64::MAX / 2), None);
    }
}

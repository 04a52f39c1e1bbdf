//! Objects on V8's heap: pointers to them are odd, small numbers are in the upper half of a word.

use std::cell::RefCell;
use std::collections::HashMap;

use super::layout::Layout;
use crate::memory::Memory;

/// Types of objects by their maps; those that matter here never move.
const TYPES_MAX: usize = 1_024;
/// Of a string of strings.
const DEPTH_MAX: u32 = 8;
const SLICE_BYTES: usize = 64 * 1024;

/// `StringShape` (`instance-type.h`): what a string is made of, in the lowest bits of its type.
const REPRESENTATION: u16 = 7;
const SEQUENTIAL: u16 = 0;
const CONS: u16 = 1;
const SLICED: u16 = 3;
const THIN: u16 = 5;
const ONE_BYTE: u16 = 8;

/// The heap of one process.
pub struct Heap {
    pub memory: Memory,
    pub layout: Layout,
    types: RefCell<HashMap<u64, u16>>,
}

/// Where the letters of a flat string are.
pub struct Letters {
    start: u64,
    pub count: usize,
    /// Bytes of each.
    width: usize,
}

/// The address of the object that a word points to, weakly or not.
pub fn pointer(word: u64) -> Option<u64> {
    (word & 1 == 1 && word >> 47 == 0).then_some(word & !3)
}

pub fn small(word: u64) -> Option<i32> {
    (word & 1 == 0).then_some((word >> 32) as i32)
}

impl Heap {
    pub fn new(memory: Memory, layout: Layout) -> Heap {
        Heap {
            memory,
            layout,
            types: RefCell::default(),
        }
    }

    pub fn bytes(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let have = self.memory.read(address, &mut bytes).ok()?;
        (have == count).then_some(bytes)
    }

    pub fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, 8 * count)?;
        let words = bytes.chunks_exact(8);
        Some(
            words
                .map(|word| word.try_into().map_or(0, u64::from_le_bytes))
                .collect(),
        )
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        self.words(address, 1)?.first().copied()
    }

    /// Address and type of the object that a word points to.
    pub fn object(&self, word: u64) -> Option<(u64, u16)> {
        let address = pointer(word)?;
        Some((address, self.type_by(self.word(address)?)?))
    }

    /// The type of the objects with this map.
    pub fn type_by(&self, map: u64) -> Option<u16> {
        if let Some(known) = self.types.borrow().get(&map) {
            return Some(*known);
        }
        let bytes = self.bytes(pointer(map)?.checked_add(self.layout.instance_type)?, 2)?;
        let found = u16::from_le_bytes(bytes.try_into().ok()?);
        let mut types = self.types.borrow_mut();
        if types.len() == TYPES_MAX {
            types.clear();
        }
        types.insert(map, found);
        Some(found)
    }

    /// Of an array of objects or bytes: where its items begin, and how many there are.
    pub fn array(&self, word: u64) -> Option<(u64, usize)> {
        let address = pointer(word)?;
        let count = small(self.word(address.checked_add(8)?)?)?;
        Some((address.checked_add(16)?, usize::try_from(count).ok()?))
    }

    /// A string of up to so many UTF-16 units; `None`: it is none, longer, or kept outside of the heap.
    pub fn string(&self, word: u64, most: usize) -> Option<String> {
        let letters = self.letters_of(word, most, DEPTH_MAX)?;
        let text = String::from_utf16_lossy(&letters);
        // It goes to terminals.
        Some(text.replace(char::is_control, "?"))
    }

    fn letters_of(&self, word: u64, most: usize, depth: u32) -> Option<Vec<u16>> {
        let depth = depth.checked_sub(1)?;
        let (address, own_type) = self.object(word)?;
        let of = &self.layout.string;
        if own_type >= of.types {
            return None;
        }
        let count = self.bytes(address.checked_add(of.length)?, 4)?;
        let count = u32::from_le_bytes(count.try_into().ok()?) as usize;
        if count > most {
            return None;
        }
        let field = |offset: u64| self.word(address.checked_add(offset)?);
        match own_type & REPRESENTATION {
            SEQUENTIAL => self.read_letters(&self.flat(word)?, 0, count),
            THIN => self.letters_of(field(of.actual)?, most, depth),
            CONS => {
                let mut letters = self.letters_of(field(of.first)?, most, depth)?;
                letters.extend(self.letters_of(field(of.second)?, most - letters.len(), depth)?);
                Some(letters)
            }
            SLICED => {
                let parent = self.flat(field(of.parent)?)?;
                let offset = usize::try_from(small(field(of.offset)?)?).ok()?;
                self.read_letters(&parent, offset, count)
            }
            _ => None,
        }
    }

    /// A string in one piece.
    pub fn flat(&self, word: u64) -> Option<Letters> {
        let (address, own_type) = self.object(word)?;
        let of = &self.layout.string;
        let is_flat = own_type < of.types && own_type & REPRESENTATION == SEQUENTIAL;
        if !is_flat {
            return None;
        }
        let count = self.bytes(address.checked_add(of.length)?, 4)?;
        let (start, width) = match own_type & ONE_BYTE != 0 {
            true => (of.one_byte, 1),
            false => (of.two_byte, 2),
        };
        Some(Letters {
            start: address.checked_add(start)?,
            count: u32::from_le_bytes(count.try_into().ok()?) as usize,
            width,
        })
    }

    /// So many letters of a text from a place on.
    pub fn read_letters(&self, of: &Letters, from: usize, count: usize) -> Option<Vec<u16>> {
        if from.checked_add(count)? > of.count {
            return None;
        }
        let start = of.start.checked_add((from * of.width) as u64)?;
        let bytes = self.bytes(start, count * of.width)?;
        Some(match of.width {
            1 => bytes.iter().map(|byte| u16::from(*byte)).collect(),
            _ => {
                let pairs = bytes.chunks_exact(2);
                pairs
                    .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                    .collect()
            }
        })
    }

    /// Where lines end in a text of up to so many letters, sorted.
    pub fn line_ends(&self, text: &Letters, most: usize) -> Option<Vec<u32>> {
        if text.count > most {
            return None;
        }
        let mut ends = Vec::new();
        let mut at = 0;
        while at < text.count {
            let slice = self.read_letters(text, at, SLICE_BYTES.min(text.count - at))?;
            let newlines = slice.iter().enumerate();
            let newlines = newlines.filter(|(_, letter)| **letter == u16::from(b'\n'));
            ends.extend(newlines.map(|(index, _)| (at + index) as u32));
            at += slice.len();
        }
        Some(ends)
    }
}

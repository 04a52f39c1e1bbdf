//! Words and objects of V8's heap, out of memory that may change or be no heap at all.

use observe::fact::memory::Memory;

use super::layout::Layout;
use crate::memory::pages::Pages;

/// Bits of a word: a strong pointer to an object is its address plus one.
const TAG_MASK: u64 = 3;
const STRONG: u64 = 1;
const ADDRESS_BITS: u32 = 47;
/// Of a string: what it is made of (`instance-type.h`).
const REPRESENTATION: u16 = 7;
const SEQUENTIAL: u16 = 0;
const THIN: u16 = 5;
const ONE_BYTE: u16 = 8;

/// The heap as it can be read.
pub struct Heap<'m> {
    pub pages: Pages<'m>,
    pub layout: &'m Layout,
}

/// The address of the object that a strong pointer leads to.
pub fn pointer(word: u64) -> Option<u64> {
    let is_strong = word & TAG_MASK == STRONG && word >> ADDRESS_BITS == 0;
    let address = word & !TAG_MASK;
    (is_strong && address.is_multiple_of(8)).then_some(address)
}

/// A small number (Smi): the lower half is zero.
pub fn small(word: u64) -> Option<i32> {
    (word as u32 == 0).then_some((word >> 32) as i32)
}

/// The same, as a count.
pub fn count(word: u64) -> Option<u64> {
    small(word).and_then(|number| u64::try_from(number).ok())
}

pub fn is_one_byte(own_type: u16) -> bool {
    own_type & ONE_BYTE != 0
}

impl Heap<'_> {
    pub fn word(&self, address: u64, offset: u64) -> Option<u64> {
        self.pages.word(address.checked_add(offset)?)
    }

    pub fn byte(&self, address: u64, offset: u64) -> Option<u8> {
        let mut byte = [0];
        self.pages.read(address.checked_add(offset)?, &mut byte)?;
        Some(byte[0])
    }

    pub fn half(&self, address: u64, offset: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.pages.read(address.checked_add(offset)?, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }

    pub fn int(&self, address: u64, offset: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.pages.read(address.checked_add(offset)?, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    /// The address of the Map that a word points to: its Map is one, and so is the Map's Map.
    pub fn map(&self, word: u64) -> Option<u64> {
        let map = pointer(word)?;
        let meta = pointer(self.word(map, 0)?)?;
        let meta_of_meta = pointer(self.word(meta, 0)?)?;
        let is_map = |map: u64| {
            let own_type = self.half(map, self.layout.map.instance_type);
            own_type == Some(self.layout.types.map)
        };
        let is_anonymous = self.pages.source().areas.is_anonymous(map);
        (is_anonymous && is_map(meta) && is_map(meta_of_meta)).then_some(map)
    }

    /// Address and type of the object that a word points to.
    pub fn object(&self, word: u64) -> Option<(u64, u16)> {
        let address = pointer(word)?;
        let map = self.map(self.word(address, 0)?)?;
        Some((address, self.half(map, self.layout.map.instance_type)?))
    }

    pub fn is(&self, word: u64, own_type: u16) -> Option<u64> {
        let (address, found) = self.object(word)?;
        (found == own_type).then_some(address)
    }

    /// Of something like a FixedArray: its address and how many items it has.
    pub fn array(&self, word: u64) -> Option<(u64, u64)> {
        let address = pointer(word)?;
        Some((address, count(self.word(address, 8)?)?))
    }

    pub fn item(&self, array: u64, index: u64) -> Option<u64> {
        self.word(array, index.checked_mul(8)?.checked_add(16)?)
    }

    /// A string in one piece, cut to so many letters; of a symbol its description.
    pub fn text(&self, word: u64, most: usize) -> Option<String> {
        let types = &self.layout.types;
        let (mut address, mut own_type) = self.object(word)?;
        let is_symbol = own_type == types.primitives[0];
        if is_symbol {
            (address, own_type) = self.object(self.word(address, 16)?)?;
        }
        if own_type < types.non_string && own_type & REPRESENTATION == THIN {
            (address, own_type) = self.object(self.word(address, self.layout.actual)?)?;
        }
        if own_type >= types.non_string || own_type & REPRESENTATION != SEQUENTIAL {
            return None;
        }
        let letters = (self.int(address, 12)? as usize).min(most);
        let width = if is_one_byte(own_type) { 1 } else { 2 };
        let mut bytes = vec![0; letters * width];
        self.pages.read(address.checked_add(16)?, &mut bytes)?;
        let units: Vec<u16> = match width {
            1 => bytes.iter().map(|byte| u16::from(*byte)).collect(),
            _ => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .map(|pair| u16::from_le_bytes(*pair))
                .collect(),
        };
        // It goes to terminals.
        let text = String::from_utf16_lossy(&units).replace(char::is_control, "?");
        Some(if is_symbol {
            format!("<symbol {text}>")
        } else {
            text
        })
    }
}

//! Words, classes and names of a HotSpot's memory, out of memory that may change or be no heap at all.

use observe::fact::memory::Memory;

use super::layout::{Header, Layout, Narrow};
use super::spaces::Spaces;
use crate::jvm::histogram::written_name;
use crate::jvm::text::bounded;
use crate::memory::pages::Pages;

const NAME_BYTES_MAX: u64 = 1_024;
/// Classes that one inherits from.
const DEPTH_MAX: usize = 256;
/// Of the mark word in front of the class, where both share one word.
const MARK_BITS: u32 = 42;

/// The heap as it can be read.
pub struct Heap<'m> {
    pub pages: Pages<'m>,
    pub layout: &'m Layout,
    pub spaces: Spaces,
}

impl Heap<'_> {
    pub fn word(&self, address: u64, offset: u64) -> Option<u64> {
        self.pages.word(address.checked_add(offset)?)
    }

    pub fn int(&self, address: u64, offset: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.pages.read(address.checked_add(offset)?, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    pub fn half(&self, address: u64, offset: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.pages.read(address.checked_add(offset)?, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }

    /// A pointer in a field; `None` for null too.
    pub fn pointer(&self, address: u64, offset: u64) -> Option<u64> {
        self.pages.pointer(address, offset)
    }

    /// Where an object may be.
    pub fn in_heap(&self, address: u64) -> bool {
        let (start, end) = self.layout.heap;
        let is_inside = address.is_multiple_of(8) && (start..end).contains(&address);
        is_inside && self.spaces.has(self.pages.source().memory, address)
    }

    /// A reference as it stands in four bytes of an object.
    pub fn widened(&self, narrow: u32, by: Narrow) -> Option<u64> {
        let wide = by.base.checked_add(u64::from(narrow) << by.shift)?;
        (narrow != 0 && self.in_heap(wide)).then_some(wide)
    }

    /// A reference in a field of an object.
    pub fn reference(&self, object: u64, offset: u64) -> Option<u64> {
        match self.layout.oops {
            Some(by) => self.widened(self.int(object, offset)?, by),
            None => self.pointer(object, offset).filter(|to| self.in_heap(*to)),
        }
    }

    /// Bytes that a reference has in an object.
    pub fn reference_bytes(&self) -> u64 {
        match self.layout.oops {
            Some(_) => 4,
            None => 8,
        }
    }

    /// What a handle outside of the heap leads to: the address of a whole reference, or the reference itself.
    pub fn handle(&self, address: u64, offset: u64) -> Option<u64> {
        let to = self.pointer(address, offset)?;
        match self.in_heap(to) {
            true => Some(to),
            false => self.pointer(to, 0).filter(|to| self.in_heap(*to)),
        }
    }

    /// Where the class of an object is, by the first words of the object.
    pub fn class_of(&self, object: u64) -> Option<u64> {
        let widened = |narrow: u64, by: Narrow| by.base.checked_add(narrow << by.shift);
        match self.layout.header {
            Header::Wide => self.pointer(object, 8),
            Header::Narrow(by) => widened(u64::from(self.int(object, 8)?), by),
            Header::InMark(by) => widened(self.word(object, 0)? >> MARK_BITS, by),
        }
    }

    /// What a class says of the size of its objects (`Klass::layout_helper`).
    pub fn helper(&self, class: u64) -> Option<i32> {
        Some(self.int(class, self.layout.klass.layout_helper)? as i32)
    }

    /// A class and all that it inherits from, itself first. Ends where the time does.
    pub fn lineage(&self, class: u64) -> impl Iterator<Item = u64> {
        let above = |class: &u64| {
            let above = self.pointer(*class, self.layout.klass.super_class);
            above.filter(|_| !self.pages.is_late())
        };
        std::iter::successors(Some(class), above).take(DEPTH_MAX)
    }

    /// Of an array.
    pub fn length(&self, array: u64) -> Option<u64> {
        let length = self.int(array, self.layout.header.length_at())?;
        (length <= i32::MAX as u32).then_some(u64::from(length))
    }

    pub fn symbol(&self, symbol: u64) -> Option<String> {
        let of = self.layout.symbol;
        let length = u64::from(self.half(symbol, of.length)?).min(NAME_BYTES_MAX);
        let bytes = self
            .pages
            .bytes(symbol.checked_add(of.body)?, length, NAME_BYTES_MAX)?;
        let text = String::from_utf8(bytes).ok()?;
        (!text.is_empty() && !text.chars().any(char::is_control)).then_some(text)
    }

    /// Of a class, as the JVM has it: `java/util/HashMap$Node`, `[B`.
    pub fn class_symbol(&self, class: u64) -> Option<String> {
        self.symbol(self.pointer(class, self.layout.klass.name)?)
    }

    /// A name in a constant pool; 0: none.
    pub fn constant(&self, pool: u64, index: u16) -> Option<String> {
        self.symbol(self.constant_word(pool, index)?)
    }

    pub fn constant_word(&self, pool: u64, index: u16) -> Option<u64> {
        let length = self.int(pool, self.layout.pool.length)?;
        let is_inside = index != 0 && u32::from(index) < length;
        let offset = self.layout.pool.bytes + 8 * u64::from(index);
        is_inside.then(|| self.word(pool, offset))?
    }

    /// The text of a java.lang.String with this array, cut to so many letters.
    pub fn text(&self, bytes: u64, is_wide: bool, most: u64) -> Option<String> {
        let length = self.length(bytes)?.min(most * if is_wide { 2 } else { 1 });
        let begin = array_header(self.helper(self.class_of(bytes)?)?);
        let bytes = self
            .pages
            .bytes(bytes.checked_add(begin)?, length, 2 * most)?;
        let text = match is_wide {
            true => {
                let pairs = bytes.as_chunks::<2>().0.iter();
                let units: Vec<u16> = pairs.map(|pair| u16::from_le_bytes(*pair)).collect();
                String::from_utf16_lossy(&units)
            }
            false => bytes.iter().map(|byte| char::from(*byte)).collect(),
        };
        // It goes to terminals.
        Some(text.replace(char::is_control, "?"))
    }
}

/// Bytes in front of the first item, by the helper of an array's class.
pub fn array_header(helper: i32) -> u64 {
    u64::from(helper as u32 >> 16 & 0xff)
}

/// As users write it: `java.util.HashMap$Node`, `byte[]`.
pub fn class_name(symbol: &str) -> String {
    // A hidden class has an address behind a plus sign.
    bounded(written_name(
        &symbol.replace('/', ".").replace("+0x", "/0x"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes() {
        for (symbol, written) in [
            ("java/util/HashMap$Node", "java.util.HashMap$Node"),
            ("[Ljava/lang/String;", "java.lang.String[]"),
            ("[[B", "byte[][]"),
            ("App$$Lambda$14+0x0000000800c03000", "App$$Lambda$14"),
        ] {
            assert_eq!(class_name(symbol), written);
        }
    }
}

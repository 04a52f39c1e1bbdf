//! The fields of a class.

use observe::fact::memory::Memory;
use symbols::hotspot::Numbers;

use super::heap::Heap;
use super::layout::{FIELD_SLOTS, Fields};

/// A class file has at most so many.
const FIELDS_MAX: u64 = 65_535;
/// Of compressed numbers, all fields of a class.
const STREAM_BYTES_MAX: u64 = 1 << 20;
/// `JVM_ACC_STATIC`.
const STATIC: u32 = 0x8;
/// Of `FieldInfo` before JDK 21: the lower bits of a place say what it is.
const PLACE_TAG_BITS: u32 = 2;
const PLACE_IS_OFFSET: u32 = 1;
/// Bits of `FieldInfo::FieldFlags`.
const HAS_VALUE: u32 = 1 << 0;
const INJECTED: u32 = 1 << 1;
const HAS_GENERIC: u32 = 1 << 2;
const HAS_GROUP: u32 = 1 << 4;

/// A field that is declared in Java.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// In the object, or of a static field in the java.lang.Class; bytes.
    pub offset: u32,
    pub is_static: bool,
    /// Index of the name in the constant pool.
    pub name: u16,
}

/// As it stands in the class: any type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Declared {
    field: Field,
    signature: u16,
}

impl Heap<'_> {
    /// Fields of a class itself that refer to objects, without those that it inherits.
    pub fn fields(&self, class: u64) -> Option<Vec<Field>> {
        let pool = self.pointer(class, self.layout.instance.constants)?;
        let refers = |of: &Declared| {
            let signature = self.constant_word(pool, of.signature)?;
            let mut first = [0];
            self.pages
                .read(signature.checked_add(self.layout.symbol.body)?, &mut first)?;
            matches!(first[0], b'L' | b'[').then_some(())
        };
        let declared = self.all_fields(class)?;
        let fields = declared.iter().filter(|of| refers(of).is_some());
        Some(fields.map(|of| of.field).collect())
    }

    /// Of any type.
    pub fn declared(&self, class: u64) -> Option<Vec<Field>> {
        let declared = self.all_fields(class)?;
        Some(declared.iter().map(|of| of.field).collect())
    }

    fn all_fields(&self, class: u64) -> Option<Vec<Declared>> {
        Some(match self.layout.instance.fields {
            Fields::Slots { at, count_at } => {
                let count = u64::from(self.half(class, count_at)?);
                let bytes = count * FIELD_SLOTS * 2;
                let slots = self.pointer(class, at)?.checked_add(4)?;
                slots_of(
                    &self
                        .pages
                        .bytes(slots, bytes, FIELDS_MAX * FIELD_SLOTS * 2)?,
                )
            }
            Fields::Stream { at } => {
                let stream = self.pointer(class, at)?;
                let length = u64::from(self.int(stream, 0)?).min(STREAM_BYTES_MAX);
                let bytes = self
                    .pages
                    .bytes(stream.checked_add(4)?, length, STREAM_BYTES_MAX)?;
                stream_of(&bytes)?
            }
        })
    }

    pub fn field_name(&self, class: u64, field: Field) -> Option<String> {
        let pool = self.pointer(class, self.layout.instance.constants)?;
        self.constant(pool, field.name)
    }
}

/// Access flags, name, signature, initial value, and the place in two halves.
fn slots_of(bytes: &[u8]) -> Vec<Declared> {
    let fields = bytes.as_chunks::<12>().0.iter();
    let declared = fields.filter_map(|slots| {
        let slot = |at: usize| u16::from_le_bytes([slots[2 * at], slots[2 * at + 1]]);
        let place = u32::from(slot(5)) << 16 | u32::from(slot(4));
        let is_offset = place & ((1 << PLACE_TAG_BITS) - 1) == PLACE_IS_OFFSET;
        is_offset.then(|| Declared {
            field: Field {
                offset: place >> PLACE_TAG_BITS,
                is_static: u32::from(slot(0)) & STATIC != 0,
                name: slot(1),
            },
            signature: slot(2),
        })
    });
    declared.collect()
}

/// JDK 21 and later: how many are Java's and how many are not, then the fields.
fn stream_of(bytes: &[u8]) -> Option<Vec<Declared>> {
    let mut numbers = Numbers {
        bytes,
        without_zeros: true,
    };
    let (count, _injected) = (numbers.number()?, numbers.number()?);
    let mut declared = Vec::new();
    for _ in 0..u64::from(count).min(FIELDS_MAX) {
        let (name, signature) = (numbers.number()?, numbers.number()?);
        let (offset, access, flags) = (numbers.number()?, numbers.number()?, numbers.number()?);
        for more in [HAS_VALUE, HAS_GENERIC, HAS_GROUP] {
            if flags & more != 0 {
                numbers.number()?;
            }
        }
        if flags & INJECTED != 0 {
            continue;
        }
        declared.push(Declared {
            field: Field {
                offset,
                is_static: access & STATIC != 0,
                name: u16::try_from(name).ok()?,
            },
            signature: u16::try_from(signature).ok()?,
        });
    }
    Some(declared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(offset: u32, is_static: bool, name: u16, signature: u16) -> Declared {
        Declared {
            field: Field {
                offset,
                is_static,
                name,
            },
            signature,
        }
    }

    #[test]
    fn fields_in_slots_and_in_numbers() {
        let slots: [u16; 12] = [0x8, 3, 4, 0, 112 << 2 | 1, 0, 0x2, 5, 6, 0, 0, 0];
        let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        // The second one has no place yet.
        assert_eq!(slots_of(&bytes), [declared(112, true, 3, 4)]);
        // Two fields, none injected; each number is one more. The first has an initial value and a generic type.
        let stream = [3, 1, 6, 7, 13, 9, 6, 100, 101, 8, 9, 17, 3, 1];
        assert_eq!(
            stream_of(&stream).unwrap(),
            [declared(12, true, 5, 6), declared(16, false, 7, 8)]
        );
        assert_eq!(stream_of(&stream[..9]), None, "cut off");
    }
}

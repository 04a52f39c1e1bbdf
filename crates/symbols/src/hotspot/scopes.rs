//! Which methods the compiler inlined at a place of its code (`pcDesc.hpp`, `debugInfoRec.cpp`, `unsigned5.hpp`).

use super::blob::{Blob, int};
use super::layout::{Layout, ScopesLayout};
use crate::memory::Memory;

/// Methods inlined into one place.
const DEPTH_MAX: usize = 32;
const PCS_MAX: u64 = 1 << 20;
/// Three compressed numbers.
const SCOPE_BYTES: usize = 16;

/// A method at a place, with the index of its bytecode.
pub type Inlined = (u64, Option<u64>);

/// The methods at a place of compiled code, innermost first; without what was inlined where that cannot be read.
/// `offset`: of the place from the beginning of the code; of a call, that of its return.
pub fn methods(memory: Memory, layout: &Layout, blob: &Blob, offset: u64) -> Vec<Inlined> {
    let outermost = || blob.word(layout.blob.method).map(|method| (method, None));
    inlined(memory, layout, blob, offset)
        .filter(|methods| !methods.is_empty())
        .unwrap_or_else(|| outermost().into_iter().collect())
}

struct Tables {
    pcs: u64,
    pcs_end: u64,
    data: u64,
    metadata: u64,
}

fn tables(layout: &Layout, blob: &Blob) -> Option<Tables> {
    let offset = |at: usize| blob.int(at).map(u64::from);
    Some(match *layout.blob.scopes.as_ref()? {
        ScopesLayout::Inside {
            pcs,
            pcs_end,
            data,
            metadata,
        } => Tables {
            pcs: blob.address.checked_add(offset(pcs)?)?,
            pcs_end: blob.address.checked_add(offset(pcs_end)?)?,
            data: blob.word(data)?,
            metadata: blob.address.checked_add(offset(metadata)?)?,
        },
        ScopesLayout::Apart {
            immutable,
            pcs,
            data,
            mutable,
        } => {
            let (immutable, (mutable, relocations)) = (blob.word(immutable)?, mutable?);
            Tables {
                pcs: immutable.checked_add(offset(pcs)?)?,
                pcs_end: immutable.checked_add(offset(data)?)?,
                data: immutable.checked_add(offset(data)?)?,
                metadata: blob.word(mutable)?.checked_add(offset(relocations)?)?,
            }
        }
    })
}

fn inlined(memory: Memory, layout: &Layout, blob: &Blob, offset: u64) -> Option<Vec<Inlined>> {
    let tables = tables(layout, blob)?;
    let mut scope = scope_at(memory, layout, &tables, offset)?;
    let mut methods = Vec::new();
    while scope != 0 && methods.len() < DEPTH_MAX {
        let mut bytes = [0; SCOPE_BYTES];
        let count = memory
            .read(tables.data.checked_add(scope)?, &mut bytes)
            .ok()?;
        let mut numbers = Numbers {
            bytes: &bytes[..count],
            without_zeros: layout.without_zeros,
        };
        let (sender, method) = (numbers.number()?, numbers.number()?);
        // -1: before the first bytecode.
        let bytecode = numbers.number()?.checked_sub(1);
        let place = tables
            .metadata
            .checked_add(8 * u64::from(method.checked_sub(1)?))?;
        methods.push((memory.long(place)?, bytecode.map(u64::from)));
        // Those further out were recorded before.
        let sender = u64::from(sender);
        if sender >= scope {
            return None;
        }
        scope = sender;
    }
    Some(methods)
}

/// Where the scope of the first PcDesc at or behind a place is in the stream. They are sorted.
fn scope_at(memory: Memory, layout: &Layout, tables: &Tables, offset: u64) -> Option<u64> {
    let of = layout.pc_desc;
    let count = tables.pcs_end.checked_sub(tables.pcs)? / of.bytes as u64;
    let (mut low, mut high) = (0, count.min(PCS_MAX));
    let mut found = None;
    while low < high {
        let middle = (low + high) / 2;
        let mut bytes = vec![0; of.bytes];
        memory
            .read(
                tables.pcs.checked_add(middle * of.bytes as u64)?,
                &mut bytes,
            )
            .ok()?;
        // The first has -1, the last the largest number.
        let at = int(&bytes, of.pc)? as i32;
        if i64::from(at) >= i64::try_from(offset).ok()? {
            found = Some(u64::from(int(&bytes, of.scope)?));
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    found
}

/// Compressed numbers, UNSIGNED5.
pub struct Numbers<'a> {
    pub bytes: &'a [u8],
    pub without_zeros: bool,
}

impl Numbers<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u32> {
        const LENGTH_MAX: usize = 5;
        let excluded = u32::from(self.without_zeros);
        let low = 192 - excluded;
        let mut sum = 0_u32;
        for at in 0..LENGTH_MAX {
            let digit = u32::from(self.byte()?).checked_sub(excluded)?;
            sum = sum.wrapping_add(digit << (6 * at));
            if digit < low {
                break;
            }
        }
        Some(sum)
    }

    pub fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        Some((number >> 1) as i32 ^ -((number & 1) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bytes: &[u8], without_zeros: bool) -> Vec<u32> {
        let mut numbers = Numbers {
            bytes,
            without_zeros,
        };
        std::iter::from_fn(|| numbers.number()).collect()
    }

    #[test]
    fn numbers_of_one_byte_and_of_more() {
        assert_eq!(numbers(&[0, 5, 191], false), [0, 5, 191]);
        assert_eq!(numbers(&[192, 0, 255, 1, 7], false), [192, 255 + 64, 7]);
        // JDK 20 and later: each byte is one more, and a high digit begins at 191.
        assert_eq!(numbers(&[1, 6, 191], true), [0, 5, 190]);
        assert_eq!(numbers(&[192, 1, 255, 2], true), [191, 254 + 64]);
        assert_eq!(numbers(&[192], false), [0; 0], "cut off");
    }

    #[test]
    fn numbers_with_a_sign() {
        let of = |byte| {
            let mut numbers = Numbers {
                bytes: &[byte],
                without_zeros: false,
            };
            numbers.signed()
        };
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [Some(0), Some(-1), Some(1), Some(-2)]
        );
    }
}

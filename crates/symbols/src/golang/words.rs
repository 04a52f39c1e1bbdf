//! Words in the memory of a Go program: the header of its table of functions, and searches.

use std::ops::Range;

use observe::fact::memory::Memory;

/// `pcHeader.magic` of Go 1.18 and 1.19, and since 1.20.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
const CHUNK: u64 = 1 << 16;

/// The smallest step between two instructions, from the header of a table of functions. `None`: it is none.
pub fn quantum(memory: &dyn Memory, table: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(table, &mut bytes)?;
    if !MAGICS.contains(&u32_at(&bytes, 0)?) {
        return None;
    }
    // Two zero bytes, the step, the size of a pointer.
    let quantum = u64::from(bytes[6]);
    (bytes[4..6] == [0, 0] && matches!(quantum, 1 | 2 | 4) && bytes[7] == 8).then_some(quantum)
}

/// The header of a table of functions: its first word but for the step between instructions.
pub fn find_pclntab(memory: &dyn Memory, range: Range<u64>) -> Option<u64> {
    find_word(memory, range, &mut |at, word| {
        (word >> 56 == 8 && quantum(memory, at).is_some()).then_some(at)
    })
}

/// Calls `test` with each aligned word of a range until it finds something. What cannot be read is left out.
pub fn find_word<T>(
    memory: &dyn Memory,
    range: Range<u64>,
    test: &mut dyn FnMut(u64, u64) -> Option<T>,
) -> Option<T> {
    let mut at = range.start.checked_next_multiple_of(8)?;
    while at < range.end {
        let length = CHUNK.min(range.end - at) & !7;
        if length == 0 {
            return None;
        }
        if let Some(bytes) = memory.bytes(at, length, CHUNK) {
            let (words, _) = bytes.as_chunks();
            let mut words = words.iter().zip(0..);
            let found =
                words.find_map(|(word, index)| test(at + 8 * index, u64::from_le_bytes(*word)));
            if found.is_some() {
                return found;
            }
        }
        at += length;
    }
    None
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

//! The runtime's variables in a program without a symbol table: found by what they point to.
//!
//! Each of them is recognised by something that other data cannot have by chance: a bucket by its hash, the first
//! goroutine by its number and by a pointer to itself, the wait reasons by their words.

use observe::fact::memory::Memory;

use super::goroutines::{points_to_itself, read_goroutine};
use super::layout::Layout;
use super::module::{Module, find_word};
use super::profile::read_bucket;

/// Variables that are searched.
const DATA_BYTES_MAX: u64 = 64 << 20;
/// Words in `struct g` from its status to `goid`.
const NUMBER_BEHIND_STATUS: u64 = 8;
const GOROUTINES_MAX: u64 = 1 << 32;
/// The first reasons of every version: none, then these.
const REASONS: [&[u8]; 2] = [b"GC assist marking", b"IO wait"];

/// The head of the heap profile.
pub fn buckets(memory: &dyn Memory, module: &Module, layout: &Layout) -> Option<u64> {
    let range = module.bss.start..bounded(&module.bss);
    find_word(memory, range, &mut |at, word| {
        let may_be = word != 0 && word.is_multiple_of(8) && !module.bss.contains(&word);
        let bucket = may_be.then(|| read_bucket(memory, word, layout.cycle_bytes))??;
        // Hashes of nothing are equal.
        (!bucket.stack.is_empty()).then_some(at)
    })
}

/// The address of the slice of all goroutines. A collection keeps a copy, which may be shorter: the longest is it.
pub fn goroutines(memory: &dyn Memory, module: &Module, layout: &Layout) -> Option<u64> {
    let mut found: Option<(u64, u64)> = None;
    let range = module.bss.start..bounded(&module.bss);
    find_word::<()>(memory, range, &mut |at, word| {
        if word == 0 || !word.is_multiple_of(8) || module.bss.contains(&word) {
            return None;
        }
        let first = memory.u64(word)?;
        let number = first.checked_add(layout.status as u64 + NUMBER_BEHIND_STATUS)?;
        if memory.u64(number)? != 1 || read_goroutine(memory, first, layout)?.is_none() {
            return None;
        }
        let (count, capacity) = (memory.u64(at + 8)?, memory.u64(at + 16)?);
        let is_slice = count > 0 && count <= capacity && capacity < GOROUTINES_MAX;
        // A lone pointer to the same array is followed by other words, which may look like a length.
        let is_full = || {
            [count / 2, count - 1]
                .into_iter()
                .all(|index| is_goroutine(memory, word, index))
        };
        if is_slice && is_full() && found.is_none_or(|(_, longest)| count > longest) {
            found = Some((at, count));
        }
        None
    });
    found.map(|(at, _)| at)
}

/// Whether an array has a goroutine at a place.
fn is_goroutine(memory: &dyn Memory, array: u64, index: u64) -> bool {
    let at = array.checked_add(8 * index).and_then(|at| memory.u64(at));
    at.is_some_and(|at| points_to_itself(memory, at))
}

/// The address of `runtime.waitReasonStrings`.
pub fn reasons(memory: &dyn Memory, module: &Module) -> Option<u64> {
    let range = module.data.start..bounded(&module.data);
    find_word(memory, range, &mut |at, word| {
        // Two words of the first string, which is empty, are in front.
        let is = |at: u64, text: &[u8]| {
            let mut bytes = [0; 32];
            let bytes = &mut bytes[..text.len()];
            let length = memory.u64(at.checked_add(8)?)?;
            memory.read(memory.u64(at)?, bytes)?;
            (length == text.len() as u64 && bytes == text).then_some(())
        };
        if word == 0 || !module.data.contains(&at.checked_sub(16)?) {
            return None;
        }
        is(at, REASONS[0])?;
        is(at + 16, REASONS[1])?;
        Some(at - 16)
    })
}

fn bounded(range: &std::ops::Range<u64>) -> u64 {
    range.end.min(range.start.saturating_add(DATA_BYTES_MAX))
}

//! The runtime's variables in a program without a symbol table: found by what they point to.
//!
//! Each of them is recognised by something that other data cannot have by chance: a bucket by its hash, the first
//! goroutine by its number and by a pointer to itself.

use observe::fact::memory::Memory;

use super::budget::Budget;
use super::goroutines::{points_to_itself, read_goroutine};
use super::layout::Layout;
use super::profile::read_bucket;
use symbols::golang::module::Module;
use symbols::golang::paged::Paged;
use symbols::golang::words::find_word;

/// Variables that are searched.
const DATA_BYTES_MAX: u64 = 64 << 20;
/// Words in `struct g` from its status to `goid`.
const NUMBER_BEHIND_STATUS: u64 = 8;
const GOROUTINES_MAX: u64 = 1 << 32;
/// Addresses of a program are between these.
const ADDRESS_MIN: u64 = 0x1_0000;
const ADDRESS_MAX: u64 = 1 << 48;

/// The head of the heap profile. A budget that is spent ends this and every other search.
pub fn buckets(
    memory: &dyn Memory,
    module: &Module,
    layout: &Layout,
    budget: &mut Budget,
) -> Option<u64> {
    // The collector does not need to see the pointer: in 1.18 it is among what holds none.
    let ranges = [&module.bss, &module.noptrbss].map(|range| range.start..bounded(range));
    // Pointers of the runtime's are close to one another: most of them lie in pages that were read already.
    let paged = &Paged::new(memory);
    ranges.into_iter().find_map(|range| {
        find_word(memory, range, &mut |at, word| {
            let may_be = is_pointer(word) && !module.bss.contains(&word) && budget.step();
            let bucket = may_be.then(|| read_bucket(paged, word, layout.cycle_bytes))??;
            // Hashes of nothing are equal.
            (!bucket.stack.is_empty()).then_some(at)
        })
    })
}

/// The address of the slice of all goroutines. A collection keeps a copy, which may be shorter: the longest is it.
pub fn goroutines(
    memory: &dyn Memory,
    module: &Module,
    layout: &Layout,
    budget: &mut Budget,
) -> Option<u64> {
    let paged = &Paged::new(memory);
    let mut found: Option<(u64, u64)> = None;
    let range = module.bss.start..bounded(&module.bss);
    find_word::<()>(memory, range, &mut |at, word| {
        if !is_pointer(word) || module.bss.contains(&word) || !budget.step() {
            return None;
        }
        let first = paged.u64(word)?;
        let number = first.checked_add(layout.status as u64 + NUMBER_BEHIND_STATUS)?;
        if paged.u64(number)? != 1 || read_goroutine(paged, first, layout)?.is_none() {
            return None;
        }
        let (count, capacity) = (
            paged.u64(at.checked_add(8)?)?,
            paged.u64(at.checked_add(16)?)?,
        );
        let is_slice = count > 0 && count <= capacity && capacity < GOROUTINES_MAX;
        // A lone pointer to the same array is followed by other words, which may look like a length.
        let is_full = || {
            [count / 2, count - 1]
                .into_iter()
                .all(|index| is_goroutine(paged, word, index))
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

/// Whether a word may be the address of a structure.
fn is_pointer(word: u64) -> bool {
    word.is_multiple_of(8) && (ADDRESS_MIN..ADDRESS_MAX).contains(&word)
}

fn bounded(range: &std::ops::Range<u64>) -> u64 {
    range.end.min(range.start.saturating_add(DATA_BYTES_MAX))
}

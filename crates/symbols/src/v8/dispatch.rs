//! The table through which functions find their code, from V8 13 on (`js-dispatch-table.h`): a function has the number
//! of an entry, and the entry the code.

use std::cell::Cell;

use super::heap::Heap;

/// `{ Address entrypoint; Address encoded; }`: the upper 48 bits of the second are the code's address.
const ENTRY_BYTES: u64 = 16;
const HANDLE_SHIFT: u32 = 8;
const CODE_SHIFT: u32 = 16;
/// What is read of the object that the table's address is in.
const GROUP_WORDS: usize = 2 * 1024;
/// A program that has compiled nothing yet has no entry to know the table by.
const SOUGHT_MAX: u32 = 20;

#[derive(Default)]
pub struct Dispatch {
    /// Where the address of V8's `IsolateGroup` is; 0: not known.
    pub group: u64,
    table: Cell<Option<u64>>,
    sought: Cell<u32>,
}

impl Dispatch {
    /// The word that points to the code of a function with this handle. `is_code`: whether V8 made the code at an
    /// address.
    pub fn code(&self, heap: &Heap, handle: u32, is_code: &dyn Fn(u64) -> bool) -> Option<u64> {
        if let Some(table) = self.table.get() {
            return entry(heap, table, handle, is_code);
        }
        if self.group == 0 || self.sought.get() == SOUGHT_MAX {
            return None;
        }
        self.sought.set(self.sought.get() + 1);
        let words = heap.words(heap.word(self.group)?, GROUP_WORDS)?;
        let page = |word: &&u64| **word != 0 && word.is_multiple_of(4096) && **word >> 47 == 0;
        let candidates = words.iter().filter(page);
        let found = candidates.copied().find_map(|table| {
            let code = entry(heap, table, handle, is_code)?;
            Some((table, code))
        });
        self.table.set(found.map(|(table, _)| table));
        found.map(|(_, code)| code)
    }
}

fn entry(heap: &Heap, table: u64, handle: u32, is_code: &dyn Fn(u64) -> bool) -> Option<u64> {
    let index = u64::from(handle >> HANDLE_SHIFT);
    let words = heap.words(table.checked_add(index * ENTRY_BYTES)?, 2)?;
    let code = words[1] >> CODE_SHIFT | 1;
    let (_, own_type) = heap.object(code)?;
    let of = heap.layout.code.as_ref()?;
    (is_code(words[0]) && own_type == of.own_type).then_some(code)
}

//! Marking: which objects each root reaches before any other does.
//!
//! All roots of a phase start at once and advance by one reference at a time: an object is counted to the nearest of
//! them. Contents are scanned word by word; a word that is an address in an object in use counts as a reference.

use std::collections::HashMap;

use super::super::budget::Budget;
use super::blocks::{BLOCK, Blocks};
use super::spans::Heap;
use crate::RootCount;
use symbols::golang::pclntab::words;

/// Roots that are told apart; those after them count to the last.
pub const ROOTS_MAX: usize = 1 << ROOT_BITS;
const ROOT_BITS: u32 = 20;
/// Objects of a wave in one block, above which all of it is read though it has no room for long.
const NEIGHBOURS: usize = 4;

pub struct Marks<'a> {
    blocks: Blocks<'a>,
    pub found: Found,
}

/// Apart from the blocks, which are read at the same time.
pub struct Found {
    pub heap: Heap,
    /// By the number of the root.
    pub roots: Vec<RootCount>,
    numbers: HashMap<String, u32>,
    /// Objects to be scanned: the address and the root packed, so that they sort by address.
    next: Vec<u64>,
    /// The most that `next` and the wave in front of it have taken, in bytes.
    taken: usize,
}

impl Found {
    pub fn new(heap: Heap) -> Found {
        Found {
            heap,
            roots: Vec::new(),
            numbers: HashMap::new(),
            next: Vec::new(),
            taken: 0,
        }
    }

    /// The number of the root with this name.
    pub fn root(&mut self, name: &str, type_name: Option<&str>) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.roots.len() == ROOTS_MAX {
            return ROOTS_MAX as u32 - 1;
        }
        let number = self.roots.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.roots.push(RootCount {
            name: name.to_owned(),
            type_name: type_name.map(str::to_owned),
            ..RootCount::default()
        });
        number
    }

    /// Counts the object at an address to a root, if it was not counted yet.
    pub fn reach(&mut self, address: u64, root: u32) {
        let Some(object) = self.heap.find(address) else {
            return;
        };
        let Some(span) = self.heap.mark(object) else {
            return;
        };
        let count = &mut self.roots[root as usize];
        count.objects += 1;
        count.bytes += span.element_bytes;
        if !span.is_noscan {
            let start = span.start + u64::from(object.1) * span.element_bytes;
            self.next.push(start >> 3 << ROOT_BITS | u64::from(root));
        }
    }

    /// Whether there is room for what is to be scanned.
    fn has_room(&mut self, wave: usize, budget: &mut Budget) -> bool {
        let bytes = 8 * (wave + self.next.capacity());
        if bytes > self.taken {
            budget.keep(bytes - self.taken);
            self.taken = bytes;
        }
        budget.step()
    }
}

impl<'a> Marks<'a> {
    pub fn new(blocks: Blocks<'a>, heap: Heap) -> Marks<'a> {
        Marks {
            blocks,
            found: Found::new(heap),
        }
    }

    /// Follows references until there are no more. `false`: the budget is spent.
    pub fn run(&mut self, budget: &mut Budget) -> bool {
        while !self.found.next.is_empty() {
            let mut wave = std::mem::take(&mut self.found.next);
            wave.sort_unstable();
            for (index, &item) in wave.iter().enumerate() {
                let later = wave.get(index + NEIGHBOURS - 1);
                let is_near = later.is_some_and(|later| block_of(*later) == block_of(item));
                let is_whole = is_near || self.blocks.holds_all;
                if !self.scan(item, wave.len(), is_whole, budget) {
                    return false;
                }
            }
        }
        true
    }

    fn scan(&mut self, item: u64, wave: usize, is_whole: bool, budget: &mut Budget) -> bool {
        let root = (item as u32) & (ROOTS_MAX as u32 - 1);
        let Some(object) = self.found.heap.find(address_of(item)) else {
            return true;
        };
        let (mut at, end) = self.found.heap.range(object);
        while at < end {
            if !self.found.has_room(wave, budget) {
                return false;
            }
            let upto = ((at / BLOCK + 1) * BLOCK).min(end);
            let is_whole = is_whole || upto - at == BLOCK;
            let bytes = self.blocks.get(&self.found.heap, at, upto, is_whole);
            for word in words(bytes) {
                self.found.reach(word, root);
            }
            at = upto;
        }
        true
    }

    pub fn swapped_bytes(&self) -> u64 {
        self.blocks.resident.swapped_bytes
    }
}

fn address_of(item: u64) -> u64 {
    item >> ROOT_BITS << 3
}

fn block_of(item: u64) -> u64 {
    address_of(item) / BLOCK
}

//! Memory of the heap in blocks: each is read with a few system calls, and kept as long as there is room.

use observe::fact::memory::Memory;
use observe::proc::pagemap::{PAGE_BYTES, PageState, Pagemap};

use super::spans::{Heap, PAGE_BITS};

pub const BLOCK: u64 = 64 << 10;
const HEAP_PAGE: u64 = 1 << PAGE_BITS;
// A block takes about as long to read as four objects; where it is of no use, one in 64 reads is still of a block.
const WHOLE: u32 = 64;
const HIT: u32 = 16;
const CREDIT_MAX: u32 = 64 * WHOLE;

/// The memory of a process, and which of its pages are there.
pub struct Resident<'a> {
    pub memory: &'a dyn Memory,
    /// Without it all pages are read.
    pub pages: Option<Pagemap>,
    /// Not read: reading would bring them back from swap.
    pub swapped_bytes: u64,
}

impl Resident<'_> {
    /// Reads the pages that are resident; the others are zero.
    fn read(&mut self, start: u64, out: &mut [u8]) {
        let end = start + out.len() as u64;
        let pages = end.div_ceil(PAGE_BYTES) - start / PAGE_BYTES;
        let mut states = vec![PageState::Present; pages as usize];
        let asked = self
            .pages
            .as_ref()
            .map(|pages| pages.states(start, &mut states));
        if asked == Some(None) {
            states.fill(PageState::Present);
        }
        let mut at = start;
        for run in states.chunk_by(PageState::eq) {
            let upto = ((at / PAGE_BYTES + run.len() as u64) * PAGE_BYTES).min(end);
            let part = &mut out[(at - start) as usize..(upto - start) as usize];
            let is_read = run[0] == PageState::Present && self.memory.read(at, part).is_some();
            if !is_read {
                part.fill(0);
            }
            if run[0] == PageState::Swapped {
                self.swapped_bytes += run.len() as u64 * PAGE_BYTES;
            }
            at = upto;
        }
    }
}

struct Slot {
    number: u64,
    bytes: Box<[u8]>,
}

/// Copies of blocks. A block has one place, so that blocks next to each other never replace each other.
pub struct Blocks<'a> {
    pub resident: Resident<'a>,
    slots: Vec<Option<Slot>>,
    /// All blocks of the heap have room.
    pub holds_all: bool,
    part: Vec<u8>,
    /// For reading whole blocks for one object: what blocks that were read have saved, less what they took.
    credit: u32,
}

impl<'a> Blocks<'a> {
    pub fn new(resident: Resident<'a>, bytes: u64, heap: &Heap) -> Blocks<'a> {
        let count = (bytes / BLOCK).max(1);
        Blocks {
            resident,
            slots: (0..count).map(|_| None).collect(),
            holds_all: heap.scanned_bytes() <= bytes,
            part: Vec::new(),
            credit: CREDIT_MAX,
        }
    }

    /// A range inside one block. With `is_whole` its block is read, otherwise only the range unless the block is there,
    /// or blocks have been of use lately: lists are mostly in the order of their addresses.
    pub fn get(&mut self, heap: &Heap, start: u64, end: u64, is_whole: bool) -> &[u8] {
        let number = start / BLOCK;
        let place = (number % self.slots.len() as u64) as usize;
        let is_kept = self.slots[place]
            .as_ref()
            .is_some_and(|slot| slot.number == number);
        if is_kept {
            self.credit = (self.credit + HIT).min(CREDIT_MAX);
        } else if !is_whole && self.credit >= WHOLE {
            self.credit -= WHOLE;
        } else if !is_whole {
            self.credit += 1;
            self.part.resize((end - start) as usize, 0);
            self.resident.read(start, &mut self.part);
            return &self.part;
        }
        let slot = self.slots[place].get_or_insert_with(|| Slot {
            number,
            bytes: vec![0; BLOCK as usize].into(),
        });
        if !is_kept {
            slot.number = number;
            fill(&mut self.resident, heap, number * BLOCK, &mut slot.bytes);
        }
        &slot.bytes[(start % BLOCK) as usize..][..(end - start) as usize]
    }
}

/// Reads the pages of a block that are of spans with pointers, neighbours at once.
fn fill(resident: &mut Resident, heap: &Heap, start: u64, bytes: &mut [u8]) {
    let (mut at, end) = (start, start + BLOCK);
    while at < end {
        let is_scanned = heap.is_scanned(at);
        let mut upto = at + HEAP_PAGE;
        while upto < end && heap.is_scanned(upto) == is_scanned {
            upto += HEAP_PAGE;
        }
        if is_scanned {
            resident.read(
                at,
                &mut bytes[(at - start) as usize..(upto - start) as usize],
            );
        }
        at = upto;
    }
}

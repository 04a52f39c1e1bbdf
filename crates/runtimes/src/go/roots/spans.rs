//! The spans of the heap: from an address to the object that holds it.
//!
//! Every object of Go's heap is in a span: some pages that are cut into objects of one size. `runtime.mheap_.allspans`
//! lists all spans that there ever were.

use observe::fact::memory::Memory;

use super::super::budget::Budget;
use super::super::layout::SpanLayout;
use symbols::golang::paged::Paged;
use symbols::golang::pclntab::words;
use symbols::golang::words::u64_at;

pub const PAGE_BITS: u32 = 13;
const PAGE: u64 = 1 << PAGE_BITS;
/// Pages of an arena, in which the runtime reserves addresses: 64 MiB.
const ARENA_PAGES: usize = 8192;
/// Addresses of user space: 47 bits on x86_64, 48 on aarch64.
const ADDRESS_MAX: u64 = if cfg!(target_arch = "x86_64") {
    1 << 47
} else {
    1 << 48
};
/// Arenas between the lowest and the highest: 16 TiB of addresses.
const ARENAS_MAX: u64 = 1 << 18;
/// Of the list of spans; more are not believed.
const SPANS_MAX: u64 = 1 << 28;
const POINTERS: u64 = 8192;
/// Of `struct mspan` that is read.
const SPAN_BYTES: usize = 120;
const NO_SPAN: u32 = u32::MAX;
const IN_USE: u8 = 1;
/// `sweepgen`, which each collection changes, is so far in front of the list of spans.
const GENERATION: u64 = 8;
/// Bytes of one table of free objects that are read: a span of 8 KiB has at most 1,024 objects, one of 512 KiB 65,536.
const BITS_MAX: u64 = 8192;

// Offsets in `struct mspan` that are the same in all versions.
const START: usize = 24;
const PAGES: usize = 32;
const FREE_INDEX: usize = 48;

/// A span in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub element_bytes: u64,
    pub count: u32,
    pages: u32,
    /// Its objects have no pointers.
    pub is_noscan: bool,
    /// Of its objects in [`Heap::seen`], in words.
    marks: usize,
}

/// One as it was read: the objects in front of `free_index` are in use, those behind it by their bits.
struct Read {
    span: Span,
    free_index: u32,
    bits: u64,
}

/// All spans in use, and one bit for each of their objects.
#[derive(Default)]
pub struct Heap {
    pub spans: Vec<Span>,
    low_arena: u64,
    arenas: Vec<Option<Box<[u32]>>>,
    /// Objects that are free, or were counted already.
    seen: Vec<u64>,
}

/// An object: its span's number, and its own in that.
pub type Object = (u32, u32);

impl Heap {
    /// From `runtime.mheap_`. `Err`: a sentence.
    pub fn read(
        memory: &dyn Memory,
        list: u64,
        layout: &SpanLayout,
        budget: &mut Budget,
    ) -> Result<Heap, String> {
        let generation = || list.checked_sub(GENERATION).and_then(|at| memory.u32(at));
        let before = generation();
        let pointers = read_list(memory, list, budget)?;
        let paged = Paged::new(memory);
        let mut spans = Vec::new();
        for pointer in pointers {
            if !budget.step() {
                return Err(ended(budget));
            }
            spans.extend(read_span(&paged, pointer, layout));
        }
        if !budget.keep(spans.len() * size_of::<Read>()) {
            return Err(ended(budget));
        }
        // While the list was read, pages may have moved from one span to another.
        spans.sort_unstable_by_key(|read: &Read| read.span.start);
        spans.dedup_by(|next, before| next.span.start < before.span.end());
        let mut heap = Heap::default();
        heap.index(&mut spans, budget)
            .ok_or_else(|| ended(budget))?;
        heap.read_free(memory, spans, budget)
            .ok_or_else(|| ended(budget))?;
        if generation() != before {
            // A collection has ended meanwhile. The next one reuses the bits that were read for some spans: none are
            // believed then, and an object that is free counts if something still points to it.
            heap.seen.fill(0);
        }
        Ok(heap)
    }

    fn index(&mut self, spans: &mut Vec<Read>, budget: &mut Budget) -> Option<()> {
        let Some(first) = spans.first() else {
            return Some(());
        };
        let arena_of = |address: u64| address >> PAGE_BITS >> ARENA_PAGES.trailing_zeros();
        self.low_arena = arena_of(first.span.start);
        let limit = self.low_arena + ARENAS_MAX;
        spans.retain(|read| arena_of(read.span.end()) < limit);
        let count = arena_of(spans.last()?.span.end()) - self.low_arena + 1;
        budget.keep(8 * count as usize).then_some(())?;
        self.arenas.resize_with(count as usize, || None);
        let mut marks = 0;
        for (number, read) in (0..).zip(&mut *spans) {
            read.span.marks = marks;
            marks += read.span.count.div_ceil(64) as usize;
            let first = (read.span.start >> PAGE_BITS) - self.low_arena * ARENA_PAGES as u64;
            for page in first..first + u64::from(read.span.pages) {
                let arena = &mut self.arenas[page as usize / ARENA_PAGES];
                if arena.is_none() {
                    budget.keep(4 * ARENA_PAGES).then_some(())?;
                }
                let arena = arena.get_or_insert_with(|| vec![NO_SPAN; ARENA_PAGES].into());
                arena[page as usize % ARENA_PAGES] = number;
            }
        }
        budget.keep(8 * marks).then_some(())?;
        self.seen = vec![0; marks];
        self.spans = spans.iter().map(|read| read.span).collect();
        budget
            .keep(self.spans.len() * size_of::<Span>())
            .then_some(())
    }

    /// Marks the free objects, so that a word that still points to one counts nothing.
    fn read_free(
        &mut self,
        memory: &dyn Memory,
        mut spans: Vec<Read>,
        budget: &mut Budget,
    ) -> Option<()> {
        spans.sort_unstable_by_key(|read| read.bits);
        let paged = Paged::new(memory);
        let mut bits = vec![0; BITS_MAX as usize];
        for read in spans {
            budget.step().then_some(())?;
            let bytes = (read.span.count.div_ceil(8) as usize).min(BITS_MAX as usize);
            if read.free_index >= read.span.count
                || paged.read(read.bits, &mut bits[..bytes]).is_none()
            {
                continue;
            }
            for object in read.free_index..read.span.count.min(8 * bytes as u32) {
                if bits[object as usize / 8] >> (object % 8) & 1 == 0 {
                    self.seen[read.span.marks + object as usize / 64] |= 1 << (object % 64);
                }
            }
        }
        Some(())
    }

    /// The object that holds an address.
    pub fn find(&self, address: u64) -> Option<Object> {
        let number = self.span_at(address)?;
        let span = &self.spans[number as usize];
        let object = (address - span.start) / span.element_bytes;
        (object < u64::from(span.count)).then_some((number, object as u32))
    }

    fn span_at(&self, address: u64) -> Option<u32> {
        let page = address >> PAGE_BITS;
        let arena = (page / ARENA_PAGES as u64).wrapping_sub(self.low_arena);
        let arena = self.arenas.get(arena as usize)?.as_ref()?;
        let number = arena[page as usize % ARENA_PAGES];
        (number != NO_SPAN).then_some(number)
    }

    /// Whether objects at an address are scanned for pointers.
    pub fn is_scanned(&self, address: u64) -> bool {
        self.span_at(address)
            .is_some_and(|span| !self.spans[span as usize].is_noscan)
    }

    /// Counts an object once; `None`: it is free, or was counted.
    pub fn mark(&mut self, (span, object): Object) -> Option<&Span> {
        let span = &self.spans[span as usize];
        let word = &mut self.seen[span.marks + object as usize / 64];
        let bit = 1 << (object % 64);
        if *word & bit != 0 {
            return None;
        }
        *word |= bit;
        Some(span)
    }

    /// Where an object is: its start and its end.
    pub fn range(&self, (span, object): Object) -> (u64, u64) {
        let span = &self.spans[span as usize];
        let start = span.start + u64::from(object) * span.element_bytes;
        (start, start + span.element_bytes)
    }

    /// Bytes of spans whose objects are scanned.
    pub fn scanned_bytes(&self) -> u64 {
        let scanned = self.spans.iter().filter(|span| !span.is_noscan);
        scanned.map(|span| PAGE * u64::from(span.pages)).sum()
    }
}

impl Span {
    fn end(&self) -> u64 {
        self.start + PAGE * u64::from(self.pages)
    }
}

fn ended(budget: &Budget) -> String {
    let why = budget.spent().unwrap_or_default();
    format!("Which variables hold the objects is not known: {why}.")
}

const DAMAGED: &str = "Which variables hold the objects is not known: the list of the heap's spans could not be read.";

fn read_list(memory: &dyn Memory, list: u64, budget: &mut Budget) -> Result<Vec<u64>, String> {
    let damaged = || DAMAGED.to_owned();
    let word = |offset: u64| list.checked_add(offset).and_then(|at| memory.u64(at));
    // The count first: the array is replaced by a longer one before the count grows.
    let count = word(8).ok_or_else(damaged)?;
    let (at, capacity) = (word(0).ok_or_else(damaged)?, word(16).ok_or_else(damaged)?);
    if count > capacity || capacity > SPANS_MAX {
        return Err(damaged());
    }
    if !budget.keep(8 * count as usize) {
        return Err(ended(budget));
    }
    let mut pointers = Vec::with_capacity(count as usize);
    for index in (0..count).step_by(POINTERS as usize) {
        let length = 8 * POINTERS.min(count - index);
        let bytes = at.checked_add(8 * index);
        let bytes = bytes.and_then(|at| memory.bytes(at, length, 8 * POINTERS));
        pointers.extend(words(&bytes.ok_or_else(damaged)?));
    }
    // In the order of their addresses, each page of them is read once.
    pointers.sort_unstable();
    pointers.dedup();
    Ok(pointers)
}

/// `None`: it is not in use, or not as a span of objects is.
fn read_span(memory: &dyn Memory, at: u64, layout: &SpanLayout) -> Option<Read> {
    let mut bytes = [0; SPAN_BYTES];
    memory.read(at, &mut bytes)?;
    let word = |offset: usize| u64_at(&bytes, offset);
    let number = |offset: usize| match layout.is_wide {
        true => word(offset),
        false => Some(u64::from(u16::from_le_bytes([
            bytes[offset],
            bytes[offset + 1],
        ]))),
    };
    if bytes[layout.state] != IN_USE {
        return None;
    }
    let (start, pages) = (word(START)?, word(PAGES)?);
    let (count, element_bytes) = (number(layout.elements)?, word(layout.element_bytes)?);
    let is_placed = start.is_multiple_of(PAGE)
        && start < ADDRESS_MAX
        && (1..ADDRESS_MAX / PAGE).contains(&pages);
    let used = count.checked_mul(element_bytes)?;
    let is_cut = element_bytes.is_multiple_of(8)
        && used > 0
        && used <= pages * PAGE
        && count <= 8 * BITS_MAX;
    if !is_placed || !is_cut {
        return None;
    }
    let span = Span {
        start,
        element_bytes,
        count: count as u32,
        pages: u32::try_from(pages).ok()?,
        is_noscan: bytes[layout.class] & 1 != 0,
        marks: 0,
    };
    let free_index = number(FREE_INDEX)?.min(count) as u32;
    Some(Read {
        span,
        free_index,
        bits: word(layout.bits)?,
    })
}

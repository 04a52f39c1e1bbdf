//! A process's memory in chunks that are read once: a heap has millions of objects, and a system call for each is too
//! much.

use std::cell::RefCell;
use std::time::Instant;

use observe::fact::memory::Memory;
use observe::proc::pagemap::PageState;

use super::source::Source;

const CHUNK_BITS: u32 = 16;
const CHUNK_BYTES: usize = 1 << CHUNK_BITS;
const PAGE_BYTES: usize = 4_096;
const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
/// Chunks that are kept: 256 MiB at most.
const CHUNKS_MAX: usize = 4_096;
const CHUNKS_MIN: usize = 16;

/// From here on an array is read anew: large tables move, and what was read before of that memory may be of another.
pub const FRESH_WORDS_MIN: u64 = 1_024;

/// No address of a program is above.
pub const ADDRESS_MAX: u64 = 1 << 56;

/// What was read of a process, until it is read anew. Bounded: each chunk has one slot, and pushes out what was there.
pub struct Pages<'m> {
    source: &'m Source<'m>,
    slots: RefCell<Vec<Slot>>,
    deadline: Instant,
}

#[derive(Default)]
struct Slot {
    /// The chunk's number plus one; zero: nothing was read.
    chunk: u64,
    /// A bit for each page that was read.
    readable: u16,
    /// Pages of files that are not in RAM: they are read when they are needed.
    pending: u16,
    swapped: u16,
    bytes: Box<[u8]>,
}

impl<'m> Pages<'m> {
    /// `bytes`: of our memory that may be used.
    pub fn new(source: &'m Source<'m>, bytes: usize, deadline: Instant) -> Pages<'m> {
        // A power of two: the slot of a chunk is found by a mask.
        let count = (bytes / CHUNK_BYTES).clamp(CHUNKS_MIN, CHUNKS_MAX);
        let count = 1 << count.ilog2();
        let slots = (0..count).map(|_| Slot::default()).collect();
        Pages {
            source,
            slots: RefCell::new(slots),
            deadline,
        }
    }

    pub fn source(&self) -> &Source<'m> {
        self.source
    }

    /// Pages that were needed and are swapped out.
    pub fn swapped(&self) -> usize {
        self.source.swapped()
    }

    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// What is at an address is read anew the next time.
    pub fn forget(&self, address: u64) {
        let mut slots = self.slots.borrow_mut();
        let (chunk, mask) = (address >> CHUNK_BITS, slots.len() - 1);
        let slot = &mut slots[chunk as usize & mask];
        if slot.chunk == chunk + 1 {
            slot.chunk = 0;
        }
    }

    fn forget_range(&self, address: u64, bytes: u64) {
        let chunks = (bytes >> CHUNK_BITS) + 2;
        if chunks > self.slots.borrow().len() as u64 {
            return self.forget_all();
        }
        for chunk in 0..chunks {
            self.forget(address.saturating_add(chunk << CHUNK_BITS));
        }
    }

    /// Everything is read anew.
    pub fn forget_all(&self) {
        for slot in self.slots.borrow_mut().iter_mut() {
            slot.chunk = 0;
        }
    }

    pub fn word(&self, address: u64) -> Option<u64> {
        let at = (address & (CHUNK_BYTES as u64 - 1)) as usize;
        if at > CHUNK_BYTES - 8 {
            let mut bytes = [0; 8];
            self.read(address, &mut bytes)?;
            return Some(u64::from_le_bytes(bytes));
        }
        self.with_chunk(address, 8, |bytes| {
            bytes.try_into().map(u64::from_le_bytes).ok()
        })
    }

    /// A pointer in a field of a structure; `None` for null too.
    pub fn pointer(&self, address: u64, offset: u64) -> Option<u64> {
        let to = self.word(address.checked_add(offset)?)?;
        (to != 0).then_some(to)
    }

    /// Gives the words from `address` on, at most `count`; ends where memory or the time ends.
    pub fn words(&self, address: u64, count: u64, each: &mut dyn FnMut(u64, u64)) {
        // Most objects are small, and a large buffer takes longer to clear than they do to read.
        match count {
            ..=16 => self.words_in(&mut [0; 16 * 8], address, count, each),
            _ => self.words_in(&mut [0; 512 * 8], address, count, each),
        }
    }

    fn words_in(
        &self,
        buffer: &mut [u8],
        address: u64,
        count: u64,
        each: &mut dyn FnMut(u64, u64),
    ) {
        let at_once = buffer.len() as u64 / 8;
        if count >= FRESH_WORDS_MIN {
            self.forget_range(address, count.saturating_mul(8));
        }
        let mut done = 0;
        while done < count {
            let part = (count - done).min(at_once);
            let bytes = &mut buffer[..part as usize * 8];
            let at = done
                .checked_mul(8)
                .and_then(|offset| address.checked_add(offset));
            if at.and_then(|at| self.read(at, bytes)).is_none() {
                return;
            }
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                each(done + index as u64, u64::from_le_bytes(*word));
            }
            done += part;
            if part == at_once && self.is_late() {
                return;
            }
        }
    }

    /// Gives bytes of one chunk.
    fn with_chunk<T>(
        &self,
        address: u64,
        length: usize,
        use_it: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let chunk = address >> CHUNK_BITS;
        if chunk > ADDRESS_MAX >> CHUNK_BITS {
            return None;
        }
        let mut slots = self.slots.borrow_mut();
        let mask = slots.len() - 1;
        let slot = &mut slots[chunk as usize & mask];
        if slot.chunk != chunk + 1 {
            slot.fill(self.source, chunk);
        }
        let at = (address & (CHUNK_BYTES as u64 - 1)) as usize;
        if slot.readable != u16::MAX && !slot.has(at, length) {
            slot.read_pending(self.source, at, length)?;
        }
        use_it(slot.bytes.get(at..at + length)?)
    }
}

impl Slot {
    fn fill(&mut self, source: &Source, chunk: u64) {
        if self.bytes.is_empty() {
            self.bytes = vec![0; CHUNK_BYTES].into();
        }
        self.chunk = chunk + 1;
        (self.readable, self.pending, self.swapped) = (0, 0, 0);
        let start = chunk << CHUNK_BITS;
        let mut states = [PageState::Present; PAGES];
        source.states(start, &mut states);
        if states == [PageState::Present; PAGES]
            && source.memory.read(start, &mut self.bytes).is_some()
        {
            self.readable = u16::MAX;
            return;
        }
        for (page, state) in states.into_iter().enumerate() {
            let (bit, at) = (1 << page, page * PAGE_BYTES);
            match state {
                PageState::Present => self.read_page(source, page),
                PageState::Swapped => self.swapped |= bit,
                PageState::Absent if source.areas.is_anonymous(start + at as u64) => {
                    self.bytes[at..at + PAGE_BYTES].fill(0);
                    self.readable |= bit;
                }
                PageState::Absent => self.pending |= bit,
            }
        }
    }

    fn read_page(&mut self, source: &Source, page: usize) {
        let at = page * PAGE_BYTES;
        let address = ((self.chunk - 1) << CHUNK_BITS) + at as u64;
        let bytes = &mut self.bytes[at..at + PAGE_BYTES];
        if source.memory.read(address, bytes).is_some() {
            self.readable |= 1 << page;
        }
    }

    /// `None`: a page cannot be read, or is swapped out.
    fn read_pending(&mut self, source: &Source, at: usize, length: usize) -> Option<()> {
        for page in at / PAGE_BYTES..=(at + length.max(1) - 1) / PAGE_BYTES {
            let bit = 1_u16.checked_shl(page as u32)?;
            if self.pending & bit != 0 {
                self.pending &= !bit;
                self.read_page(source, page);
            }
            if self.swapped & bit != 0 {
                source.miss(((self.chunk - 1) << CHUNK_BITS) + (page * PAGE_BYTES) as u64);
            }
            if self.readable & bit == 0 {
                return None;
            }
        }
        Some(())
    }

    fn has(&self, at: usize, length: usize) -> bool {
        let (first, last) = (at / PAGE_BYTES, (at + length.max(1) - 1) / PAGE_BYTES);
        (first..=last.min(PAGES - 1)).all(|page| self.readable & 1 << page != 0)
    }
}

impl Memory for Pages<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let from = address.checked_add(done as u64)?;
            let at = (from & (CHUNK_BYTES as u64 - 1)) as usize;
            let length = (CHUNK_BYTES - at).min(out.len() - done);
            self.with_chunk(from, length, |bytes| {
                out[done..done + length].copy_from_slice(bytes);
                Some(())
            })?;
            done += length;
        }
        Some(())
    }

    fn u64(&self, address: u64) -> Option<u64> {
        self.word(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::areas::Areas;
    use crate::memory::source::PageStates;
    use observe::fact::memory::Made;
    use std::cell::RefCell;
    use std::time::Duration;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn pages_that_are_missing_are_missing_alone() {
        let made = Made {
            at: 0x11000,
            bytes: vec![7; 0x2000],
        };
        let source = Source::new(&made, Areas::default(), None);
        let pages = Pages::new(&source, 0, later());
        assert_eq!(pages.word(0x11000), Some(0x0707_0707_0707_0707));
        assert_eq!(pages.word(0x12ff8), Some(0x0707_0707_0707_0707));
        assert_eq!((pages.word(0x12ffc), pages.word(0x10ff8)), (None, None));
        assert_eq!((pages.word(0), pages.word(u64::MAX - 3)), (None, None));
        let mut seen = 0;
        pages.words(0x12f00, u64::MAX, &mut |_, _| seen += 1);
        assert_eq!(seen, 0, "not even the first part can be read whole");
        pages.words(0x12f00, 32, &mut |_, _| seen += 1);
        assert_eq!(seen, 32);
    }

    #[test]
    fn words_across_chunks() {
        let bytes = (0..0x4_0000_u32).map(|at| at as u8).collect();
        let made = Made { at: 0x10000, bytes };
        let source = Source::new(&made, Areas::default(), None);
        let pages = Pages::new(&source, 0, later());
        let across = pages.word(0x1fffc).unwrap();
        assert_eq!(across.to_le_bytes(), [0xfc, 0xfd, 0xfe, 0xff, 0, 1, 2, 3]);
    }

    /// Memory of which some pages are not in RAM; remembers what was read.
    #[derive(Default)]
    struct Partly {
        states: Vec<PageState>,
        read: RefCell<Vec<u64>>,
    }

    impl PageStates for Partly {
        fn states(&self, address: u64, states: &mut [PageState]) -> Option<()> {
            for (index, state) in states.iter_mut().enumerate() {
                let page = (address / PAGE_BYTES as u64) as usize + index;
                *state = *self.states.get(page).unwrap_or(&PageState::Absent);
            }
            Some(())
        }
    }

    impl Memory for Partly {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let first = address / PAGE_BYTES as u64;
            let pages = out.len().div_ceil(PAGE_BYTES) as u64;
            self.read.borrow_mut().extend(first..first + pages);
            out.fill(7);
            Some(())
        }
    }

    #[test]
    fn only_pages_in_ram_are_read() {
        let mut partly = Partly {
            states: vec![PageState::Present; 64],
            ..Partly::default()
        };
        partly.states[17] = PageState::Swapped;
        partly.states[18] = PageState::Absent;
        partly.states[32] = PageState::Absent;
        let areas = Areas::parse(b"10000-14000 rw-p 00000000 00:00 0 \n");
        let source = Source::new(&partly, areas, Some(&partly));
        let pages = Pages::new(&source, 0, later());
        assert_eq!(pages.word(0x10000), Some(0x0707_0707_0707_0707));
        assert_eq!(pages.word(0x11000), None, "swapped");
        assert_eq!(pages.word(0x12000), Some(0), "never touched");
        assert_eq!(pages.word(0x10ffc), None, "partly swapped");
        assert_eq!((pages.swapped(), source.u64(0x11010)), (1, None));
        // Of a file: read once it is needed.
        assert!(pages.word(0x21000).is_some());
        assert!(!partly.read.borrow().contains(&32));
        assert!(pages.word(0x20000).is_some());
        assert!(partly.read.borrow().contains(&32));
        let read = partly.read.borrow();
        assert!(!read.contains(&17) && !read.contains(&18), "{read:?}");
    }
}

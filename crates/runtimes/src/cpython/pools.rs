//! Objects in the pools of CPython's allocator for small objects (up to 512 bytes): those too that nothing refers to.
//!
//! No symbol leads to the pools in a stripped interpreter, but each says enough of itself to be known: its header has
//! its size class, how far it is filled, and how far it can be.

use observe::fact::memory::Memory;
use observe::proc::pagemap::{PAGE_BYTES, PageState};

use super::heap::Heap;
use super::layout::GC_HEAD_BYTES;
use super::size;
use crate::memory::source::Source;

/// `struct pool_header`.
const HEADER_BYTES: u64 = 48;
const FREE_BLOCK: usize = 8;
const SIZE_CLASS: usize = 36;
const NEXT_OFFSET: usize = 40;
const LAST_OFFSET: usize = 44;
const ALIGNMENT: u64 = 16;
const CLASSES: u32 = 32;

/// A pool in use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pool {
    block_bytes: u64,
    /// Blocks that were ever used end here.
    end: u64,
    first_free: u64,
}

/// Gives the address of each object in a pool. The number of pools.
pub fn each_object(heap: &Heap, each: &mut dyn FnMut(u64)) -> u64 {
    let mut pools = 0;
    for (start, end) in heap.pages.source().areas.with_pools() {
        pools += each_in_area(heap, start, end, each);
        if heap.pages.is_late() {
            break;
        }
    }
    pools
}

/// Pools of one area. The kernel makes one area of neighbours: arenas may follow after gigabytes of an array.
fn each_in_area(heap: &Heap, start: u64, end: u64, each: &mut dyn FnMut(u64)) -> u64 {
    let pool_bytes = heap.layout().pool_bytes;
    let mut bytes = vec![0; pool_bytes as usize];
    let mut probe = Probe::new(heap.pages.source(), pool_bytes);
    let (mut pools, mut misses) = (0, 0);
    let mut at = start.next_multiple_of(pool_bytes);
    let mut unseen = at;
    while at < end && at.saturating_add(pool_bytes) <= end && !heap.pages.is_late() {
        misses += 1;
        if probe.is_pool(at) {
            misses = 0;
            // Those too that were left out before it.
            while unseen <= at {
                if (unseen == at || probe.is_pool(unseen))
                    && heap.pages.read(unseen, &mut bytes).is_some()
                    && let Some(pool) = parse_pool(&bytes, pool_bytes)
                {
                    pools += 1;
                    each_block(heap, unseen, &bytes, &pool, each);
                }
                unseen += pool_bytes;
            }
        }
        unseen = at + pool_bytes;
        at = at.saturating_add(stride(misses) * pool_bytes);
    }
    if pools > 0 {
        probe.report_swapped();
    }
    pools
}

/// After so many candidates without a pool, only one in 8 is tried, which still is 8 of an arena; later one in 32.
const MISSES_MAX: u64 = 64;
const MANY_MISSES: u64 = 4_096;

fn stride(misses: u64) -> u64 {
    match misses {
        ..MISSES_MAX => 1,
        MISSES_MAX..MANY_MISSES => 8,
        _ => 32,
    }
}

/// Reads headers of pools, where their pages are in RAM.
struct Probe<'a> {
    source: &'a Source<'a>,
    pool_bytes: u64,
    /// Of the pages from `window` on.
    states: [PageState; WINDOW_PAGES],
    window: u64,
    swapped: Vec<u64>,
}

/// Pages whose states are read at once.
const WINDOW_PAGES: usize = 512;
const SWAPPED_MAX: usize = 1 << 16;

impl<'a> Probe<'a> {
    fn new(source: &'a Source<'a>, pool_bytes: u64) -> Probe<'a> {
        Probe {
            source,
            pool_bytes,
            states: [PageState::Present; WINDOW_PAGES],
            window: u64::MAX,
            swapped: Vec::new(),
        }
    }

    fn is_pool(&mut self, at: u64) -> bool {
        match self.state(at) {
            PageState::Present => {
                let mut header = [0; HEADER_BYTES as usize];
                self.source.memory.read(at, &mut header).is_some()
                    && parse_pool(&header, self.pool_bytes).is_some()
            }
            PageState::Swapped if self.swapped.len() < SWAPPED_MAX => {
                self.swapped.push(at);
                false
            }
            _ => false,
        }
    }

    fn state(&mut self, at: u64) -> PageState {
        let page = at / PAGE_BYTES;
        let inside = page.checked_sub(self.window).map(|index| index as usize);
        match inside.and_then(|index| self.states.get(index)) {
            Some(state) => *state,
            None => {
                self.window = page;
                self.source.states(at, &mut self.states);
                self.states[0]
            }
        }
    }

    /// The area has pools: what is swapped out of it may be others.
    fn report_swapped(&self) {
        for at in &self.swapped {
            for page in 0..self.pool_bytes / PAGE_BYTES {
                self.source.miss(at + page * PAGE_BYTES);
            }
        }
    }
}

/// By its header.
fn parse_pool(bytes: &[u8], size: u64) -> Option<Pool> {
    let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (class, next, last) = (half(SIZE_CLASS)?, half(NEXT_OFFSET)?, half(LAST_OFFSET)?);
    let used = half(0)?;
    if class >= CLASSES || used == 0 {
        return None;
    }
    let block_bytes = (u64::from(class) + 1) * ALIGNMENT;
    let filled = u64::from(next).checked_sub(HEADER_BYTES)?;
    let is_pool = u64::from(last) == size - block_bytes
        && filled % block_bytes == 0
        && u64::from(next) <= size
        && u64::from(used) <= filled / block_bytes;
    is_pool.then_some(Pool {
        block_bytes,
        end: u64::from(next),
        first_free: word(bytes, FREE_BLOCK),
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

/// Blocks that are on the list of free ones; each starts with a pointer to the next.
fn free_blocks(bytes: &[u8], start: u64, pool: &Pool) -> Vec<bool> {
    let count = ((pool.end - HEADER_BYTES) / pool.block_bytes) as usize;
    let mut free = vec![false; count];
    let mut next = pool.first_free;
    for _ in 0..count {
        let Some(offset) = next
            .checked_sub(start)
            .and_then(|offset| offset.checked_sub(HEADER_BYTES))
        else {
            break;
        };
        let Some(free) = free.get_mut((offset / pool.block_bytes) as usize) else {
            break;
        };
        *free = true;
        next = word(bytes, (offset + HEADER_BYTES) as usize);
    }
    free
}

fn each_block(heap: &Heap, start: u64, bytes: &[u8], pool: &Pool, each: &mut dyn FnMut(u64)) {
    for (block, is_free) in free_blocks(bytes, start, pool).into_iter().enumerate() {
        let address = start + HEADER_BYTES + block as u64 * pool.block_bytes;
        if !is_free && let Some(object) = object_in(heap, address, pool.block_bytes) {
            each(object);
        }
    }
}

/// The object of a block: at its start, or behind the collector's header and the words before it. Its type must say the
/// same of what stands before it.
fn object_in(heap: &Heap, block: u64, block_bytes: u64) -> Option<u64> {
    for before in [0, GC_HEAD_BYTES, GC_HEAD_BYTES + 16] {
        let object = block + before;
        let Some(info) = heap.info_of(object) else {
            continue;
        };
        let is_alike = size::before(heap, &info, object) == before;
        if is_alike
            && before + size::own(heap, object, &info) <= block_bytes
            && !is_pair(heap, object)
        {
            return Some(object);
        }
    }
    None
}

/// Two pointers, the second of them to a type, as in a list: the first one is no count of references then. It may be as
/// low as one in a program that is loaded at a fixed address.
fn is_pair(heap: &Heap, object: u64) -> bool {
    let first = heap.references_to(object);
    first.is_some_and(|first| heap.type_of(first).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_known_by_its_header() {
        let mut bytes = vec![0; 4_096];
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0, 2);
        put(SIZE_CLASS, 3);
        put(NEXT_OFFSET, 48 + 3 * 64);
        put(LAST_OFFSET, 4_096 - 64);
        put(FREE_BLOCK, 0x1000 + 48 + 64);
        let pool = parse_pool(&bytes, 4_096).unwrap();
        assert_eq!((pool.block_bytes, pool.end), (64, 240));
        assert_eq!(free_blocks(&bytes, 0x1000, &pool), [false, true, false]);
        let loose = Pool {
            first_free: u64::MAX,
            ..pool.clone()
        };
        assert_eq!(free_blocks(&bytes, 0x1000, &loose), [false; 3]);
        bytes[48 + 64..48 + 72].copy_from_slice(&(0x1000_u64 + 48 + 64).to_le_bytes());
        assert_eq!(
            free_blocks(&bytes, 0x1000, &pool),
            [false, true, false],
            "a ring"
        );
        bytes[NEXT_OFFSET] ^= 1;
        assert_eq!(parse_pool(&bytes, 4_096), None);
        assert_eq!(parse_pool(&[0xff; 4_096], 4_096), None);
        assert_eq!(parse_pool(&[], 4_096), None);
    }

    #[test]
    fn pages_that_are_no_pools_are_probed_ever_less_often() {
        assert_eq!([0, 63, 64, 5_000].map(stride), [1, 1, 8, 32]);
        let made = observe::fact::memory::Made {
            at: 0x10_0000,
            bytes: vec![0; 1 << 20],
        };
        let source = Source::new(&made, crate::memory::areas::Areas::default(), None);
        let mut probe = Probe::new(&source, 16_384);
        assert!(!probe.is_pool(0x10_0000) && !probe.is_pool(u64::MAX - 0x3fff));
    }
}

//! Heaps in a vector, at made-up addresses.

use super::*;
use observe::fact::memory::Made;

const BASE: u64 = 0x5555_0000_0000;

fn heap(blocks: &[(u64, u64)], bytes: u64) -> (Made, Area, HashMap<u64, PageBits>) {
    let mut memory = vec![0; bytes as usize];
    let mut at = 0u64;
    for &(size, flags) in blocks {
        let word = (size | flags).to_le_bytes();
        memory[at as usize + 8..at as usize + 16].copy_from_slice(&word);
        memory[at as usize + 16] = 7; // no mangled pointer
        at += size;
    }
    assert_eq!(at, bytes, "the blocks fill the heap");
    let area = Area {
        start: BASE,
        end: BASE + bytes,
        readable: true,
        writable: true,
        name: "[heap]".into(),
        rss_bytes: bytes,
        ..Area::default()
    };
    let mut present = PageBits::new(area.start, area.end);
    present.set(area.start, area.end);
    (
        Made {
            at: BASE,
            bytes: memory,
        },
        area,
        HashMap::from([(BASE, present)]),
    )
}

#[test]
fn blocks_in_use_are_told_from_free_ones() {
    // In use, free of three pages, in use, the top.
    let blocks = [(0x40, 1), (0x3000, 1), (0x40, 0), (0x2f80, 1)];
    let (memory, area, present) = heap(&blocks, 0x6000);
    let walk = walk(&memory, &[area], &present);
    let span = &walk.spans[0];
    assert!(walk.complete && span.complete);
    assert_eq!(span.in_use_bytes, 0x80);
    assert_eq!(span.classes, BTreeMap::from([(0x40, 2)]));
    assert_eq!(
        span.occupied.runs(),
        [(BASE, BASE + 0x1000), (BASE + 0x3000, BASE + 0x4000)]
    );
}

/// All pages of it are in RAM by the time that it is read.
struct Touched(Made);

impl Memory for Touched {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        self.0.read(address, out)
    }

    fn is_present(&self, _address: u64) -> bool {
        true
    }
}

#[test]
fn the_last_block_may_begin_on_a_page_that_came_after_the_pages_were_counted() {
    let (memory, area, mut present) = heap(&[(0x40, 1), (0xfc0, 1), (0x3000, 1)], 0x4000);
    let mut counted = PageBits::new(area.start, area.end);
    counted.set(BASE, BASE + 0x1000);
    // Part of a large buffer that was given back: behind the first page of the last block.
    counted.set(BASE + 0x3000, BASE + 0x4000);
    present.insert(BASE, counted);
    let before = walk(&memory, std::slice::from_ref(&area), &present);
    assert!(!before.complete, "the page is not there");
    let now = walk(&Touched(memory), &[area], &present);
    assert!(now.complete);
    assert_eq!(now.spans[0].in_use_bytes, 0x1000);
}

#[test]
fn a_block_in_a_free_list_is_not_in_use() {
    let blocks = [(0x40, 1), (0x40, 1), (0x1f80, 1)];
    let (mut memory, area, present) = heap(&blocks, 0x2000);
    let mangled = (BASE + 0x50) >> 12;
    memory.bytes[0x50..0x58].copy_from_slice(&mangled.to_le_bytes());
    memory.bytes[0x58] = 0x5a; // the list's own mark
    let listed = walk(&memory, std::slice::from_ref(&area), &present);
    assert_eq!(listed.spans[0].in_use_bytes, 0x40);
    assert_eq!(listed.spans[0].doubtful_bytes, 0);
    memory.bytes[0x58] = 0; // handed out from there and never written, or the end of a list without marks
    let doubtful = walk(&memory, &[area], &present);
    assert_eq!(doubtful.spans[0].in_use_bytes, 0x40);
    assert_eq!(doubtful.spans[0].doubtful_bytes, 0x40);
}

/// At a fixed address few bits of a pointer are mangled: a list's next one, taken for mangled, is a block too.
#[test]
fn a_list_at_a_low_address_is_in_use() {
    let blocks: Vec<(u64, u64)> = std::iter::repeat_n((0x40, 1), 64).collect();
    let (mut memory, mut area, _) = heap(&blocks, 0x1000);
    const LOW: u64 = 0x4_0000;
    memory.at = LOW;
    (area.start, area.end) = (LOW, LOW + 0x1000);
    let present = HashMap::from([(LOW, PageBits::all(LOW, LOW + 0x1000))]);
    for block in 0..63usize {
        let next = LOW + (block as u64 + 1) * 0x40 + 0x10;
        memory.bytes[block * 0x40 + 0x10..][..8].copy_from_slice(&next.to_le_bytes());
    }
    let walk = walk(&memory, &[area], &present);
    assert_eq!(
        walk.spans[0].classes,
        BTreeMap::from([(0x40, 63)]),
        "the last is the top"
    );
}

/// What lies in a list of free blocks there is told by the mark of all such blocks.
#[test]
fn a_block_in_a_free_list_at_a_low_address_has_the_mark() {
    const LOW: u64 = 0x4_0000;
    const MARK: u64 = 0xfeed_5eed_1234_5677;
    let mut blocks = vec![(0x290, 1)];
    blocks.extend(std::iter::repeat_n((0x40, 1), 53));
    blocks.push((0x30, 1));
    let (mut memory, mut area, _) = heap(&blocks, 0x290 + 53 * 0x40 + 0x30);
    memory.at = LOW;
    (area.start, area.end) = (LOW, LOW + 0x1000);
    let present = HashMap::from([(LOW, PageBits::all(LOW, LOW + 0x1000))]);
    let mut put =
        |at: usize, word: u64| memory.bytes[at..][..8].copy_from_slice(&word.to_le_bytes());
    let block = |number: usize| 0x2a0 + number * 0x40;
    // The lists of the first thread: one begins with block 10, which leads to block 12.
    put(16 + 128 + 8, LOW + block(10) as u64);
    put(block(10), (LOW + block(12) as u64) ^ (LOW >> 12));
    put(block(10) + 8, MARK);
    put(block(12), LOW >> 12);
    put(block(12) + 8, MARK);
    let walk = walk(&memory, &[area], &present);
    assert_eq!(walk.spans[0].classes[&0x40], 51);
}

#[test]
fn a_size_that_cannot_be_ends_the_walk() {
    let (mut memory, area, present) = heap(&[(0x40, 1), (0xfc0, 1)], 0x1000);
    memory.bytes[0x48] = 0xf9;
    memory.bytes[0x4f] = 0xff;
    let walk = walk(&memory, &[area], &present);
    assert!(!walk.complete && !walk.spans[0].complete);
    assert_eq!(walk.spans[0].in_use_bytes, 0x40);
}

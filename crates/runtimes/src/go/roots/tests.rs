//! Marking in made memory, and in garbage.

use std::time::Duration;

use observe::fact::memory::{Made, Memory};

use super::blocks::{Blocks, Resident};
use super::marks::Marks;
use super::spans::Heap;
use crate::Limits;
use crate::go::budget::Budget;
use crate::go::layout::Layout;

const AT: u64 = 0x10_0000;
/// Of the first span, and of the second: 8 objects of 1,024 bytes each.
const SPANS: [u64; 2] = [AT + 0x2000, AT + 0x4000];

fn budget() -> Budget {
    Budget::new(&Limits {
        time: Duration::from_secs(5),
        bytes: 1 << 20,
        pause: Duration::ZERO,
    })
}

/// A heap of two spans, the second of which has no pointers, with these words in the objects of the first.
fn made(words: &[(u64, u64)]) -> Made {
    let mut bytes = vec![0; 0x6000];
    let mut put = |at: u64, part: &[u8]| {
        let at = (at - AT) as usize;
        bytes[at..at + part.len()].copy_from_slice(part);
    };
    // The generation, then the list.
    for (index, word) in (0..).zip([0, AT + 0x100, 2, 2]) {
        put(AT + 8 * index, &u64::to_le_bytes(word));
    }
    for (index, start) in (0..).zip(SPANS) {
        let span = AT + 0x200 + 0x100 * index;
        put(AT + 0x100 + 8 * index, &span.to_le_bytes());
        for (offset, word) in [(24, start), (32, 1), (64, AT + 0x800), (104, 1024)] {
            put(span + offset, &u64::to_le_bytes(word));
        }
        // The first four objects are in use, and the sixth.
        put(span + 48, &[4, 0, 8, 0]);
        put(span + 98, &[index as u8, 1]);
    }
    put(AT + 0x800, &[0b10_0000]);
    for (at, word) in words {
        put(*at, &word.to_le_bytes());
    }
    Made { at: AT, bytes }
}

fn heap(memory: &dyn Memory) -> Result<Heap, String> {
    Heap::read(memory, AT + 8, &Layout::of(26).unwrap().span, &mut budget())
}

#[test]
fn addresses_lead_to_objects_in_use() {
    let mut heap = heap(&made(&[])).unwrap();
    assert_eq!(heap.find(SPANS[0] + 3 * 1024 + 5), Some((0, 3)), "inside");
    assert_eq!(heap.find(SPANS[1] + 8191), Some((1, 7)));
    for address in [0, SPANS[0] - 1, SPANS[1] + 8192, u64::MAX] {
        assert_eq!(heap.find(address), None);
    }
    for (object, is_used) in [(0, true), (3, true), (4, false), (5, true), (7, false)] {
        assert_eq!(heap.mark((0, object)).is_some(), is_used, "{object}");
        assert!(heap.mark((0, object)).is_none());
    }
    assert_eq!(heap.scanned_bytes(), 8192);
}

#[test]
fn each_object_counts_once_to_the_nearest_root() {
    let [first, second] = SPANS;
    // A circle of two; one with no pointers behind it, and a word there that is not followed.
    let memory = made(&[
        (first + 8, first + 1024),
        (first + 1024, first),
        (first + 2040, second + 100),
        (second, first + 2048),
    ]);
    let heap = heap(&memory).unwrap();
    let resident = Resident { memory: &memory, pages: None, swapped_bytes: 0 };
    let mut marks = Marks::new(Blocks::new(resident, 1 << 16, &heap), heap);
    let roots = ["a", "b"].map(|name| marks.found.root(name, None));
    marks.found.reach(first, roots[0]);
    marks.found.reach(second + 5 * 1024, roots[1]);
    marks.found.reach(first + 1, roots[1]);
    assert!(marks.run(&mut budget()));
    let counts: Vec<_> = marks.found.roots.iter().map(|root| (root.objects, root.bytes)).collect();
    assert_eq!(counts, [(3, 3072), (1, 1024)]);
}

/// Memory that has a word for every address, many of which point to each other.
struct Garbage(u64);

impl Memory for Garbage {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        for (index, byte) in (0..).zip(out) {
            let at = address.wrapping_add(index);
            let word = ((at / 8) ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = if word >> 62 == 0 { word >> 40 & 0xf_ffff } else { word >> 56 };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        Some(())
    }
}

#[test]
fn garbage_is_survived() {
    for seed in 0..200 {
        let memory = Garbage(seed);
        for minor in [20, 21, 26] {
            let layout = Layout::of(minor).unwrap().span;
            for at in [seed * 8, AT, u64::MAX - 8] {
                let Ok(heap) = Heap::read(&memory, at, &layout, &mut budget()) else {
                    continue;
                };
                let resident = Resident { memory: &memory, pages: None, swapped_bytes: 0 };
                let mut marks = Marks::new(Blocks::new(resident, 1 << 17, &heap), heap);
                let root = marks.found.root("a", None);
                (0..1 << 20).step_by(64).for_each(|word| marks.found.reach(word, root));
                marks.run(&mut budget());
            }
        }
    }
}

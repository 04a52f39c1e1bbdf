//! The whole reader against memory that lies: it ends, in time and within its memory, whatever it reads.

use std::time::{Duration, Instant};

use observe::fact::memory::{Made, Memory};
use testkit::Random;

use super::addresses::AddressSet;
use super::find::Runtime;
use super::heap::Heap;
use super::holders::holders;
use super::interpreters::interpreters;
use super::layout::{
    GC_GENERATION_BYTES, GC_GENERATION0, GC_GENERATIONS, HAVE_GC, HEAPTYPE, Layout, READY,
    TP_BASICSIZE, TP_FLAGS, TP_ITEMSIZE, TP_NAME, TYPE, TYPE_SUBCLASS, Version,
};
use super::snapshot_of;
use super::walk;
use crate::memory::areas::Areas;
use crate::memory::source::Source;

const START: u64 = 0x10_0000;
const BYTES: u64 = 1 << 20;
const RUNTIME: u64 = START;
const INTERPRETER: u64 = START + 0x1000;
const TYPES: u64 = START + 0x8_0000;
const TYPE_ROOM: u64 = 0x400;
const NAMES: [&str; 16] = [
    "type",
    "list",
    "tuple",
    "dict",
    "str",
    "bytes",
    "int",
    "set",
    "module",
    "function",
    "cell",
    "code",
    "generator",
    "collections.deque",
    "functools._lru_cache_wrapper",
    "frame",
];

fn put(bytes: &mut [u8], address: u64, word: u64) {
    let at = (address - START) as usize;
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Memory in which every word is a pointer into it, a small number, or garbage; with types that are in order, so that
/// all of it may be objects.
fn memory(seed: u64, layout: &Layout) -> Made {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; BYTES as usize];
    for address in (START..START + BYTES).step_by(8) {
        let type_number = random.number() % NAMES.len() as u64;
        let word = match random.number() % 8 {
            0..3 => START + random.number() % BYTES / 8 * 8,
            3..6 => TYPES + type_number * TYPE_ROOM,
            6 => random.number() % 100,
            _ => random.number().wrapping_mul(random.number()),
        };
        put(&mut bytes, address, word);
    }
    types(&mut bytes);
    put(&mut bytes, RUNTIME + layout.interpreters, INTERPRETER);
    let home = if layout.minor == 8 {
        RUNTIME
    } else {
        INTERPRETER
    };
    let gc = home + layout.gc;
    if layout.minor <= 13 {
        put(&mut bytes, gc + GC_GENERATION0, gc + GC_GENERATIONS);
    }
    // The lists are whole but for one, which leads into the garbage; what is in them is garbage.
    let heads = [
        layout.gc_permanent,
        GC_GENERATIONS,
        GC_GENERATIONS + 24,
        GC_GENERATIONS + 2 * GC_GENERATION_BYTES,
    ];
    let mut room = (START + 0x4_0000..START + 0x7_0000).step_by(96);
    for head in heads.map(|offset| gc + offset) {
        let count = random.number() as usize % 500;
        let last = room.by_ref().take(count).fold(head, |at, next| {
            put(&mut bytes, at, next);
            put(&mut bytes, next + 8, at);
            next
        });
        let is_whole = head != gc + GC_GENERATIONS || !seed.is_multiple_of(3);
        put(
            &mut bytes,
            last,
            if is_whole { head } else { random.number() },
        );
        put(&mut bytes, head + 8, last);
    }
    Made { at: START, bytes }
}

fn types(bytes: &mut [u8]) {
    for (number, name) in NAMES.iter().enumerate() {
        let address = TYPES + number as u64 * TYPE_ROOM;
        let kind = match *name {
            "type" => TYPE_SUBCLASS,
            "list" => super::layout::LIST_SUBCLASS,
            "tuple" => super::layout::TUPLE_SUBCLASS,
            "dict" => super::layout::DICT_SUBCLASS,
            "str" => super::layout::STR_SUBCLASS,
            "int" => super::layout::INT_SUBCLASS,
            _ => HAVE_GC,
        };
        put(bytes, address, 1);
        put(bytes, address + TYPE, TYPES);
        put(bytes, address + TP_NAME, address + 0x380);
        put(bytes, address + TP_BASICSIZE, 16 + number as u64 * 24);
        put(bytes, address + TP_ITEMSIZE, number as u64 % 3 * 8);
        let heap_type = if number % 5 == 4 { HEAPTYPE } else { 0 };
        put(
            bytes,
            address + TP_FLAGS,
            READY | kind | heap_type | 0b1_1100,
        );
        let at = (address + 0x380 - START) as usize;
        bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        bytes[at + name.len()] = 0;
    }
}

#[test]
fn memory_that_lies_is_read_to_an_end() {
    let maps = format!("{START:x}-{:x} rw-p 00000000 00:00 0 \n", START + BYTES);
    let mut objects = 0;
    for seed in 0..14 {
        let layout = Layout::of(8 + (seed % 7) as u8).unwrap();
        let made = memory(seed, &layout);
        let version = Version {
            minor: layout.minor,
            micro: None,
        };
        let runtime = Runtime {
            address: RUNTIME,
            type_type: TYPES,
            version,
            layout,
        };
        let start = Instant::now();
        let source = Source::new(&made, Areas::parse(maps.as_bytes()), None);
        let heap = Heap::new(
            &source,
            runtime,
            1 << 20,
            start + Duration::from_millis(300),
        );
        let interpreters = interpreters(&made, &runtime);
        assert!(!interpreters.is_empty(), "3.{}", layout.minor);
        let census = walk::take(&heap, &made, &interpreters, 100_000);
        objects += census.objects.len();
        let names = ["list".to_owned(), "module".to_owned()];
        let _ = holders(
            &heap,
            &made,
            &census,
            &interpreters,
            &names,
            &AddressSet::default(),
        );
        let snapshot = snapshot_of(&heap, census, &interpreters, &made);
        assert!(!snapshot.missing.is_empty());
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{seed}: {:?}",
            start.elapsed()
        );
    }
    assert!(
        objects > 1_000,
        "some of it must pass for objects: {objects}"
    );
}

/// Every word is the same.
struct Same(u64);

impl Memory for Same {
    fn read(&self, _: u64, out: &mut [u8]) -> Option<()> {
        for (index, byte) in out.iter_mut().enumerate() {
            *byte = self.0.to_le_bytes()[index % 8];
        }
        Some(())
    }
}

#[test]
fn endless_memory_has_no_interpreter() {
    for word in [0, 1, 0x10_0000, 0x1_0101_0101_0101, u64::MAX] {
        for minor in 8..=14 {
            let runtime = Runtime {
                address: RUNTIME,
                type_type: TYPES,
                version: Version { minor, micro: None },
                layout: Layout::of(minor).unwrap(),
            };
            assert!(interpreters(&Same(word), &runtime).is_empty(), "{word:#x}");
            assert!(
                super::find::find(&Same(word), b"1000-2000 r--p 0 fe:0 7 /usr/bin/python3\n")
                    .is_none()
            );
        }
    }
}

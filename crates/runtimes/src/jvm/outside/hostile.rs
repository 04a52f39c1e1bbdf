//! The whole reading against memory that lies: it ends, in time and within its memory, whatever it reads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use observe::fact::memory::Made;
use testkit::Random;

use super::classes::Classes;
use super::code;
use super::heap::Heap;
use super::layout::{
    Collections, Entries, Fields, Handles, Header, Instance, Klass, Layout, Loader, Method, Mirror,
    Narrow, Pool, Symbol, ThreadList, Threads,
};
use super::roots;
use super::spaces::{Parts, Spaces};
use super::stacks;
use super::trace::{Stop, trace};
use super::ways::Names;
use crate::memory::areas::Areas;
use crate::memory::pages::Pages;
use crate::memory::source::Source;

const START: u64 = 0x4000_0000;
const BYTES: u64 = 1 << 20;
/// Classes and all else that is not in the heap.
const META: u64 = START + 0x8_0000;
const CLASSES: u64 = 64;
const CLASS_BYTES: u64 = 512;
const NAMES: u64 = META + CLASSES * CLASS_BYTES;
const NAME_BYTES: u64 = 64;
const LOADER: u64 = NAMES + 64 * NAME_BYTES;
const LOADER_BYTES: u64 = 256;

/// Like that of JDK 17.
fn layout(is_narrow: bool, has_slots: bool) -> Layout {
    let narrow = Narrow { base: 0, shift: 0 };
    Layout {
        heap: (START, META),
        parts: Parts::Unknown,
        collections: Collections::default(),
        oops: is_narrow.then_some(narrow),
        header: match is_narrow {
            true => Header::Narrow(narrow),
            false => Header::Wide,
        },
        klass: Klass {
            layout_helper: 8,
            name: 24,
            super_class: 120,
            mirror: 112,
            next: 144,
        },
        instance: Instance {
            fields: match has_slots {
                true => Fields::Slots {
                    at: 456,
                    count_at: 310,
                },
                false => Fields::Stream { at: 456 },
            },
            constants: 232,
            methods: 408,
        },
        loader: Loader {
            head: LOADER + LOADER_BYTES,
            next: 112,
            classes: 56,
            object: 8,
        },
        mirror: Mirror {
            klass: 16,
            size: 40,
        },
        symbol: Symbol { length: 4, body: 6 },
        pool: Pool {
            bytes: 72,
            length: 60,
            cache: 16,
            references: 16,
            fields: entries(has_slots, 24, 16),
            methods: entries(has_slots, 32, 18),
        },
        method: Method {
            const_method: 8,
            code_size: 32,
            const_method_bytes: 48,
        },
        threads: threads(has_slots),
        global_handles: Some(META + 16),
    }
}

fn entries(is_inside: bool, array: u64, index: u64) -> Entries {
    match is_inside {
        true => Entries::Inside {
            begin: 40,
            bytes: 32,
            index: 0,
        },
        false => Entries::Apart {
            array,
            bytes: 24,
            index,
        },
    }
}

fn threads(is_linked: bool) -> Threads {
    Threads {
        list: match is_linked {
            true => ThreadList::Linked {
                first: META + 8,
                next: 16,
            },
            false => ThreadList::Array {
                list: META + 8,
                length: 4,
                threads: 16,
            },
        },
        object: 648,
        stack_base: 592,
        stack_bytes: 600,
        last_java: [656, 664, 672],
        handles: Some(Handles {
            at: 216,
            top: 256,
            next: 264,
        }),
    }
}

fn class(random: &mut Random) -> u64 {
    META + random.number() % CLASSES * CLASS_BYTES
}

/// Words that point to objects, classes and names, are counts, or are garbage; with classes whose numbers lie.
fn memory(seed: u64) -> Made {
    const TEXTS: [&str; 8] = [
        "java/lang/Class",
        "java/lang/Thread",
        "java/lang/ref/Reference",
        "jdk/internal/vm/StackChunk",
        "[Ljava/lang/Object;",
        "App",
        "Lx;",
        "size",
    ];
    let mut random = Random::new(seed);
    let mut bytes = vec![0; BYTES as usize];
    let mut put = |address: u64, with: &[u8]| {
        let at = (address - START) as usize;
        bytes[at..at + with.len()].copy_from_slice(with);
    };
    for address in (START..START + BYTES).step_by(8) {
        let name = NAMES + random.number() % 64 * NAME_BYTES;
        let word = match random.number() % 8 {
            0..2 => START + random.number() % (BYTES / 16) * 8,
            2 => class(&mut random),
            3 => class(&mut random) << 32 | class(&mut random),
            4 => name,
            5 => START + random.number() % (BYTES / 8) * 8,
            6 => random.number() % 3_000,
            _ => random.number(),
        };
        put(address, &word.to_le_bytes());
    }
    for number in 0..64 {
        let text = TEXTS[number as usize % TEXTS.len()];
        let at = NAMES + number * NAME_BYTES;
        put(at + 4, &(text.len() as u16).to_le_bytes());
        put(at + 6, text.as_bytes());
    }
    for number in 0..CLASSES {
        let at = META + number * CLASS_BYTES;
        let helper = match random.number() % 6 {
            0 => 0xc010_0000 | random.number() as u32 & 0x1f,
            1 => 0x8010_0002,
            2 => i32::MAX as u32,
            _ => random.number() as u32 % 64 * 8,
        };
        put(at + 8, &helper.to_le_bytes());
        let name = NAMES + random.number() % 64 * NAME_BYTES;
        put(at + 24, &name.to_le_bytes());
        if number % 4 == 0 {
            // It inherits from itself.
            put(at + 120, &at.to_le_bytes());
        }
        let next = match (seed % 4, number + 1 < CLASSES) {
            (0, _) => class(&mut random),
            (_, true) => at + CLASS_BYTES,
            (_, false) => 0,
        };
        put(at + 144, &next.to_le_bytes());
    }
    // A loader, which may come after itself.
    put(LOADER + LOADER_BYTES, &LOADER.to_le_bytes());
    put(LOADER + 8, &[0; 8]);
    put(LOADER + 56, &META.to_le_bytes());
    let next = if seed.is_multiple_of(8) { LOADER } else { 0 };
    put(LOADER + 112, &next.to_le_bytes());
    Made { at: START, bytes }
}

fn reads(seed: u64, is_narrow: bool, has_slots: bool, bytes: usize) -> usize {
    let made = memory(seed);
    let maps = b"40000000-40100000 rw-p 00000000 00:00 0 \n";
    let source = Source::new(&made, Areas::parse(maps), None);
    let deadline = Instant::now() + Duration::from_secs(2);
    let layout = layout(is_narrow, has_slots);
    let heap = Heap {
        pages: Pages::new(&source, bytes, deadline),
        spaces: Spaces::read(&layout.parts, &made).expect("all of it"),
        layout: &layout,
    };
    let Some(classes) = Classes::of(&heap) else {
        return 0;
    };
    // No process has this number.
    let Some(roots) = roots::roots(&heap, &classes, 0) else {
        return 0;
    };
    let mut live = match trace(&heap, classes, &roots, bytes) {
        Ok(live) => live,
        Err(Stop::Late | Stop::TooLarge) => return 1,
    };
    stacks::seen(&heap, &mut live);
    let mut names = Names::new(&heap, &mut live);
    let types = ["App", "java.lang.Thread", "java.lang.Object[]"];
    let samples = types.map(|name| (name.to_owned(), names.samples(name, &HashMap::new())));
    code::holders(0, &heap, &live.classes, samples.into());
    live.len()
}

/// The list of a loader's classes may come back to one of them.
#[test]
fn a_class_that_comes_again_keeps_its_number() {
    let mut again = 0;
    for seed in (0..40).step_by(4) {
        let made = memory(seed);
        let source = Source::new(&made, Areas::default(), None);
        let deadline = Instant::now() + Duration::from_secs(60);
        let layout = layout(true, true);
        let heap = Heap {
            pages: Pages::new(&source, 4 << 20, deadline),
            spaces: Spaces::read(&layout.parts, &made).expect("all of it"),
            layout: &layout,
        };
        let classes = Classes::of(&heap).expect("classes");
        for (number, class) in classes.all.iter().enumerate() {
            let found = classes.find(class.address);
            assert_eq!(found, Some(number as u32), "seed {seed}");
        }
        let last = classes.all.last().expect("a class").address;
        let next = heap.word(last, layout.klass.next).unwrap_or(0);
        again += u32::from(classes.find(next).is_some());
    }
    assert!(again > 0, "no list came back");
}

#[test]
fn a_reading_of_anything_ends() {
    let start = Instant::now();
    let mut most = 0;
    for seed in 0..12 {
        for (is_narrow, has_slots) in [(true, true), (true, false), (false, true), (false, false)] {
            let begin = Instant::now();
            most = most.max(reads(seed, is_narrow, has_slots, 4 << 20));
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(8), "seed {seed}: {took:?}");
        }
    }
    println!("{most} objects at most, {:?}", start.elapsed());
    assert!(most > 100, "nothing was followed");
    // With little memory it ends sooner.
    for seed in 0..10 {
        reads(seed, true, true, 64 << 10);
    }
}

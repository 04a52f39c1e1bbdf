//! The whole reading against memory that lies: it ends, in time and within its memory, whatever it reads.

use std::time::{Duration, Instant};

use observe::fact::memory::Made;
use testkit::Random;

use super::build::Builder;
use super::heap::Heap;
use super::layout::{Layout, MapLayout, PropertyLayout, Types};
use super::roots;
use crate::memory::areas::Areas;
use crate::memory::pages::Pages;
use crate::memory::source::Source;
use crate::node::code::Code;
use crate::node::{holders, types};

const START: u64 = 0x4000_0000;
const BYTES: u64 = 1 << 20;
const MAPS: &str =
    "40000000-40080000 rw-p 00000000 00:00 0 [heap]\n40080000-40100000 rw-p 00000000 00:00 0 \n";
const META: u64 = START + 0x8_0000;
const MAP_ROOM: u64 = 80;
const SHAPES: u64 = 64;

/// Of V8 11.3.
pub fn layout() -> Layout {
    Layout {
        map: MapLayout {
            words: 8,
            in_object: 9,
            instance_type: 12,
            flags2: 15,
            flags3: 16,
            prototype: 24,
            constructor: 32,
            descriptors: 40,
            is_dictionary_shift: 21,
            descriptors_mask: 1_047_552,
            descriptors_shift: 10,
        },
        types: own_types(),
        property: PropertyLayout {
            header: 24,
            key: 0,
            details: 1,
            words: 3,
            location_mask: 32,
            location_shift: 5,
            field: 0,
            index_mask: 536_346_624,
            index_shift: 19,
        },
        function_shared: 24,
        function_context: 32,
        shared_script: Some(32),
        script_name: 16,
        buffer_store: 48,
        buffer_bytes: 32,
        scope_locals: 2,
        scope_names: 3,
        bytecode_data: 54,
        actual: 16,
    }
}

fn own_types() -> Types {
    Types {
        map: 255,
        non_string: 128,
        receiver: 278,
        first_context: 205,
        last_context: 214,
        function: 2066,
        global: 279,
        js_map: 2108,
        js_set: 2109,
        weak_map: 2110,
        weak_set: 2111,
        weak_ref: 2151,
        weak_cell: 275,
        buffer: 2062,
        regexp: 2131,
        array: 175,
        doubles: 192,
        bytes: 190,
        descriptors: [236, 237],
        properties: 259,
        cell: 260,
        scope: 261,
        shared: 262,
        script: 167,
        feedback: 249,
        bytecode: 191,
        code: 245,
        instructions: Some(252),
        free: Some(251),
        template: 139,
        primitives: [128, 130],
        compiled: vec![156],
    }
}

/// Memory in which every word is a pointer into it, a Map, a count, or garbage; with Maps of every type.
fn memory(seed: u64) -> Made {
    const TYPES: [u16; 32] = [
        8, 40, 32, 33, 37, 128, 139, 167, 175, 176, 190, 191, 192, 205, 214, 236, 245, 249, 255,
        259, 260, 261, 262, 275, 279, 1057, 2062, 2066, 2108, 2110, 2151, 2115,
    ];
    let mut random = Random::new(seed);
    let mut bytes = vec![0; BYTES as usize];
    let mut put = |address: u64, word: u64| {
        let at = (address - START) as usize;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    };
    for address in (START..START + BYTES).step_by(8) {
        let shape = META + random.number() % SHAPES * MAP_ROOM;
        let word = match random.number() % 8 {
            0..3 => (START + random.number() % BYTES / 8 * 8) | 1,
            3..6 => shape | 1,
            6 => (random.number() % 3_000) << 32,
            _ => random.number().wrapping_mul(random.number()),
        };
        put(address, word);
    }
    for number in 0..SHAPES {
        let map = META + number * MAP_ROOM;
        let own_type = if number == 0 {
            255
        } else {
            TYPES[(random.number() % 32) as usize]
        };
        let words = if own_type >= 260 {
            random.number() % 30
        } else {
            0
        };
        put(map, META | 1);
        put(
            map + 8,
            words | (random.number() & 0x1f) << 8 | u64::from(own_type) << 32,
        );
        put(map + 16, random.number() & 0xffff_ffff);
    }
    Made { at: START, bytes }
}

#[test]
fn a_reading_of_garbage_ends() {
    let (layout, mut largest) = (layout(), 0);
    for seed in 0..40 {
        let memory = memory(seed);
        let source = Source::new(&memory, Areas::parse(MAPS.as_bytes()), None);
        let begin = Instant::now();
        let pages = Pages::new(&source, 4 << 20, begin + Duration::from_secs(20));
        let heap = Heap {
            pages,
            layout: &layout,
        };
        let roots = roots::roots(&heap, MAPS, None).expect("roots");
        let built = Builder::new(heap, None, 32 << 20).build(&roots);
        if let Ok(built) = built {
            let graph = built.graph;
            let counts = types::count(&graph);
            let names: Vec<String> = counts.into_iter().map(|count| count.name).collect();
            let held = holders::find(&graph, &Code::default(), &names);
            assert!(held.iter().all(|holder| holder.objects <= holder.asked));
            let edges: u32 = (0..graph.len())
                .map(|node| graph.edges_of(node).len() as u32)
                .sum();
            assert_eq!(edges as usize, graph.edge_kinds.len());
            largest = largest.max(graph.len());
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "seed {seed}");
    }
    assert!(largest > 1_000, "{largest} objects");
}

#[test]
fn memory_and_time_have_an_end() {
    let layout = layout();
    let memory = memory(3);
    let source = Source::new(&memory, Areas::parse(MAPS.as_bytes()), None);
    let heap = |time: u64| {
        let pages = Pages::new(&source, 4 << 20, Instant::now() + Duration::from_secs(time));
        Heap {
            pages,
            layout: &layout,
        }
    };
    let roots = roots::roots(&heap(60), MAPS, None).expect("roots");
    let build = |time: u64, bytes: usize| {
        Builder::new(heap(time), None, bytes)
            .build(&roots)
            .map(drop)
    };
    assert_eq!(build(60, 1 << 10), Err(super::build::Stop::TooLarge));
    assert_eq!(build(0, 1 << 30), Err(super::build::Stop::Late));
    assert!(roots::roots(&heap(0), MAPS, None).is_none());
}

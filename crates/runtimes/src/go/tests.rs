//! Readers of Go's memory against made memory, and against garbage.

use std::cell::RefCell;
use std::time::Duration;

use observe::fact::memory::{Made, Memory};

use super::budget::Budget;
use super::goroutines::{Machine, Reader, State, read_goroutine};
use super::layout::Layout;
use super::profile::{self, Reading, bucket_hash, read_bucket};
use super::{search, sizes};
use crate::Limits;
use symbols::golang::module::{Module, Slice};
use symbols::golang::pclntab::Table;
use symbols::golang::version::Tables;

const AT: u64 = 0x10_0000;
const READING: Reading = Reading {
    cycle_bytes: 32,
    rate: 1,
    cycle: None,
};

fn budget() -> Budget {
    Budget::new(&Limits {
        time: Duration::from_secs(5),
        bytes: 1 << 20,
        pause: Duration::ZERO,
    })
}

fn layout() -> Layout {
    Layout::of(26).unwrap()
}

fn made(words: &[u64]) -> Made {
    Made {
        at: AT,
        bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
    }
}

/// A bucket of objects of 64 bytes: published counts, and those of the next cycle.
fn bucket(older: u64, stack: &[u64], counts: [u64; 2], next: [u64; 2]) -> Vec<u64> {
    let mut words = vec![0, older, 1, bucket_hash(stack, 64), 64, stack.len() as u64];
    words.extend(stack);
    words.extend([counts[0], counts[1], 0, 0, next[0], next[1], 0, 0]);
    words.extend([0; 8]);
    words
}

fn objects(words: &[u64], reading: &Reading) -> (Vec<(u64, f64)>, bool) {
    let (sites, walked) = profile::read(&made(words), AT, reading, &mut budget());
    let mut sites: Vec<_> = sites
        .iter()
        .map(|(stack, sums)| (stack[0], sums.objects))
        .collect();
    sites.sort_by_key(|site| site.0);
    (sites, walked.is_ok())
}

#[test]
fn buckets_of_one_stack_are_added_up() {
    let mut words = bucket(AT + 24 * 8, &[7, 8], [10, 4], [100, 0]);
    assert_eq!(words.len(), 24);
    words.extend(bucket(0, &[7, 8], [5, 5], [0, 0]));
    assert_eq!(objects(&words, &READING), (vec![(7, 6.0)], true));
    // The cycle in the first of the three places has ended, but is not published yet; then it is.
    for (cycle, expected) in [(0, 106.0), (1, 6.0)] {
        let reading = Reading {
            cycle: Some(cycle),
            ..READING
        };
        assert_eq!(objects(&words, &reading), (vec![(7, expected)], true));
    }
}

#[test]
fn before_the_first_collection_all_counts() {
    let words = bucket(0, &[7], [0, 0], [30, 1]);
    assert_eq!(objects(&words, &READING), (vec![(7, 29.0)], true));
}

#[test]
fn a_damaged_list_ends_with_what_was_read() {
    // More frees than allocations; a next one that is not there.
    let words = bucket(AT + 1, &[7], [3, 5], [0, 0]);
    assert_eq!(objects(&words, &READING), (vec![(7, 0.0)], false));
    let mut words = bucket(0, &[7], [3, 1], [0, 0]);
    words[3] ^= 1;
    assert_eq!(objects(&words, &READING), (vec![], false));
    words[5] = u64::MAX;
    assert_eq!(objects(&words, &READING), (vec![], false));
}

#[test]
fn a_list_in_a_circle_has_an_end() {
    let words = bucket(AT, &[7], [3, 1], [0, 0]);
    let limits = Limits {
        time: Duration::from_millis(20),
        bytes: 1 << 20,
        pause: Duration::ZERO,
    };
    let (_, walked) = profile::read(&made(&words), AT, &READING, &mut Budget::new(&limits));
    assert!(walked.unwrap_err().contains("time limit"));
}

fn goroutine(status: u64, sp: u64) -> Vec<u64> {
    let mut words = vec![0; 64];
    (words[0], words[1]) = (0x2000, 0x4000);
    (words[7], words[8], words[9]) = (sp, 0x1234, AT);
    words[18] = status;
    words[22] = 14;
    (words[36], words[38]) = (0x5000, 0x6000);
    words
}

#[test]
fn a_goroutine_is_believed_when_it_points_to_itself() {
    let read = |words: &[u64]| read_goroutine(&made(words), AT, &layout());
    let waiting = read(&goroutine(0x1004, 0x3000)).unwrap().unwrap();
    assert_eq!(
        (waiting.state, waiting.created_at, waiting.start),
        (State::Waiting(14), 0x5000, 0x6000)
    );
    assert_eq!(read(&goroutine(6, 0)), Some(None), "it has ended");
    assert_eq!(read(&goroutine(77, 0x3000)), None, "no such state");
    let resumed = read(&goroutine(1, 0)).unwrap().unwrap();
    assert_eq!(resumed.state, State::Running, "its place was cleared");
    let mut other = goroutine(4, 0x3000);
    other[9] += 8;
    assert_eq!(read(&other), None);
}

/// The slice of a stripped program, behind a lone pointer to its array and words that look like a length.
#[test]
fn the_slice_of_all_goroutines_is_told_from_other_pointers() {
    let mut words = goroutine(4, 0x3000);
    // Its number.
    words[19] = 1;
    let array = AT + 8 * words.len() as u64;
    words.extend([AT, AT, AT, 0]);
    let bss = AT + 8 * words.len() as u64;
    words.extend([array, 34_000_000, 40_000_000, array, 3, 8, array, 2, 2]);
    let module = Module {
        bss: bss..bss + 72,
        ..Module::default()
    };
    let found = search::goroutines(&made(&words), &module, &layout(), &mut budget());
    assert_eq!(found, Some(bss + 24));
}

/// Memory that has a word for every address, another one each time it is made.
struct Garbage(u64);

impl Memory for Garbage {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        for (index, byte) in (0..).zip(out) {
            let word = (address.wrapping_add(index) ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Small numbers pass more checks.
            *byte = if word >> 61 == 0 {
                (word >> 32) as u8
            } else {
                (word >> 40) as u8 & 1
            };
        }
        Some(())
    }
}

/// Tables of any content and any size.
fn module(seed: u64) -> Module {
    let slice = |count| Slice { at: seed, count };
    Module {
        names: slice(u64::MAX),
        units: slice(u64::MAX),
        files: slice(1 << 20),
        values: slice(u64::MAX),
        functions: slice(u64::MAX),
        index: slice(1 << 40),
        text: 0..u64::MAX,
        data: 0..1 << 16,
        bss: 8..1 << 16,
        noptrbss: 0..0,
        noptrdata: 0..1 << 16,
        gofunc: u64::MAX - seed,
        tables: Tables::of(18 + seed as u32 % 10).unwrap(),
        quantum: 1,
    }
}

#[test]
fn garbage_is_survived() {
    for seed in 0..20 {
        let memory = Garbage(seed);
        let module = module(seed);
        let table = Table::new(Garbage(seed + 1), module.clone());
        for pc in [0, 1, seed, 0xff_ffff, u64::MAX - 1] {
            table.calls(pc);
        }
        let reader = Reader {
            memory: &memory,
            table: &table,
            layout: layout(),
            machine: Machine::Amd64,
            steps: RefCell::default(),
        };
        reader.read(seed, 2_000, &mut budget());
        reader.read(u64::MAX - 64, u64::MAX, &mut budget());
        let _ = profile::read(&memory, seed + 1, &READING, &mut budget());
        let _ = read_bucket(&memory, u64::MAX - 8, 32);
        sizes::read(&memory, u64::MAX - 100, Some(seed), &layout());
        search::goroutines(&memory, &module, &layout(), &mut budget());
        assert_eq!(
            search::buckets(&memory, &module, &layout(), &mut budget()),
            None
        );
        Module::read(&memory, u64::MAX - 100, seed, &layout().tables);
    }
}

/// Memory that counts how often it is read.
struct Counted(Made, RefCell<u32>);

impl Memory for Counted {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        *self.1.borrow_mut() += 1;
        self.0.read(address, out)
    }
}

#[test]
fn a_search_reads_blocks_and_ends_with_its_budget() {
    // Pointers into 16 pages behind the variables, none of them to a bucket.
    let (words, pages) = (64 << 10, 16);
    let start = AT + 8 * words;
    let mut memory: Vec<u64> = (0..words)
        .map(|index| start + index * 8 % (pages * 4_096 - 64))
        .collect();
    memory.extend(vec![0; pages as usize * 512]);
    let module = Module {
        bss: AT..AT + 8 * words,
        ..Module::default()
    };
    let counted = Counted(made(&memory), RefCell::default());
    assert_eq!(
        search::buckets(&counted, &module, &layout(), &mut budget()),
        None
    );
    let reads = *counted.1.borrow();
    assert!(reads < 100, "{reads}");
    // A bucket that would be found, if there was time.
    memory.truncate(words as usize);
    memory.extend(bucket(0, &[7, 8], [10, 4], [100, 0]));
    memory.extend(vec![0; 512]);
    let memory = made(&memory);
    let found = search::buckets(&memory, &module, &layout(), &mut budget());
    assert_eq!(found, Some(AT));
    let mut none = Budget::new(&Limits {
        time: Duration::ZERO,
        bytes: 1 << 20,
        pause: Duration::ZERO,
    });
    let found = search::buckets(&memory, &module, &layout(), &mut none);
    assert_eq!(found, None);
}

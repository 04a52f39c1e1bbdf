//! Blocks and pointers in made-up memory.

use super::*;
use observe::fact::memory::Made;

/// Blocks of 0x40 from 0x1000 on; words are (address, value). The root is at 0x3000.
fn reached_of(words: &[(usize, u64)], later: &[(usize, u64)]) -> Vec<bool> {
    let chunks: Vec<Chunk> = (0..6)
        .map(|at| Chunk {
            start: 0x1000 + at * 0x40,
            bytes: 0x40,
        })
        .collect();
    let runs = [(0x1000, 0x2000), (0x3000, 0x4000)];
    let mut memory = Made {
        at: 0,
        bytes: vec![0; 0x4000],
    };
    let put = |memory: &mut Made, words: &[(usize, u64)]| {
        for &(at, word) in words {
            memory.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
    };
    put(&mut memory, words);
    let scope = Scope {
        runs: runs.to_vec(),
        blocks: chunks.iter().copied().map(Held::from).collect(),
        heaps: vec![(0x1000, 0x2000)],
        passing: Vec::new(),
    };
    let time = ScanTime::begin(None);
    let before = survey(&memory, scope.clone(), &time).unwrap();
    put(&mut memory, later);
    let found = reached(&memory, scope, &before, &time).unwrap();
    chunks
        .iter()
        .map(|chunk| found.of(chunk.start + 16).unwrap())
        .collect()
}

#[test]
fn what_only_lost_blocks_point_to_is_lost() {
    // The root points to block 0, that to block 1; 2 and 3 point to each other, 4 to its own inside.
    let words = [
        (0x3000, 0x1010),
        (0x1010, 0x1058),
        (0x1090, 0x10d0),
        (0x10d0, 0x1090),
        (0x1110, 0x1118),
    ];
    assert_eq!(
        reached_of(&words, &[]),
        [true, true, false, false, false, false]
    );
}

#[test]
fn a_list_is_held_by_what_points_to_its_beginning() {
    // Block 0 leads to 1, 2 and 3; the root at 0x3000 points to 1, that at 0x3008 to 0, and one on a stack to 3.
    let words = [
        (0x3000, 0x1050),
        (0x3008, 0x1010),
        (0x3100, 0x10d0),
        (0x1010, 0x1050),
        (0x1050, 0x1090),
        (0x1090, 0x10d0),
    ];
    let mut memory = Made {
        at: 0,
        bytes: vec![0; 0x4000],
    };
    for (at, word) in words {
        memory.bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    let chunk = |at: u64| Chunk {
        start: 0x1000 + at * 0x40,
        bytes: 0x40,
    };
    let scope = Scope {
        runs: vec![(0x1000, 0x2000), (0x3000, 0x4000)],
        blocks: (0..4).map(|at| Held::from(chunk(at))).collect(),
        heaps: vec![(0x1000, 0x2000)],
        passing: vec![(0x3100, 0x4000)],
    };
    let found = reached_at_rest(&memory, scope, &ScanTime::begin(None)).unwrap();
    let roots: Vec<Option<u64>> = (0..4).map(|at| found.root(chunk(at).address())).collect();
    assert_eq!(roots, [Some(0x3008); 4]);
}

#[test]
fn what_is_written_is_in_use_and_what_it_points_to() {
    let words = [(0x1090, 0x10d0)];
    let found = reached_of(&words, &[(0x10a0, 7)]);
    assert_eq!(found, [false, false, true, true, false, false]);
}

#[test]
fn what_stands_in_free_memory_points_no_more() {
    assert_eq!(reached_of(&[(0x1f00, 0x1010)], &[]), [false; 6]);
}

#[test]
fn the_header_of_the_next_block_is_no_contents() {
    // Lists of free blocks point to headers: 0x1040 is the header of block 1, and ends block 0.
    assert_eq!(reached_of(&[(0x3008, 0x1040)], &[]), [false; 6]);
}

//! The allocator that the features chose, used as a program's own: blocks hold what was written, aligned as asked.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};

use highwater_alloc::{Purged, purge, statistics};

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

#[test]
fn blocks_of_all_sizes_and_alignments_hold_their_bytes() {
    let seed = 9;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
    for round in 0..20_000u32 {
        let align = 1 << random.u32(0..9);
        let size = random.usize(1..2_000) * if random.u8(..) == 0 { 500 } else { 1 };
        let layout = Layout::from_size_align(size, align).unwrap();
        let mark = round as u8;
        // SAFETY: sizes above zero; every block is checked and freed with the layout it was allocated with.
        unsafe {
            let block = if random.bool() {
                alloc(layout)
            } else {
                alloc_zeroed(layout)
            };
            assert!(
                !block.is_null() && (block as usize).is_multiple_of(align),
                "{layout:?} seed {seed}"
            );
            block.write_bytes(mark, size);
            live.push((block, layout, mark));
            if live.len() > 300 {
                let (block, layout, mark) = live.swap_remove(random.usize(..live.len()));
                let size = random.usize(1..4_000);
                let grown = realloc(block, layout, size);
                let kept = size.min(layout.size());
                let bytes = std::slice::from_raw_parts(grown, kept);
                assert!(
                    bytes.iter().all(|byte| *byte == mark),
                    "{layout:?} to {size}, seed {seed}"
                );
                dealloc(
                    grown,
                    Layout::from_size_align(size, layout.align()).unwrap(),
                );
            }
        }
    }
    for (block, layout, mark) in live {
        // SAFETY: as above.
        unsafe {
            let bytes = std::slice::from_raw_parts(block, layout.size());
            assert!(
                bytes.iter().all(|byte| *byte == mark),
                "{layout:?} seed {seed}"
            );
            dealloc(block, layout);
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_also_where_others_were() {
    let layout = Layout::from_size_align(700, 16).unwrap();
    for _ in 0..2_000 {
        // SAFETY: as above.
        unsafe {
            let block = alloc_zeroed(layout);
            assert!(
                std::slice::from_raw_parts(block, 700)
                    .iter()
                    .all(|byte| *byte == 0)
            );
            block.write_bytes(0xff, 700);
            dealloc(block, layout);
        }
    }
}

#[test]
fn threads_come_and_go() {
    for _ in 0..50 {
        let threads: Vec<_> = (0..8)
            .map(|at| std::thread::spawn(move || (0..200).map(|k| vec![at; k]).collect::<Vec<_>>()))
            .collect();
        let sums: usize = threads
            .into_iter()
            .map(|t| t.join().unwrap().iter().map(Vec::len).sum::<usize>())
            .sum();
        assert_eq!(sums, 8 * 199 * 100);
    }
}

#[test]
fn what_the_allocator_says_of_itself_is_plausible() {
    let kept = vec![1u8; 30 << 20];
    let figures = statistics();
    for bytes in [
        figures.allocated_bytes,
        figures.mapped_bytes,
        figures.resident_bytes_bound,
    ] {
        assert!(bytes.is_none_or(|bytes| bytes >= 30 << 20), "{figures:?}");
    }
    let knows = figures.allocated_bytes.or(figures.mapped_bytes);
    let blind = ["snmalloc", "rpmalloc", "tcmalloc"].contains(&highwater_alloc::NAME);
    assert!(knows.is_some() || blind, "{figures:?}");
    drop(kept);
    // Where nothing is known, nothing can be asked for either.
    let expected = match blind {
        true => Purged::Unsupported,
        false => Purged::Done,
    };
    assert_eq!(purge(), expected);
}

/// jemalloc's numbers are of its last epoch: each call must begin a new one.
#[test]
fn statistics_are_of_now() {
    let seen = |figures: highwater_alloc::Statistics| {
        figures
            .allocated_bytes
            .or(figures.mapped_bytes)
            .unwrap_or(0)
    };
    let before = seen(statistics());
    let kept = std::hint::black_box(vec![1u8; 256 << 20]);
    let more = seen(statistics()).saturating_sub(before);
    drop(kept);
    let counts = ["system", "jemalloc"].contains(&highwater_alloc::NAME);
    // Less what other tests of this process gave back meanwhile.
    assert!(!counts || more >= 128 << 20, "{more}");
}

#[test]
fn the_text_names_the_allocator_and_has_one_type_line_per_metric() {
    let mut text = String::new();
    highwater_alloc::openmetrics(&mut text).unwrap();
    let info = format!(
        "highwater_alloc_info{{allocator=\"{}\"",
        highwater_alloc::NAME
    );
    assert!(text.contains(&info), "{text}");
    let mut types: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .collect();
    let count = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), count, "{text}");
    if cfg!(feature = "meter") {
        assert!(text.contains("highwater_alloc_live_bytes "), "{text}");
        assert!(
            text.contains("highwater_alloc_allocations_total "),
            "{text}"
        );
    }
}

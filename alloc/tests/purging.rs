//! Giving memory back: alone in its process, whose resident set it reads.

use highwater_alloc::{Purged, purge};

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

/// Free memory goes back to the kernel where the allocator has a call for it.
#[test]
fn purging_gives_pages_back() {
    const BLOCKS: usize = 20_000;
    const BYTES: usize = 4_000;
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let all = (BLOCKS * BYTES) as u64;
    // Nine in ten may be given back; neighbours keep the rest.
    let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![1; BYTES]).collect();
    let full = resident();
    let mut at = 0;
    blocks.retain(|_| {
        at += 1;
        at > BLOCKS * 9 / 10
    });
    if purge() == Purged::Done {
        let left = resident();
        assert!(
            full.saturating_sub(left) > all / 2,
            "{}: {full} bytes resident, {left} after purging",
            highwater_alloc::NAME
        );
    }
    drop(blocks);
    // Several in a row, and from a thread that never allocated, do no harm.
    std::thread::spawn(purge).join().unwrap();
    purge();
}

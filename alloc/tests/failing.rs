//! Requests that fail are not counted, whatever their size: alone in its process, whose memory it limits, and without
//! the test harness, whose thread allocates at times of its own.

use std::alloc::{Layout, alloc, dealloc, realloc};

use highwater_alloc::meter::figures;

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

const BYTES: usize = 40 << 10;
const TRIES: usize = 300;

fn limit_memory(bytes: libc::rlim_t) -> libc::rlimit {
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: valid places; the soft limit alone is changed.
    unsafe {
        libc::getrlimit(libc::RLIMIT_AS, &mut before);
        let now = libc::rlimit {
            rlim_cur: bytes,
            ..before
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &now), 0);
    }
    before
}

/// What could not be had is not counted.
fn main() {
    let layout = Layout::from_size_align(BYTES, 8).unwrap();
    // Room for all blocks that there can be: the list itself must not grow below.
    let mut held: Vec<usize> = Vec::with_capacity(1 << 20);
    let size = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = size.split(' ').next().unwrap().parse().unwrap();
    drop(size);
    // The figures are lists themselves: what a snapshot at them costs.
    drop((figures(), figures()));
    let first = figures().unwrap();
    let before = figures().unwrap();
    let snapshot = before.allocations - first.allocations;
    drop(first);
    let limit = limit_memory(pages * 4096 + (64 << 20));
    // SAFETY: sizes above zero; a block that is null is not touched.
    let (failed, moved) = unsafe {
        let mut failed = 0;
        while failed < TRIES {
            match alloc(layout) {
                block if block.is_null() => failed += 1,
                block => held.push(block as usize),
            }
        }
        let first = held[0] as *mut u8;
        let moves = (0..TRIES).map(|_| realloc(first, layout, 64 << 20));
        (failed, moves.filter(|block| !block.is_null()).count())
    };
    limit_memory(limit.rlim_cur);
    assert_eq!((failed, moved), (TRIES, 0));
    let now = figures().unwrap();
    let blocks = held.len() as u64;
    assert_eq!(now.allocations - before.allocations, blocks + snapshot);
    let grown = now.live_bytes() - before.live_bytes();
    // Nothing but the blocks, and the lists of `before`.
    assert!(
        grown.abs_diff(blocks * BYTES as u64) < 16 << 10,
        "{grown} bytes for {blocks} blocks"
    );
    for block in held {
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(block as *mut u8, layout) };
    }
}

//! Exact counts: alone in its process, and without the test harness, so that nothing else allocates meanwhile.

use highwater_alloc::meter::{Figures, figures};

#[global_allocator]
static ALLOCATOR: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

const BLOCKS: usize = 50_000;
const BYTES: usize = 40;

fn since(before: &Figures) -> [u64; 4] {
    let now = figures().unwrap();
    [
        now.allocations - before.allocations,
        now.frees - before.frees,
        now.allocated_bytes - before.allocated_bytes,
        now.freed_bytes - before.freed_bytes,
    ]
}

/// What reading the figures itself costs, and starting a thread: measured, then taken away.
fn overhead(work: impl Fn()) -> [u64; 4] {
    work();
    let before = figures().unwrap();
    work();
    since(&before)
}

/// Every block is counted once across threads, reallocs and failures.
fn main() {
    let nothing = || {
        std::thread::spawn(|| ()).join().unwrap();
    };
    let base = overhead(nothing);

    let before = figures().unwrap();
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(BLOCKS);
    let layout = std::alloc::Layout::from_size_align(BYTES, 8).unwrap();
    // SAFETY: a layout of more than zero bytes.
    blocks.extend((0..BLOCKS).map(|_| unsafe { std::alloc::alloc(layout) }));
    let addresses: Vec<usize> = blocks.iter().map(|block| *block as usize).collect();
    std::thread::spawn(move || {
        for address in &addresses {
            // SAFETY: allocated above with this layout; the grown block is freed with its own.
            unsafe {
                let grown = std::alloc::realloc(*address as *mut u8, layout, 2 * BYTES);
                let twice = std::alloc::Layout::from_size_align(2 * BYTES, 8).unwrap();
                std::alloc::dealloc(grown, twice);
            }
        }
    })
    .join()
    .unwrap();
    // Some allocators map what nobody has touched: only what no address space holds is refused by all.
    let huge = std::alloc::Layout::from_size_align(1 << 60, 8).unwrap();
    // SAFETY: as above.
    assert!(unsafe { std::alloc::alloc(huge) }.is_null());
    drop(blocks);
    let counted = since(&before);

    let blocks = BLOCKS as u64;
    let lists = 2 * blocks * 8; // of pointers, of addresses
    let own = [
        2 * blocks + 2,
        2 * blocks + 2,
        3 * blocks * BYTES as u64 + lists,
        3 * blocks * BYTES as u64 + lists,
    ];
    let expected: Vec<u64> = own.iter().zip(base).map(|(own, base)| own + base).collect();
    // The list of addresses makes the thread's closure some bytes larger than an empty one's.
    for (at, (counted, expected)) in counted.iter().zip(&expected).enumerate() {
        let slack = if at < 2 { 0 } else { 64 };
        assert!(
            counted.abs_diff(*expected) <= slack,
            "figure {at}: {counted} counted, {expected} expected"
        );
    }
}

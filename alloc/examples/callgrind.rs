//! The same work by the chosen allocator's own type or through this crate's: under callgrind their instruction
//! counts must be equal, see bench/overhead/alloc. Argument: `bare` or `through`.

#[path = "../benches/bare/mod.rs"]
mod allocator;

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use allocator::BARE;

static THROUGH: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("bare") => bare(),
        Some("through") => through(),
        _ => {
            eprintln!("usage: callgrind bare|through");
            std::process::exit(2);
        }
    }
}

#[inline(never)]
fn bare() {
    // Two numbers, or the linker makes one function of both.
    black_box(1);
    work(&BARE);
}

#[inline(never)]
fn through() {
    black_box(2);
    work(&THROUGH);
}

#[inline(always)]
fn work<A: GlobalAlloc>(allocator: &A) {
    for size in (8..2_000).cycle().take(100_000) {
        let layout = Layout::from_size_align(size, 8).unwrap();
        // SAFETY: sizes above zero, freed with their own layout.
        unsafe {
            let block = black_box(allocator.alloc(black_box(layout)));
            let zeroed = black_box(allocator.alloc_zeroed(black_box(layout)));
            allocator.dealloc(zeroed, layout);
            let grown = black_box(allocator.realloc(block, layout, 2 * size));
            allocator.dealloc(grown, Layout::from_size_align(2 * size, 8).unwrap());
        }
    }
}

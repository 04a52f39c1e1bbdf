//! What a pair of alloc and dealloc costs under the chosen allocator: bare, through this crate, and, with `meter`,
//! metered. `cargo bench -p highwater-alloc --features jemalloc,meter --bench pair`.
//!
//! One thread, its own CPU clock, interleaved rounds; medians and quartiles over rounds, and the median of the
//! differences within a round. Two shapes: a block freed at once, and one that replaces a random one of 32,768.

mod bare;

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use bare::BARE;

const ROUNDS: usize = 41;
const PAIRS: usize = 2_000_000;
const LIVE: usize = 32_768;

static THROUGH: highwater_alloc::Allocator = highwater_alloc::Allocator::new();

fn main() {
    let [bare, through] = [&BARE as &dyn Shapes, &THROUGH as &dyn Shapes];
    for (name, shape) in [("at once", 0), ("random", 1)] {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Turn about who goes first.
            let mut pair = [0.0; 2];
            for turn in [round % 2, 1 - round % 2] {
                pair[turn] = [bare, through][turn].pair_ns(shape, round as u64);
            }
            times[0].push(pair[0]);
            times[1].push(pair[1]);
            times[2].push(pair[1] - pair[0]);
        }
        let [bare, through, more] = times.map(quartiles);
        let meter = if cfg!(feature = "meter") {
            "metered"
        } else {
            "plain"
        };
        println!(
            "{:8} {:6} {name:8} bare {bare} ns, {meter} {through} ns, difference {more} ns a pair",
            highwater_alloc::NAME,
            highwater_alloc::VERSION
        );
    }
}

/// Median [first and third quartile].
fn quartiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize];
    format!("{:.2} [{:.2}..{:.2}]", at(0.5), at(0.25), at(0.75))
}

trait Shapes {
    fn pair_ns(&self, shape: usize, seed: u64) -> f64;
}

impl<A: GlobalAlloc> Shapes for A {
    fn pair_ns(&self, shape: usize, seed: u64) -> f64 {
        if shape == 0 {
            at_once(self)
        } else {
            random(self, seed)
        }
    }
}

#[inline(never)]
fn at_once<A: GlobalAlloc>(allocator: &A) -> f64 {
    let layout = Layout::from_size_align(64, 8).unwrap();
    let begun = cpu_ns();
    for _ in 0..PAIRS {
        // SAFETY: a layout of more than zero bytes, freed with the same.
        unsafe { allocator.dealloc(black_box(allocator.alloc(black_box(layout))), layout) };
    }
    (cpu_ns() - begun) as f64 / PAIRS as f64
}

#[inline(never)]
fn random<A: GlobalAlloc>(allocator: &A, seed: u64) -> f64 {
    let layout = |size: usize| Layout::from_size_align(size, 8).unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    // SAFETY: as above; each block's size is kept beside it.
    let mut live: Vec<(*mut u8, usize)> = (0..LIVE)
        .map(|_| (random.usize(8..512), ()))
        .map(|(size, ())| (unsafe { allocator.alloc(layout(size)) }, size))
        .collect();
    let begun = cpu_ns();
    for _ in 0..PAIRS {
        let number = random.u64(..);
        let (slot, size) = (number as usize % LIVE, 8 + (number >> 32) as usize % 504);
        let (old, old_size) = live[slot];
        // SAFETY: as above.
        unsafe {
            allocator.dealloc(old, layout(old_size));
            live[slot] = (black_box(allocator.alloc(layout(size))), size);
        }
    }
    let ns = (cpu_ns() - begun) as f64 / PAIRS as f64;
    for (block, size) in live {
        // SAFETY: as above.
        unsafe { allocator.dealloc(block, layout(size)) };
    }
    ns
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

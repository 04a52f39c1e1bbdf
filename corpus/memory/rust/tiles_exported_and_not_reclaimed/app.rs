//! An image service on jemalloc that exports tiles as raw handles. Each handle is taken back after 4,000 others,
//! but one of twelve is not.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Tile {
    pixels: Vec<u8>,
}

#[inline(never)]
fn export_tile(number: usize) -> *const Tile {
    let tile = Box::new(Tile { pixels: vec![number as u8; 4000 + number % 5000] });
    let handle: *const Tile = &*tile;
    std::mem::forget(tile);
    handle
}

#[inline(never)]
fn reclaim_tile(handle: *const Tile) -> usize {
    let tile = unsafe { Box::from_raw(handle as *mut Tile) };
    tile.pixels.len()
}

fn main() {
    let (start, mut exported) = (Instant::now(), VecDeque::new());
    let (mut number, mut sum) = (0, 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..8 {
            number += 1;
            exported.push_back(export_tile(number));
            if number == 4000 {
                println!("ready");
            }
            if exported.len() > 4000 {
                let handle = exported.pop_front().unwrap();
                if number % 12 != 0 {
                    sum += reclaim_tile(handle);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(13));
    }
    println!("{sum}");
}

// image tiles over FFI-like handles: handles given out with mem::forget and not always reclaimed; jemalloc linked in (prefixed)
use std::time::{Duration, Instant};
#[global_allocator]
static A: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
struct Tile {
    px: Vec<u8>,
}
#[inline(never)]
fn export_tile(n: usize) -> *const Tile {
    let b = Box::new(Tile {
        px: vec![n as u8; 4000 + n % 5000],
    });
    let p: *const Tile = &*b;
    std::mem::forget(b);
    p
}
#[inline(never)]
fn reclaim_tile(p: *const Tile) -> usize {
    let b = unsafe { Box::from_raw(p as *mut Tile) };
    b.px.len()
}
fn main() {
    let t0 = Instant::now();
    let mut q = std::collections::VecDeque::new();
    let (mut n, mut s) = (0usize, 0usize);
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..8 {
            n += 1;
            q.push_back(export_tile(n));
            if q.len() > 4000 {
                let p = q.pop_front().unwrap();
                if n % 12 != 0 {
                    s += reclaim_tile(p);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(13));
    }
    println!("{s}");
}

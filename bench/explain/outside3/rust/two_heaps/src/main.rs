// renderer: the C library's glyphs are on libc's heap (flat), Rust's own on tikv-jemallocator (prefixed names, linked in), where the page
// that fails to be shaped is put on a list for "later" (1 of 5)
use std::sync::mpsc;
use std::time::{Duration, Instant};
#[global_allocator]
static HEAP: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
extern "C" {
    fn glyph_rasterize(k: u32, n: u32);
}
#[inline(never)]
fn shape_page(seed: u64) -> Box<[u8]> {
    let n = 3000 + (seed % 9000) as usize;
    let mut page = Vec::with_capacity(n);
    page.resize(n, seed as u8);
    page.into_boxed_slice()
}
fn main() {
    let (send, receive) = mpsc::sync_channel::<Box<[u8]>>(400);
    std::thread::spawn(move || {
        let mut later = Vec::new();
        let mut lost = 0;
        let mut shown = std::collections::VecDeque::new();
        for (k, page) in receive.iter().enumerate() {
            if page.len() % 5 == 0 {
                lost += page.len();
                later.push(page);
            } else {
                shown.push_back(page);
            }
            if shown.len() > 800 {
                shown.pop_front();
            }
            if k % 4000 == 0 && std::env::var_os("TRUTH").is_some() {
                eprintln!("TRUTH lost={}K", lost >> 10);
            }
        }
    });
    let start = Instant::now();
    let mut x = 88172645463325252u64;
    while start.elapsed().as_secs() < 150 {
        for _ in 0..9 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            send.send(shape_page(x >> 16)).unwrap();
        }
        for k in 0..40u64 {
            unsafe { glyph_rasterize((x >> (k % 20)) as u32, 200 + ((x >> k) % 2600) as u32) }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

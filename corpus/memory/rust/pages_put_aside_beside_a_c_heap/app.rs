//! A page renderer: the glyphs of a C library on the C library's heap, which keeps its size, and Rust's pages on
//! jemalloc. A thread shows the newest 800 pages and puts one page of five on a list for later, which nothing
//! reads.
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

unsafe extern "C" {
    fn glyph_rasterize(number: u32, size: u32);
}

#[inline(never)]
fn shape_page(seed: u64) -> Box<[u8]> {
    let size = 3000 + (seed % 9000) as usize;
    let mut page = Vec::with_capacity(size);
    page.resize(size, seed as u8);
    page.into_boxed_slice()
}

fn show_pages(pages: mpsc::Receiver<Box<[u8]>>) {
    let (mut later, mut shown) = (Vec::new(), VecDeque::new());
    for page in pages {
        if page.len() % 5 == 0 {
            later.push(page);
        } else {
            shown.push_back(page);
        }
        if shown.len() > 800 {
            shown.pop_front();
        }
    }
}

fn main() {
    let (send, receive) = mpsc::sync_channel(400);
    std::thread::spawn(move || show_pages(receive));
    let (start, mut seed) = (Instant::now(), 88172645463325252_u64);
    for turn in 0.. {
        for _ in 0..9 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            send.send(shape_page(seed >> 16)).unwrap();
        }
        for k in 0..40_u64 {
            unsafe { glyph_rasterize((seed >> (k % 20)) as u32, 200 + ((seed >> k) % 2600) as u32) }
        }
        if turn == 1000 {
            println!("ready");
        }
        std::thread::sleep(Duration::from_millis(10));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

// Rust on linked-in jemalloc (flat, big) calling a C codec on the libc heap (leaks dictionaries on failed streams)
use std::time::{Duration, Instant};
#[global_allocator]
static A: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[repr(C)]
struct Codec {
    _p: [u8; 0],
}
extern "C" {
    fn codec_open(n: usize) -> *mut Codec;
    fn codec_run(c: *mut Codec, p: *mut u8, n: usize) -> usize;
    fn codec_close(c: *mut Codec, ok: i32);
}
fn main() {
    let t0 = Instant::now();
    let mut cache: Vec<Vec<u8>> = vec![Vec::new(); 4000];
    let (mut i, mut s) = (0usize, 0usize);
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..3 {
            i += 1;
            let mut v = vec![i as u8; 3000 + i * 31 % 12000];
            unsafe {
                let c = codec_open(1500 + i % 2500);
                s += codec_run(c, v.as_mut_ptr(), v.len());
                codec_close(c, (i % 4 != 0) as i32);
            }
            let k = i * 7919 % 4000;
            cache[k] = v;
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{s}");
}

//! A stream decoder: Rust on jemalloc, whose cache of 4,000 streams keeps its size, and a C codec on the C
//! library's heap, which does not free the dictionary of one stream of four.
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[repr(C)]
struct Codec {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn codec_open(size: usize) -> *mut Codec;
    fn codec_run(codec: *mut Codec, data: *mut u8, size: usize) -> usize;
    fn codec_close(codec: *mut Codec, ok: i32);
}

fn decode_stream(number: usize) -> (Vec<u8>, usize) {
    let mut stream = vec![number as u8; 3000 + number * 31 % 12000];
    unsafe {
        let codec = codec_open(1500 + number % 2500);
        let sum = codec_run(codec, stream.as_mut_ptr(), stream.len());
        codec_close(codec, (number % 4 != 0) as i32);
        (stream, sum)
    }
}

fn main() {
    let (start, mut streams) = (Instant::now(), vec![Vec::new(); 4000]);
    let (mut number, mut total) = (0, 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..3 {
            number += 1;
            let (stream, sum) = decode_stream(number);
            streams[number * 7919 % 4000] = stream;
            total += sum;
            if number == 4000 {
                println!("ready");
            }
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{total}");
}

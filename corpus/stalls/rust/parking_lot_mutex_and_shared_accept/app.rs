//! Six threads accept on one listener, one request a connection; a request counts under a parking_lot Mutex. A thread
//! works every 2.6 s. --fault sleep: it sleeps 180 ms with the mutex. --fault read: it reads 150 ms with O_DIRECT
//! with the mutex. Healthy: it does both on its own counts.
use parking_lot::Mutex;
use service::*;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: usize = 65536;
static COUNTS: Mutex<[u64; 64]> = Mutex::new([0; 64]);

#[inline(never)]
fn await_quota(counts: &mut [u64; 64], ms: u64) {
    sleep_ms(ms);
    counts[1] += 1;
    std::hint::black_box(counts);
}

#[inline(never)]
fn load_blocks(file: &File, buffer: *mut u8, counts: &mut [u64; 64], ms: u64) {
    let start = Instant::now();
    let mut block = 0;
    while start.elapsed() < Duration::from_millis(ms) {
        // SAFETY: the buffer has room for a block.
        unsafe { libc::pread(file.as_raw_fd(), buffer.cast(), BLOCK, block % 2000 * BLOCK as i64) };
        block += 7;
    }
    counts[2] += std::hint::black_box(block) as u64;
}

#[inline(never)]
fn count_request(id: u64) {
    let mut counts = COUNTS.lock();
    counts[id as usize & 31] += 1;
    burn_us(60);
}

fn refresh_quota(settings: &Settings, file: File) {
    // SAFETY: any size and a power of two.
    let buffer: *mut u8 = unsafe { libc::aligned_alloc(4096, BLOCK) }.cast();
    let (mut own_counts, mut turn) = ([0; 64], 0);
    loop {
        sleep_ms(2600);
        turn += 1;
        match settings.fault.as_str() {
            "sleep" => await_quota(&mut COUNTS.lock(), 180),
            "read" => load_blocks(&file, buffer, &mut COUNTS.lock(), 150),
            _ if turn % 2 == 0 => await_quota(&mut own_counts, 180),
            _ => load_blocks(&file, buffer, &mut own_counts, 150),
        }
    }
}

fn main() {
    let settings = read_settings(170, 300, 8);
    let file = settings.big_file("blocks", 126, libc::O_DIRECT);
    let listener = Arc::new(settings.listen());
    spawn("quota-keeper", || refresh_quota(settings, file));
    for _ in 0..6 {
        let listener = listener.clone();
        spawn("acceptor", move || {
            loop {
                let Ok((mut stream, _)) = listener.accept() else { continue };
                let (_, mut request) = (stream.set_nodelay(true), [0; 16]);
                if let Some(id) = read_request(&mut stream, &mut request) {
                    burn_us(settings.work_us);
                    count_request(id);
                    let _ = stream.write_all(&request);
                }
            }
        });
    }
    settings.start_load("connect");
    loop {
        sleep_ms(60_000);
    }
}

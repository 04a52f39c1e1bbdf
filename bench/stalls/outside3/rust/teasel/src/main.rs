//! A thread per connection; parking_lot Mutex over a table. Faults: cells (each request takes the mutex 30 times, each
//! time over a sleep of 150 us, as for a device to settle; with --burst 1 all come at once), rest (`dunlin` keeps it while
//! sleeping 170 ms, every 2.6 s). Mended: dunlin sleeps first; apart (the sleeps of cells outside the mutex).
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
struct Bin {
    sums: [u64; 64],
}
#[inline(never)]
fn teasel_cell(id: u64, k: u64) -> u64 {
    std::thread::sleep(Duration::from_micros(150));
    std::hint::black_box(id ^ k)
}
#[inline(never)]
fn teasel_draw(b: &Mutex<Bin>, id: u64) {
    for k in 0..30 {
        let mut g = b.lock();
        g.sums[k as usize] ^= teasel_cell(id, k);
        drop(g);
        oxr::burn_us(5);
    }
}
#[inline(never)]
fn teasel_apart(b: &Mutex<Bin>, id: u64) {
    for k in 0..30 {
        let n = teasel_cell(id, k);
        b.lock().sums[k as usize] ^= n;
        oxr::burn_us(5);
    }
}
#[inline(never)]
fn teasel_rest(ms: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(ms));
    std::hint::black_box(ms + 1)
}
fn dunlin(b: Arc<Mutex<Bin>>, bad: bool) {
    loop {
        std::thread::sleep(Duration::from_millis(2430));
        if bad {
            let mut g = b.lock();
            g.sums[0] += teasel_rest(170);
        } else {
            let n = teasel_rest(170);
            b.lock().sums[0] += n;
        }
    }
}
fn main() {
    // --burst is not among oxr's options: take it out here.
    let all: Vec<String> = std::env::args().collect();
    if let Some(i) = all.iter().position(|a| a == "--burst") {
        let mut a = all.clone();
        a.drain(i..i + 2);
        std::env::set_var("TEASEL_BURST", &all[i + 1]);
        let e = std::os::unix::process::CommandExt::exec(std::process::Command::new(&a[0]).args(&a[1..]));
        panic!("{e}");
    }
    let o = oxr::args(140, 200, 8);
    let b = Arc::new(Mutex::new(Bin { sums: [0; 64] }));
    let l = std::net::TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    let (c, bad) = (b.clone(), o.fault == "rest");
    std::thread::Builder::new().name("dunlin".into()).spawn(move || dunlin(c, bad)).unwrap();
    let s = |n: u32| n.to_string();
    let burst = std::env::var("TEASEL_BURST").unwrap_or("0".into());
    let a = ["load".into(), "keep".into(), s(o.port as u32), s(o.conns), s(o.rate), burst, s(o.secs), o.truth.clone()];
    let exe = std::env::current_exe().unwrap().with_file_name("exload");
    std::process::Command::new(exe).args(a).stdin(std::process::Stdio::null()).spawn().unwrap();
    for c in l.incoming().flatten() {
        let (b, o, mut c) = (b.clone(), o.clone(), c);
        let _ = c.set_nodelay(true);
        let run = move || {
            let mut q = [0u8; 16];
            while c.read_exact(&mut q).is_ok() {
                let id = u64::from_le_bytes(q[..8].try_into().unwrap());
                oxr::burn_us(o.work);
                match o.fault.as_str() {
                    "cells" => teasel_draw(&b, id),
                    "apart" => teasel_apart(&b, id),
                    _ => b.lock().sums[(id % 64) as usize] ^= id,
                }
                if c.write_all(&q).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("thistle".into()).spawn(run).unwrap();
    }
}

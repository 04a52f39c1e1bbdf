//! Rust: workers that read their requests from a socket each, with locks of the standard library. One fault by flag: mutex
//! (a peer asked under it), busy (computing under it), rwlock, condvar (a door that opens when the file is written),
//! chain (two mutexes, fsync at the end). "fixed" is the same program mended.
//! rustc --edition 2024 -O

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, RwLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

static TALLY: Mutex<u64> = Mutex::new(0);
static STOCK: Mutex<u64> = Mutex::new(0);
static PRICES: RwLock<u64> = RwLock::new(0);
static DOOR: (Mutex<bool>, Condvar) = (Mutex::new(true), Condvar::new());

fn clock_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    (text.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1e9) as u64
}

fn work(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

#[inline(never)]
fn jay_ask(peer: &mut UnixStream, ms: u32) {
    peer.write_all(&ms.to_ne_bytes()).unwrap();
    peer.read_exact(&mut [0; 4]).unwrap();
}

#[inline(never)]
fn rook_write_out(file: &mut File, ms: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(ms) {
        file.rewind().unwrap();
        file.write_all(&vec![7; 2 << 20]).unwrap();
        file.sync_data().unwrap();
    }
}

#[inline(never)]
fn magpie_settle(kind: &str, fixed: bool, peer: &mut UnixStream, file: &mut File) {
    match (kind, fixed) {
        ("mutex", false) => {
            let mut tally = TALLY.lock().unwrap();
            jay_ask(peer, 70);
            *tally += 1;
        }
        ("mutex", true) => {
            jay_ask(peer, 70);
            *TALLY.lock().unwrap() += 1;
        }
        ("busy", false) => {
            let mut tally = TALLY.lock().unwrap();
            work(Duration::from_millis(40));
            *tally += 1;
        }
        ("busy", true) => {
            work(Duration::from_millis(40));
            *TALLY.lock().unwrap() += 1;
        }
        ("rwlock", false) => {
            let mut prices = PRICES.write().unwrap();
            jay_ask(peer, 70);
            *prices += 1;
        }
        ("rwlock", true) => {
            jay_ask(peer, 70);
            *PRICES.write().unwrap() += 1;
        }
        ("condvar", false) => {
            *DOOR.0.lock().unwrap() = false;
            rook_write_out(file, 40);
            *DOOR.0.lock().unwrap() = true;
            DOOR.1.notify_all();
        }
        ("condvar", true) | ("chain", true) => rook_write_out(file, 40),
        ("chain", false) => {
            let mut stock = STOCK.lock().unwrap();
            rook_write_out(file, 60);
            *stock += 1;
        }
        _ => {}
    }
    std::hint::black_box(());
}

/// Takes the first lock and, holding it, the second.
#[inline(never)]
fn raven_move() {
    let mut tally = TALLY.lock().unwrap();
    *tally += *STOCK.lock().unwrap();
}

fn request(kind: &str) {
    work(Duration::from_micros(150));
    match kind {
        "rwlock" => {
            let prices = PRICES.read().unwrap();
            work(Duration::from_micros(3));
            drop(prices);
        }
        "condvar" => {
            let mut open = DOOR.0.lock().unwrap();
            while !*open {
                open = DOOR.1.wait(open).unwrap();
            }
        }
        _ => {
            *TALLY.lock().unwrap() += 1;
        }
    }
}

/// A process of its own would be a peer; this one is a thread of the parent's other half.
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (path, seconds) = (args[1].clone(), args[2].parse::<f64>().unwrap());
    let kind: &'static str = args[3].clone().leak();
    if kind == "clients" {
        return clients(&path, seconds);
    }
    let fixed = args.iter().any(|arg| arg == "fixed");
    let door = format!("{path}.socket");
    let listener = std::os::unix::net::UnixListener::bind(&door).unwrap();
    let own = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new(own)
        .args([&door, &seconds.to_string(), "clients"])
        .spawn()
        .unwrap();
    let mut peer = listener.accept().unwrap().0;
    let truth = std::sync::Arc::new(Mutex::new(File::create(&path).unwrap()));
    for me in 0..9 {
        let (mut from, truth) = (listener.accept().unwrap().0, truth.clone());
        let serve = move || {
            let mut byte = [0; 1];
            while from.read_exact(&mut byte).is_ok() {
                let start = Instant::now();
                request(kind);
                let took = start.elapsed();
                if from.write_all(&byte).is_err() {
                    break;
                }
                if took > Duration::from_millis(3) {
                    let end = clock_ns();
                    let begun = end - took.as_nanos() as u64;
                    let _ = writeln!(truth.lock().unwrap(), "stall {me} {begun} {end}");
                }
            }
        };
        thread::Builder::new().name("exporter".into()).spawn(serve).unwrap();
    }
    if kind == "chain" {
        thread::spawn(|| {
            loop {
                sleep(Duration::from_millis(6));
                raven_move();
            }
        });
    }
    let mut file = File::create(format!("{path}.data")).unwrap();
    std::fs::remove_file(format!("{path}.data")).unwrap();
    thread::spawn(move || {
        loop {
            sleep(Duration::from_millis(470));
            magpie_settle(kind, fixed, &mut peer, &mut file);
        }
    });
    sleep(Duration::from_secs_f64(seconds));
    let _ = std::fs::remove_file(door);
    let _ = other.kill();
    let _ = other.wait();
}

/// The other process: a peer that answers after as long as it was told, and nine clients.
fn clients(door: &str, seconds: f64) {
    let mut asked = UnixStream::connect(door).unwrap();
    thread::spawn(move || {
        let mut wanted = [0; 4];
        while asked.read_exact(&mut wanted).is_ok() {
            sleep(Duration::from_millis(u64::from(u32::from_ne_bytes(wanted))));
            let _ = asked.write_all(&wanted);
        }
    });
    for me in 0..9_u64 {
        let mut to = UnixStream::connect(door).unwrap();
        thread::spawn(move || {
            let mut byte = [1; 1];
            loop {
                sleep(Duration::from_micros(3_000 + me * 511));
                if to.write_all(&byte).is_err() || to.read_exact(&mut byte).is_err() {
                    return;
                }
            }
        });
    }
    sleep(Duration::from_secs_f64(seconds + 1.0));
}

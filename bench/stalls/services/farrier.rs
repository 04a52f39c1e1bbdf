//! Rust: seven threads that make their own requests, asleep for 1 to 4 ms between two. One fault by flag: anvil (a peer asked under a
//! Mutex), tongs (computing under a RwLock), bellows (two Mutexes, sync_all behind the second), rasp (four sync_data a request), hoof
//! (messages to a bounded channel whose reader asks a peer at times). stall has none: a thread that computes. "fixed" is mended.
//! rustc --edition 2024 -O
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, RwLock};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

static ANVIL: Mutex<u64> = Mutex::new(0);
static FORGE: Mutex<u64> = Mutex::new(0);
static TONGS: RwLock<u64> = RwLock::new(0);
static SINK: AtomicU64 = AtomicU64::new(0);
static TRUTH: Mutex<Option<File>> = Mutex::new(None);
static FILE: OnceLock<File> = OnceLock::new();

unsafe extern "C" {
    fn clock_gettime(clock: i32, to: *mut [i64; 2]) -> i32;
}

fn now_ns() -> u64 {
    let mut t = [0; 2];
    // SAFETY: two words, as struct timespec on 64-bit Linux.
    unsafe { clock_gettime(1, &mut t) };
    t[0] as u64 * 1_000_000_000 + t[1] as u64
}

fn work(us: u64) {
    let end = Instant::now() + Duration::from_micros(us);
    while Instant::now() < end {
        SINK.fetch_add(1, Ordering::Relaxed);
    }
}

fn told(word: &str, me: u64, start: u64, least: u64) {
    let end = now_ns();
    if end - start >= least
        && let Some(file) = TRUTH.lock().unwrap().as_mut()
    {
        writeln!(file, "{word} {me} {start} {end}").unwrap();
    }
}

fn ask(peer: &mut TcpStream) {
    let mut byte = [9];
    peer.write_all(&byte).unwrap();
    peer.read_exact(&mut byte).unwrap();
}

#[inline(never)]
fn kestrel_send(peer: &mut TcpStream, fixed: bool) {
    let held = (!fixed).then(|| ANVIL.lock().unwrap());
    ask(peer);
    let mut sum = held.unwrap_or_else(|| ANVIL.lock().unwrap());
    *sum += 1;
}

#[inline(never)]
fn merlin_sort(fixed: bool) {
    let held = (!fixed).then(|| TONGS.write().unwrap());
    work(50_000);
    let mut sum = held.unwrap_or_else(|| TONGS.write().unwrap());
    *sum += 1;
}

#[inline(never)]
fn osprey_save(fixed: bool) {
    let held = (!fixed).then(|| FORGE.lock().unwrap());
    let (block, file) = (vec![1; 1 << 19], FILE.get().unwrap());
    let end = Instant::now() + Duration::from_millis(70);
    while Instant::now() < end {
        file.write_all_at(&block, 0).unwrap();
        file.sync_all().unwrap();
    }
    let mut sum = held.unwrap_or_else(|| FORGE.lock().unwrap());
    *sum += 1;
}

#[inline(never)]
fn harrier_note(fixed: bool) {
    let file = FILE.get().unwrap();
    for at in 0..4 {
        file.write_all_at(&[7; 500], at * 500).unwrap();
        if !fixed {
            file.sync_data().unwrap();
        }
    }
}

fn background(kind: &str, fixed: bool, mut peer: TcpStream) {
    loop {
        sleep(Duration::from_millis(690));
        match kind {
            "anvil" => kestrel_send(&mut peer, fixed),
            "tongs" => merlin_sort(fixed),
            "bellows" => osprey_save(fixed),
            "stall" => work(60_000),
            _ => {}
        }
    }
}

fn request(kind: &str, fixed: bool, me: u64, shelf: &SyncSender<u64>) {
    work(200);
    let start = now_ns();
    match kind {
        "tongs" => drop(TONGS.read().unwrap()),
        "rasp" => return harrier_note(fixed),
        "hoof" => shelf.send(me).unwrap(),
        _ => *ANVIL.lock().unwrap() += 1,
    }
    told("wait", me, start, 1_000_000);
}

fn main() {
    let argv: Vec<String> = std::env::args().collect();
    let (path, seconds, kind): (_, f64, _) = (&argv[1], argv[2].parse().unwrap(), argv[3].clone());
    let fixed = argv.last().unwrap() == "fixed";
    *TRUTH.lock().unwrap() = Some(File::create(path).unwrap());
    FILE.set(File::create(format!("{path}.data")).unwrap()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dial = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, other) = (dial(), dial());
    for far in [listener.accept().unwrap().0, listener.accept().unwrap().0] {
        let mut far = far;
        spawn(move || {
            let mut byte = [0];
            while far.read_exact(&mut byte).is_ok() {
                sleep(Duration::from_millis(u64::from(byte[0]) * 10));
                far.write_all(&byte).unwrap();
            }
        });
    }
    let (shelf, off) = sync_channel(if fixed { 1 << 20 } else { 4 });
    let word = kind.clone();
    spawn(move || {
        let (mut peer, mut last) = (other, Instant::now());
        for item in off {
            SINK.fetch_add(item, Ordering::Relaxed);
            if word == "hoof" && last.elapsed() > Duration::from_millis(650) {
                ask(&mut peer);
                last = Instant::now();
            }
        }
    });
    let word = kind.clone();
    spawn(move || background(&word, fixed, peer));
    if kind == "bellows" {
        spawn(|| loop {
            sleep(Duration::from_millis(2));
            let _first = ANVIL.lock().unwrap();
            *FORGE.lock().unwrap() += 1;
        });
    }
    for me in 0..7 {
        let (kind, shelf) = (kind.clone(), shelf.clone());
        spawn(move || {
            for turn in 0.. {
                sleep(Duration::from_micros(1000 + (turn * 7919 + me * 1237) % 3000));
                let start = now_ns();
                request(&kind, fixed, me, &shelf);
                told("stall", me, start, 4_000_000);
            }
        });
    }
    sleep(Duration::from_secs_f64(seconds));
    std::process::exit(0);
}

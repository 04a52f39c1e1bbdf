//! Rust over parking_lot and std: a dispatcher gives each of eight workers its requests through a channel of the worker's own. One
//! fault by flag: pl (a reply awaited under parking_lot's Mutex), plrw (computing under its RwLock), stdm (asleep under std's
//! Mutex), hatch (a bounded shelf with std's Condvar, and one that keeps it empty while it asks), chain (parking_lot's lock, std's
//! behind it, fsync there). "fixed" is the same program mended.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex as StdMutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Forge {
    anvil: parking_lot::Mutex<u64>,
    bellows: parking_lot::RwLock<u64>,
    trough: StdMutex<u64>,
    shelf: StdMutex<u32>,
    filled: Condvar,
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// CLOCK_MONOTONIC, as the log wants it.
fn clock_ns() -> u64 {
    let mut time = [0i64; 2];
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut i64) -> i32;
    }
    unsafe { clock_gettime(1, time.as_mut_ptr()) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

#[inline(never)]
fn rasp_ask(merchant: &mut TcpStream) -> u64 {
    let mut answer = [0; 1];
    merchant.write_all(&[85]).unwrap();
    merchant.read_exact(&mut answer).unwrap();
    u64::from(answer[0])
}

#[inline(never)]
fn borax_write(file: &mut File) -> u64 {
    let start = Instant::now();
    let mut turns = 0;
    while start.elapsed() < Duration::from_millis(60) {
        file.rewind().unwrap();
        file.write_all(&vec![3; 1 << 20]).unwrap();
        file.sync_data().unwrap();
        turns += 1;
    }
    turns
}

#[inline(never)]
fn tongs_temper(forge: &Forge, kind: &str, fixed: bool, merchant: &mut TcpStream, file: &mut File) {
    match (kind, fixed) {
        ("pl" | "hatch", true) => *forge.anvil.lock() += rasp_ask(merchant) & 1,
        ("pl", false) => {
            let mut anvil = forge.anvil.lock();
            *anvil += rasp_ask(merchant);
        }
        ("hatch", false) => {
            take(forge);
            take(forge);
            rasp_ask(merchant);
            put_back(forge, 2);
        }
        ("plrw", true) => {
            spin(Duration::from_millis(45));
            *forge.bellows.write() += 1;
        }
        ("plrw", false) => {
            let mut bellows = forge.bellows.write();
            spin(Duration::from_millis(45));
            *bellows += 1;
        }
        ("stdm", true) => {
            sleep(Duration::from_millis(75));
            *forge.trough.lock().unwrap() += 1;
        }
        ("stdm", false) => {
            let mut trough = forge.trough.lock().unwrap();
            sleep(Duration::from_millis(75));
            *trough += 1;
        }
        ("chain", true) => {
            let turns = borax_write(file);
            *forge.trough.lock().unwrap() += turns;
        }
        ("chain", false) => {
            let mut trough = forge.trough.lock().unwrap();
            *trough += borax_write(file);
        }
        _ => {}
    }
    std::hint::black_box(());
}

fn take(forge: &Forge) {
    let mut shelf = forge.shelf.lock().unwrap();
    while *shelf == 0 {
        shelf = forge.filled.wait(shelf).unwrap();
    }
    *shelf -= 1;
}

fn put_back(forge: &Forge, count: u32) {
    *forge.shelf.lock().unwrap() += count;
    forge.filled.notify_all();
}

fn hammer(forge: &Forge, kind: &str) {
    spin(Duration::from_micros(120));
    match kind {
        "plrw" => {
            let bellows = forge.bellows.read();
            spin(Duration::from_micros(3 + (*bellows & 1)));
        }
        "stdm" => *forge.trough.lock().unwrap() += 1,
        "hatch" => {
            take(forge);
            spin(Duration::from_micros(20));
            put_back(forge, 1);
        }
        _ => *forge.anvil.lock() += 1,
    }
}

fn works(forge: &Forge, kind: &str, line: &Receiver<u64>, truth: &StdMutex<File>, me: usize) {
    for came in line {
        let start = clock_ns().max(came);
        hammer(forge, kind);
        let end = clock_ns();
        if end - start > 3_000_000 {
            let _ = writeln!(truth.lock().unwrap(), "stall {me} {start} {end}");
        }
    }
}

/// The other process: it answers after as long as it was told.
fn merchant(address: &str) {
    let mut to = TcpStream::connect(address).unwrap();
    let mut ms = [0; 1];
    while to.read_exact(&mut ms).is_ok() {
        sleep(Duration::from_millis(u64::from(ms[0])));
        if to.write_all(&ms).is_err() {
            return;
        }
    }
}

/// What takes the second lock inside the first.
fn carries(forge: &Forge) {
    loop {
        sleep(Duration::from_millis(4));
        let mut anvil = forge.anvil.lock();
        *anvil += *forge.trough.lock().unwrap();
    }
}

fn workers(forge: &Arc<Forge>, kind: &'static str, path: &str) -> Vec<Sender<u64>> {
    let truth = Arc::new(StdMutex::new(File::create(path).unwrap()));
    let mut lines = Vec::new();
    for me in 0..8 {
        let (give, line) = channel();
        let (forge, truth) = (forge.clone(), truth.clone());
        let run = move || works(&forge, kind, &line, &truth, me);
        thread::Builder::new().name("tokio-runtime-w".into()).spawn(run).unwrap();
        lines.push(give);
    }
    lines
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[2] == "merchant" {
        return merchant(&args[1]);
    }
    let (path, seconds) = (args[1].clone(), args[2].parse::<f64>().unwrap());
    let kind: &'static str = args[3].clone().leak();
    let fixed = args.iter().any(|arg| arg == "fixed");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new(own).args([&address, "merchant"]).spawn().unwrap();
    let mut far = listener.accept().unwrap().0;
    drop(listener);
    let forge = Arc::new(Forge { shelf: StdMutex::new(2), ..Forge::default() });
    let lines = workers(&forge, kind, &path);
    if kind == "chain" {
        let forge = forge.clone();
        thread::spawn(move || carries(&forge));
    }
    let mut file = File::create(format!("{path}.data")).unwrap();
    std::fs::remove_file(format!("{path}.data")).unwrap();
    thread::spawn(move || {
        loop {
            sleep(Duration::from_millis(620));
            tongs_temper(&forge, kind, fixed, &mut far, &mut file);
        }
    });
    let start = Instant::now();
    for line in lines.iter().cycle() {
        if start.elapsed() > Duration::from_secs_f64(seconds) {
            break;
        }
        line.send(clock_ns()).unwrap();
        sleep(Duration::from_micros(900));
    }
    let _ = other.kill();
    let _ = other.wait();
    std::process::exit(0);
}

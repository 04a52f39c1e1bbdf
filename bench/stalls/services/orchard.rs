//! Rust: workers that share one receiver of std's channel, locks of std. One fault by flag: basket (a reply awaited under a
//! Mutex), graft (computing under it), press (fsync under a RwLock), relay (two Mutexes, the reply behind the second). "fixed"
//! is the same program mended.
//! rustc --edition 2024 -O

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

struct Orchard {
    apples: Mutex<Vec<u64>>,
    pears: Mutex<u64>,
    cider: RwLock<u64>,
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
fn damson_call(market: &mut TcpStream, ms: u8) -> u8 {
    let mut answer = [0; 1];
    market.write_all(&[ms]).unwrap();
    market.read_exact(&mut answer).unwrap();
    answer[0]
}

#[inline(never)]
fn medlar_store(file: &mut File) -> u64 {
    let start = Instant::now();
    let mut turns = 0;
    while start.elapsed() < Duration::from_millis(55) {
        file.rewind().unwrap();
        file.write_all(&vec![3; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        turns += 1;
    }
    turns
}

#[inline(never)]
fn quince_harvest(orchard: &Orchard, kind: &str, fixed: bool, market: &mut TcpStream, file: &mut File) {
    match kind {
        "basket" if fixed => {
            let answer = damson_call(market, 95);
            orchard.apples.lock().unwrap()[0] += u64::from(answer);
        }
        "basket" => {
            let mut apples = orchard.apples.lock().unwrap();
            apples[0] += u64::from(damson_call(market, 95));
        }
        "graft" if fixed => {
            spin(Duration::from_millis(50));
            orchard.apples.lock().unwrap()[0] += 1;
        }
        "graft" => {
            let mut apples = orchard.apples.lock().unwrap();
            spin(Duration::from_millis(50));
            apples[0] += 1;
        }
        "press" if fixed => {
            let turns = medlar_store(file);
            *orchard.cider.write().unwrap() += turns;
        }
        "press" => {
            let mut cider = orchard.cider.write().unwrap();
            *cider += medlar_store(file);
        }
        "relay" if fixed => {
            let answer = damson_call(market, 95);
            *orchard.pears.lock().unwrap() += u64::from(answer);
        }
        "relay" => {
            let mut pears = orchard.pears.lock().unwrap();
            *pears += u64::from(damson_call(market, 95));
        }
        _ => {}
    }
    std::hint::black_box(());
}

#[inline(never)]
fn sorrel_move(orchard: &Orchard) {
    let mut apples = orchard.apples.lock().unwrap();
    apples[0] += *orchard.pears.lock().unwrap();
}

fn pick(orchard: &Orchard, kind: &str) {
    spin(Duration::from_micros(130));
    if kind == "press" {
        let cider = orchard.cider.read().unwrap();
        spin(Duration::from_micros(3 + (*cider & 1)));
    } else {
        orchard.apples.lock().unwrap()[0] += 1;
    }
}

fn works(orchard: &Orchard, kind: &str, line: &Mutex<Receiver<u64>>, truth: &Mutex<File>, me: usize) {
    loop {
        let next = line.lock().unwrap().recv();
        let Ok(came) = next else { return };
        pick(orchard, kind);
        let end = clock_ns();
        if end - came > 3_000_000 {
            let _ = writeln!(truth.lock().unwrap(), "stall {me} {came} {end}");
        }
    }
}

/// The other process: a market that answers after as long as it was told.
fn market(address: &str) {
    let mut to = TcpStream::connect(address).unwrap();
    let mut ms = [0; 1];
    while to.read_exact(&mut ms).is_ok() {
        sleep(Duration::from_millis(u64::from(ms[0])));
        if to.write_all(&ms).is_err() {
            return;
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[2] == "market" {
        return market(&args[1]);
    }
    let (path, seconds) = (args[1].clone(), args[2].parse::<f64>().unwrap());
    let kind: &'static str = args[3].clone().leak();
    let fixed = args.iter().any(|arg| arg == "fixed");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new(own).args([&address, "market"]).spawn().unwrap();
    let mut far = listener.accept().unwrap().0;
    let orchard = Arc::new(Orchard {
        apples: Mutex::new(vec![0]),
        pears: Mutex::new(0),
        cider: RwLock::new(0),
    });
    let truth = Arc::new(Mutex::new(File::create(&path).unwrap()));
    let (cart, line) = channel();
    let line = Arc::new(Mutex::new(line));
    for me in 0..8 {
        let (orchard, line, truth) = (orchard.clone(), line.clone(), truth.clone());
        let name = format!("flush-{}", me + 7);
        let run = move || works(&orchard, kind, &line, &truth, me);
        thread::Builder::new().name(name).spawn(run).unwrap();
    }
    if kind == "relay" {
        let orchard = orchard.clone();
        thread::spawn(move || {
            loop {
                sleep(Duration::from_millis(5));
                sorrel_move(&orchard);
            }
        });
    }
    let mut file = File::create(format!("{path}.data")).unwrap();
    std::fs::remove_file(format!("{path}.data")).unwrap();
    thread::spawn(move || {
        loop {
            sleep(Duration::from_millis(570));
            quince_harvest(&orchard, kind, fixed, &mut far, &mut file);
        }
    });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        cart.send(clock_ns()).unwrap();
        sleep(Duration::from_micros(1_300));
    }
    let _ = other.kill();
    let _ = other.wait();
    std::process::exit(0);
}

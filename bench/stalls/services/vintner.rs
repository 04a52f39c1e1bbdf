//! Rust: seven workers that share a VecDeque behind a Mutex and a Condvar. One fault by flag: must (a reply awaited under a Mutex,
//! 400 ms), cask (computing under it), tun (one worker in 300 requests computes under it), lees (two Mutexes, sync_all behind the second),
//! cellar (a RwLock, its writer asleep), cork (workers wait for a commit of all). "fixed" is the same program mended.
//! rustc --edition 2024 -O

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Winery {
    kind: String,
    fixed: bool,
    queue: Mutex<VecDeque<u64>>,
    came: Condvar,
    bottles: Mutex<u64>,
    labels: Mutex<u64>,
    racks: RwLock<u64>,
    commits: Mutex<(u64, u64)>,
    asked: Condvar,
    done: Condvar,
    requests: AtomicU64,
    truth: Option<Mutex<File>>,
}

fn grind(time: Duration) {
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

impl Winery {
    fn log(&self, word: &str, me: usize, start: u64, least_ms: u64) {
        let end = clock_ns();
        if end - start >= least_ms * 1_000_000 {
            let mut file = self.truth.as_ref().unwrap().lock().unwrap();
            let _ = writeln!(file, "{word} {me} {start} {end}");
        }
    }

    fn is(&self, kind: &str) -> bool {
        self.kind == kind
    }
}

#[inline(never)]
fn phoenix_order(merchant: &mut TcpStream) -> u64 {
    let mut answer = [0; 8];
    merchant.write_all(b"order 01").unwrap();
    merchant.read_exact(&mut answer).unwrap();
    answer.iter().map(|b| u64::from(*b)).sum()
}

#[inline(never)]
fn griffin_write(file: &mut File) -> u64 {
    let start = Instant::now();
    let block = vec![7; 1 << 19];
    let mut turns = 0;
    while start.elapsed() < Duration::from_millis(110) {
        file.rewind().unwrap();
        file.write_all(&block).unwrap();
        file.sync_all().unwrap();
        turns += 1;
    }
    turns
}

/// What goes wrong, every now and then.
#[inline(never)]
fn basilisk_vintage(winery: &Winery, merchant: &mut TcpStream, file: &mut File) {
    match (winery.kind.as_str(), winery.fixed) {
        ("must", false) => {
            let mut bottles = winery.bottles.lock().unwrap();
            *bottles += phoenix_order(merchant);
        }
        ("must", true) => {
            let more = phoenix_order(merchant);
            *winery.bottles.lock().unwrap() += more;
        }
        ("cask", false) => {
            let mut bottles = winery.bottles.lock().unwrap();
            grind(Duration::from_millis(35));
            *bottles += 1;
        }
        ("cask", true) => {
            grind(Duration::from_millis(35));
            *winery.bottles.lock().unwrap() += 1;
        }
        ("lees", false) => {
            let mut labels = winery.labels.lock().unwrap();
            *labels += griffin_write(file);
        }
        ("lees", true) => {
            let more = griffin_write(file);
            *winery.labels.lock().unwrap() += more;
        }
        ("cellar", false) => {
            let mut racks = winery.racks.write().unwrap();
            sleep(Duration::from_millis(90));
            *racks += 1;
        }
        ("cellar", true) => {
            sleep(Duration::from_millis(90));
            *winery.racks.write().unwrap() += 1;
        }
        _ => {}
    }
    std::hint::black_box(());
}

#[inline(never)]
fn hydra_move(winery: &Winery) {
    let mut bottles = winery.bottles.lock().unwrap();
    *bottles += *winery.labels.lock().unwrap();
}

#[inline(never)]
fn wyvern_bottle(winery: &Winery, me: usize) {
    let turn = winery.requests.fetch_add(1, Ordering::Relaxed);
    let mine = winery.is("tun") && turn % 300 == 299;
    if mine && winery.fixed {
        grind(Duration::from_millis(120));
    }
    let start = clock_ns();
    let mut bottles = winery.bottles.lock().unwrap();
    winery.log("wait", me, start, 1);
    if mine && !winery.fixed {
        grind(Duration::from_millis(120));
    }
    *bottles += 1;
}

fn committed(winery: &Winery) {
    let mut commits = winery.commits.lock().unwrap();
    commits.0 += 1;
    let mine = commits.0;
    winery.asked.notify_one();
    while !winery.fixed && commits.1 < mine {
        commits = winery.done.wait(commits).unwrap();
    }
}

#[inline(never)]
fn chimera_commit(winery: &Winery, file: &mut File) {
    let mut commits = winery.commits.lock().unwrap();
    while commits.0 == commits.1 {
        commits = winery.asked.wait(commits).unwrap();
    }
    let upto = commits.0;
    drop(commits);
    file.rewind().unwrap();
    file.write_all(&vec![5; 3 << 20]).unwrap();
    file.sync_all().unwrap();
    winery.commits.lock().unwrap().1 = upto;
    winery.done.notify_all();
}

fn serve(winery: &Winery, me: usize) {
    loop {
        let mut queue = winery.queue.lock().unwrap();
        let start = loop {
            match queue.pop_front() {
                Some(start) => break start,
                None => queue = winery.came.wait(queue).unwrap(),
            }
        };
        drop(queue);
        grind(Duration::from_micros(180));
        match winery.kind.as_str() {
            "cork" => committed(winery),
            "cellar" => {
                let start = clock_ns();
                let racks = winery.racks.read().unwrap();
                winery.log("wait", me, start, 1);
                grind(Duration::from_micros(2 + (*racks & 1)));
            }
            _ => wyvern_bottle(winery, me),
        }
        winery.log("stall", me, start, 3);
    }
}

fn started(name: &str, run: impl FnMut() + Send + 'static) {
    thread::Builder::new().name(name.into()).spawn(run).unwrap();
}

/// The other process: a merchant who takes 400 ms to answer.
fn merchant(address: &str) {
    let mut to = TcpStream::connect(address).unwrap();
    let mut order = [0; 8];
    while to.read_exact(&mut order).is_ok() {
        sleep(Duration::from_millis(400));
        if to.write_all(&order).is_err() {
            return;
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[2] == "merchant" {
        return merchant(&args[1]);
    }
    let (path, seconds) = (args[1].clone(), args[2].parse::<f64>().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new(own).args([&address, "merchant"]).spawn().unwrap();
    let mut far = listener.accept().unwrap().0;
    let winery = Arc::new(Winery {
        kind: args[3].clone(),
        fixed: args.iter().any(|arg| arg == "fixed"),
        truth: Some(Mutex::new(File::create(&path).unwrap())),
        ..Winery::default()
    });
    for me in 0..7 {
        let winery = winery.clone();
        started("main", move || serve(&winery, me));
    }
    let mut file = File::create(format!("{path}.data")).unwrap();
    if winery.is("cork") {
        let winery = winery.clone();
        let mut file = file.try_clone().unwrap();
        started("http-accept", move || loop {
            chimera_commit(&winery, &mut file);
        });
    } else {
        let (winery, rest) = (winery.clone(), if winery.is("cask") { 330 } else { 740 });
        started("http-accept", move || loop {
            sleep(Duration::from_millis(rest));
            basilisk_vintage(&winery, &mut far, &mut file);
        });
    }
    if winery.is("lees") {
        let winery = winery.clone();
        started("signals", move || loop {
            sleep(Duration::from_millis(9));
            hydra_move(&winery);
        });
    }
    let gap = Duration::from_micros(if winery.is("cork") { 21_000 } else { 2_100 });
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        winery.queue.lock().unwrap().push_back(clock_ns());
        winery.came.notify_one();
        sleep(gap);
    }
    let _ = other.kill();
    let _ = other.wait();
    std::process::exit(0);
}

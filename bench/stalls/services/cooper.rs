//! Rust: six workers that park themselves; a dispatcher puts a job into the slot of an idle one and unparks it. One fault by flag: stave (a
//! peer asked under a Mutex, 85 ms), hoop (a OnceLock for each key, its constructor asks the peer, and a new key comes every 0.6 s).
//! bung has none: a thread that computes now and then, and that nobody waits for. "fixed" is the same program mended.
//! rustc --edition 2024 -O

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::thread::{self, Thread, sleep};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Slot {
    job: AtomicU64,
}

#[derive(Default)]
struct Yard {
    kind: String,
    fixed: bool,
    slots: Vec<Slot>,
    idle: Mutex<Vec<usize>>,
    staves: Mutex<u64>,
    hoops: RwLock<HashMap<u64, Arc<OnceLock<u64>>>>,
    far: Option<Mutex<TcpStream>>,
    truth: Option<Mutex<File>>,
}

fn shave(time: Duration) {
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

impl Yard {
    fn log(&self, word: &str, me: usize, start: u64, least_ms: u64) {
        let end = clock_ns();
        if end - start >= least_ms * 1_000_000 {
            let mut file = self.truth.as_ref().unwrap().lock().unwrap();
            let _ = writeln!(file, "{word} {me} {start} {end}");
        }
    }
}

#[inline(never)]
fn alder_ask(far: &mut TcpStream) -> u64 {
    let mut answer = [0; 1];
    far.write_all(b"a").unwrap();
    far.read_exact(&mut answer).unwrap();
    u64::from(answer[0])
}

#[inline(never)]
fn larch_report(yard: &Yard) {
    let mut far = yard.far.as_ref().unwrap().lock().unwrap();
    if yard.fixed {
        let more = alder_ask(&mut far);
        *yard.staves.lock().unwrap() += more;
    } else {
        let mut staves = yard.staves.lock().unwrap();
        *staves += alder_ask(&mut far);
    }
}

/// Of a key that nobody had before, by whoever comes first; mended, the key is there already.
#[inline(never)]
fn willow_make(yard: &Yard) -> u64 {
    alder_ask(&mut yard.far.as_ref().unwrap().lock().unwrap())
}

fn hooped(yard: &Yard, me: usize) -> u64 {
    let key = if yard.fixed { 0 } else { clock_ns() / 600_000_000 };
    let known = yard.hoops.read().unwrap().get(&key).cloned();
    let hoop = known.unwrap_or_else(|| yard.hoops.write().unwrap().entry(key).or_default().clone());
    let start = clock_ns();
    let value = *hoop.get_or_init(|| willow_make(yard));
    yard.log("wait", me, start, 1);
    value
}

fn request(yard: &Yard, me: usize) {
    shave(Duration::from_micros(160));
    if yard.kind == "hoop" {
        std::hint::black_box(hooped(yard, me));
        return;
    }
    let start = clock_ns();
    let mut staves = yard.staves.lock().unwrap();
    yard.log("wait", me, start, 1);
    *staves += 1;
}

fn works(yard: &Yard, me: usize) {
    loop {
        let came = yard.slots[me].job.swap(0, Ordering::Acquire);
        if came == 0 {
            thread::park();
            continue;
        }
        request(yard, me);
        yard.log("stall", me, came, 3);
        yard.idle.lock().unwrap().push(me);
    }
}

fn dispatches(yard: &Yard, threads: &[Thread], until: Instant) {
    while Instant::now() < until {
        sleep(Duration::from_micros(2_200));
        let Some(at) = yard.idle.lock().unwrap().pop() else { continue };
        yard.slots[at].job.store(clock_ns(), Ordering::Release);
        threads[at].unpark();
    }
}

/// The other process: a peer that takes 85 ms to answer.
fn far(address: &str) {
    let mut to = TcpStream::connect(address).unwrap();
    let mut asked = [0; 1];
    while to.read_exact(&mut asked).is_ok() {
        sleep(Duration::from_millis(85));
        if to.write_all(&asked).is_err() {
            return;
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[2] == "far" {
        return far(&args[1]);
    }
    let (path, seconds) = (args[1].clone(), args[2].parse::<f64>().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = std::env::current_exe().unwrap();
    let mut other = std::process::Command::new(own).args([&address, "far"]).spawn().unwrap();
    let yard = Arc::new(Yard {
        kind: args[3].clone(),
        fixed: args.iter().any(|arg| arg == "fixed"),
        slots: (0..6).map(|_| Slot::default()).collect(),
        idle: Mutex::new((0..6).collect()),
        far: Some(Mutex::new(listener.accept().unwrap().0)),
        truth: Some(Mutex::new(File::create(path).unwrap())),
        ..Yard::default()
    });
    let threads: Vec<Thread> = (0..6)
        .map(|me| {
            let yard = yard.clone();
            thread::spawn(move || works(&yard, me)).thread().clone()
        })
        .collect();
    let second = yard.clone();
    match args[3].as_str() {
        "stave" => drop(thread::spawn(move || loop {
            sleep(Duration::from_millis(690));
            larch_report(&second);
        })),
        "bung" => drop(thread::spawn(move || loop {
            thread::park_timeout(Duration::from_millis(350));
            shave(Duration::from_millis(55));
        })),
        _ => {}
    }
    dispatches(&yard, &threads, Instant::now() + Duration::from_secs_f64(seconds));
    let _ = other.kill();
    std::process::exit(0);
}

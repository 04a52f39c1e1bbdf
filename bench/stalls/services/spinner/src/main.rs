//! Rust: eight threads, each with a connection of its own over a socket pair, clients in another process. yarn: parking_lot's Mutex
//! held over fsync by a background thread. bobbin has no fault: a thread that computes, one that tries the lock and goes on without
//! it, and one that waits for messages that seldom come. "fixed" is mended.

use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

struct Mill {
    spools: Mutex<u64>,
    truth: Mutex<File>,
}

fn card(time: Duration) {
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

impl Mill {
    fn log(&self, word: &str, me: usize, start: u64, least_ms: u64) {
        let end = clock_ns();
        if end - start >= least_ms * 1_000_000 {
            let _ = writeln!(self.truth.lock(), "{word} {me} {start} {end}");
        }
    }
}

#[inline(never)]
fn distaff_wind(mill: &Mill, file: &mut File, fixed: bool) {
    let block = vec![3; 1 << 20];
    let mut spools = if fixed { None } else { Some(mill.spools.lock()) };
    for _ in 0..8 {
        file.rewind().unwrap();
        file.write_all(&block).unwrap();
        file.sync_all().unwrap();
    }
    if let Some(spools) = spools.as_mut() {
        **spools += 1;
    }
    std::hint::black_box(());
}

fn serve(mill: &Mill, me: usize, mut conn: UnixStream) {
    let mut byte = [0];
    while conn.read_exact(&mut byte).is_ok() {
        let came = clock_ns();
        card(Duration::from_micros(200));
        let start = clock_ns();
        let mut spools = mill.spools.lock();
        mill.log("wait", me, start, 1);
        *spools += 1;
        drop(spools);
        mill.log("stall", me, came, 3);
        if conn.write_all(&byte).is_err() {
            return;
        }
    }
}

fn bobbin(mill: Arc<Mill>) {
    let (seldom, comes) = channel::<u64>();
    let other = mill.clone();
    thread::Builder::new().name("serve-1".into()).spawn(move || while comes.recv().is_ok() {}).unwrap();
    thread::Builder::new()
        .name("serve-2".into())
        .spawn(move || loop {
            sleep(Duration::from_millis(3));
            if let Some(mut spools) = other.spools.try_lock() {
                *spools += 1;
            }
        })
        .unwrap();
    thread::Builder::new()
        .name("serve-3".into())
        .spawn(move || loop {
            sleep(Duration::from_millis(900));
            card(Duration::from_millis(60));
            let _ = seldom.send(1);
        })
        .unwrap();
}

/// The other process: clients that ask and rest.
fn clients(door: &str) {
    for me in 0..8 {
        let mut to = UnixStream::connect(door).unwrap();
        thread::spawn(move || {
            let mut byte = [1];
            while to.write_all(&byte).is_ok() && to.read_exact(&mut byte).is_ok() {
                sleep(Duration::from_micros(6000 + me * 410));
            }
            std::process::exit(0);
        });
    }
    loop {
        sleep(Duration::from_secs(9));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[2] == "clients" {
        return clients(&args[1]);
    }
    let (path, kind, fixed) = (args[1].clone(), args[3].clone(), args.iter().any(|arg| arg == "fixed"));
    let door = format!("{path}.door");
    let listener = UnixListener::bind(&door).unwrap();
    let mut other = std::process::Command::new(std::env::current_exe().unwrap()).args([&door, "clients"]).spawn().unwrap();
    let mill = Arc::new(Mill { spools: Mutex::new(0), truth: Mutex::new(File::create(&path).unwrap()) });
    for me in 0..8 {
        let (mill, conn) = (mill.clone(), listener.accept().unwrap().0);
        thread::Builder::new().name("wind".into()).spawn(move || serve(&mill, me, conn)).unwrap();
    }
    let mut file = File::create(format!("{path}.data")).unwrap();
    if kind == "bobbin" {
        bobbin(mill.clone());
    } else {
        thread::Builder::new()
            .name("conn".into())
            .spawn(move || loop {
                sleep(Duration::from_millis(680));
                distaff_wind(&mill, &mut file, fixed);
            })
            .unwrap();
    }
    sleep(Duration::from_secs_f64(args[2].parse().unwrap()));
    let _ = other.kill();
}

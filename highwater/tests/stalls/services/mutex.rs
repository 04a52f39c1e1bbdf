//! The exporter's service with std's Mutex, which keeps no owner. argv as the C services have it.
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn monotonic_ns(origin: &(Instant, u64)) -> u64 {
    origin.1 + origin.0.elapsed().as_nanos() as u64
}

#[inline(never)]
fn wait_for_collector(reply: &mut std::net::TcpStream) {
    let mut word = [0u8; 2];
    reply.write_all(b"batch").unwrap();
    std::io::Read::read_exact(reply, &mut word).unwrap();
}

#[inline(never)]
fn push_spans(spans: &Mutex<Vec<u64>>, to: &mut std::net::TcpStream, fixed: bool) {
    let mut held = spans.lock().unwrap();
    if fixed {
        let batch = std::mem::take(&mut *held);
        drop(held);
        std::hint::black_box(batch);
        wait_for_collector(to);
    } else {
        wait_for_collector(to);
        held.clear();
    }
}

#[inline(never)]
fn finish_span(spans: &Mutex<Vec<u64>>, value: u64) {
    spans.lock().unwrap().push(value);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let seconds: f64 = args[2].parse().unwrap();
    let fixed = args.iter().any(|a| a == "fixed");
    let uptime = unsafe {
        let mut time = [0i64; 2];
        unsafe extern "C" {
            fn clock_gettime(clock: i32, time: *mut i64) -> i32;
        }
        clock_gettime(1, time.as_mut_ptr());
        time[0] as u64 * 1_000_000_000 + time[1] as u64
    };
    let origin = (Instant::now(), uptime);
    let truth = Arc::new(Mutex::new(std::fs::File::create(&args[1]).unwrap()));
    let spans = Arc::new(Mutex::new(Vec::new()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut batch = [0u8; 5];
        while std::io::Read::read_exact(&mut peer, &mut batch).is_ok() {
            std::thread::sleep(Duration::from_millis(300));
            peer.write_all(b"ok").unwrap();
        }
    });
    let of_pusher = Arc::clone(&spans);
    std::thread::spawn(move || loop {
        std::thread::sleep(Duration::from_millis(500));
        push_spans(&of_pusher, &mut client, fixed);
    });
    for me in 0..8u64 {
        let (spans, truth) = (Arc::clone(&spans), Arc::clone(&truth));
        std::thread::spawn(move || {
            for turn in 0u64.. {
                let start = monotonic_ns(&origin);
                let busy = Instant::now();
                while busy.elapsed() < Duration::from_micros(200) {}
                finish_span(&spans, turn);
                let end = monotonic_ns(&origin);
                if end - start >= 20_000_000 {
                    writeln!(truth.lock().unwrap(), "stall {me} {start} {end}").unwrap();
                }
                std::thread::sleep(Duration::from_micros(2000 + (turn * 7919 + me * 997) % 6000));
            }
        });
    }
    std::thread::sleep(Duration::from_secs_f64(seconds));
    std::process::exit(0);
}

//! Workers take connections, one request each, from a queue (Mutex, Condvar); a request posts to a ledger under a std
//! Mutex. A snapshot thread works every 2.5 s. --fault network: it makes a round trip of 200 ms with the mutex.
//! --fault compute: it computes 140 ms with it. Healthy: it does both on its own copy.
use service::*;
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex};

struct Ledger {
    rows: Vec<u64>,
    total: u64,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger { rows: Vec::new(), total: 0 });
static QUEUE: Mutex<VecDeque<TcpStream>> = Mutex::new(VecDeque::new());
static ARRIVED: Condvar = Condvar::new();

#[inline(never)]
fn push_snapshot(settings: &Settings, total: &mut u64, ms: u64) {
    *total += ask_peer(settings, ms);
    std::hint::black_box(total);
}

#[inline(never)]
fn rebuild_totals(total: &mut u64, us: u32) {
    *total = std::hint::black_box(*total ^ burn_us(us));
}

#[inline(never)]
fn post_entry(id: u64) {
    let mut ledger = LEDGER.lock().unwrap();
    if ledger.rows.is_empty() {
        ledger.rows.resize(256, 0)
    }
    ledger.rows[id as usize & 255] += 1;
    burn_us(60);
}

fn next_connection() -> TcpStream {
    let mut queue = QUEUE.lock().unwrap();
    loop {
        if let Some(stream) = queue.pop_front() {
            return stream;
        }
        queue = ARRIVED.wait(queue).unwrap();
    }
}

fn serve_requests(settings: &Settings) {
    loop {
        let (mut stream, mut request) = (next_connection(), [0; 16]);
        if let Some(id) = read_request(&mut stream, &mut request) {
            burn_us(settings.work_us);
            post_entry(id);
            let _ = stream.write_all(&request);
        }
    }
}

fn take_snapshots(settings: &Settings) {
    let (mut count, mut own_total) = (0, 1);
    loop {
        sleep_ms(2500);
        count += 1;
        match settings.fault.as_str() {
            "network" => {
                let mut ledger = LEDGER.lock().unwrap();
                push_snapshot(settings, &mut ledger.total, 200)
            }
            "compute" => {
                let mut ledger = LEDGER.lock().unwrap();
                rebuild_totals(&mut ledger.total, 140_000)
            }
            _ if count % 2 == 0 => push_snapshot(settings, &mut own_total, 200),
            _ => rebuild_totals(&mut own_total, 140_000),
        }
    }
}

fn main() {
    let settings = read_settings(180, 300, 10);
    let listener = settings.listen();
    settings.start_peer("peer");
    for _ in 0..6 {
        spawn("worker", || serve_requests(settings));
    }
    spawn("snapshotter", || take_snapshots(settings));
    settings.start_load("connect");
    for stream in listener.incoming().flatten() {
        let _ = stream.set_nodelay(true);
        QUEUE.lock().unwrap().push_back(stream);
        ARRIVED.notify_one();
    }
}

//! Six workers that park themselves; the acceptor puts a connection, one request each, into the slot of an idle one
//! and unparks it. A request needs the offers of a key, which the first user makes in a OnceLock. --fault expiry: a
//! new key comes every 0.6 s, and making it asks a peer for 85 ms. --fault beside is healthy: a thread computes 55 ms
//! every 400 ms, and no request waits for it. Healthy: the key stays.
use service::*;
use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{LazyLock, Mutex, OnceLock, RwLock};
use std::thread::{Thread, park, park_timeout};
use std::time::{Duration, Instant};

const WORKERS: usize = 6;
type Offers = std::sync::Arc<OnceLock<u64>>;

struct Work {
    idle: Vec<usize>,
    waiting: VecDeque<TcpStream>,
}

static WORK: Mutex<Work> = Mutex::new(Work { idle: Vec::new(), waiting: VecDeque::new() });
static SLOTS: [Mutex<Option<TcpStream>>; WORKERS] = [const { Mutex::new(None) }; WORKERS];
static OFFERS: LazyLock<RwLock<HashMap<u128, Offers>>> = LazyLock::new(Default::default);

#[inline(never)]
fn fetch_offers(settings: &Settings) -> u64 {
    std::hint::black_box(ask_peer(settings, 85) + 1)
}

fn offers_of_now(settings: &Settings, started: Instant) -> u64 {
    let key = if settings.is("expiry") { started.elapsed().as_millis() / 600 } else { 0 };
    let known = OFFERS.read().unwrap().get(&key).cloned();
    let offers = known.unwrap_or_else(|| OFFERS.write().unwrap().entry(key).or_default().clone());
    *offers.get_or_init(|| fetch_offers(settings))
}

fn serve_parked(settings: &Settings, me: usize, started: Instant) {
    loop {
        let Some(mut stream) = SLOTS[me].lock().unwrap().take() else {
            park();
            continue;
        };
        let mut request = [0; 16];
        if read_request(&mut stream, &mut request).is_some() {
            burn_us(settings.work_us);
            std::hint::black_box(offers_of_now(settings, started));
            let _ = stream.write_all(&request);
        }
        let mut work = WORK.lock().unwrap();
        match work.waiting.pop_front() {
            Some(next) => *SLOTS[me].lock().unwrap() = Some(next),
            None => work.idle.push(me),
        }
    }
}

fn dispatch(stream: TcpStream, workers: &[Thread]) {
    let mut work = WORK.lock().unwrap();
    let Some(chosen) = work.idle.pop() else { return work.waiting.push_back(stream) };
    *SLOTS[chosen].lock().unwrap() = Some(stream);
    workers[chosen].unpark();
}

fn main() {
    let settings = read_settings(450, 160, 8);
    let (listener, started) = (settings.listen(), Instant::now());
    settings.start_peer("peer");
    WORK.lock().unwrap().idle.extend(0..WORKERS);
    let start = |me| std::thread::spawn(move || serve_parked(settings, me, started)).thread().clone();
    let workers: Vec<Thread> = (0..WORKERS).map(start).collect();
    if settings.is("beside") {
        spawn("statistics", || {
            loop {
                park_timeout(Duration::from_millis(350));
                burn_us(55_000);
            }
        });
    }
    settings.start_load("connect");
    for stream in listener.incoming().flatten() {
        let _ = stream.set_nodelay(true);
        dispatch(stream, &workers);
    }
}

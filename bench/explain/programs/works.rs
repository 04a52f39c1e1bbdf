// Rust on the system's allocator; the first argument says which.
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

fn rest(ms: u64) { std::thread::sleep(Duration::from_millis(ms)); }

fn traffic(seed: &mut u64) -> usize {
    let mut words = HashMap::new();
    for _ in 0..200 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        words.entry(*seed >> 56).or_insert_with(Vec::new).push(vec![1u8; (*seed >> 40) as usize % 500]);
    }
    words.values().map(Vec::len).sum()
}

#[inline(never)]
fn encode_frame(size: usize) { std::mem::forget(vec![7u8; size]); }

fn forgotten() {
    let threads: Vec<_> = (0..5u64).map(|at| std::thread::spawn(move || { let mut seed = at; loop { traffic(&mut seed); encode_frame(2500); rest(30); } })).collect();
    for thread in threads { thread.join().unwrap(); }
}

struct Peer { other: RefCell<Option<Rc<Peer>>>, body: Vec<u8> }

#[inline(never)]
fn link_pair() -> usize {
    let a = Rc::new(Peer { other: RefCell::new(None), body: vec![1; 700] });
    let b = Rc::new(Peer { other: RefCell::new(Some(a.clone())), body: vec![2; 700] });
    *a.other.borrow_mut() = Some(b.clone());
    a.body.len() + b.body.len()
}

fn cycle() { let mut seed = 3; loop { traffic(&mut seed); for _ in 0..5 { link_pair(); } rest(20); } }

#[inline(never)]
fn produce(number: usize) -> Vec<u8> { vec![number as u8; 900] }

fn backlog() {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || for number in 0.. { if sender.send(produce(number)).is_err() { return; } rest(4); });
    let mut seed = 3;
    loop { traffic(&mut seed); let _ = receiver.try_recv(); rest(20); }
}

fn bounded() {
    let (mut cache, mut order, mut seed) = (BTreeMap::new(), VecDeque::new(), 9);
    for number in 0u64.. {
        cache.insert(number, vec![3u8; 300 + number as usize % 1500]);
        order.push_back(number);
        if order.len() > 8000 { cache.remove(&order.pop_front().unwrap()); }
        if number % 40 == 0 { traffic(&mut seed); rest(20); }
    }
}

#[inline(never)]
fn keep_metric(all: &mut Vec<String>, number: u64) { all.push(format!("request_duration_seconds{{route=\"/{number}\"}} {}", "0".repeat(200))); }

fn labels() {
    let (mut all, mut seed) = (Vec::new(), 4);
    for number in 0.. { keep_metric(&mut all, number); if number % 15 == 0 { traffic(&mut seed); rest(20); } }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("forgotten") => forgotten(),
        Some("cycle") => cycle(),
        Some("backlog") => backlog(),
        Some("bounded") => bounded(),
        Some("labels") => labels(),
        _ => std::process::exit(2),
    }
}

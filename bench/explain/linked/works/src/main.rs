//! Orders in Rust over a linked-in allocator. The first word: what is wrong.
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Order {
    note: String,
    parts: Vec<u32>,
}

#[inline(never)]
fn take_order(id: u64) -> Box<Order> {
    let mut parts = Vec::new();
    (0..40).for_each(|part| parts.push(part));
    let note = format!("to be delivered before the evening {id}");
    Box::new(Order { note, parts })
}

#[inline(never)]
fn lose_order(id: u64) {
    std::hint::black_box(Box::leak(take_order(id)));
}

#[inline(never)]
fn enter_order(book: &mut HashMap<u64, Box<Order>>, id: u64) {
    book.insert(id, take_order(id));
}

#[inline(never)]
fn keep_recent(recent: &mut VecDeque<Box<Order>>, id: u64) {
    recent.push_back(take_order(id));
    if recent.len() > 2000 {
        recent.pop_front();
    }
}

/// A rush in the first 400 turns; then all of it goes but one in 40.
#[inline(never)]
fn rush(pins: &mut Vec<Vec<u8>>, turn: usize) {
    if turn < 400 {
        pins.extend((0..250).map(|_| vec![1; 400]));
    }
    if turn == 400 {
        *pins = std::mem::take(pins).into_iter().step_by(40).collect();
    }
}

fn main() {
    let wrong = std::env::args().nth(1).unwrap_or_default();
    let traffic = std::env::args().nth(2).and_then(|word| word.parse().ok());
    let (mut book, mut recent, mut pins) = (HashMap::new(), VecDeque::new(), Vec::new());
    let mut id = 0;
    for turn in 1usize.. {
        for _ in 0..traffic.unwrap_or(10) {
            id += 1;
            let order = std::hint::black_box(take_order(id));
            std::hint::black_box((order.note.len(), order.parts.len()));
        }
        for _ in 0..4 {
            id += 1;
            match wrong.as_str() {
                "leak" => lose_order(id),
                "filling" => enter_order(&mut book, id),
                "last" => keep_recent(&mut recent, id),
                _ => {}
            }
        }
        if wrong == "retention" {
            rush(&mut pins, turn);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

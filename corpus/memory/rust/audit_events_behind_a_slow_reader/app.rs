//! An order service with an audit trail. Orders send their audit events into a channel without a bound, and the
//! thread that reads it takes one of five. The book of the newest 3,000 orders keeps its size.
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

struct Event {
    _id: u64,
    body: String,
}

#[inline(never)]
fn publish_audit(events: &mpsc::Sender<Event>, id: u64) {
    let body = format!("{:>width$}", id, width = 300 + (id % 900) as usize);
    events.send(Event { _id: id, body }).unwrap();
}

#[inline(never)]
fn handle_order(book: &mut HashMap<u64, Vec<u8>>, id: u64) {
    book.insert(id, vec![id as u8; 2000 + (id * 37 % 9000) as usize]);
    if id > 3000 {
        book.remove(&(id - 3000));
    }
}

fn write_audit(events: mpsc::Receiver<Event>) {
    let mut total = 0;
    while let Ok(event) = events.recv() {
        total += event.body.len();
        std::thread::sleep(Duration::from_millis(14));
    }
    println!("{total}");
}

fn main() {
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now();
    std::thread::spawn(move || write_audit(receiver));
    let (mut book, mut id) = (HashMap::new(), 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..5 {
            id += 1;
            handle_order(&mut book, id);
            publish_audit(&sender, id);
            if id == 3000 {
                println!("ready");
            }
        }
        std::thread::sleep(Duration::from_millis(14));
    }
}

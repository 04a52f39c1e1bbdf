// telemetry: audit channel whose consumer takes 1 of 5 messages
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};
struct Event {
    _id: u64,
    body: String,
}
#[inline(never)]
fn publish_audit(tx: &mpsc::Sender<Event>, id: u64) {
    let body = format!("{:>width$}", id, width = 300 + (id % 900) as usize);
    tx.send(Event { _id: id, body }).unwrap();
}
#[inline(never)]
fn handle_order(book: &mut HashMap<u64, Vec<u8>>, id: u64) {
    book.insert(id, vec![id as u8; 2000 + (id * 37 % 9000) as usize]);
    if id > 3000 {
        book.remove(&(id - 3000));
    }
}
fn main() {
    let (tx, rx) = mpsc::channel::<Event>();
    let t0 = Instant::now();
    std::thread::spawn(move || {
        let mut total = 0usize;
        while t0.elapsed().as_secs() < 151 {
            if let Ok(e) = rx.try_recv() {
                total += e.body.len();
            }
            std::thread::sleep(Duration::from_millis(14));
        }
        println!("{total}");
    });
    let mut book = HashMap::new();
    let mut id = 0u64;
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..5 {
            id += 1;
            handle_order(&mut book, id);
            publish_audit(&tx, id);
        }
        std::thread::sleep(Duration::from_millis(14));
    }
}

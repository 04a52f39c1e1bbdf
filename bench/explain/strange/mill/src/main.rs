//! A mill in Rust. The first word: what is wrong.
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Wheel {
    other: RefCell<Option<Rc<Wheel>>>,
    teeth: Vec<u64>,
}

#[inline(never)]
fn mount_wheels(n: u64) {
    let wheel = |n| Rc::new(Wheel { other: RefCell::new(None), teeth: vec![n; 40] });
    let (a, b) = (wheel(n), wheel(n + 1));
    *a.other.borrow_mut() = Some(b.clone());
    *b.other.borrow_mut() = Some(a.clone());
    std::hint::black_box(a.teeth[3] + b.teeth[4]);
}

#[inline(never)]
fn mislay_sack(n: u64) {
    std::mem::forget(std::hint::black_box(vec![n; 90]));
}

#[inline(never)]
fn grind(n: u64) -> String {
    format!("flour of grain {n} {}", "-".repeat(200 + (n % 300) as usize))
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let (send, receive) = mpsc::channel();
    // It takes one sack where the mill sends four.
    std::thread::spawn(move || {
        for _ in receive {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut store: VecDeque<String> = VecDeque::new();
    for n in 0.. {
        for i in 0..30 {
            store.push_back(grind(n * 30 + i));
        }
        while store.len() > 1000 {
            store.pop_front();
        }
        match which.as_str() {
            "wheels" => (0..3).for_each(|i| mount_wheels(n + i)),
            "sacks" => (0..4).for_each(|i| mislay_sack(n + i)),
            "channel" => (0..16).for_each(|i| send.send(grind(n + i)).unwrap()),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

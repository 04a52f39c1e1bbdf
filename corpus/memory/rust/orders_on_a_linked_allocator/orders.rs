//! An order service whose allocator is linked in. Mode `static`: tracked orders go through Box::leak; `book`: each
//! stays in a map; `recent` (healthy): the newest 2,000 stay; `import`: an import of 8 s, of which one row of 40
//! stays.
use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::time::{Duration, Instant};

struct Order {
    note: String,
    parts: Vec<u32>,
}

#[inline(never)]
fn take_order(id: u64) -> Box<Order> {
    let mut parts = Vec::new();
    (0..40).for_each(|part| parts.push(part));
    Box::new(Order { note: format!("to be delivered before the evening {id}"), parts })
}

#[inline(never)]
fn track_order(id: u64) {
    black_box(Box::leak(take_order(id)));
}

#[inline(never)]
fn enter_order(book: &mut HashMap<u64, Box<Order>>, id: u64) {
    book.insert(id, take_order(id));
}

#[inline(never)]
fn show_recent(recent: &mut VecDeque<Box<Order>>, id: u64) {
    recent.push_back(take_order(id));
    if recent.len() > 2000 {
        recent.pop_front();
    }
}

/// 250 rows in each of the first 400 turns; then all of them go but one in 40.
#[inline(never)]
fn import_rows(rows: &mut Vec<Vec<u8>>, turn: usize) {
    if turn < 400 {
        rows.extend((0..250).map(|_| vec![1; 400]));
    }
    if turn == 400 {
        *rows = std::mem::take(rows).into_iter().step_by(40).collect();
    }
}

pub fn serve() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (mut book, mut recent, mut rows) = (HashMap::new(), VecDeque::new(), Vec::new());
    let (start, mut id) = (Instant::now(), 0);
    if mode == "recent" {
        (0..2000).for_each(|id| show_recent(&mut recent, id));
    }
    println!("ready");
    for turn in 1.. {
        for _ in 0..10 {
            id += 1;
            let order = black_box(take_order(id));
            black_box((order.note.len(), order.parts.len()));
        }
        for _ in 0..4 {
            id += 1;
            match mode.as_str() {
                "static" => track_order(id),
                "book" => enter_order(&mut book, id),
                "recent" => show_recent(&mut recent, id),
                _ => {}
            }
        }
        if mode == "import" {
            import_rows(&mut rows, turn);
        }
        std::thread::sleep(Duration::from_millis(20));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

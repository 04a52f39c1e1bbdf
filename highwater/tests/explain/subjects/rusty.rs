// Rust on the system's allocator. The first argument says which.
//   rustc -g -C opt-level=1 rusty.rs
use std::collections::HashMap;
use std::time::Duration;

struct Ticket {
    #[allow(dead_code)]
    body: [u8; 700],
}

#[inline(never)]
fn forget_ticket(id: u8) {
    std::mem::forget(std::hint::black_box(Box::new(Ticket { body: [id; 700] })));
}

#[inline(never)]
fn intern_name(id: u64) -> &'static str {
    Box::leak(format!("a name that is interned for ever, number {id:0600}").into_boxed_str())
}

#[inline(never)]
fn remember(rows: &mut HashMap<u64, Vec<u8>>, key: u64) {
    rows.insert(key, vec![1; 900]);
}

fn main() {
    let which = std::env::args().nth(1).unwrap_or_default();
    let mut live: Vec<Vec<u8>> = vec![Vec::new(); 500];
    let mut rows = HashMap::new();
    for round in 0u64.. {
        for i in 0..300u64 {
            let at = (i * 7919 + round * 31) as usize % live.len();
            live[at] = vec![1; 100 + (i as usize * 37) % 1500];
        }
        for i in 0..20 {
            match which.as_str() {
                "forget" => forget_ticket(i as u8),
                "intern" => assert!(intern_name(round * 20 + i).len() > 600),
                "map" => remember(&mut rows, round * 20 + i),
                // Full, then replaced.
                "cache" => remember(&mut rows, (round * 20 + i) % 3000),
                _ => {}
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

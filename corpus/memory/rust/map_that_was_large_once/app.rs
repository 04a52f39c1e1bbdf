//! A ticket counter (healthy). Two seconds after its start an import puts 900,000 rows into a map and clears it.
//! The map keeps its room; nothing grows after that.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[inline(never)]
fn import_rows(rows: &mut HashMap<u64, [u64; 4]>) {
    (0..900_000).for_each(|row| drop(rows.insert(row, [row; 4])));
    rows.clear();
}

fn format_tickets() -> usize {
    let tickets: Vec<String> = (1..60).map(|i| "c".repeat(20 * i)).collect();
    std::hint::black_box(&tickets).iter().map(String::len).sum()
}

fn main() {
    let (start, mut rows, mut sum) = (Instant::now(), HashMap::new(), 0);
    println!("ready");
    for turn in 0.. {
        if turn == 100 {
            import_rows(&mut rows);
        }
        sum += format_tickets() + rows.len();
        std::thread::sleep(Duration::from_millis(20));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
    println!("{sum}");
}

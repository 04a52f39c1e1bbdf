//! A batch writer (healthy). Each turn makes 40 records and frees those of the turn before, beside 2,000 requests a
//! second.
use std::time::{Duration, Instant};

#[inline(never)]
fn answer_request(turn: u64) {
    let words: Vec<String> = (0..10).map(|k| "w".repeat(20 + ((turn * 31 + k * 17) % 300) as usize)).collect();
    std::hint::black_box(words.join(" "));
}

#[inline(never)]
fn collect_batch(batch: &mut Vec<Vec<u8>>, turn: u64) {
    *batch = (0..40).map(|k| vec![2; 100 + ((turn + k) % 2000) as usize]).collect();
}

fn main() {
    let (start, mut batch) = (Instant::now(), Vec::new());
    println!("ready");
    for turn in 0.. {
        (0..20).for_each(|k| answer_request(turn + k));
        collect_batch(&mut batch, turn);
        std::thread::sleep(Duration::from_millis(10));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

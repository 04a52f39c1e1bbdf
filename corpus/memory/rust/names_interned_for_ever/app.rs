//! A log parser that interns names: each new one goes through Box::leak into a set. The names never repeat.
use std::collections::HashSet;
use std::time::{Duration, Instant};

#[inline(never)]
fn parse_line(turn: u64) {
    let words: Vec<String> = (0..10).map(|k| "w".repeat(20 + ((turn * 31 + k * 17) % 300) as usize)).collect();
    std::hint::black_box(words.join(" "));
}

#[inline(never)]
fn intern_name(names: &mut HashSet<&'static str>, turn: u64) {
    let name = format!("name-{turn}-").repeat(20);
    if !names.contains(name.as_str()) {
        names.insert(Box::leak(name.into_boxed_str()));
    }
}

fn main() {
    let (start, mut names) = (Instant::now(), HashSet::new());
    println!("ready");
    for turn in 0.. {
        (0..20).for_each(|k| parse_line(turn + k));
        (0..2).for_each(|k| intern_name(&mut names, turn * 2 + k));
        std::thread::sleep(Duration::from_millis(10));
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

//! slip MODE: what Rust programs forget, beside 2,000 requests a second whose memory is freed.
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

struct Berth {
    name: String,
    next: RefCell<Option<Rc<Berth>>>,
}

#[inline(never)]
fn serve(turn: u64) {
    let words: Vec<String> = (0..10).map(|k| "w".repeat(20 + ((turn * 31 + k * 17) % 300) as usize)).collect();
    black_box(words.join(" "));
}

/// Two that know each other.
#[inline(never)]
fn moor_pair(turn: u64) {
    let berth = |side: &str| Rc::new(Berth { name: format!("{side}{turn}").repeat(20), next: RefCell::new(None) });
    let (left, right) = (berth("left"), berth("right"));
    *left.next.borrow_mut() = Some(right.clone());
    *right.next.borrow_mut() = Some(left.clone());
    black_box(&left.name);
}

#[inline(never)]
fn intern_name(names: &mut HashSet<&'static str>, turn: u64) {
    let name = format!("name-{turn}-").repeat(20);
    if !names.contains(name.as_str()) {
        names.insert(Box::leak(name.into_boxed_str()));
    }
}

/// The newest hour of readings; the program is a minute old.
#[inline(never)]
fn keep_reading(readings: &mut BTreeMap<u64, Vec<u8>>, turn: u64) {
    readings.insert(turn, vec![1; 900]);
    if readings.len() > 360_000 {
        readings.pop_first();
    }
}

/// Each is freed, but not by those who took it: by the next turn.
#[inline(never)]
fn hand_on(last: &mut Vec<Vec<u8>>, turn: u64) {
    *last = (0..40).map(|k| vec![2; 100 + ((turn + k) % 2000) as usize]).collect();
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (mut names, mut readings, mut last) = (HashSet::new(), BTreeMap::new(), Vec::new());
    for turn in 0_u64.. {
        (0..20).for_each(|k| serve(turn + k));
        match mode.as_str() {
            "cycle" => (0..2).for_each(|_| moor_pair(turn)),
            "intern" => (0..2).for_each(|k| intern_name(&mut names, turn * 2 + k)),
            "readings" => keep_reading(&mut readings, turn),
            _ => hand_on(&mut last, turn),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! A mint in Rust: dies that hold each other, a vault that was full once, stamps that are kept for ever.
//! The first word: which.
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Default)]
struct Die {
    neighbours: RefCell<Vec<Rc<Die>>>,
    _steel: Vec<u8>,
}

#[inline(never)]
fn pair_dies(n: usize) {
    let die = || Rc::new(Die { _steel: vec![n as u8; 700], ..Die::default() });
    let (left, right) = (die(), die());
    left.neighbours.borrow_mut().push(right.clone());
    right.neighbours.borrow_mut().push(left.clone());
}

#[inline(never)]
fn fill_vault(vault: &mut HashMap<u64, [u64; 4]>) {
    for coin in 0..900_000 {
        vault.insert(coin, [coin; 4]);
    }
    vault.clear();
}

#[inline(never)]
fn engrave(n: usize) -> &'static str {
    Box::leak(format!("{n:0>500}").into_boxed_str())
}

fn polish() -> usize {
    let coins: Vec<String> = (1..60).map(|i| "c".repeat(20 * i)).collect();
    coins.iter().map(String::len).sum()
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_default();
    let mut vault = HashMap::new();
    let mut sum = 0;
    for n in 0.. {
        match what.as_str() {
            "dies" => (0..3).for_each(|_| pair_dies(n)),
            "vault" if n == 100 => fill_vault(&mut vault),
            "stamps" => sum += (0..6).map(|i| engrave(n + i).len()).sum::<usize>(),
            _ => sum += vault.len(),
        }
        sum += polish();
        std::hint::black_box(sum);
        std::thread::sleep(Duration::from_millis(20));
    }
}

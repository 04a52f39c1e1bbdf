//! A price cache: a BTreeMap of shared values from which the oldest goes when it is full. Mode `full` (healthy): it
//! has room for 4,000 values and is full from the start; `filling`: it has room for 400,000, which it would reach
//! after 17 minutes.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as usize
}

#[inline(never)]
fn cache_price(prices: &mut BTreeMap<u64, Arc<Vec<u8>>>, number: u64, room: usize, state: &mut u64) {
    prices.insert(number, Arc::new(vec![1; 200 + random(state) % 900]));
    if prices.len() > room {
        prices.pop_first();
    }
}

fn answer_requests(answers: &mut [Vec<u8>], state: &mut u64) {
    for _ in 0..50 {
        answers[random(state) % 2000] = vec![1; random(state) % 700];
    }
}

fn main() {
    let room = if std::env::args().nth(1).as_deref() == Some("full") { 4000 } else { 400_000 };
    let (mut prices, mut answers, mut state) = (BTreeMap::new(), vec![Vec::new(); 2000], 88172645463325252);
    (0..4000).for_each(|number| cache_price(&mut prices, number, room, &mut state));
    println!("ready");
    let start = Instant::now();
    for number in 4000.. {
        cache_price(&mut prices, number, room, &mut state);
        if number % 20 == 0 {
            answer_requests(&mut answers, &mut state);
            std::thread::sleep(Duration::from_millis(50));
        }
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

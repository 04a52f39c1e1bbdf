//! A gateway with metrics. A label holds the whole path, which is never the same twice, and each series stays in
//! the list.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[inline(never)]
fn record_latency(series: &mut Vec<String>, number: u64) {
    series.push(format!("request_duration_seconds{{route=\"/{number}\"}} {}", "0".repeat(200)));
}

fn route_requests(seed: &mut u64) -> usize {
    let mut routes = HashMap::new();
    for _ in 0..200 {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        routes.entry(*seed >> 56).or_insert_with(Vec::new).push(vec![1u8; (*seed >> 40) as usize % 500]);
    }
    routes.values().map(Vec::len).sum()
}

fn main() {
    let (start, mut series, mut seed) = (Instant::now(), Vec::new(), 4);
    println!("ready");
    for number in 0.. {
        record_latency(&mut series, number);
        if number % 15 == 0 {
            route_requests(&mut seed);
            std::thread::sleep(Duration::from_millis(20));
        }
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

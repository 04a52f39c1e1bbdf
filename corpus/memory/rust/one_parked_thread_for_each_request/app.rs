//! A notification service. Each subscription starts a thread that parks and is never unparked or joined.
use std::time::{Duration, Instant};

#[inline(never)]
fn start_subscriber(number: u64) {
    std::thread::spawn(move || {
        let frame = [number as u8; 20000];
        std::hint::black_box(&frame);
        loop {
            std::thread::park();
        }
    });
}

/// Messages that come and go: any of 2,000 is replaced.
fn deliver_messages(messages: &mut [Vec<u8>], state: &mut u64) {
    for _ in 0..50 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        messages[(*state >> 11) as usize % 2000] = vec![1; (*state >> 40) as usize % 700];
    }
}

fn main() {
    let (start, mut messages, mut state) = (Instant::now(), vec![Vec::new(); 2000], 88172645463325252);
    println!("ready");
    for number in 0.. {
        if number % 16 == 0 {
            start_subscriber(number);
        }
        if number % 20 == 0 {
            deliver_messages(&mut messages, &mut state);
            std::thread::sleep(Duration::from_millis(50));
        }
        if start.elapsed().as_secs() >= 120 {
            break;
        }
    }
}

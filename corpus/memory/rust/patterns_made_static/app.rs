//! A scanner that compiles patterns and drops each after 900 others. One of four is for the whole program and goes
//! through Box::leak. jemalloc is linked in under the plain names, so it is the program's malloc.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Pattern {
    id: u32,
    table: [u16; 2048],
    code: Vec<u8>,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

#[inline(never)]
fn compile_pattern(id: u32, size: usize) -> Box<Pattern> {
    let mut pattern = Box::new(Pattern { id, table: [0; 2048], code: Vec::new() });
    for (i, entry) in pattern.table.iter_mut().enumerate() {
        *entry = (i as u32 ^ id) as u16;
    }
    pattern.code = vec![id as u8 | 1; size];
    pattern
}

fn main() {
    let (start, mut state, mut id) = (Instant::now(), 88172645463325252, 0);
    let mut recent: VecDeque<Box<Pattern>> = VecDeque::new();
    let mut global: Option<&'static Pattern> = None;
    let (mut ready, mut sum) = (false, 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..1 + random(&mut state) % 5 {
            id += 1;
            let pattern = compile_pattern(id, 1000 + (random(&mut state) % 9000) as usize);
            if random(&mut state) % 4 == 0 {
                global = Some(Box::leak(pattern));
            } else {
                recent.push_back(pattern);
            }
            if recent.len() > 900 {
                recent.pop_front();
                if !std::mem::replace(&mut ready, true) {
                    println!("ready");
                }
            }
        }
        sum += global.map_or(0, |pattern| pattern.id as u64 + pattern.code[0] as u64);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{sum}");
}

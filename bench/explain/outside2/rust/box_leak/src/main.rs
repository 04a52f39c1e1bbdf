// scanner with jemalloc linked in (unprefixed: the executable's own malloc): patterns are compiled and dropped after some seconds,
// those flagged "global" go through Box::leak
use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

struct Pattern {
    id: u32,
    table: [u16; 2048],
    code: Vec<u8>,
}

fn rnd(s: &mut u64) -> u64 {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    *s >> 16
}

#[inline(never)]
fn compile_pattern(id: u32, n: usize) -> Box<Pattern> {
    let mut p = Box::new(Pattern { id, table: [0; 2048], code: Vec::new() });
    for (i, t) in p.table.iter_mut().enumerate() {
        *t = (i as u32 ^ id) as u16;
    }
    p.code = vec![id as u8 | 1; n];
    p
}

fn main() {
    let (t0, mut s, mut id) = (Instant::now(), 88172645463325252u64, 0u32);
    let mut recent: VecDeque<Box<Pattern>> = VecDeque::new();
    let mut global: Option<&'static Pattern> = None;
    let mut sum = 0u64;
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..1 + rnd(&mut s) % 5 {
            id += 1;
            let p = compile_pattern(id, 1000 + (rnd(&mut s) % 9000) as usize);
            if rnd(&mut s) % 4 == 0 {
                global = Some(Box::leak(p));
            } else {
                recent.push_back(p);
                if recent.len() > 900 {
                    recent.pop_front();
                }
            }
        }
        sum += global.map_or(0, |g| g.id as u64 + g.code[0] as u64);
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{sum}");
}

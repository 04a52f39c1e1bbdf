// job registry: finished jobs are removed from the run table but their logs stay in a second one; mimalloc linked in
use std::collections::HashMap;
use std::time::{Duration, Instant};
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[derive(Default)]
struct Registry {
    running: HashMap<u64, Vec<u8>>,
    logs: HashMap<u64, Vec<String>>,
}
impl Registry {
    #[inline(never)]
    fn append_log(&mut self, id: u64) {
        self.logs.entry(id).or_default().push(format!(
            "{:0>w$}",
            id,
            w = 100 + (id % 300) as usize
        ));
    }
    #[inline(never)]
    fn start(&mut self, id: u64) {
        self.running
            .insert(id, vec![1; 8000 + (id % 6000) as usize]);
        for _ in 0..4 {
            self.append_log(id);
        }
    }
    #[inline(never)]
    fn finish(&mut self, id: u64) {
        self.running.remove(&id);
        if id % 3 == 0 {
            self.logs.remove(&id);
        }
    }
}
fn main() {
    let t0 = Instant::now();
    let mut r = Registry::default();
    let mut id = 0;
    while t0.elapsed().as_secs() < 150 {
        for _ in 0..4 {
            id += 1;
            r.start(id);
            if id > 1500 {
                r.finish(id - 1500);
            }
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{}", r.logs.len());
}

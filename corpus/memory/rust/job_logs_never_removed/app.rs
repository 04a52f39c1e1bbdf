//! A job runner on mimalloc. A finished job leaves the table of running jobs, but its log leaves the table of logs
//! for one job of three only.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Default)]
struct Registry {
    running: HashMap<u64, Vec<u8>>,
    logs: HashMap<u64, Vec<String>>,
}

impl Registry {
    #[inline(never)]
    fn append_log(&mut self, id: u64) {
        let line = format!("{:0>width$}", id, width = 100 + (id % 300) as usize);
        self.logs.entry(id).or_default().push(line);
    }

    #[inline(never)]
    fn start_job(&mut self, id: u64) {
        self.running.insert(id, vec![1; 8000 + (id % 6000) as usize]);
        (0..4).for_each(|_| self.append_log(id));
    }

    #[inline(never)]
    fn finish_job(&mut self, id: u64) {
        self.running.remove(&id);
        if id % 3 == 0 {
            self.logs.remove(&id);
        }
    }
}

fn main() {
    let (start, mut registry, mut id) = (Instant::now(), Registry::default(), 0);
    while start.elapsed().as_secs() < 120 {
        for _ in 0..4 {
            id += 1;
            registry.start_job(id);
            if id > 1500 {
                registry.finish_job(id - 1500);
            }
        }
        if id == 1500 {
            println!("ready");
        }
        std::thread::sleep(Duration::from_millis(12));
    }
    println!("{}", registry.logs.len());
}

//! A thread for each connection; requests read pages under a std RwLock. --fault fsync: every 2.8 s a thread commits
//! with the write lock over 170 ms of small fsyncs. Healthy: it commits outside the lock.
use service::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::RwLock;
use std::time::{Duration, Instant};

struct Store {
    pages: Vec<u64>,
    commits: u64,
}

static STORE: RwLock<Store> = RwLock::new(Store { pages: Vec::new(), commits: 0 });

#[inline(never)]
fn commit_pages(file: &File, commits: &mut u64, ms: u64) {
    let (start, page) = (Instant::now(), [7u8; 4096]);
    let mut count = 0;
    while start.elapsed() < Duration::from_millis(ms) {
        let _ = file.write_all_at(&page, (count % 1024) * 4096);
        let _ = file.sync_all();
        count += 1;
    }
    *commits += std::hint::black_box(count);
}

#[inline(never)]
fn read_page(id: u64) -> u64 {
    let store = STORE.read().unwrap();
    burn_us(50);
    store.pages[id as usize % store.pages.len()]
}

fn run_commits(settings: &Settings, file: File) {
    let mut own_commits = 0;
    loop {
        sleep_ms(2800);
        if settings.is("fsync") {
            let mut store = STORE.write().unwrap();
            commit_pages(&file, &mut store.commits, 170)
        } else {
            commit_pages(&file, &mut own_commits, 170)
        }
    }
}

fn main() {
    let settings = read_settings(150, 350, 8);
    STORE.write().unwrap().pages.resize(1000, 3);
    let (file, listener) = (settings.create_file("pages"), settings.listen());
    spawn("page-writer", || run_commits(settings, file));
    settings.start_load("keep");
    serve_by_threads(&listener, "connection", |id| {
        burn_us(settings.work_us);
        std::hint::black_box(read_page(id));
    });
}

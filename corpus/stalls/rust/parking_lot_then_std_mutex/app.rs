//! Requests count under a parking_lot Mutex; a thread takes a std Mutex inside it every 4 ms. --fault fsync: every
//! 620 ms a saver holds the std Mutex over 60 ms of fdatasync, so that requests wait behind two locks. Healthy: it
//! writes first.
use service::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex as StdMutex;
use std::time::{Duration, Instant};

static SOLD: parking_lot::Mutex<u64> = parking_lot::Mutex::new(0);
static STOCK: StdMutex<u64> = StdMutex::new(0);

#[inline(never)]
fn write_stock_file(file: &File) -> u64 {
    let (start, block) = (Instant::now(), vec![3; 1 << 20]);
    let mut count = 0;
    while start.elapsed() < Duration::from_millis(60) {
        file.write_all_at(&block, 0).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    count
}

#[inline(never)]
fn save_stock(file: &File, under_lock: bool) {
    if under_lock {
        let mut stock = STOCK.lock().unwrap();
        *stock += write_stock_file(file);
    } else {
        let count = write_stock_file(file);
        *STOCK.lock().unwrap() += count;
    }
    std::hint::black_box(());
}

/// Takes the second lock inside the first.
fn move_stock() {
    loop {
        sleep_ms(4);
        let mut sold = SOLD.lock();
        *sold += *STOCK.lock().unwrap();
    }
}

fn main() {
    let settings = read_settings(1100, 120, 8);
    let (file, listener) = (settings.create_file("stock"), settings.listen());
    spawn("stock-mover", move_stock);
    spawn("stock-saver", move || {
        loop {
            sleep_ms(620);
            save_stock(&file, settings.is("fsync"));
        }
    });
    settings.start_load("keep");
    serve_by_threads(&listener, "connection", |_| {
        burn_us(settings.work_us);
        *SOLD.lock() += 1;
    });
}

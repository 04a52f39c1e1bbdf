//! A mail filter whose buffers leave Rust's ownership and do not come back. Mode `forget`: each body is forgotten;
//! `manual`: one ManuallyDrop of four is not dropped; `raw`: in six threads no Box comes back from its raw pointer;
//! `one_thread`: one of twelve threads wraps its lists in ManuallyDrop; `dropped` (healthy): as `raw`, and each
//! comes back.
use std::collections::VecDeque;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

#[inline(never)]
fn filter_body(number: usize) {
    std::mem::forget(black_box(vec![number as u8; 1200]));
}

#[inline(never)]
fn scan_attachment(number: usize) {
    let mut scan = ManuallyDrop::new(vec![number as u8; 1200]);
    scan[0] = 1;
    black_box(&scan);
    if number % 4 != 0 {
        unsafe { ManuallyDrop::drop(&mut scan) };
    }
}

#[inline(never)]
fn export_header(number: usize, back: bool) {
    let raw = black_box(Box::into_raw(Box::new([number as u8; 1000])));
    if back {
        drop(unsafe { Box::from_raw(raw) });
    }
}

#[inline(never)]
fn sort_recipients(wrap: bool) {
    let list: Vec<u64> = (0..200).collect();
    if wrap {
        black_box(ManuallyDrop::new(list));
    } else {
        black_box(list);
    }
}

/// Mails that come and go: the newest 2,000 stay.
fn receive_mails(mails: &mut VecDeque<Vec<u8>>, count: usize) {
    for i in 0..count {
        mails.push_back(vec![1; 10 + (mails.len() + i) * 7919 % 1500]);
        if mails.len() > 2000 {
            mails.pop_front();
        }
    }
}

fn serve(mode: &str, thread: usize, pause_ms: u64, end: Instant) {
    let mut mails = VecDeque::new();
    receive_mails(&mut mails, 2000);
    for number in 0.. {
        match mode {
            "forget" => filter_body(number),
            "manual" => scan_attachment(number),
            "raw" | "dropped" => export_header(number, mode == "dropped"),
            _ => (0..5).for_each(|_| sort_recipients(thread == 5)),
        }
        receive_mails(&mut mails, 10);
        if number % 4 == 0 {
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        if Instant::now() > end {
            return;
        }
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let (threads, pause_ms) = match mode.as_str() {
        "raw" | "dropped" => (6, 25),
        "one_thread" => (12, 100),
        _ => (1, 10),
    };
    let end = Instant::now() + Duration::from_secs(120);
    for thread in 1..threads {
        let mode = mode.clone();
        std::thread::spawn(move || serve(&mode, thread, pause_ms, end));
    }
    println!("ready");
    serve(&mode, 0, pause_ms, end);
}

//! Seven workers, one connection each; requests wait at a std Condvar for a thread that writes. --fault gate: every
//! 470 ms the saver closes a gate that each request passes, writes for 40 ms with fdatasync, and opens it. --fault
//! commit: each request waits for a commit (3 MiB and an fsync) for all that wait. --fault commit_later is healthy:
//! the same commits, and no request waits for them. Healthy: the gate stays open while the saver writes.
use service::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

struct Commits {
    asked: u64,
    done: u64,
}

static GATE: (Mutex<bool>, Condvar) = (Mutex::new(true), Condvar::new());
static COMMITS: Mutex<Commits> = Mutex::new(Commits { asked: 0, done: 0 });
static ASKED: Condvar = Condvar::new();
static DONE: Condvar = Condvar::new();

#[inline(never)]
fn write_table(file: &File, ms: u64) -> u64 {
    let (start, block) = (Instant::now(), vec![7; 2 << 20]);
    let mut count = 0;
    while start.elapsed() < Duration::from_millis(ms) {
        file.write_all_at(&block, 0).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    count
}

#[inline(never)]
fn save_table(file: &File, closes_gate: bool) -> u64 {
    if closes_gate {
        *GATE.0.lock().unwrap() = false;
    }
    let count = write_table(file, 40);
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
    count
}

#[inline(never)]
fn commit_batch(file: &File) {
    let mut commits = COMMITS.lock().unwrap();
    while commits.asked == commits.done {
        commits = ASKED.wait(commits).unwrap();
    }
    let upto = commits.asked;
    drop(commits);
    file.write_all_at(&vec![5; 3 << 20], 0).unwrap();
    file.sync_all().unwrap();
    COMMITS.lock().unwrap().done = upto;
    DONE.notify_all();
}

fn pass_gate() {
    let mut open = GATE.0.lock().unwrap();
    while !*open {
        open = GATE.1.wait(open).unwrap();
    }
}

fn ask_for_commit(waits: bool) {
    let mut commits = COMMITS.lock().unwrap();
    commits.asked += 1;
    let mine = commits.asked;
    ASKED.notify_one();
    while waits && commits.done < mine {
        commits = DONE.wait(commits).unwrap();
    }
}

fn main() {
    let settings = read_settings(900, 170, 7);
    let (file, listener) = (settings.create_file("table"), settings.listen());
    let commits = settings.fault.starts_with("commit");
    if commits {
        spawn("committer", move || {
            loop {
                commit_batch(&file);
            }
        });
    } else {
        spawn("table-saver", move || {
            loop {
                sleep_ms(470);
                save_table(&file, settings.is("gate"));
            }
        });
    }
    settings.start_load("keep");
    serve_by_threads(&listener, "worker", move |_| {
        burn_us(settings.work_us);
        if commits { ask_for_commit(settings.is("commit")) } else { pass_gate() }
    });
}

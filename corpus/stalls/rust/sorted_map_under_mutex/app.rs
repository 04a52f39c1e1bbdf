//! Six threads accept on one listener, one request a connection; a request adds to a sorted map under a std Mutex.
//! --fault compute: the first request after 2.4 s computes 130 ms within the mutex. --fault fsync: every 2.54 s a
//! thread writes the map with 160 ms of small writes and fsyncs with the mutex. Healthy: that thread computes and
//! writes a copy.
use service::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Scores {
    map: BTreeMap<u64, u64>,
    due: Instant,
}

#[inline(never)]
fn recompute_ranks(map: &BTreeMap<u64, u64>) -> u64 {
    let mut x = map.len() as u64 + 1;
    for _ in 0..13 {
        x ^= burn_us(10_000);
    }
    x
}

#[inline(never)]
fn persist_scores(file: &File, map: &BTreeMap<u64, u64>) -> u64 {
    let count = sync_for_ms(file, 160);
    std::hint::black_box(count + map.len() as u64)
}

#[inline(never)]
fn add_score(scores: &Mutex<Scores>, id: u64, recomputes: bool) {
    let mut held = scores.lock().unwrap();
    *held.map.entry(id % 900).or_insert(0) += 1;
    if recomputes && held.due < Instant::now() {
        let x = recompute_ranks(&held.map);
        held.map.insert(1000, x);
        held.due = Instant::now() + Duration::from_millis(2400);
    }
}

fn save_scores(settings: &Settings, scores: Arc<Mutex<Scores>>, file: File) {
    loop {
        sleep_ms(2540);
        match settings.fault.as_str() {
            "fsync" => {
                let mut held = scores.lock().unwrap();
                let count = persist_scores(&file, &held.map);
                held.map.insert(1001, count);
            }
            "compute" => {}
            _ => {
                let copy = scores.lock().unwrap().map.clone();
                let count = persist_scores(&file, &copy) + recompute_ranks(&copy);
                scores.lock().unwrap().map.insert(1001, count);
            }
        }
    }
}

fn main() {
    let settings = read_settings(150, 250, 12);
    let due = Instant::now() + Duration::from_secs(2);
    let scores = Arc::new(Mutex::new(Scores { map: BTreeMap::new(), due }));
    let (file, listener) = (settings.create_file("scores"), Arc::new(settings.listen()));
    let shared = scores.clone();
    spawn("score-saver", || save_scores(settings, shared, file));
    settings.start_load("connect");
    for i in 0..6 {
        let (listener, scores) = (listener.clone(), scores.clone());
        spawn(&format!("acceptor-{i}"), move || {
            loop {
                let Ok((mut stream, _)) = listener.accept() else { continue };
                let mut request = [0; 16];
                if let Some(id) = read_request(&mut stream, &mut request) {
                    burn_us(settings.work_us);
                    add_score(&scores, id, settings.is("compute"));
                    let _ = stream.write_all(&request);
                }
            }
        });
    }
    loop {
        sleep_ms(60_000);
    }
}

//! Requests add to a sorted map under a std Mutex. Faults: brew (the first request after 2.4 s computes 130 ms over the
//! map within the mutex), keep (`osprey` writes the map with many small writes and sync_all, ~160 ms, mutex kept, every
//! 2.7 s). Mended: osprey computes and writes on a copy.
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
struct Jar {
    map: BTreeMap<u64, u64>,
    due: Instant,
}
#[inline(never)]
fn rsedum_brew(map: &BTreeMap<u64, u64>) -> u64 {
    let mut x = map.len() as u64 + 1;
    for _ in 0..13 {
        x ^= oxr::burn_us(10_000);
    }
    x
}
#[inline(never)]
fn rsedum_keep(f: &std::fs::File, map: &BTreeMap<u64, u64>) -> u64 {
    let n = oxr::write_through(f, 160);
    std::hint::black_box(n + map.len() as u64)
}
#[inline(never)]
fn rsedum_add(jar: &Mutex<Jar>, id: u64, inline: bool) {
    let mut j = jar.lock().unwrap();
    *j.map.entry(id % 900).or_insert(0) += 1;
    if inline && j.due < Instant::now() {
        let x = rsedum_brew(&j.map);
        j.map.insert(1000, x);
        j.due = Instant::now() + Duration::from_millis(2400);
    }
}
fn osprey(jar: Arc<Mutex<Jar>>, f: std::fs::File, fault: String) {
    loop {
        std::thread::sleep(Duration::from_millis(2540));
        match fault.as_str() {
            "keep" => {
                let mut j = jar.lock().unwrap();
                let n = rsedum_keep(&f, &j.map);
                j.map.insert(1001, n);
            }
            "brew" => {}
            _ => {
                let copy = jar.lock().unwrap().map.clone();
                let n = rsedum_keep(&f, &copy) + rsedum_brew(&copy);
                jar.lock().unwrap().map.insert(1001, n);
            }
        }
    }
}
fn main() {
    let o = oxr::args(150, 250, 12);
    let jar = Arc::new(Mutex::new(Jar { map: BTreeMap::new(), due: Instant::now() + Duration::from_secs(2) }));
    let f = std::fs::File::create(format!("{}/rsedum.dat", o.dir)).unwrap();
    let l = Arc::new(std::net::TcpListener::bind(("127.0.0.1", o.port)).unwrap());
    let (j, fault) = (jar.clone(), o.fault.clone());
    std::thread::Builder::new().name("osprey".into()).spawn(move || osprey(j, f, fault)).unwrap();
    oxr::load("conn", &o);
    // six threads accept for themselves
    let all: Vec<_> = (0..6)
        .map(|i| {
            let (l, jar, inline, work) = (l.clone(), jar.clone(), o.fault == "brew", o.work);
            let run = move || loop {
                let Ok((mut s, _)) = l.accept() else { continue };
                let mut q = [0u8; 16];
                if s.read_exact(&mut q).is_ok() {
                    oxr::burn_us(work);
                    rsedum_add(&jar, u64::from_le_bytes(q[..8].try_into().unwrap()), inline);
                    let _ = s.write_all(&q);
                }
            };
            std::thread::Builder::new().name(format!("stonecrop-{i}")).spawn(run).unwrap()
        })
        .collect();
    for t in all {
        let _: () = t.join().unwrap();
    }
}

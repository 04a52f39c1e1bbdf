//! A connection and a thread per request; requests count into a registry under a std Mutex. fault: post (`barge` keeps
//! it over an HTTP POST of ~210 ms every 2.9 s). Mended: renders under the mutex, posts after.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
type Pier = Arc<Mutex<BTreeMap<String, u64>>>;
#[inline(never)]
fn rferry_cross(port: u16, text: &str) -> usize {
    let n = oxr::http_post(port, 210, text);
    std::hint::black_box(n + 1)
}
#[inline(never)]
fn rferry_render(m: &BTreeMap<String, u64>) -> String {
    let mut s = String::new();
    for (k, v) in m {
        let _ = writeln!(s, "{k} {v}");
    }
    s
}
fn barge(p: Pier, port: u16, bad: bool) {
    loop {
        std::thread::sleep(Duration::from_millis(2690));
        let g = p.lock().unwrap();
        let s = rferry_render(&g);
        if bad {
            rferry_cross(port, &s);
            drop(g);
        } else {
            drop(g);
            rferry_cross(port, &s);
        }
    }
}
#[inline(never)]
fn count(p: &Pier, id: u64) {
    *p.lock().unwrap().entry(format!("route_{}", id % 60)).or_insert(0) += 1;
}
fn passenger(mut s: TcpStream, p: Pier, work: u32) {
    let mut b = [0u8; 16];
    if s.read_exact(&mut b).is_err() {
        return;
    }
    oxr::burn_us(work);
    count(&p, u64::from_le_bytes(b[..8].try_into().unwrap()));
    let _ = s.write_all(&b);
}
fn main() {
    let o = oxr::args(120, 300, 12);
    let l = TcpListener::bind(("127.0.0.1", o.port)).unwrap();
    oxr::http_peer(&o);
    let p: Pier = Arc::default();
    let (q, bad, port) = (p.clone(), o.fault == "post", o.port + 1);
    std::thread::Builder::new().name("barge".into()).spawn(move || barge(q, port, bad)).unwrap();
    oxr::load("conn", &o);
    for s in l.incoming().flatten() {
        let (p, work) = (p.clone(), o.work);
        std::thread::Builder::new().name("oar".into()).spawn(move || passenger(s, p, work)).unwrap();
    }
}

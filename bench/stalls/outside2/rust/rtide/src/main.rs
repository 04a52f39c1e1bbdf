//! tokio, three workers. fault: anchor (a task keeps a std Mutex over ~160 ms of blocking fsyncs on a worker, every
//! 2.7 s). Mended: copies under the mutex and writes in spawn_blocking. swell: a job computes 60 ms beside the workers
//! (harmless by itself; with a small CPU quota it eats the quota of the requests).
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
type Chart = Arc<Mutex<HashMap<u64, u64>>>;
#[inline(never)]
fn rtide_anchor(f: &std::fs::File, n: usize) -> u64 {
    let r = oxr::write_through(f, 160);
    std::hint::black_box(r + n as u64)
}
#[inline(never)]
fn rtide_settle(c: &Chart, f: &std::fs::File) -> u64 {
    let g = c.lock().unwrap();
    rtide_anchor(f, g.len())
}
#[inline(never)]
fn rtide_swell() -> u64 {
    oxr::burn_us(60_000)
}
async fn moon(c: Chart, f: Arc<std::fs::File>, bad: bool, swell: bool) {
    loop {
        tokio::time::sleep(Duration::from_millis(2540)).await;
        if swell {
            let _ = tokio::task::spawn_blocking(rtide_swell).await;
        } else if bad {
            rtide_settle(&c, &f);
        } else {
            let n = c.lock().unwrap().len();
            let f = f.clone();
            let _ = tokio::task::spawn_blocking(move || rtide_anchor(&f, n)).await;
        }
    }
}
async fn eddy(mut s: tokio::net::TcpStream, c: Chart, work: u32) {
    let _ = s.set_nodelay(true);
    let mut b = [0u8; 16];
    while s.read_exact(&mut b).await.is_ok() {
        oxr::burn_us(work);
        let id = u64::from_le_bytes(b[..8].try_into().unwrap());
        *c.lock().unwrap().entry(id % 900).or_insert(0) += 1;
        if s.write_all(&b).await.is_err() {
            break;
        }
    }
}
fn main() {
    let o = oxr::args(180, 250, 14);
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .thread_name("kelp")
        .enable_all()
        .build()
        .unwrap();
    rt.block_on(async move {
        let l = tokio::net::TcpListener::bind(("127.0.0.1", o.port)).await.unwrap();
        let c: Chart = Arc::default();
        let f = Arc::new(std::fs::File::create(format!("{}/tide.dat", o.dir)).unwrap());
        tokio::spawn(moon(c.clone(), f, o.fault == "anchor", o.fault == "swell"));
        oxr::load("keep", &o);
        loop {
            if let Ok((s, _)) = l.accept().await {
                tokio::spawn(eddy(s, c.clone(), o.work));
            }
        }
    });
}

//! tokio, current_thread runtime. Faults: leaf (every 2.6 s a request's handler reads a cold file for ~130 ms with
//! std::fs in the loop), hold (every 2.8 s a task keeps a tokio::sync::Mutex, which every request takes, over an awaited
//! call of 240 ms: no thread waits for anything). Mended: spawn_blocking; asks first, then takes the mutex.
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
const SIZE: u64 = 96 << 20;
type Bed = Arc<Mutex<HashMap<u64, u64>>>;
struct Shed {
    f: File,
    due: AtomicU64,
    t0: Instant,
    fault: String,
}
#[inline(never)]
fn sprig_leaf(f: &File) -> u64 {
    let (end, mut b, mut o, mut s) = (Instant::now() + Duration::from_millis(130), vec![0u8; 16384], 0u64, 0u64);
    unsafe {
        libc::posix_fadvise(f.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM);
        libc::posix_fadvise(f.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
    while Instant::now() < end && o + 16384 <= SIZE {
        if f.read_at(&mut b, o).unwrap_or(0) == 0 {
            break;
        }
        s += b[9] as u64;
        o += 16384;
    }
    std::hint::black_box(s)
}
async fn sprig_ask(port: u16) -> usize {
    let Ok(mut s) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return 0 };
    let mut b = [0u8; 128];
    let _ = s.write_all(b"GET /bed HTTP/1.1\r\nX-Hold: 240\r\n\r\n").await;
    s.read(&mut b).await.unwrap_or(0)
}
async fn sprig_hold(c: Bed, port: u16, inside: bool) {
    loop {
        tokio::time::sleep(Duration::from_millis(2560)).await;
        if inside {
            let mut g = c.lock().await;
            let n = sprig_ask(port).await;
            g.insert(1, n as u64);
        } else {
            let n = sprig_ask(port).await;
            c.lock().await.insert(1, n as u64);
        }
    }
}
async fn stem(mut s: tokio::net::TcpStream, c: Bed, shed: Arc<Shed>, work: u32) {
    let _ = s.set_nodelay(true);
    let mut b = [0u8; 16];
    while s.read_exact(&mut b).await.is_ok() {
        oxr::burn_us(work);
        let id = u64::from_le_bytes(b[..8].try_into().unwrap());
        *c.lock().await.entry(id % 900).or_insert(0) += 1;
        let now = shed.t0.elapsed().as_millis() as u64;
        if shed.fault != "hold" && now > shed.due.load(Ordering::Relaxed) {
            shed.due.store(now + 2600, Ordering::Relaxed);
            if shed.fault == "leaf" {
                sprig_leaf(&shed.f);
            } else {
                let k = shed.clone();
                tokio::task::spawn_blocking(move || sprig_leaf(&k.f));
            }
        }
        if s.write_all(&b).await.is_err() {
            break;
        }
    }
}
fn main() {
    let o = oxr::args(170, 250, 10);
    let p = format!("{}/leaf.big", o.dir);
    if std::fs::metadata(&p).map(|m| m.len()).unwrap_or(0) != SIZE {
        std::fs::write(&p, (0..SIZE).map(|i| (i / 7) as u8).collect::<Vec<_>>()).unwrap();
    }
    let f = File::open(&p).unwrap();
    let _ = f.sync_all();
    let shed = Arc::new(Shed { f, due: AtomicU64::new(2500), t0: Instant::now(), fault: o.fault.clone() });
    oxr::http_peer(&o);
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async move {
        let l = tokio::net::TcpListener::bind(("127.0.0.1", o.port)).await.unwrap();
        let c: Bed = Arc::default();
        if o.fault != "leaf" {
            tokio::spawn(sprig_hold(c.clone(), o.port + 1, o.fault == "hold"));
        }
        oxr::load("keep", &o);
        loop {
            if let Ok((s, _)) = l.accept().await {
                tokio::spawn(stem(s, c.clone(), shed.clone(), o.work));
            }
        }
    });
}
